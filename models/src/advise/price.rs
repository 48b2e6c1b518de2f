//! What a change costs.

use serde::Serialize;

use super::change::{Change, Effort};
use super::facts::Facts;
use super::model::Fit;

/// Memory of a worker process where none was seen: an interpreter with PyTorch, its own pages alone.
const WORKER_MEMORY: f64 = 256.0 * 1024.0 * 1024.0;
/// Descriptors of a worker: queues and pipes, and a file a tensor in flight.
const WORKER_FDS: f64 = 6.0;

/// What a plan takes of the machine, beyond what the job has now; below 0 where it gives back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Price {
    /// Bytes of memory, at most; `None` where that is not known.
    pub memory: Option<f64>,
    /// Bytes of `/dev/shm`.
    pub shm: f64,
    /// Cores that it keeps busy.
    pub cores: f64,
    /// Bytes on a disk of this machine; `None` where that is not known.
    pub disk: Option<f64>,
    /// Open files of the trainer.
    pub fds: f64,
    /// Why the memory is not known.
    pub memory_unknown: Option<&'static str>,
    /// Why the room on a disk is not known.
    pub disk_unknown: Option<&'static str>,
}

impl Price {
    /// Takes nothing.
    pub(super) const NOTHING: Self = Self {
        memory: Some(0.0),
        shm: 0.0,
        cores: 0.0,
        disk: Some(0.0),
        fds: 0.0,
        memory_unknown: None,
        disk_unknown: None,
    };

    fn add_memory(&mut self, bytes: Option<f64>, why: &'static str) {
        self.memory = self.memory.zip(bytes).map(|(sum, bytes)| sum + bytes);
        self.memory_unknown = self.memory_unknown.or(bytes.is_none().then_some(why));
    }

    fn add_disk(&mut self, bytes: Option<f64>, why: &'static str) {
        self.disk = self.disk.zip(bytes).map(|(sum, bytes)| sum + bytes);
        self.disk_unknown = self.disk_unknown.or(bytes.is_none().then_some(why));
    }

    /// What is not known, and why, in words; empty where all is.
    pub(super) fn open(&self) -> Vec<String> {
        let parts = [("memory", self.memory_unknown), ("room on a disk", self.disk_unknown)];
        parts.into_iter().filter_map(|(what, why)| Some(format!("{what} nobody can name yet ({})", why?))).collect()
    }
}

/// Why a price that depends on the size of the data set is not known.
pub(super) const OF_DATA: &str = "the size of the data set is not known; --dataset SIZE tells it";
const OF_SAVES: &str = "what a checkpoint writes was not seen";

/// The price of some changes together.
pub(super) fn of(changes: &[Change], fit: &Fit, facts: &Facts) -> Price {
    let (mut workers, mut ahead) = (f64::from(fit.job.workers), f64::from(fit.job.prefetch));
    let mut price = Price::NOTHING;
    let (dataset, saved) = (facts.reads.dataset, facts.saves.and_then(|saves| saves.bytes));
    for change in changes {
        match change {
            Change::Workers(n) => workers = f64::from(*n),
            Change::Prefetch(n) => ahead = f64::from(*n),
            Change::InMemory => price.add_memory(dataset, OF_DATA),
            Change::LocalDisk | Change::Shards => price.add_disk(dataset, OF_DATA),
            Change::Pin => price.memory = price.memory.map(|memory| memory + fit.batch_bytes * 2.0),
            Change::SaveBeside => price.add_memory(saved, OF_SAVES),
            Change::Batch => price.shm += fit.batch_bytes * workers * ahead,
            _ => (),
        }
    }
    let before = (f64::from(fit.job.workers), f64::from(fit.job.prefetch));
    let more = workers - before.0;
    if facts.by_processes() {
        let in_flight = (workers * ahead - before.0 * before.1) * fit.batch_bytes;
        price.fds += more * (WORKER_FDS + ahead);
        price.shm += in_flight;
        // Batches in flight lie in shared memory, which is memory.
        let of_workers = more * facts.crew.rss.unwrap_or(WORKER_MEMORY) + in_flight;
        price.memory = price.memory.map(|memory| memory + of_workers);
    }
    price
}

/// One number to choose by among plans that gain about the same: work first, then the machine.
pub(super) fn cost(changes: &[Change], price: &Price, fit: &Fit, facts: &Facts) -> f64 {
    let work = |change: &Change| match change.effort() {
        Effort::Argument => 1.0,
        Effort::Little => 3.0,
        Effort::Much => 8.0,
    };
    let workers = |change: &Change| match change {
        Change::Workers(n) => 0.05 * (f64::from(*n) - f64::from(fit.job.workers)),
        Change::Prefetch(n) => 0.02 * (f64::from(*n) - f64::from(fit.job.prefetch)),
        _ => 0.0,
    };
    let free = facts.machine.available.unwrap_or(8e9).max(1e6);
    changes.iter().map(|change| work(change) + workers(change)).sum::<f64>()
        // What is not known may be half of what is free.
        + price.memory.map_or(1.0, |memory| 2.0 * memory.max(0.0) / free)
        + 0.1 * price.cores.max(0.0)
}
