//! What was measured of a trainer and its loader, as far as advice rests on it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Batches that PyTorch's `DataLoader` keeps ahead, per worker, where nobody says otherwise.
pub const USUAL_PREFETCH: u32 = 2;

/// Bytes of a batch where nobody tells: 32 pictures of 224 × 224 in floats.
const USUAL_BATCH: f64 = 32.0 * 3.0 * 224.0 * 224.0 * 4.0;

/// Everything that is known of one trainer. What no source tells is `None`, never 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Facts {
    /// The trainer, `PID@START`; empty where a configuration file speaks.
    pub trainer: String,
    /// Its pid, for lines that name it.
    pub pid: Option<u64>,
    /// Seconds that were watched; 0 where a configuration file speaks.
    pub seconds: f64,
    /// Seconds from step to step.
    pub period: Option<f64>,
    /// Share of its time waiting for data: best guess, and both ends of the 95 % interval.
    pub wait: Share,
    /// Share of its time by cause (table `cause`), over the whole run.
    pub causes: BTreeMap<String, f64>,
    /// Share of its time that the main thread is on a CPU inside the loader.
    pub burnt: f64,
    /// Share of its time that the main thread is on a CPU outside of it.
    pub host: f64,
    /// What its workers do.
    pub crew: Crew,
    /// What the machine gives.
    pub machine: Machine,
    /// What is read.
    pub reads: Reads,
    /// How the loader is set, as far as that is known.
    pub setting: Setting,
    /// Checkpoints, where they were seen.
    pub saves: Option<Saves>,
    /// Known patterns that held (table `finding`), by kind.
    pub findings: BTreeMap<String, Pattern>,
    /// The last verdict.
    pub verdict: Option<Said>,
}

/// A share of time with its 95 % interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Share {
    /// Best guess.
    pub share: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A loader's workers: the mean of one of them. The shares are of its time and add up to one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Crew {
    /// Worker processes at a time.
    pub processes: f64,
    /// Loader threads within the trainer at a time.
    pub threads: f64,
    /// Cores that one worker process uses, all its threads together.
    pub cpu: Option<f64>,
    /// Threads of one worker process.
    pub os_threads: Option<f64>,
    /// Resident memory of one worker process, what it shares with the trainer included.
    pub rss: Option<f64>,
    /// Waiting for a local device.
    pub storage: f64,
    /// Waiting for a network or a FUSE file system.
    pub remote: f64,
    /// Reading what is in memory.
    pub cache: f64,
    /// Decoding and transforming.
    pub decode: f64,
    /// Putting samples together.
    pub collate: f64,
    /// Handing over, waiting for room included.
    pub put: f64,
    /// Waiting for work.
    pub idle: f64,
    /// Runnable, but waiting for a CPU.
    pub queued: f64,
    /// None of these.
    pub other: f64,
}

/// Cores, memory and room.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Machine {
    /// CPU cores of the machine.
    pub cores: Option<f64>,
    /// CPU cores that the trainer may run on.
    pub allowed: Option<f64>,
    /// CPU cores that its workers may run on.
    pub workers_allowed: Option<f64>,
    /// Cores' worth of time that a quota grants.
    pub quota: Option<f64>,
    /// Cores that the job uses.
    pub used: Option<f64>,
    /// Share of time in which some task of the machine waited for a core.
    pub pressure: Option<f64>,
    /// Trainers of the job on this machine, which share it.
    pub ranks: f64,
    /// Memory that could be had without swapping, in bytes.
    pub available: Option<f64>,
    /// What a memory limit leaves, in bytes.
    pub memory_left: Option<f64>,
    /// Room in `/dev/shm`, and what of it is used, in bytes.
    pub shm: Option<(f64, f64)>,
    /// Open files of the trainer, and how many it may have.
    pub fds: Option<(f64, f64)>,
    /// Share of time that the busiest block device has a request in flight.
    pub disk_busy: Option<f64>,
}

/// What the loader reads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reads {
    /// Bytes a second that all workers together get from read calls.
    pub rate: Option<f64>,
    /// Bytes of one read call.
    pub bytes: Option<f64>,
    /// Where from: `disk`, `network`, `fuse`, `memory` or `overlay`.
    pub class: Option<String>,
    /// Bytes of the data set: of the files that are open, or as a configuration file says.
    pub dataset: Option<f64>,
    /// Of those looked at, the part in memory.
    pub resident: Option<f64>,
    /// Bytes a second that storage gives at most, where that was probed.
    pub limit: Option<f64>,
}

/// How a loader is set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Setting {
    /// `prefetch_factor`; `None` is taken to be [`USUAL_PREFETCH`].
    pub prefetch: Option<u32>,
    /// Samples of a batch.
    pub batch: Option<u32>,
    /// Whether a thread pins memory.
    pub pins: bool,
    /// The framework that the trainer has loaded.
    pub framework: Option<String>,
    /// Bytes of one batch as it is handed over.
    pub batch_bytes: Option<f64>,
}

/// Checkpoints that stop the training.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Saves {
    /// How many were seen.
    pub seen: f64,
    /// Seconds that one takes.
    pub each: f64,
    /// Seconds from one to the next.
    pub every: f64,
    /// Bytes that one writes, where that is known.
    pub bytes: Option<f64>,
}

/// A known pattern that held.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pattern {
    /// Share of the trainer's time that it costs.
    pub severity: Option<f64>,
    /// What is the matter.
    pub text: String,
    /// What to do about it.
    pub advice: String,
    /// Part of the run in which it held.
    pub held: f64,
}

/// A verdict.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Said {
    /// What is in the way, as in the table `cause`.
    pub cause: String,
    /// In a sentence.
    pub text: String,
    /// What to do about it.
    pub advice: String,
}

impl Facts {
    /// Share of a cause; 0 where it was never seen.
    #[must_use]
    pub fn cause(&self, name: &str) -> f64 {
        self.causes.get(name).copied().unwrap_or(0.0).clamp(0.0, 1.0)
    }

    /// Loader workers: processes, or threads where there are no processes.
    #[must_use]
    pub fn workers(&self) -> u32 {
        let found = if self.crew.processes >= 0.5 { self.crew.processes } else { self.crew.threads };
        whole(found)
    }

    /// Whether its workers are processes, as a `DataLoader` has them, or there are none yet.
    #[must_use]
    pub fn by_processes(&self) -> bool {
        self.crew.processes >= 0.5 || self.crew.threads < 0.5
    }

    /// Batches ahead per worker, and whether that is a guess.
    #[must_use]
    pub fn prefetch(&self) -> (u32, bool) {
        (self.setting.prefetch.unwrap_or(USUAL_PREFETCH).max(1), self.setting.prefetch.is_none())
    }

    /// Bytes of a batch as it is handed over, and whether that is a guess. Batches of worker processes lie
    /// in `/dev/shm`, so that what is used of it bounds them.
    #[must_use]
    pub fn batch_bytes(&self) -> (f64, bool) {
        let (flying, used) = (f64::from(self.workers() * self.prefetch().0), self.machine.shm.map(|(_, used)| used));
        let seen = used.filter(|used| flying > 0.0 && *used >= 1e5).map(|used| used / flying);
        match self.setting.batch_bytes.filter(|bytes| *bytes > 0.0) {
            Some(told) => (told, false),
            None => (seen.unwrap_or(USUAL_BATCH), seen.is_none()),
        }
    }

    /// Cores that the job may use, its part where several ranks share them.
    #[must_use]
    pub fn cores(&self) -> f64 {
        let m = &self.machine;
        let granted = [m.allowed, m.quota, m.cores].into_iter().flatten().filter(|c| *c > 0.0).reduce(f64::min);
        (granted.unwrap_or(1.0) / m.ranks.max(1.0)).max(0.05)
    }

    /// Whether a pattern held for a good part of the run.
    #[must_use]
    pub fn found(&self, kind: &str) -> bool {
        self.findings.get(kind).is_some_and(|pattern| pattern.held >= 0.2)
    }

    /// Share of its time waiting for data, the start of workers left out.
    #[must_use]
    pub fn steady_wait(&self) -> f64 {
        (self.wait.share - self.cause("startup")).clamp(0.0, 1.0)
    }
}

/// A number of workers.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand at most, and checked")]
pub(super) fn whole(x: f64) -> u32 {
    if x.is_finite() { x.round().clamp(0.0, 4096.0) as u32 } else { 0 }
}
