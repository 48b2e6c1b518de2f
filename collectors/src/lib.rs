//! Reads the machine and the training job into rows.
//!
//! Each source is a folder: `mod.rs` declares its table and collects, `parse.rs` is pure, and
//! `testdata/` holds captured text. [`all`] is the visible list.

use std::time::Duration;

pub mod absent;
pub mod cgroup;
#[cfg(test)]
mod conformance;
mod context;
pub mod health;
mod host;
pub mod job;
mod live;
pub mod process;
pub mod rights;
pub mod stack;
mod target;
pub mod thread;

pub use context::{Context, Scheduled, Settings};
pub use host::Host;
pub use live::{Live, schema};
pub use target::{Process, Ranks, Role, Target, key};

const SECOND: Duration = Duration::from_secs(1);

/// Every collector, with how often it reads. Adding one is its folder and one line here.
#[must_use]
pub fn all(context: &Context) -> Vec<Scheduled> {
    vec![
        // The job comes first: the others read what it found.
        Scheduled::every(SECOND, job::Jobs::of(context)),
        Scheduled::every(SECOND, process::Processes::new(context)),
        Scheduled::every(SECOND, cgroup::Cgroups::new(context)),
        Scheduled::every(SECOND, thread::Threads::new(context)),
        Scheduled::every(SECOND, stack::Stacks::new(context)),
    ]
}
