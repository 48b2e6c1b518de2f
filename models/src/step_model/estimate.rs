//! The same figures from closed forms, in microseconds.
//!
//! 1. *The loader alone.* Its workers are a closed queueing network: a delay (latency) and stations
//!    that are shared (storage, link, cores), whose rates depend on how many use them. Such a network
//!    has a product form whatever the distributions are (Baskett, Chandy, Muntz and Palacios, 1975),
//!    and Buzen's convolution (1973) gives its throughput exactly for every number of busy workers.
//! 2. *Order.* Handing batches over in order holds back those that are early; the loss grows with the
//!    spread of batch times and falls with the batches ahead. Its size is fitted to the simulation.
//! 3. *The trainer.* Loader and trainer are two servers with a bounded queue between them. For
//!    exponential times that is M/M/1/K; its exponent is scaled by the variability of both sides, as a
//!    diffusion approximation does, so that constant times give the bound `min` of both rates.

use feedline_traces::Result;

use super::job::{Job, Order};
use super::outcome::Binding;

/// Workers up to which the network is solved exactly; beyond it the bounds are near enough.
const EXACT: usize = 24;

/// What the closed forms say of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Samples a second.
    pub samples_per_second: f64,
    /// Seconds of a step, waiting included.
    pub period: f64,
    /// Share of the trainer's time waiting for data, handing over included.
    pub stall: f64,
    /// Share of the trainer's time in copies that it waits for.
    pub copy: f64,
    /// Samples a second that the loader would reach with a trainer that takes no time.
    pub loader: f64,
    /// What holds it back.
    pub binding: Binding,
}

/// A station, by the batches a second that it serves when 1, 2, … are there; more are served like the
/// last.
#[derive(Debug, Clone)]
struct Station {
    rates: Rates,
    binding: Binding,
}

#[derive(Debug, Clone)]
enum Rates {
    /// Seconds that a batch needs alone, and how many are served at that speed.
    Shared { demand: f64, servers: f64 },
    /// A network of its own with room for so many (flow-equivalent aggregation: Chandy, Herzog and Woo,
    /// 1975).
    Network(Vec<f64>),
}

impl Station {
    fn rate(&self, there: usize) -> f64 {
        match &self.rates {
            Rates::Shared { demand, servers } => real(there).min(*servers) / demand,
            Rates::Network(rates) => rates.get(there.min(rates.len()) - 1).copied().unwrap_or(f64::INFINITY),
        }
    }

    /// What it contributes to the constants of a network, for 0, 1, … batches there.
    fn weights(&self, workers: usize, total: f64) -> Vec<f64> {
        let mut weights = Vec::with_capacity(workers + 1);
        weights.push(1.0);
        let mut weight = 1.0;
        for k in 1..=workers {
            weight /= self.rate(k) * total;
            weights.push(weight);
        }
        weights
    }

    /// Seconds of a batch that is alone.
    fn alone(&self) -> f64 {
        1.0 / self.rate(1)
    }
}

/// Estimates a job.
///
/// # Errors
/// Where the job is refused ([`Job::check`]).
pub fn estimate(job: &Job) -> Result<Estimate> {
    job.check()?;
    let host = job.host.mean() + job.handover.mean();
    if job.workers == 0 {
        return Ok(alone(job));
    }
    // The trainer's own work takes cores from the workers; how much depends on the answer.
    let mut period = own_seconds(job) + 1e-12;
    let mut found = together(job, 0.0, 1.0);
    for _ in 0..4 {
        let before = found.period;
        period = f64::midpoint(period, before.max(1e-12));
        let taken = (host / period).min(job.cores / 2.0).min(1.0);
        let users = busy_on_cores(job, found.loader / f64::from(job.batch));
        let slowed = ((users + 1.0) / job.cores).max(1.0);
        found = together(job, taken, slowed);
        if (found.period / before - 1.0).abs() < 1e-3 {
            break;
        }
    }
    Ok(found)
}

/// Seconds of a step without any wait for data, its parts one after the other.
fn own_seconds(job: &Job) -> f64 {
    let trainer = job.copy.mean() + job.host.mean() / job.cores.min(1.0);
    if job.ahead > 0 { trainer.max(job.step.mean()) } else { trainer + job.step.mean() }
}

fn alone(job: &Job) -> Estimate {
    let (stations, delay) = stations(job, 0.0);
    let fetch: f64 =
        delay + stations.iter().map(Station::alone).sum::<f64>() + job.handover.mean() / job.cores.min(1.0);
    let own = job.copy.mean() + job.host.mean() / job.cores.min(1.0);
    let period =
        if job.ahead > 0 { (own + fetch).max(job.step.mean()) } else { own + fetch + job.step.mean() }.max(1e-12);
    finish(job, period, fetch / period, f64::from(job.batch) / fetch.max(1e-12), Binding::Workers)
}

/// Workers that use a core at a time, on average.
fn busy_on_cores(job: &Job, batches_per_second: f64) -> f64 {
    (cpu_seconds(job) * batches_per_second).min(f64::from(job.workers))
}

fn cpu_seconds(job: &Job) -> f64 {
    job.storage.cpu.mean() * f64::from(job.reads()) + job.decode.mean() * f64::from(job.batch) + job.collate.mean()
}

/// The stations of the loader, and the delay of a batch; `taken` cores belong to the trainer.
fn stations(job: &Job, taken: f64) -> (Vec<Station>, f64) {
    let reads = f64::from(job.reads());
    let bytes = job.sample.mean() * f64::from(job.batch);
    let mut storage = Vec::with_capacity(2);
    let mut delay = job.storage.latency.mean() * reads;
    storage.extend(shared(bytes, job.storage.bandwidth, job.storage.stream, Binding::Bandwidth));
    if let Some(link) = &job.network {
        storage.extend(shared(bytes, link.bandwidth, f64::INFINITY, Binding::Network));
        delay += link.latency.mean() * reads;
    }
    if job.storage.depth > 0 && job.storage.depth < job.workers && (delay > 0.0 || !storage.is_empty()) {
        // A read holds its place from asking to its last byte.
        let rates = throughputs(&storage, delay, (job.storage.depth as usize).min(EXACT));
        storage = vec![Station { rates: Rates::Network(rates), binding: Binding::Depth }];
        delay = 0.0;
    }
    let cores = (job.cores - taken).max(job.cores / 2.0);
    storage.extend(shared(cpu_seconds(job), cores, 1.0, Binding::Cores));
    // Where there is room for all, nobody waits: that is a delay, and cheaper to reckon with.
    let workers = f64::from(job.workers);
    let roomy = |station: &Station| matches!(station.rates, Rates::Shared { servers, .. } if servers >= workers);
    delay += storage.iter().filter(|s| roomy(s)).map(Station::alone).sum::<f64>();
    storage.retain(|station| !roomy(station));
    (storage, delay)
}

/// A station for so much work; none where it takes no time.
fn shared(work: f64, capacity: f64, one: f64, binding: Binding) -> Option<Station> {
    let one = one.min(capacity);
    let needs_time = work > 0.0 && one.is_finite();
    needs_time.then(|| Station { rates: Rates::Shared { demand: work / one, servers: capacity / one }, binding })
}

/// Batches a second of a closed network for 1, 2, … busy workers.
fn throughputs(stations: &[Station], delay: f64, workers: usize) -> Vec<f64> {
    let total = alone_in_all(stations, delay);
    let g = constants(stations, delay, workers, total);
    (1..=workers).map(|k| ratio(&g, k, total)).collect()
}

/// Batches a second of a closed network with so many busy workers alone.
fn throughput(stations: &[Station], delay: f64, workers: usize) -> f64 {
    let Some((last, others)) = stations.split_last() else {
        return real(workers) / delay.max(1e-12);
    };
    // Of the last station only the top two constants are wanted.
    let total = alone_in_all(stations, delay);
    let mut g = constants(others, delay, workers, total);
    let own = last.weights(workers, total);
    (g[workers], g[workers - 1]) = (convolved(&own, &g, workers), convolved(&own, &g, workers - 1));
    ratio(&g, workers, total)
}

/// Seconds of a batch that is alone in the network.
fn alone_in_all(stations: &[Station], delay: f64) -> f64 {
    (delay + stations.iter().map(Station::alone).sum::<f64>()).max(1e-12)
}

fn ratio(g: &[f64], k: usize, total: f64) -> f64 {
    if g[k] > 0.0 { g[k - 1] / g[k] / total } else { 1.0 / total }
}

/// The normalising constants for 0, 1, … workers (Buzen's convolution), in units of `total` seconds, so
/// that they stay in range.
fn constants(stations: &[Station], delay: f64, workers: usize, total: f64) -> Vec<f64> {
    let mut g = vec![0.0; workers + 1];
    g[0] = 1.0;
    for k in 1..=workers {
        g[k] = g[k - 1] * (delay / total) / real(k);
    }
    for station in stations {
        if let Rates::Shared { demand, servers } = station.rates
            && servers <= 1.0
        {
            // A rate that is always the same: the sum is a recursion.
            let weight = demand / total;
            for k in 1..=workers {
                g[k] += weight * g[k - 1];
            }
        } else {
            let own = station.weights(workers, total);
            for k in (1..=workers).rev() {
                g[k] = convolved(&own, &g, k);
            }
        }
    }
    g
}

fn convolved(own: &[f64], g: &[f64], k: usize) -> f64 {
    own[..=k].iter().zip(g[..=k].iter().rev()).map(|(a, b)| a * b).sum()
}

fn together(job: &Job, taken: f64, slowed: f64) -> Estimate {
    let (stations, delay) = stations(job, taken);
    let n = f64::from(job.workers);
    let one = alone_in_all(&stations, delay);
    let small = (job.workers as usize).min(EXACT);
    let mut rate = throughput(&stations, delay, small);
    let (mut cap, mut binding) = (n / one, Binding::Workers);
    for station in &stations {
        let most = station.rate(job.workers as usize);
        if most < cap {
            (cap, binding) = (most, station.binding);
        }
    }
    if job.workers as usize > EXACT {
        rate = (rate * n / real(EXACT)).min(cap);
    }
    let spread = spread(job, one);
    if job.order == Order::Strict && job.workers > 1 {
        rate /= 1.0 + ORDER * spread.sqrt() * (2.0 * n.ln()).sqrt() / f64::from(job.prefetch).powf(0.8);
        if rate < 0.8 * cap {
            binding = if binding == Binding::Workers { binding } else { Binding::Order };
        }
    }
    if let Some(pin) = job.pin.as_ref().map(|pin| pin.mean()).filter(|pin| rate * pin > 1.0) {
        (rate, binding) = (1.0 / pin, Binding::Pin);
    }
    let handover = job.handover.mean() * slowed;
    let own = own_seconds(job) + (slowed - 1.0) * job.host.mean() + handover;
    let busy = served(job, rate, own, spread);
    // The trainer is busy for `own` of every period.
    let period = (own / busy).max(1.0 / rate).max(1e-12);
    let stall = ((period - own + handover) / period).clamp(0.0, 1.0);
    if handover > (period - own) && stall > 0.0 {
        binding = Binding::Handover;
    }
    finish(job, period, stall, rate * f64::from(job.batch), binding)
}

/// Fitted to the simulation (`the_estimate_is_near_the_simulation`).
const ORDER: f64 = 0.25;

/// Squared coefficient of variation of the time that one worker takes for a batch.
fn spread(job: &Job, mean: f64) -> f64 {
    let (reads, samples) = (f64::from(job.reads()), f64::from(job.batch));
    let variance = |dist: &super::Dist| dist.scv() * dist.mean() * dist.mean();
    let one = job.storage.bandwidth.min(job.storage.stream);
    let transfer = if one.is_finite() { variance(&job.sample) / (one * one) } else { 0.0 };
    let link = job.network.as_ref().map_or(0.0, |n| variance(&n.latency));
    let sum = reads * (variance(&job.storage.latency) + variance(&job.storage.cpu) + link)
        + samples * (variance(&job.decode) + transfer)
        + variance(&job.collate);
    sum / (mean * mean)
}

/// Share of its time in which the trainer is busy: M/M/1/K with a scaled exponent.
fn served(job: &Job, rate: f64, own: f64, spread: f64) -> f64 {
    let load = rate * own;
    if load <= 0.0 || !load.is_finite() {
        return if load > 0.0 { 1.0 } else { 1e-12 };
    }
    let step = (job.step.scv() * job.step.mean() * job.step.mean()
        + job.host.scv() * job.host.mean() * job.host.mean())
        / (own * own);
    let room = f64::from(job.workers) * (f64::from(job.prefetch) - 0.5) + 1.5;
    let variability = ((spread + step) / 2.0).max(1e-4);
    let exponent = (room / variability).min(1e4);
    // In logarithms, for the powers leave the range of doubles.
    let (x, y) = (exponent * load.ln(), (exponent + 1.0) * load.ln());
    if (load - 1.0).abs() < 1e-9 {
        return exponent / (exponent + 1.0);
    }
    let busy = if y > 500.0 { 1.0 } else { load * x.exp_m1() / y.exp_m1() };
    busy.clamp(1e-12, 1.0)
}

fn finish(job: &Job, period: f64, stall: f64, loader: f64, binding: Binding) -> Estimate {
    let copy = (job.copy.mean() / period).clamp(0.0, 1.0);
    let binding = match () {
        () if stall < 0.03 && copy < 0.03 => Binding::Step,
        () if copy > stall => Binding::Copy,
        () => binding,
    };
    Estimate { samples_per_second: f64::from(job.batch) / period, period, stall, copy, loader, binding }
}

#[expect(clippy::cast_precision_loss, reason = "at most the workers that are solved exactly")]
fn real(n: usize) -> f64 {
    n as f64
}
