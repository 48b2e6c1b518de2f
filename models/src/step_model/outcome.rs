//! What a simulated run shows, and what binds it.

use feedline_traces::{Error, Result};

use super::build::{Map, plan};
use super::engine::{End, Engine};
use super::job::{Job, Order};

/// How long and how finely a job is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The same seed gives the same run, bit for bit.
    pub seed: u64,
    /// Steps that are thrown away, while queues fill.
    pub skipped: u32,
    /// Steps that count.
    pub steps: u32,
    /// Pieces of a batch that are simulated one by one, each the sum of its reads; 0: every read.
    pub grain: u32,
    /// Events after which the run ends, with as many steps as it has by then.
    pub limit: u64,
}

impl Default for Run {
    /// 200 steps after 40, in up to 32 pieces a batch, at most two million events.
    fn default() -> Self {
        Self { seed: 1, skipped: 40, steps: 200, grain: 32, limit: 2_000_000 }
    }
}

/// The trainer's wait for data in a step, in seconds, from before it asks to when it has the batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waits {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The longest.
    pub most: f64,
}

/// How much of each resource is in use, from 0 to 1; NaN for what the job does not have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Of the cores.
    pub cores: f64,
    /// Of the bytes a second that storage gives.
    pub bandwidth: f64,
    /// Of the reads that storage serves at a time.
    pub depth: f64,
    /// Of the link's bytes a second.
    pub network: f64,
    /// Of the workers' time: neither waiting for work nor for room.
    pub workers: f64,
    /// Of the pin thread's time.
    pub pin: f64,
    /// Of the accelerator's time.
    pub accelerator: f64,
}

/// What holds the job back: the resource of which more would make it faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binding {
    /// The step itself: there is nothing to gain from the loader.
    Step,
    /// CPU cores.
    Cores,
    /// Bytes a second of storage.
    Bandwidth,
    /// Reads that storage serves at a time.
    Depth,
    /// Bytes a second of the link to storage.
    Network,
    /// Workers: each is busy, with latency or with decoding, and nothing they share is full.
    Workers,
    /// The trainer's own work to take a batch out of the queue.
    Handover,
    /// The pin-memory thread.
    Pin,
    /// Copies to the device.
    Copy,
    /// The order of batches, or too few ahead: workers idle while the trainer waits.
    Order,
}

impl Binding {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Cores => "cores",
            Self::Bandwidth => "bandwidth",
            Self::Depth => "depth",
            Self::Network => "network",
            Self::Workers => "workers",
            Self::Handover => "handover",
            Self::Pin => "pin",
            Self::Copy => "copy",
            Self::Order => "order",
        }
    }
}

/// What a simulated run shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Samples a second.
    pub samples_per_second: f64,
    /// Share of the trainer's time waiting for data, handing over included.
    pub stall: f64,
    /// Share of the trainer's time in copies that it waits for.
    pub copy: f64,
    /// Seconds of a step, waiting included.
    pub period: f64,
    /// The waits.
    pub waits: Waits,
    /// Utilisation.
    pub usage: Usage,
    /// Batches ready for the trainer, as a share of those that may be ahead; NaN without workers.
    pub ready: f64,
    /// Bytes of batches being made, ready or in use: mean and most.
    pub memory: (f64, f64),
    /// What holds it back.
    pub binding: Binding,
    /// Steps that were counted.
    pub steps: u32,
    /// Events that it took.
    pub events: u64,
    /// For each station, who is there on average and, counted apart, what arrivals times stays say:
    /// equal by Little's law.
    pub little: Vec<(f64, f64)>,
}

/// Simulates a job.
///
/// # Errors
/// Where the job is refused ([`Job::check`]), or the events did not suffice for a single step.
pub fn simulate(job: &Job, run: &Run) -> Result<Outcome> {
    job.check()?;
    let kept = run.steps.clamp(1, 1 << 22);
    let (plan, map) = plan(job, run.skipped, kept, run.grain);
    let mut engine = Engine::new(plan, run.seed);
    let end = engine.run(run.limit);
    let span = engine.span();
    // A negated comparison, so that NaN is refused too.
    let passed = span > 0.0 && span.is_finite();
    if engine.log.is_empty() || !passed {
        let error = Error::new(format!("step model: {} events, and no step was over ({end:?})", engine.events));
        return Err(error.hint("simulate fewer steps, or a batch in fewer pieces"));
    }
    if matches!(end, End::Deadlock | End::NoTime) {
        return Err(Error::new(format!("step model: the run ended early ({end:?}) after {} events", engine.events)));
    }
    Ok(outcome(job, &engine, &map))
}

fn outcome(job: &Job, engine: &Engine, map: &Map) -> Outcome {
    let span = engine.span();
    let steps = whole(engine.log.len());
    // The span begins with a log and ends with one, so it holds exactly the logged steps.
    let period = span / f64::from(steps);
    let waits = waits(&engine.log);
    let ahead = f64::from(map.workers) * f64::from(job.prefetch);
    let (first, count) = map.ready;
    let buffers = (first..first + count).chain(map.made);
    let ready: f64 = buffers.map(|b| engine.buffers[b as usize].level.area).sum::<f64>() / span;
    let usage = usage(job, engine, map);
    let mut outcome = Outcome {
        samples_per_second: f64::from(job.batch) / period,
        stall: (waits.mean / period).clamp(0.0, 1.0),
        copy: (job.copy.mean() / period).clamp(0.0, 1.0),
        period,
        waits,
        usage,
        ready: if ahead > 0.0 { ready / ahead } else { f64::NAN },
        memory: (engine.gauge.area / span * job.batch_bytes, engine.gauge.most * job.batch_bytes),
        binding: Binding::Step,
        steps,
        events: engine.events,
        little: engine.little(),
    };
    outcome.binding = binding(job, &outcome);
    outcome
}

fn usage(job: &Job, engine: &Engine, map: &Map) -> Usage {
    let span = engine.span();
    let shared = |station: u32| {
        let share = &engine.shares[station as usize];
        share.done / (span * share.capacity)
    };
    let slotted = |station: u32| {
        let slots = &engine.slots[station as usize];
        slots.busy.area / (span * f64::from(slots.total))
    };
    let busy = |actor: u32| {
        let (starved, blocked) = engine.waited(actor);
        1.0 - (starved + blocked) / span
    };
    let workers = (map.first_worker..map.first_worker + map.workers).map(busy).sum::<f64>() / f64::from(map.workers);
    Usage {
        cores: shared(map.cores),
        bandwidth: if job.storage.bandwidth.is_finite() { shared(map.bandwidth) } else { f64::NAN },
        depth: map.depth.map_or(f64::NAN, slotted),
        network: map.network.map_or(f64::NAN, shared),
        workers,
        pin: map.pin.map_or(f64::NAN, busy),
        accelerator: slotted(map.accelerator),
    }
}

/// A shared resource binds from this utilisation on.
const FULL: f64 = 0.88;
/// A job waits so little that nothing is to be gained.
pub(crate) const FED: f64 = 0.03;

/// What holds a job back, by the utilisations of a run.
fn binding(job: &Job, seen: &Outcome) -> Binding {
    let u = &seen.usage;
    if seen.stall < FED && seen.copy < FED {
        return Binding::Step;
    }
    if seen.copy > seen.stall {
        return Binding::Copy;
    }
    let shared = [
        (u.cores, Binding::Cores),
        (u.bandwidth, Binding::Bandwidth),
        (u.network, Binding::Network),
        (u.depth, Binding::Depth),
        (u.pin, Binding::Pin),
    ];
    let fullest = shared.into_iter().filter(|(used, _)| *used >= FULL).max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((_, binding)) = fullest {
        return binding;
    }
    if job.handover.mean() > seen.waits.mean / 2.0 {
        return Binding::Handover;
    }
    let idle = job.workers > 0 && u.workers < 0.8;
    if idle && (job.order == Order::Strict || job.prefetch == 1) { Binding::Order } else { Binding::Workers }
}

fn waits(log: &[f64]) -> Waits {
    let mut sorted = log.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = f64::from(whole(sorted.len()));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position in the list")]
    let at = |p: f64| sorted[((p * count).ceil() as usize).clamp(1, sorted.len()) - 1];
    Waits {
        mean: sorted.iter().sum::<f64>() / count,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        most: sorted.last().copied().unwrap_or(f64::NAN),
    }
}

/// A number of steps, which was given as `u32`.
#[expect(clippy::cast_possible_truncation, reason = "no more steps are logged than were asked for as u32")]
fn whole(n: usize) -> u32 {
    n as u32
}
