//! What a split goes by.

use super::super::crew::CrewView;
use super::super::flow::Flow;
use super::super::mix::Mix;
use super::super::share::Estimate;
use super::super::site::{SITES, Site};
use super::contention::Shortage;
use super::fetch::Origin;

/// What is known of a trainer's accelerator over a horizon.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in super::super) struct Device {
    /// Share of time in which no kernel ran.
    pub(in super::super) idle: Option<f64>,
    /// Share of its multiprocessors without work: at least as much as it was idle.
    pub(in super::super) empty: Option<f64>,
    /// Bytes a second that it receives over PCIe.
    pub(in super::super) received: Option<f64>,
}

/// Share of wall time in device calls of the main thread, where they are timed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in super::super) struct Calls {
    /// Copies in either direction.
    pub(in super::super) copies: Option<f64>,
    /// Their bytes a second.
    pub(in super::super) bytes: f64,
}

/// Share of wall time by kind of region, as measured in the process; `None` where it was not.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in super::super) struct Exact {
    pub(in super::super) data: Option<f64>,
    pub(in super::super) startup: Option<f64>,
    pub(in super::super) checkpoint: Option<f64>,
    pub(in super::super) collective: Option<f64>,
    pub(in super::super) copy: Option<f64>,
    pub(in super::super) gc: Option<f64>,
    pub(in super::super) pipeline: Option<f64>,
    pub(in super::super) device: Option<f64>,
}

/// What a split goes by: one trainer over one horizon.
pub(in super::super) struct View<'a> {
    pub(in super::super) sites: &'a Estimate<SITES>,
    /// What the main thread's calls were on.
    pub(in super::super) own: &'a Mix,
    /// Of the main thread's running time, the part in the run queue.
    pub(in super::super) queued: f64,
    /// The loader's workers; `None` where there are none to be seen.
    pub(in super::super) crew: Option<&'a CrewView>,
    /// Bytes and CPU time of the trainer's own process.
    pub(in super::super) flow: Flow,
    /// CPU seconds a second of the trainer's threads other than the main one.
    pub(in super::super) beside: f64,
    /// Where bytes come from on this machine.
    pub(in super::super) origin: &'a Origin,
    /// Why somebody queues for a core, where it is not for the job's own work.
    pub(in super::super) shortage: Option<&'a Shortage>,
    /// Whether tasks of the machine often wait for a core.
    pub(in super::super) pressed: bool,
    pub(in super::super) device: Device,
    pub(in super::super) calls: Calls,
    pub(in super::super) exact: Exact,
    /// Share of time in first waits after workers were made.
    pub(in super::super) startup: f64,
}

impl View<'_> {
    /// Share of wall time inside the loader's `next()`.
    pub(super) fn in_loader(&self) -> f64 {
        Site::ALL.iter().filter(|site| site.in_loader()).map(|site| self.sites.share[*site as usize]).sum()
    }
}
