//! From a job to a plan of the engine: who runs which program over which stations.

use super::dist::Dist;
use super::engine::{Demand, Op, Place, Plan, Token};
use super::job::{Job, Order};

// Streams of randomness, one for each meaning.
const LATENCY: u64 = 1;
const BYTES: u64 = 2;
const READ: u64 = 3;
const DECODE: u64 = 4;
const COLLATE: u64 = 5;
const HANDOVER: u64 = 6;
const PIN: u64 = 7;
const COPY: u64 = 8;
const HOST: u64 = 9;
const STEP: u64 = 10;
const LINK: u64 = 11;

/// Positions in the plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Map {
    pub(super) cores: u32,
    pub(super) bandwidth: u32,
    pub(super) network: Option<u32>,
    pub(super) depth: Option<u32>,
    pub(super) accelerator: u32,
    /// Actors: the trainer first, then the pin thread, the device and the workers.
    pub(super) pin: Option<u32>,
    pub(super) first_worker: u32,
    pub(super) workers: u32,
    /// Buffers of batches that are ready for the trainer: first and count.
    pub(super) ready: (u32, u32),
    /// The buffer in front of the pin thread.
    pub(super) made: Option<u32>,
}

/// A plan that logs the trainer's wait of `kept` steps after `skipped`. A batch is simulated in at
/// most `grain` pieces (0: read by read), each the sum of its reads.
pub(super) fn plan(job: &Job, skipped: u32, kept: u32, grain: u32) -> (Plan, Map) {
    let mut plan = Plan { logs: (skipped, kept), ..Plan::default() };
    let cores = share(&mut plan, job.cores, 1.0);
    let bandwidth = share(&mut plan, job.storage.bandwidth, job.storage.stream);
    let network = job.network.as_ref().map(|link| share(&mut plan, link.bandwidth, f64::INFINITY));
    let depth = (job.storage.depth > 0).then(|| slots(&mut plan, job.storage.depth));
    let accelerator = slots(&mut plan, 1);
    let mut map = Map {
        cores,
        bandwidth,
        network,
        depth,
        accelerator,
        pin: None,
        first_worker: 0,
        workers: job.workers,
        ready: (0, 0),
        made: None,
    };
    let fetch = fetch(&mut plan, job, &map, grain);
    if job.workers == 0 {
        alone(&mut plan, job, &map, fetch);
    } else {
        with_workers(&mut plan, job, &mut map, fetch);
    }
    (plan, map)
}

#[expect(clippy::cast_possible_truncation, reason = "a plan has a few stations")]
fn share(plan: &mut Plan, capacity: f64, one: f64) -> u32 {
    plan.shares.push((capacity, one));
    plan.shares.len() as u32 - 1
}

#[expect(clippy::cast_possible_truncation, reason = "a plan has a few stations")]
fn slots(plan: &mut Plan, total: u32) -> u32 {
    plan.slots.push(total);
    plan.slots.len() as u32 - 1
}

#[expect(clippy::cast_possible_truncation, reason = "workers are counted in u32")]
fn buffer(plan: &mut Plan, room: u32, tokens: Vec<u64>) -> u32 {
    plan.buffers.push((room, tokens));
    plan.buffers.len() as u32 - 1
}

/// Getting one batch: its reads and decodes, one after the other as a worker does them, and putting
/// it together.
fn fetch(plan: &mut Plan, job: &Job, map: &Map, grain: u32) -> Vec<Op> {
    let reads = job.reads();
    let together = if grain == 0 { 1 } else { reads.div_ceil(grain) };
    let laps = reads.div_ceil(together);
    let piece = f64::from(reads) / f64::from(laps);
    let samples = f64::from(job.batch) / f64::from(laps);
    let mut lap = Vec::new();
    if let Some(depth) = map.depth {
        lap.push(Op::Acquire(depth));
    }
    delay(plan, &mut lap, &job.storage.latency, LATENCY, piece);
    used(plan, &mut lap, map.bandwidth, &job.sample, BYTES, samples);
    if let (Some(link), Some(station)) = (&job.network, map.network) {
        delay(plan, &mut lap, &link.latency, LINK, piece);
        used(plan, &mut lap, station, &job.sample, BYTES, samples);
    }
    if let Some(depth) = map.depth {
        lap.push(Op::Release(depth));
    }
    used(plan, &mut lap, map.cores, &job.storage.cpu, READ, piece);
    used(plan, &mut lap, map.cores, &job.decode, DECODE, samples);
    if laps > 1 && !lap.is_empty() {
        #[expect(clippy::cast_possible_truncation, reason = "a lap has a few steps")]
        let back = lap.len() as u32;
        lap.push(Op::Repeat { back, times: laps });
    }
    used(plan, &mut lap, map.cores, &job.collate, COLLATE, 1.0);
    lap
}

fn delay(plan: &mut Plan, ops: &mut Vec<Op>, dist: &Dist, stream: u64, amount: f64) {
    if !dist.is_zero() {
        ops.push(Op::Delay(times(plan.demand(dist, stream), amount)));
    }
}

fn used(plan: &mut Plan, ops: &mut Vec<Op>, station: u32, dist: &Dist, stream: u64, amount: f64) {
    if !dist.is_zero() {
        ops.push(Op::Share(station, times(plan.demand(dist, stream), amount)));
    }
}

/// A demand for `amount` draws, which need not be whole.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the samples of a batch")]
fn times(demand: Demand, amount: f64) -> Demand {
    let count = amount.round().max(1.0);
    Demand { count: count as u32, scale: amount / count, ..demand }
}

/// A trainer that makes its batches itself.
fn alone(plan: &mut Plan, job: &Job, map: &Map, fetch: Vec<Op>) {
    let mut ops = vec![Op::Fresh, Op::Start, Op::Gauge(1)];
    ops.extend(fetch);
    used(plan, &mut ops, map.cores, &job.handover, HANDOVER, 1.0);
    ops.push(Op::Log);
    train(plan, &mut ops, job, map);
    ops.push(Op::Gauge(-1));
    let program = plan.program(&ops);
    plan.actor(program, 0);
    device(plan, job, map);
}

/// What the trainer does with a batch.
fn train(plan: &mut Plan, ops: &mut Vec<Op>, job: &Job, map: &Map) {
    delay(plan, ops, &job.copy, COPY, 1.0);
    used(plan, ops, map.cores, &job.host, HOST, 1.0);
    if job.ahead > 0 {
        let queue = buffer(plan, job.ahead, Vec::new());
        ops.push(Op::Put(Place::One(queue), Token::Item));
    } else if !job.step.is_zero() {
        ops.push(Op::Acquire(map.accelerator));
        delay(plan, ops, &job.step, STEP, 1.0);
        ops.push(Op::Release(map.accelerator));
    }
}

/// The accelerator, where the trainer may be ahead of it.
#[expect(clippy::cast_possible_truncation, reason = "workers are counted in u32")]
fn device(plan: &mut Plan, job: &Job, map: &Map) {
    if job.ahead == 0 {
        return;
    }
    let queue = plan.buffers.len() as u32 - 1;
    let mut ops = vec![Op::Take(Place::One(queue)), Op::Acquire(map.accelerator)];
    delay(plan, &mut ops, &job.step, STEP, 1.0);
    ops.push(Op::Release(map.accelerator));
    let program = plan.program(&ops);
    plan.actor(program, 0);
}

fn with_workers(plan: &mut Plan, job: &Job, map: &mut Map, fetch: Vec<Op>) {
    let (n, strict) = (job.workers, job.order == Order::Strict);
    let ahead = n * job.prefetch;
    // What is asked for: a queue for each worker, or one for all; `ahead` batches at the start.
    let queues = if strict { n } else { 1 };
    let room = ahead / queues;
    let asked =
        queue_numbers(plan, queues, room, |q| (0..u64::from(room)).map(|i| i * u64::from(queues) + q).collect());
    let ready = queue_numbers(plan, queues, room, |_| Vec::new());
    map.ready = (ready, queues);
    let by_token = |first| Place::ByToken { first, count: queues };
    let mut ops = vec![Op::Start, Op::Take(Place::Turn { first: ready, count: queues })];
    used(plan, &mut ops, map.cores, &job.handover, HANDOVER, 1.0);
    // As in PyTorch: the next batch is asked for when one was received, before its step.
    ops.extend([Op::Put(by_token(asked), Token::Fresh), Op::Log]);
    train(plan, &mut ops, job, map);
    ops.push(Op::Gauge(-1));
    let program = plan.program(&ops);
    plan.actor(program, 0);
    plan.actors[0].fresh = u64::from(ahead);
    device(plan, job, map);
    let mut out = Place::ByToken { first: ready, count: queues };
    if let Some(pin) = &job.pin {
        let made = buffer(plan, ahead, Vec::new());
        map.made = Some(made);
        let mut ops = vec![Op::Take(Place::One(made))];
        delay(plan, &mut ops, pin, PIN, 1.0);
        ops.push(Op::Put(by_token(ready), Token::Item));
        let program = plan.program(&ops);
        map.pin = Some(actors(plan));
        plan.actor(program, 0);
        out = Place::One(made);
    }
    let mut ops = vec![Op::Take(if strict { Place::Own(asked) } else { Place::One(asked) }), Op::Gauge(1)];
    ops.extend(fetch);
    ops.push(Op::Put(out, Token::Item));
    let program = plan.program(&ops);
    map.first_worker = actors(plan);
    (0..n).for_each(|number| plan.actor(program, number));
}

#[expect(clippy::cast_possible_truncation, reason = "workers are counted in u32")]
fn actors(plan: &Plan) -> u32 {
    plan.actors.len() as u32
}

/// Buffers of the same room, one after the other; gives the first.
fn queue_numbers(plan: &mut Plan, count: u32, room: u32, tokens: impl Fn(u64) -> Vec<u64>) -> u32 {
    let numbers: Vec<u32> = (0..count).map(|q| buffer(plan, room, tokens(u64::from(q)))).collect();
    numbers.first().copied().unwrap_or_default()
}
