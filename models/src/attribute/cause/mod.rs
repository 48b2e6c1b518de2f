//! Attribution, second level: each second that a trainer does not spend on its step gets a cause.
//!
//! The shares of the sites are split, site by site, into causes: the loader's by what the
//! bottleneck does while the trainer waits, the rest by what the site is. What is measured exactly
//! takes the place of what is estimated, and only exposed time counts. `docs/attribution.md` says
//! how, and where each step comes from.

mod contention;
mod device;
mod exact;
mod facts;
mod fetch;
mod loader;
mod ranks;
mod spawn;

use super::crew::CrewView;
use super::mix::Mix;
use super::share::Estimate;
use super::site::{SITES, Site};

pub(super) use contention::{Demand, shortage};
pub(super) use device::{Calls, Device};
pub(super) use exact::Exact;
pub(super) use facts::facts;
pub(crate) use fetch::{Flow, Origin};
pub(super) use loader::{at_work, worker_parts};
pub(super) use ranks::reconcile;
pub(super) use spawn::{Boot, Spawns};

/// Number of causes.
pub(crate) const CAUSES: usize = 18;

/// What a trainer's time goes into, at the second level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Reading from a local device.
    FetchStorage,
    /// Reading what is in memory already.
    FetchCache,
    /// Reading over a network or through FUSE.
    FetchNetwork,
    /// Decoding and transforming on the CPU.
    Decode,
    /// Handing over: one slow batch before ready ones, pickling, receiving.
    Handoff,
    /// Making workers, and waiting for their first batch.
    Startup,
    /// Ready to run and kept from it by something other than the job's own legitimate work.
    Contention,
    /// Copies between host and device.
    Copy,
    /// Optimizer or parameter state on its way to or from host memory or disk.
    Offload,
    /// Waiting for another stage of a pipeline.
    Bubble,
    /// A collective, as far as no rank could be faster.
    Collective,
    /// Lookups of embeddings.
    Embedding,
    /// Waiting for a slower rank.
    Imbalance,
    /// Saving or loading a checkpoint.
    Checkpoint,
    /// The main thread's own work while the accelerator is idle, and garbage collection.
    Host,
    /// Other input and output.
    Io,
    /// The step itself.
    Compute,
    /// Not known.
    Unknown,
}

impl Cause {
    /// Every cause, in the order of their numbers.
    pub const ALL: [Self; CAUSES] = [
        Self::FetchStorage,
        Self::FetchCache,
        Self::FetchNetwork,
        Self::Decode,
        Self::Handoff,
        Self::Startup,
        Self::Contention,
        Self::Copy,
        Self::Offload,
        Self::Bubble,
        Self::Collective,
        Self::Embedding,
        Self::Imbalance,
        Self::Checkpoint,
        Self::Host,
        Self::Io,
        Self::Compute,
        Self::Unknown,
    ];

    /// The cause as it stands in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FetchStorage => "fetch.storage",
            Self::FetchCache => "fetch.cache",
            Self::FetchNetwork => "fetch.network",
            Self::Decode => "decode",
            Self::Handoff => "handoff",
            Self::Startup => "startup",
            Self::Contention => "contention",
            Self::Copy => "copy",
            Self::Offload => "offload",
            Self::Bubble => "bubble",
            Self::Collective => "collective",
            Self::Embedding => "embedding",
            Self::Imbalance => "imbalance",
            Self::Checkpoint => "checkpoint",
            Self::Host => "host",
            Self::Io => "io",
            Self::Compute => "compute",
            Self::Unknown => "unknown",
        }
    }

    /// Whether time that goes into it could be won.
    #[must_use]
    pub fn stalls(self) -> bool {
        !matches!(self, Self::Compute | Self::Unknown)
    }

    /// What a site outside the loader stands for.
    pub(super) fn of_site(site: Site) -> Self {
        match site {
            Site::Startup => Self::Startup,
            Site::Io => Self::Io,
            Site::Checkpoint => Self::Checkpoint,
            Site::Device | Site::Host => Self::Compute,
            Site::Collective => Self::Collective,
            Site::Pipeline => Self::Bubble,
            Site::Embedding => Self::Embedding,
            Site::Copy => Self::Copy,
            Site::Offload => Self::Offload,
            Site::Gc => Self::Host,
            _ => Self::Unknown,
        }
    }
}

/// What a split goes by: one trainer over one horizon.
pub(super) struct View<'a> {
    pub(super) sites: &'a Estimate<SITES>,
    /// What the main thread's calls were on.
    pub(super) own: &'a Mix,
    /// Of the main thread's running time, the part in the run queue.
    pub(super) queued: f64,
    /// The loader's workers; `None` where there are none to be seen.
    pub(super) crew: Option<&'a CrewView>,
    /// Bytes and CPU time of the trainer's own process.
    pub(super) flow: Flow,
    /// CPU seconds a second of the trainer's threads other than the main one.
    pub(super) beside: f64,
    /// Where bytes come from on this machine.
    pub(super) origin: &'a Origin,
    /// Why somebody queues for a core, where it is not for the job's own work.
    pub(super) shortage: Option<&'a str>,
    /// Whether tasks of the machine often wait for a core.
    pub(super) pressed: bool,
    pub(super) device: Device,
    pub(super) calls: Calls,
    pub(super) exact: Exact,
    /// Share of time in first waits after workers were made.
    pub(super) startup: f64,
}

impl View<'_> {
    /// Share of wall time inside the loader's `next()`.
    fn in_loader(&self) -> f64 {
        Site::ALL.iter().filter(|site| site.in_loader()).map(|site| self.sites.share[*site as usize]).sum()
    }
}

/// The state and call of a worker or of the trainer in a loader, what it was at, and what that
/// stands for: a part of the wait for data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Part {
    pub(super) kind: super::mix::Kind,
    pub(super) task: super::site::Task,
    pub(super) cause: Cause,
    /// Whether the trainer itself does it.
    pub(super) own: bool,
    /// Share of the wait for data.
    pub(super) weight: f64,
}

/// How one trainer's time splits into causes over one horizon.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Split {
    /// Share of wall time by site and cause.
    pub(super) joint: [[f64; CAUSES]; SITES],
    /// What the wait for data is made of.
    pub(super) parts: Vec<Part>,
    /// Samples, in stacks, that the split of the wait for data rests on.
    pub(super) weight: f64,
    /// Facts that a step of the split adds, by cause.
    pub(super) notes: Vec<(Cause, String)>,
    pub(super) low: [f64; CAUSES],
    pub(super) high: [f64; CAUSES],
    pub(super) confidence: f64,
}

impl Split {
    /// Splits a trainer's time. What other ranks say comes later, from [`reconcile`].
    pub(super) fn of(view: &View<'_>) -> Self {
        let mut split = Self {
            joint: [[0.0; CAUSES]; SITES],
            parts: Vec::new(),
            weight: 0.0,
            notes: Vec::new(),
            low: [0.0; CAUSES],
            high: [1.0; CAUSES],
            confidence: view.sites.confidence,
        };
        for site in Site::ALL.into_iter().filter(|site| !site.in_loader()) {
            split.joint[site as usize][Cause::of_site(site) as usize] = view.sites.share[site as usize];
        }
        loader::split(view, &mut split);
        contention::main_thread(view, &mut split);
        device::calls(view, &mut split);
        exact::measured(view, &mut split);
        device::exposed(view, &mut split);
        split.settle(view.sites);
        split
    }

    /// Share of wall time by cause.
    pub(super) fn share(&self) -> [f64; CAUSES] {
        let mut share = [0.0; CAUSES];
        self.joint.iter().for_each(|row| row.iter().zip(&mut share).for_each(|(part, sum)| *sum += part));
        share
    }

    /// Share of wall time of a cause.
    pub(super) fn of_cause(&self, cause: Cause) -> f64 {
        self.joint.iter().map(|row| row[cause as usize]).sum()
    }

    /// Moves up to `amount` of a site's time from one cause to another; what was moved.
    pub(super) fn shift(&mut self, site: Site, from: Cause, to: Cause, amount: f64) -> f64 {
        let row = &mut self.joint[site as usize];
        let moved = amount.clamp(0.0, row[from as usize].max(0.0));
        row[from as usize] -= moved;
        row[to as usize] += moved;
        moved
    }

    pub(super) fn note(&mut self, cause: Cause, fact: impl Into<String>) {
        self.notes.push((cause, fact.into()));
    }

    /// Makes the shares add up to one, and gives each an interval: that of its sites, and that of
    /// the split of the wait for data. Errors of sites are added as if independent, which they are
    /// but for adding up to one.
    fn settle(&mut self, sites: &Estimate<SITES>) {
        let total: f64 = self.joint.iter().flatten().sum();
        if total > 0.0 && total.is_finite() {
            self.joint.iter_mut().flatten().for_each(|part| *part = (*part / total).clamp(0.0, 1.0));
        }
        let share = self.share();
        for cause in 0..CAUSES {
            let mut variance = FLOOR * FLOOR;
            for (s, row) in self.joint.iter().enumerate() {
                let of_site: f64 = row.iter().sum();
                if of_site <= 0.0 {
                    continue;
                }
                let part = row[cause] / of_site;
                let hidden = if s == SITES - 1 { 0.0 } else { sites.share[SITES - 1] };
                let half = (sites.high[s] - hidden - sites.low[s]).max(0.0) / (2.0 * Z);
                variance += (part * half).powi(2);
                if Site::ALL[s].in_loader() {
                    variance += of_site * of_site * part * (1.0 - part) / (self.weight + 4.0);
                }
            }
            let half = Z * variance.sqrt();
            let unknown = if cause == Cause::Unknown as usize { 0.0 } else { share[Cause::Unknown as usize] };
            self.low[cause] = (share[cause] - half).clamp(0.0, 1.0);
            self.high[cause] = (share[cause] + half + unknown).clamp(0.0, 1.0);
        }
        let known = 1.0 - share[Cause::Unknown as usize];
        let before = 1.0 - sites.share[SITES - 1];
        if before > 0.0 {
            self.confidence = (self.confidence * (known / before).min(1.0)).clamp(0.0, 1.0);
        }
    }
}

/// Two-sided 95 % point of the normal distribution.
const Z: f64 = 1.96;
/// What no sample size removes.
const FLOOR: f64 = 0.003;

#[cfg(test)]
mod tests;
