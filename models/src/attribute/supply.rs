//! What the machine lets the job have of its cores: affinity, quota, and who else wants them.

use std::collections::BTreeMap;

use feedline_traces::{Symbol, Tick, Ts};

use super::bind::{Cells, Tables};

/// A quota that holds the job back in this share of its periods matters.
pub(crate) const THROTTLED: f64 = 0.05;
/// Some task waits for a core this often: the cores are wanted by more than they can serve.
pub(crate) const PRESSED: f64 = 0.5;
/// Cores used above this part are all busy; below `SPARE` the job leaves some.
pub(crate) const FULL: f64 = 0.85;
pub(crate) const SPARE: f64 = 0.7;

/// Groups remembered at once.
const GROUPS: usize = 64;

/// What is known of the cores that the job could use; what no source tells is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Supply {
    /// CPU cores of the machine, as far as any process was seen to be allowed them.
    pub machine: Option<f64>,
    /// Cores' worth of time that a quota grants.
    pub limit: Option<f64>,
    /// Share of the quota periods in which the job was held back.
    pub throttled: Option<f64>,
    /// Share of time in which some task of the machine waited for a core.
    pub pressure: Option<f64>,
}

/// Sums over the run so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Gauge {
    machine: Option<f64>,
    groups: BTreeMap<Symbol, (u64, u64)>,
    limit: Option<f64>,
    periods: (u64, u64),
    stalled: Option<(Ts, u64)>,
    pressure: (f64, f64),
}

impl Gauge {
    /// A process, or a group, may run on this many cores.
    pub(super) fn cores(&mut self, cores: f64) {
        self.machine = Some(self.machine.map_or(cores, |most| most.max(cores)));
    }

    pub(super) fn account(&mut self, tables: &Tables, tick: &Tick) {
        if let Some(at) = &tables.cgroup {
            self.limit = if tick.batch(at.table).is_some() { None } else { self.limit };
            for cells in Cells::all(tick.batch(at.table)) {
                let limit = at.limit.and_then(|c| cells.number(c)).filter(|x| *x > 0.0);
                self.limit = [self.limit, limit].into_iter().flatten().reduce(f64::min);
                let counts = at.periods.and_then(|c| cells.whole(c)).zip(at.held.and_then(|c| cells.whole(c)));
                let (Some(group), Some(now)) = (cells.text(at.group), counts) else { continue };
                if !self.groups.contains_key(group) && self.groups.len() >= GROUPS {
                    continue;
                }
                if let Some(before) = self.groups.insert(group.clone(), now)
                    && let (Some(ran), Some(held)) = (now.0.checked_sub(before.0), now.1.checked_sub(before.1))
                {
                    self.periods.0 = self.periods.0.saturating_add(ran);
                    self.periods.1 = self.periods.1.saturating_add(held);
                }
            }
        }
        let Some(at) = &tables.pressure else { return };
        for cells in Cells::all(tick.batch(at.table)) {
            let is = |column, name| cells.text(column).is_some_and(|text| text.as_ref() == name);
            if !is(at.scope, "host") || !is(at.resource, "cpu") {
                continue;
            }
            let Some(some) = cells.whole(at.some) else { continue };
            let when = cells.batch.at[cells.row];
            if let Some((before, then)) = self.stalled.replace((when, some)) {
                let span = when.seconds_since(before);
                if let Some(stalled) = some.checked_sub(then).filter(|_| span > 0.0) {
                    #[expect(clippy::cast_precision_loss, reason = "differences of one tick")]
                    let stalled = stalled as f64 / 1e9;
                    self.pressure = (self.pressure.0 + stalled.min(span), self.pressure.1 + span);
                }
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a share needs no more")]
    pub(super) fn supply(&self) -> Supply {
        Supply {
            machine: self.machine,
            limit: self.limit,
            throttled: (self.periods.0 > 0).then(|| (self.periods.1 as f64 / self.periods.0 as f64).min(1.0)),
            pressure: (self.pressure.1 > 0.0).then(|| self.pressure.0 / self.pressure.1),
        }
    }
}
