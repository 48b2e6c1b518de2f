//! What patterns look at: the processes of the job and the machine over the last ten seconds.

use std::collections::BTreeMap;

use feedline_traces::{Symbol, Ts};

use super::meter::{Meter, Mix};

/// Processes remembered at once.
const PROCESSES: usize = 16_384;
/// Devices, mounts, groups and the like remembered at once, each.
const THINGS: usize = 1024;
/// Seconds after which what sends nothing is gone; the slowest collectors come every ten.
const GONE: f64 = 25.0;
/// Seconds after which a process without a row is gone: processes are read once a tick.
const DEAD: f64 = 3.0;

/// Sites of a main thread that patterns tell apart, positions in [`Process::sites`].
pub(super) const LOADER: usize = 0;
pub(super) const STARTUP: usize = 1;
pub(super) const CHECKPOINT: usize = 2;
pub(super) const GC: usize = 3;
pub(super) const OTHER: usize = 4;
pub(super) const MISSED: usize = 5;
/// Number of them.
pub(super) const SITES: usize = 6;

/// States of a thread that patterns tell apart, positions in [`Process::states`].
pub(super) const ALL: usize = 0;
pub(super) const STORAGE: usize = 1;
pub(super) const REMOTE: usize = 2;
/// Number of them.
pub(super) const STATES: usize = 3;

/// Things by name, each with the time it was last heard of; bounded.
#[derive(Debug, Clone)]
pub(super) struct Book<K, V> {
    things: BTreeMap<K, (Ts, V)>,
    limit: usize,
    /// How often there was no room.
    refused: u64,
}

impl<K: Ord, V: Default> Book<K, V> {
    fn new(limit: usize) -> Self {
        Self { things: BTreeMap::new(), limit, refused: 0 }
    }

    /// The thing of a name; `None`, and counted, when there is no room for a new one.
    pub(super) fn entry(&mut self, key: K, now: Ts) -> Option<&mut V> {
        if !self.things.contains_key(&key) && self.things.len() >= self.limit {
            self.refused += 1;
            return None;
        }
        let (seen, thing) = self.things.entry(key).or_default();
        *seen = now;
        Some(thing)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.things.get_mut(key).map(|(_, thing)| thing)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.things.iter().map(|(key, (_, thing))| (key, thing))
    }

    fn forget(&mut self, now: Ts, after: f64) {
        self.things.retain(|_, (seen, _)| now.seconds_since(*seen) <= after);
    }
}

/// A process of the job.
#[derive(Debug, Clone, Default)]
pub(super) struct Process {
    /// When it was first heard of.
    pub(super) born: Option<Ts>,
    pub(super) role: Option<Symbol>,
    pub(super) parent: Option<Symbol>,
    /// The trainer that a worker feeds.
    pub(super) owner: Option<Symbol>,
    /// CPU cores it may run on: how many, and which, as the kernel lists them.
    pub(super) cores: Option<f64>,
    pub(super) allowed: Option<Symbol>,
    pub(super) threads: Option<f64>,
    /// CPU time of all its threads, user and system.
    pub(super) cpu: [Meter; 2],
    pub(super) storage_read: Meter,
    pub(super) read: Meter,
    pub(super) read_calls: Meter,
    /// Of its main thread.
    pub(super) on_cpu: Meter,
    pub(super) run_queue: Meter,
    pub(super) states: Mix<STATES>,
    pub(super) sites: Mix<SITES>,
    /// Whether it has a thread that pins memory.
    pub(super) pins: bool,
    /// What the worker table says of it.
    pub(super) worker: Worker,
    /// Share of each cause in the last ten seconds, and over the run.
    pub(super) causes: BTreeMap<Symbol, [Option<f64>; 2]>,
    /// Share of the last ten seconds waiting for data.
    pub(super) data: Option<f64>,
    /// Blocked times of the main thread in this tick, in seconds.
    pub(super) waits: Vec<f64>,
}

/// What a worker does with its time, shares of the last ten seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Worker {
    pub(super) storage: Option<f64>,
    pub(super) network: Option<f64>,
    /// The file it reads, and on which mount.
    pub(super) file: Option<Symbol>,
    pub(super) mount: Option<Symbol>,
}

/// Calls of one kind, summed as counters.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    pub(super) calls: Meter,
    pub(super) time: Meter,
    pub(super) bytes: Meter,
}

/// A control group.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    pub(super) limit: Option<f64>,
    pub(super) periods: Meter,
    pub(super) held: Meter,
}

/// A block device.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    pub(super) read: Meter,
    pub(super) written: Meter,
    pub(super) busy: Meter,
}

/// A mount that serves the job.
#[derive(Debug, Clone, Default)]
pub(super) struct Mount {
    pub(super) class: Option<Symbol>,
    pub(super) kind: Option<Symbol>,
    pub(super) device: Option<Symbol>,
}

/// Memory of the machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    pub(super) total: Option<f64>,
    pub(super) available: Option<f64>,
    /// Page cache, as a counter that may fall: growth over the last seconds.
    pub(super) cached: std::collections::VecDeque<(Ts, f64)>,
    pub(super) shm: [Option<f64>; 2],
    /// File pages read again soon after they were dropped.
    pub(super) refaults: Meter,
    /// Time in which some task waited for a core.
    pub(super) pressure: Meter,
}

/// The job and the machine as they are now.
#[derive(Debug)]
pub(super) struct Scene {
    /// End of the tick.
    pub(super) now: Ts,
    /// End of the first tick.
    pub(super) began: Option<Ts>,
    machine_cores: Option<f64>,
    pub(super) processes: Book<Symbol, Process>,
    /// By process, thread and call.
    pub(super) device_calls: Book<(Symbol, Symbol, Symbol), Calls>,
    /// By process, operation and what it was on.
    pub(super) file_calls: Book<(Symbol, Symbol, Symbol), Calls>,
    /// By process, thread and region.
    pub(super) regions: Book<(Symbol, Symbol, Symbol), Calls>,
    /// By mount and operation.
    pub(super) nfs: Book<(Symbol, Symbol), Calls>,
    pub(super) groups: Book<Symbol, Group>,
    pub(super) disks: Book<Symbol, Disk>,
    pub(super) mounts: Book<Symbol, Mount>,
    /// Bytes of the job's open files by mount, where that was asked.
    pub(super) files: Book<Symbol, f64>,
    pub(super) memory: Memory,
}

impl Scene {
    /// Nothing seen yet.
    pub(super) fn new() -> Self {
        Self {
            now: Ts::default(),
            began: None,
            machine_cores: None,
            processes: Book::new(PROCESSES),
            device_calls: Book::new(PROCESSES),
            file_calls: Book::new(PROCESSES),
            regions: Book::new(PROCESSES),
            nfs: Book::new(THINGS),
            groups: Book::new(THINGS),
            disks: Book::new(THINGS),
            mounts: Book::new(THINGS),
            files: Book::new(THINGS),
            memory: Memory::default(),
        }
    }

    /// How often something was left out because there was no room.
    pub(super) fn left_out(&self) -> u64 {
        let calls = self.device_calls.refused + self.file_calls.refused + self.regions.refused + self.nfs.refused;
        let things = self.groups.refused + self.disks.refused + self.mounts.refused + self.files.refused;
        self.processes.refused + calls + things
    }

    /// The machine, or a process of it, has this many cores.
    pub(super) fn cores(&mut self, cores: f64) {
        self.machine_cores = Some(self.machine_cores.map_or(cores, |most| most.max(cores)));
    }

    /// Cores of the machine, as far as anybody was seen to be allowed them.
    pub(super) fn machine(&self) -> Option<f64> {
        self.machine_cores
    }

    /// A tick begins whose rows come next.
    pub(super) fn begin(&mut self, at: Ts) {
        self.now = at;
        self.began.get_or_insert(at);
    }

    /// All rows of the tick are in: what has gone is forgotten.
    pub(super) fn settle(&mut self) {
        let at = self.now;
        self.processes.forget(at, DEAD);
        self.device_calls.forget(at, GONE);
        self.file_calls.forget(at, GONE);
        self.regions.forget(at, GONE);
        self.nfs.forget(at, GONE);
        self.groups.forget(at, GONE);
        self.disks.forget(at, GONE);
        self.mounts.forget(at, GONE);
        self.files.forget(at, GONE);
        self.owners();
    }

    /// The trainer that each worker feeds: the nearest among its ancestors, else the only one.
    fn owners(&mut self) {
        let trainers: Vec<Symbol> = self.trainers().map(|(key, _)| key.clone()).collect();
        let owner = |worker: &Process| {
            let mut at = worker.parent.clone();
            for _ in 0..8 {
                let parent = at?;
                if trainers.contains(&parent) {
                    return Some(parent);
                }
                at = self.processes.things.get(&parent).and_then(|(_, p)| p.parent.clone());
            }
            None
        };
        let only = if let [only] = trainers.as_slice() { Some(only.clone()) } else { None };
        let workers = self.processes.iter().filter(|(_, p)| p.is("worker"));
        let owned: Vec<(Symbol, Option<Symbol>)> =
            workers.map(|(key, worker)| (key.clone(), owner(worker).or_else(|| only.clone()))).collect();
        for (key, owner) in owned {
            if let Some(worker) = self.processes.get_mut(&key) {
                worker.owner = owner;
            }
        }
    }

    pub(super) fn trainers(&self) -> impl Iterator<Item = (&Symbol, &Process)> {
        self.processes.iter().filter(|(_, p)| p.is("trainer"))
    }

    /// The worker processes that feed a trainer.
    pub(super) fn crew<'a>(&'a self, trainer: &Symbol) -> Vec<(&'a Symbol, &'a Process)> {
        self.processes.iter().filter(|(_, p)| p.is("worker") && p.owner.as_ref() == Some(trainer)).collect()
    }

    /// CPU cores that the whole job uses; `None` until that is known of most of its processes.
    pub(super) fn job_cpu(&self) -> Option<f64> {
        let used: Vec<f64> = self.processes.iter().filter_map(|(_, p)| p.cpu()).collect();
        (!used.is_empty()).then(|| used.iter().sum())
    }

    /// Bytes a second that the job reads from storage.
    pub(super) fn storage_read(&self) -> Option<f64> {
        let read: Vec<f64> = self.processes.iter().filter_map(|(_, p)| p.storage_read.rate()).collect();
        (!read.is_empty()).then(|| read.iter().sum())
    }

    /// The most that any trainer loses to a cause at the moment.
    pub(super) fn worst(&self, cause: &str) -> Option<f64> {
        self.trainers().filter_map(|(_, t)| t.cause(cause)).reduce(f64::max)
    }

    /// The trainer, where there is one only: what is of the whole job is of it.
    pub(super) fn job(&self) -> Symbol {
        let mut trainers = self.trainers();
        match (trainers.next(), trainers.next()) {
            (Some((only, _)), None) => only.clone(),
            _ => Symbol::from(""),
        }
    }

    /// Growth of the page cache over the last seconds, bytes a second.
    pub(super) fn cache_growth(&self) -> Option<f64> {
        let (first, last) = (self.memory.cached.front()?, self.memory.cached.back()?);
        let span = last.0.seconds_since(first.0);
        (span >= 2.0).then(|| (last.1 - first.1) / span)
    }
}

impl Process {
    pub(super) fn is(&self, role: &str) -> bool {
        self.role.as_deref() == Some(role)
    }

    /// CPU cores that all its threads use.
    pub(super) fn cpu(&self) -> Option<f64> {
        let parts: Vec<f64> = self.cpu.iter().filter_map(Meter::share).collect();
        (!parts.is_empty()).then(|| parts.iter().sum())
    }

    /// CPU cores that its threads beside the main one use.
    pub(super) fn beside(&self) -> Option<f64> {
        Some((self.cpu()? - self.on_cpu.share()?).max(0.0))
    }

    /// Share of the last ten seconds that a cause takes, where the attribution says so.
    pub(super) fn cause(&self, cause: &str) -> Option<f64> {
        self.causes.get(cause)?[0]
    }

    /// Share of the run that a cause takes.
    pub(super) fn cause_run(&self, cause: &str) -> Option<f64> {
        self.causes.get(cause)?[1]
    }

    /// Share of its time that a worker waits for storage or network, or is in a read.
    pub(super) fn reading(&self, now: Ts) -> Option<f64> {
        if let (Some(storage), network) = (self.worker.storage, self.worker.network) {
            return Some(storage + network.unwrap_or(0.0));
        }
        let sums = self.states.sums(now);
        (sums[ALL] > 0.0).then(|| sums[STORAGE] / sums[ALL])
    }

    /// Share of its time that a worker waits for a remote file system.
    pub(super) fn remote(&self, now: Ts) -> Option<f64> {
        let sums = self.states.sums(now);
        let seen = (sums[ALL] > 0.0 && sums[REMOTE] > 0.0).then(|| sums[REMOTE] / sums[ALL]);
        self.worker.network.or(seen)
    }

    /// Of the stacks of its main thread in the last ten seconds, the part at a site, and how many
    /// stacks there are.
    pub(super) fn site(&self, now: Ts, site: usize) -> Option<(f64, f64)> {
        let sums = self.sites.sums(now);
        let read: f64 = sums[..MISSED].iter().sum();
        (read > 0.0).then(|| (sums[site] / read, read))
    }
}

/// The mean of what is known, if all of it is.
pub(super) fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    #[expect(clippy::cast_precision_loss, reason = "a number of processes")]
    let count = values.len() as f64;
    (count > 0.0).then(|| values.iter().sum::<f64>() / count)
}
