//! Ready to run, and kept from it. Queueing for a core is `contention` only where something other
//! than the job's own legitimate use of the cores explains it: workers that fill every core with
//! decoding queue as well, but what they lack is cheaper decoding.

use super::super::kind::State;
use super::super::site::Site;
use super::super::supply::{FULL, PRESSED, SPARE, Supply, THROTTLED};
use super::names::Cause;
use super::split::Split;
use super::view::View;

/// What the job has of the cores, and what it does with them.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Demand {
    /// Cores that the trainer may use.
    pub(in super::super) cores: Option<f64>,
    /// Fewest cores that one of its workers may use.
    pub(in super::super) worker_cores: Option<f64>,
    /// Cores that the job uses.
    pub(in super::super) used: Option<f64>,
    /// Threads of the trainer and its workers together.
    pub(in super::super) threads: f64,
    /// CPU time of the workers over that of their main threads: more than one where other threads
    /// of theirs compute.
    pub(in super::super) spread: f64,
}

/// Threads a core, and CPU time beside the workers' main threads, from which they are a storm.
const STORM: f64 = 4.0;
const SPREAD: f64 = 1.5;
/// A thread that wakes up is served before those that compute beside it: the part that it has of the queueing
/// of the others, by recordings of the lab (a storm of threads, workers on one core).
const WOKEN: f64 = 0.5;
/// Queueing below this share of the running time is everyday life.
pub(super) const QUEUED: f64 = 0.05;

/// Why somebody queues for a core.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Shortage {
    /// In words.
    pub(in super::super) why: String,
    /// Of the workers' queueing, the part that a thread of theirs has which wakes up to hand a batch over.
    pub(super) woken: f64,
}

impl Shortage {
    /// Threads of the job compete with each other: the scheduler serves those that wake up first.
    fn among_its_own(why: String) -> Self {
        Self { why, woken: WOKEN }
    }

    /// The job is held back as a whole.
    fn of_all(why: String) -> Self {
        Self { why, woken: 1.0 }
    }
}

/// Why somebody queues for a core; `None` where nothing but the job's own work is known to explain it.
pub(in super::super) fn shortage(supply: &Supply, demand: &Demand) -> Option<Shortage> {
    let least = [demand.cores, demand.worker_cores].into_iter().flatten().reduce(f64::min);
    let widest = [supply.machine, demand.cores].into_iter().flatten().reduce(f64::max);
    if let (Some(least), Some(machine)) = (least, widest)
        && least + 0.5 < machine
    {
        return Some(Shortage::among_its_own(format!("it may run on {least:.0} of {machine:.0} cores")));
    }
    if let Some(held) = supply.throttled.filter(|share| *share > THROTTLED) {
        let limit = supply.limit.map(|limit| format!(" of {limit:.1} cores")).unwrap_or_default();
        let why = format!("a CPU quota{limit} holds it back in {:.0} % of its periods", held * 100.0);
        return Some(Shortage::of_all(why));
    }
    if let (Some(limit), Some(used), Some(cores)) = (supply.limit, demand.used, demand.cores)
        && limit < cores
        && used >= FULL * limit
    {
        return Some(Shortage::of_all(format!("a CPU quota grants {limit:.1} cores and it uses {used:.1}")));
    }
    let (cores, used) = (demand.cores.filter(|c| *c > 0.0)?, demand.used?);
    if demand.threads > STORM * cores && demand.spread > SPREAD && used >= SPARE * cores {
        return Some(Shortage::among_its_own(format!("{:.0} threads compute on {cores:.0} cores", demand.threads)));
    }
    if used >= SPARE * cores || supply.pressure.is_some_and(|pressure| pressure < PRESSED) {
        return None;
    }
    Some(Shortage::of_all(format!("it uses {used:.1} of {cores:.0} cores, so others take them")))
}

/// The main thread's queueing outside the loader.
pub(super) fn main_thread(view: &View<'_>, split: &mut Split) {
    let Some(shortage) = view.shortage.filter(|_| view.queued >= QUEUED) else { return };
    let mut moved = 0.0;
    for site in Site::ALL.into_iter().filter(|s| !s.in_loader() && *s != Site::Unknown) {
        let queued = view.sites.joint[State::Running as usize][site as usize] * view.queued;
        moved += split.shift(site, Cause::of_site(site), Cause::Contention, queued);
    }
    if split.of_cause(Cause::Contention) > 0.0 {
        split.note(Cause::Contention, shortage.why.as_str());
    }
    if moved >= 0.005 {
        split.note(Cause::Contention, format!("the main thread queues {:.0} % of the time", moved * 100.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queueing_is_contention_only_where_the_job_is_not_its_own_reason() {
        let pressed = |pressure| Supply { machine: Some(8.0), pressure: Some(pressure), ..Supply::default() };
        let quota = Supply { limit: Some(2.0), throttled: Some(0.4), ..pressed(0.9) };
        let used = |used| Demand { cores: Some(8.0), used: Some(used), threads: 9.0, spread: 1.0, ..Demand::default() };
        let storm = Demand { threads: 260.0, spread: 6.0, ..used(7.9) };
        let pinned = Demand { worker_cores: Some(1.0), ..used(1.2) };
        let cases = [
            ("workers fill the cores with decoding", pressed(0.99), used(7.8), None),
            ("cores idle", pressed(0.1), used(2.0), None),
            ("others take them", pressed(0.99), used(2.0), Some("others")),
            ("a quota", quota, used(1.9), Some("quota")),
            ("workers on one core", pressed(0.9), pinned, Some("1 of 8 cores")),
            ("a storm of threads", pressed(0.99), storm, Some("260 threads")),
            ("nothing known", Supply::default(), Demand::default(), None),
        ];
        for (name, supply, demand, words) in cases {
            let got = shortage(&supply, &demand);
            let own = matches!(words, Some("1 of 8 cores" | "260 threads"));
            assert!(got.as_ref().is_none_or(|got| (got.woken < 1.0) == own), "{name}: {got:?}");
            match words {
                None => assert_eq!(got, None, "{name}"),
                Some(words) => assert!(got.as_ref().is_some_and(|got| got.why.contains(words)), "{name}: {got:?}"),
            }
        }
    }
}
