//! What can be changed, and what a change does to a fitted job.

use serde::Serialize;

use super::draw::{Draw, Errors};
use super::facts::Facts;
use super::model::{Fit, times};
use crate::step_model::Order;

/// Numbers of workers that are tried.
const WORKERS: [u32; 15] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96];
/// Batches ahead per worker that are tried.
const PREFETCHES: [u32; 4] = [2, 4, 8, 16];
/// Seconds of a core to hand a batch over besides copying it, and bytes a second of the copy.
const HANDOVER: f64 = 1.0e-3;
const COPY_RATE: f64 = 4.0e9;
/// Share of time from which a cause is worth a change of its own.
const WORTH: f64 = 0.03;

/// One knob turned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Change {
    Workers(u32),
    Prefetch(u32),
    Persistent,
    Pin,
    /// Threads of each worker.
    Threads,
    /// Batches as they are ready.
    AnyOrder,
    /// Twice the samples of a batch.
    Batch,
    /// Few large files, read one after the other.
    Shards,
    /// The data set in memory.
    InMemory,
    /// The data set on a disk of this machine.
    LocalDisk,
    ReadAhead,
    /// Decoding no more than is used.
    SmallDecode,
    /// Half as many checkpoints.
    SaveLess,
    /// Checkpoints beside the training.
    SaveBeside,
    /// All cores of the machine.
    Affinity,
    /// A quota of so many cores.
    Quota(u32),
}

/// How much work it is for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// An argument, a variable or a limit.
    Argument,
    /// A few lines of code, or files copied.
    Little,
    /// Code or data made anew.
    Much,
}

impl Change {
    /// The name of its knob.
    pub(super) fn knob(self) -> &'static str {
        match self {
            Self::Workers(_) => "num_workers",
            Self::Prefetch(_) => "prefetch_factor",
            Self::Persistent => "persistent_workers",
            Self::Pin => "pin_memory",
            Self::Threads => "worker_threads",
            Self::AnyOrder => "in_order",
            Self::Batch => "batch_size",
            Self::Shards => "format",
            Self::InMemory | Self::LocalDisk => "data_place",
            Self::ReadAhead => "read_ahead",
            Self::SmallDecode => "decode",
            Self::SaveLess => "checkpoint_interval",
            Self::SaveBeside => "checkpoint_async",
            Self::Affinity => "cpu_affinity",
            Self::Quota(_) => "cpu_quota",
        }
    }

    /// How much work it is.
    pub(super) fn effort(self) -> Effort {
        match self {
            Self::Workers(_) | Self::Prefetch(_) | Self::Persistent | Self::Pin | Self::Threads => Effort::Argument,
            Self::AnyOrder | Self::Affinity | Self::Quota(_) => Effort::Argument,
            Self::SaveLess | Self::InMemory => Effort::Little,
            Self::SaveBeside | Self::LocalDisk | Self::SmallDecode | Self::ReadAhead => Effort::Little,
            Self::Batch | Self::Shards => Effort::Much,
        }
    }

    /// How far what it does is known at all, 0 to 1.
    pub(super) fn trust(self) -> f64 {
        match self {
            Self::SaveLess => 0.9,
            Self::Workers(_) | Self::Persistent => 0.85,
            Self::Prefetch(_) | Self::SaveBeside | Self::Affinity | Self::Quota(_) | Self::InMemory => 0.7,
            Self::Threads | Self::AnyOrder | Self::Pin | Self::LocalDisk => 0.6,
            Self::SmallDecode => 0.45,
            Self::Shards | Self::ReadAhead | Self::Batch => 0.35,
        }
    }

    /// What the change makes of a job in one world.
    pub(super) fn apply(self, fit: &Fit, facts: &Facts, draw: &Draw) -> Fit {
        let between = |low: f64, high: f64| low + (high - low) * draw.works;
        let mut new = fit.clone();
        match self {
            Self::Workers(n) => new = fit.workers(n, handing(facts, draw)),
            Self::Prefetch(n) => new.job.prefetch = n,
            // The first batch of an epoch is still waited for.
            Self::Persistent => new.outside.startup *= between(0.02, 0.25),
            Self::Pin => new.job.copy = times(&fit.job.copy, between(0.1, 0.6)),
            Self::Threads => {
                new.job.cores = new.job.cores.max(facts.cores());
                // Threads that wait for each other burn what one thread does not.
                new.job.decode = times(&fit.job.decode, between(0.6, 1.0));
                new.outside.kept *= between(0.0, 0.4);
            }
            Self::AnyOrder => new.job.order = Order::Ready,
            Self::Batch => twice(&mut new, between(1.0, 1.6)),
            Self::Shards => {
                new.job.storage.latency = times(&fit.job.storage.latency, between(0.05, 0.5));
                new.cap = f64::INFINITY;
            }
            Self::InMemory => {
                new.job.storage.latency = times(&fit.job.storage.latency, between(0.0, 0.05));
                new.cap = f64::INFINITY;
            }
            Self::LocalDisk => {
                new.job.storage.latency = times(&fit.job.storage.latency, between(0.02, 0.3));
                new.cap = f64::INFINITY;
            }
            Self::ReadAhead => new.job.storage.latency = times(&fit.job.storage.latency, between(0.3, 0.9)),
            Self::SmallDecode => {
                let part = decoding(facts);
                new.job.decode = times(&fit.job.decode, 1.0 - part * (1.0 - between(0.4, 0.85)));
            }
            Self::SaveLess => new.outside.save *= 0.5,
            Self::SaveBeside => new.outside.save *= between(0.05, 0.3),
            Self::Affinity => {
                let all = facts.machine.cores.unwrap_or(new.job.cores) / facts.machine.ranks.max(1.0);
                new.more_cores(all, between(0.0, 0.3));
            }
            Self::Quota(n) => new.more_cores(f64::from(n) / facts.machine.ranks.max(1.0), between(0.0, 0.3)),
        }
        new
    }
}

/// Seconds of a core that handing a batch over takes on either side, where nobody did it yet.
fn handing(facts: &Facts, draw: &Draw) -> f64 {
    match facts.batch_bytes() {
        (bytes, false) => (HANDOVER + bytes / COPY_RATE) * (0.6 + draw.works),
        // From small batches to those of 30 MB.
        _ => 0.3 * HANDOVER * 27.0_f64.powf(draw.works),
    }
}

impl Fit {
    fn more_cores(&mut self, cores: f64, left: f64) {
        self.job.cores = self.job.cores.max(cores);
        self.outside.kept *= left;
    }

    /// The same in a world in which the model is off, and where cores that were idle become busy.
    ///
    /// A core beside a busy one is often its other half, and always shares its caches: what it does
    /// takes longer than what was measured while it was idle.
    pub(super) fn in_world(&self, before: &Self, period: f64, draw: &Draw, errors: &Errors) -> Self {
        let more = (self.demand(period) - before.demand(period)).max(0.0);
        let busier = (more / self.job.cores).min(1.0);
        self.scaled((1.0 + 0.35 * draw.sharing * busier) * draw.error(errors, before.scale))
    }
}

/// A batch of twice the samples: all of the work twice, but for what the host does for each step.
fn twice(fit: &mut Fit, host: f64) {
    fit.per *= 2.0;
    fit.job.batch *= 2;
    for part in [&mut fit.job.handover, &mut fit.job.copy, &mut fit.job.step, &mut fit.job.collate] {
        *part = times(part, 2.0);
    }
    fit.job.host = times(&fit.job.host, host);
    fit.outside = fit.outside.times(2.0);
}

/// All changes that make sense for a job, possible or not.
pub(super) fn all(facts: &Facts, fit: &Fit) -> Vec<Change> {
    let mut found = Vec::new();
    let (now, ahead) = (facts.workers(), facts.prefetch().0);
    found.extend(WORKERS.into_iter().filter(|n| *n != now).map(Change::Workers));
    if now > 0 && facts.by_processes() {
        found.extend(PREFETCHES.into_iter().filter(|n| *n > ahead).map(Change::Prefetch));
        if now > 1 && facts.crew.idle >= 0.2 && fit.job.order == Order::Strict {
            found.push(Change::AnyOrder);
        }
    }
    let when = |condition: bool, change: Change| condition.then_some(change);
    let storm = facts.found("thread_storm") || threads(facts);
    let (latency, cpu) = parts(fit);
    let waits_for_storage = latency > 0.35 * (latency + cpu) && facts.wait.share >= WORTH;
    let remote = facts.cause("fetch.network") > facts.cause("fetch.storage");
    let narrow = facts.machine.cores.zip(facts.machine.workers_allowed.or(facts.machine.allowed));
    let quota = facts.machine.quota.filter(|quota| facts.machine.allowed.is_none_or(|all| *quota < all - 0.05));
    let held = facts.cause("contention") >= WORTH || facts.crew.queued >= 0.15;
    found.extend(
        [
            when(facts.cause("startup") >= WORTH && now > 0, Change::Persistent),
            when(facts.cause("copy") >= WORTH && !facts.setting.pins, Change::Pin),
            when(storm, Change::Threads),
            when(held && narrow.is_some_and(|(all, few)| few + 0.5 < all), Change::Affinity),
            quota.filter(|_| held).and_then(|quota| more(quota, facts)).map(Change::Quota),
            when(facts.cause("checkpoint") >= WORTH, Change::SaveBeside),
            when(facts.cause("checkpoint") >= WORTH, Change::SaveLess),
            when(waits_for_storage, Change::InMemory),
            when(waits_for_storage && remote, Change::LocalDisk),
            when(waits_for_storage && small(facts), Change::Shards),
            when(waits_for_storage && !remote && small(facts), Change::ReadAhead),
            when(facts.cause("decode") >= 2.0 * WORTH && decoding(facts) >= 0.5, Change::SmallDecode),
            when(facts.host >= 0.15 && facts.cause("host") >= WORTH, Change::Batch),
        ]
        .into_iter()
        .flatten(),
    );
    found
}

/// Of the CPU time of a batch, the part in decoding and transforms.
fn decoding(facts: &Facts) -> f64 {
    let crew = &facts.crew;
    let (decode, rest) = if facts.workers() == 0 {
        (facts.cause("decode"), facts.cause("fetch.cache"))
    } else {
        (crew.decode, crew.cpu.map_or(0.0, |cpu| cpu - crew.decode).max(crew.cache + crew.collate))
    };
    if decode > 0.0 { decode / (decode + rest) } else { 0.0 }
}

/// Whether worker processes have threads at work beside their main ones, more than there are cores.
fn threads(facts: &Facts) -> bool {
    let crew = &facts.crew;
    let main = crew.cache + crew.decode + crew.collate + crew.put;
    let many = crew.os_threads.is_some_and(|n| n >= 4.0 && n * crew.processes >= 2.0 * facts.cores());
    many && crew.queued >= 0.15 && crew.cpu.is_some_and(|cpu| cpu > main + 0.2)
}

/// The next whole number of cores above a quota that the machine has.
fn more(quota: f64, facts: &Facts) -> Option<u32> {
    let most = facts.machine.allowed.or(facts.machine.cores)?;
    let wanted = super::facts::whole((2.0 * quota).ceil().min(most));
    (f64::from(wanted) > quota + 0.05).then_some(wanted)
}

/// Whether reads are so small that fewer and larger ones would be quicker.
fn small(facts: &Facts) -> bool {
    facts.reads.bytes.is_none_or(|bytes| bytes < 512.0 * 1024.0)
}

/// Seconds of waiting for storage and of CPU in a batch.
pub(super) fn parts(fit: &Fit) -> (f64, f64) {
    let pieces = f64::from(fit.job.batch);
    (fit.job.storage.latency.mean() * pieces, fit.job.decode.mean() * pieces + fit.job.collate.mean())
}
