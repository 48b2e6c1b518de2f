//! The Python threads of trainers, as the reader of stacks finds them, for the sampler of states: only
//! the interpreter knows which of a process's threads run Python, and only stacks tell what for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use feedline_traces::Symbol;

/// What is known of the Python threads of each trainer, by its pid; its clones share it.
#[derive(Debug, Clone, Default)]
pub struct Roster(Arc<Mutex<HashMap<u32, Vec<Known>>>>);

/// A Python thread beside the main one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its id.
    pub(crate) tid: u32,
    /// Its name in the program.
    pub(crate) name: Option<Symbol>,
    /// Whether it feeds the trainer.
    pub(crate) feeds: bool,
}

impl Roster {
    fn all(&self) -> MutexGuard<'_, HashMap<u32, Vec<Known>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The threads of a trainer, those that feed it first; none where nobody reads its stacks.
    pub(crate) fn of(&self, pid: u32) -> Vec<Known> {
        self.all().get(&pid).cloned().unwrap_or_default()
    }

    /// Tells the threads of a trainer.
    pub(crate) fn tell(&self, pid: u32, threads: Vec<Known>) {
        self.all().insert(pid, threads);
    }

    /// Forgets the processes that are not among these.
    pub(crate) fn keep(&self, watched: impl Fn(u32) -> bool) {
        self.all().retain(|pid, _| watched(*pid));
    }
}
