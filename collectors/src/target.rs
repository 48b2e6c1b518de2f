//! The job being watched, as the collectors share it: `job` keeps it current, the others read it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use feedline_traces::Symbol;

/// What a process does in the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Role {
    /// Runs the training loop; one a rank.
    Trainer,
    /// Loads data for a trainer.
    Worker,
    /// Forks workers on request (`multiprocessing` forkserver).
    Forkserver,
    /// Anything else in the job's process tree: launchers, shells, resource trackers.
    #[default]
    Helper,
}

impl Role {
    /// The role as it stands in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Trainer => "trainer",
            Self::Worker => "worker",
            Self::Forkserver => "forkserver",
            Self::Helper => "helper",
        }
    }
}

/// One process of the job. Tests build it with `..Process::default()`, so that it can grow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Process {
    /// Process id, in the namespace Feedline runs in.
    pub pid: u32,
    /// Start time in clock ticks since boot: with the pid it names one process for ever.
    pub start: u64,
    /// `PID@START`, the key of the process in every table.
    pub key: Symbol,
    /// Parent's pid.
    pub parent: u32,
    /// What it does.
    pub role: Role,
    /// The kernel's name of its main thread.
    pub name: Symbol,
    /// For a worker, the pid of the trainer it feeds.
    pub trainer: Option<u32>,
    /// For a worker, its number among its trainer's workers, from 0, in order of start.
    pub worker: Option<u32>,
    /// Whether it is a Python interpreter, so that stacks can be had.
    pub python: bool,
    /// Interpreter and script, or the program: file names only, never other arguments.
    pub command: Symbol,
    /// The pid it has inside its own pid namespace, where that is not Feedline's.
    pub inner: Option<u32>,
    /// What the launcher said of its place among the ranks.
    pub ranks: Ranks,
}

/// A process's place among the ranks, from its environment. Nothing else of an environment is
/// ever kept, and these only where they are whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ranks {
    /// `RANK`, or `SLURM_PROCID`: its number in the whole job.
    pub rank: Option<u32>,
    /// `LOCAL_RANK`, or `SLURM_LOCALID`: its number on this machine.
    pub local: Option<u32>,
    /// `WORLD_SIZE`, or `SLURM_NTASKS`: how many ranks there are.
    pub world: Option<u32>,
}

/// The processes of the job at the moment.
#[derive(Debug, Clone, Default)]
pub struct Target {
    processes: Arc<Mutex<Arc<Vec<Process>>>>,
    ended: Arc<AtomicBool>,
}

impl Target {
    /// The processes last seen.
    #[must_use]
    pub fn processes(&self) -> Arc<Vec<Process>> {
        Arc::clone(&self.processes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces them; only `job` does.
    pub fn replace(&self, processes: Vec<Process>) {
        *self.processes.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(processes);
    }

    /// Whether the job is over: its root process is gone, or its pid names another process now.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Says that the job is over and leaves no process; only `job` does.
    pub fn end(&self) {
        self.replace(Vec::new());
        self.ended.store(true, Ordering::Release);
    }
}

/// The key of a process.
#[must_use]
pub fn key(pid: u32, start: u64) -> Symbol {
    format!("{pid}@{start}").into()
}
