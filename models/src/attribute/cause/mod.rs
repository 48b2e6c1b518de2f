//! Attribution, second level: each second that a trainer does not spend on its step gets a cause.
//!
//! The shares of the sites are split, site by site, into causes: the loader's by what the
//! bottleneck does while the trainer waits, the rest by what the site is. What is measured exactly
//! takes the place of what is estimated, and only exposed time counts. `docs/attribution.md` says
//! how, and where each step comes from.

pub(super) mod cells;
mod contention;
mod device;
mod exact;
mod facts;
mod fetch;
mod loader;
mod names;
mod ranks;
mod spawn;
mod split;
mod view;

use super::site::{SITES, Site};

pub(super) use contention::{Demand, shortage};
pub(super) use facts::facts;
pub(crate) use fetch::Origin;
pub(super) use loader::worker_parts;
pub(crate) use names::CAUSES;
pub use names::Cause;
pub(super) use ranks::reconcile;
pub(super) use spawn::{Boot, Spawns};
pub(super) use split::Split;
pub(super) use view::{Calls, Device, Exact, View};

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
        split.settle(view.sites, &view.exact);
        split
    }
}

#[cfg(test)]
mod marks;
#[cfg(test)]
mod tests;
