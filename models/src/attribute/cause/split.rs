//! How a trainer's time splits into causes.

use super::super::kind::Kind;
use super::super::share::Estimate;
use super::super::site::{SITES, Site, Task};
use super::names::{CAUSES, Cause};
use super::view::Exact;

/// The state and call of a worker or of the trainer in a loader, what it was at, and what that
/// stands for: a part of the wait for data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct Part {
    pub(in super::super) kind: Kind,
    pub(in super::super) task: Task,
    pub(in super::super) cause: Cause,
    /// Whether the trainer itself does it.
    pub(in super::super) own: bool,
    /// Share of the wait for data.
    pub(in super::super) weight: f64,
}

/// How one trainer's time splits into causes over one horizon.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Split {
    /// Share of wall time by site and cause.
    pub(in super::super) joint: [[f64; CAUSES]; SITES],
    /// What the wait for data is made of.
    pub(in super::super) parts: Vec<Part>,
    /// Samples, in stacks, that the split of the wait for data rests on.
    pub(in super::super) weight: f64,
    /// Facts that a step of the split adds, by cause.
    pub(in super::super) notes: Vec<(Cause, String)>,
    pub(in super::super) low: [f64; CAUSES],
    pub(in super::super) high: [f64; CAUSES],
    pub(in super::super) confidence: f64,
}

impl Split {
    /// Share of wall time by cause.
    pub(in super::super) fn share(&self) -> [f64; CAUSES] {
        let mut share = [0.0; CAUSES];
        self.joint.iter().for_each(|row| row.iter().zip(&mut share).for_each(|(part, sum)| *sum += part));
        share
    }

    /// Share of wall time of a cause.
    pub(in super::super) fn of_cause(&self, cause: Cause) -> f64 {
        self.joint.iter().map(|row| row[cause as usize]).sum()
    }

    /// Moves up to `amount` of a site's time from one cause to another; what was moved.
    pub(in super::super) fn shift(&mut self, site: Site, from: Cause, to: Cause, amount: f64) -> f64 {
        let row = &mut self.joint[site as usize];
        let moved = amount.clamp(0.0, row[from as usize].max(0.0));
        row[from as usize] -= moved;
        row[to as usize] += moved;
        moved
    }

    pub(in super::super) fn note(&mut self, cause: Cause, fact: impl Into<String>) {
        self.notes.push((cause, fact.into()));
    }

    /// Makes the shares add up to one, and gives each an interval: that of its sites, and that of
    /// the split of the wait for data. Errors of sites are added as if independent, which they are
    /// but for adding up to one; those of sites that were measured are none.
    pub(super) fn settle(&mut self, sites: &Estimate<SITES>, exact: &Exact) {
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
                let half = if exact.measures(Site::ALL[s]) { 0.0 } else { half };
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
