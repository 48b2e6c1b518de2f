//! Reads the machine and the training job into rows.
//!
//! Each source is a folder: `mod.rs` declares its table and collects, `parse.rs` is pure, and
//! `testdata/` holds captured text. [`all`] is the visible list.

use std::time::Duration;

pub mod absent;
pub mod accelerator;
pub mod cgroup;
#[cfg(test)]
mod conformance;
mod context;
pub mod disk;
pub mod foreign;
pub mod health;
mod host;
pub mod inprocess;
pub mod job;
pub mod kernel;
pub mod kineto;
mod live;
pub mod memory;
mod monotonic;
pub mod mount;
pub mod network;
pub mod page_cache;
pub mod perf;
pub mod pressure;
pub mod process;
#[cfg(test)]
mod readings;
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
        Scheduled::every(SECOND / job::LOOKS, job::Jobs::of(context)),
        Scheduled::every(SECOND, process::Processes::new(context)),
        Scheduled::every(SECOND / job::LOOKS, thread::Threads::new(context)),
        Scheduled::every(SECOND, stack::Stacks::new(context)),
        // Twice a second, so that little is missed of a process that ends.
        Scheduled::every(SECOND / 2, inprocess::InProcess::new(context)),
        Scheduled::every(SECOND, cgroup::Cgroups::new(context)),
        Scheduled::every(SECOND, disk::Disks::new(context)),
        Scheduled::every(5 * SECOND, mount::Mounts::new(context)),
        Scheduled::every(10 * SECOND, page_cache::PageCache::new(context)),
        Scheduled::every(SECOND, page_cache::Vmstat::new(context)),
        Scheduled::every(SECOND, pressure::Pressure::new(context)),
        Scheduled::every(SECOND, memory::Memory::new(context)),
        Scheduled::every(SECOND, network::Interfaces::new(context)),
        Scheduled::every(SECOND, network::Tcp::new(context)),
        Scheduled::every(SECOND, network::Sockets::new(context)),
        Scheduled::every(2 * SECOND, network::Infiniband::new(context)),
        Scheduled::every(SECOND, perf::Perf::new(context)),
        Scheduled::every(SECOND, kernel::KernelEvents::new(context)),
        Scheduled::every(SECOND, accelerator::Accelerators::new(context)),
        Scheduled::every(SECOND, kineto::Kineto::new(context)),
    ]
}
