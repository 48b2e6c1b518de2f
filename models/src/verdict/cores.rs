//! Why somebody queues for a core: a narrow affinity, a quota, other processes, or the job itself.

use super::rule::Rule;
use super::{Findings, percent};
use crate::attribute::supply::{FULL, PRESSED, SPARE, THROTTLED};

/// So few cores are worth a look at the affinity.
const SMALL: f64 = 2.0;

/// Who queues for a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Workers,
    Main,
}

/// The advice for `who`, who queues for a core for a share `queued` of the time; `None` when
/// nothing but the job's own demand explains it.
pub(super) fn shortage(f: &Findings, who: Who, queued: f64) -> Option<(Rule, String)> {
    let queued = percent(queued);
    let (who, s) = match who {
        Who::Workers => ("workers", ""),
        Who::Main => ("the main thread", "s"),
    };
    if let (Some(cores), Some(machine)) = (f.cores, f.supply.machine)
        && cores + 0.5 < machine
    {
        let text = format!(
            "Widen the job's CPU affinity (`taskset -cp`, cpuset): it may use {cores:.0} of {machine:.0} cores, and {who} \
             queue{s} for a core {queued} of the time."
        );
        return Some((Rule::Affinity, text));
    }
    if let Some(quota) = quota(f) {
        return Some((
            Rule::Quota,
            format!("Raise the CPU quota (cpu.max): {quota}; {who} queue{s} {queued} of the time."),
        ));
    }
    if f.cores_busy()? >= SPARE {
        return None;
    }
    let used = used(f);
    match f.supply.pressure {
        Some(pressure) if pressure < PRESSED => (f.cores? <= SMALL).then(|| {
            let text = format!(
                "Check the job's CPU affinity (`taskset -cp`): {who} queue{s} for a core {queued} of the time although \
                 the job uses {used} and nobody else wants them."
            );
            (Rule::Affinity, text)
        }),
        pressure => {
            let known = pressure.map(|p| format!(" (some task waits for one {} of the time)", percent(p)));
            let text = format!(
                "Other processes use the cores{}: {queued} of the time {who} wait{s} for a core although the job uses \
                 {used}; move them or the job.",
                known.unwrap_or_default()
            );
            Some((Rule::Others, text))
        }
    }
}

fn quota(f: &Findings) -> Option<String> {
    let held = f.supply.throttled.filter(|share| *share > THROTTLED);
    let granted = f.supply.limit.map(|limit| format!("it grants {limit:.1} cores")).unwrap_or_default();
    if let Some(held) = held {
        let granted = if granted.is_empty() { granted } else { format!("{granted} and ") };
        return Some(format!("{granted}holds the job back in {} of its periods", percent(held)));
    }
    let (limit, used) = (f.supply.limit?, f.cores_used?);
    let binds = limit < f.cores.unwrap_or(f64::INFINITY) && used >= FULL * limit;
    binds.then(|| format!("{granted} and the job uses {used:.1}"))
}

/// `1.2 of 8 cores`.
pub(super) fn used(f: &Findings) -> String {
    match (f.cores_used, f.cores) {
        (Some(used), Some(cores)) => format!("{used:.1} of {cores:.0} cores"),
        _ => "an unknown number of cores".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::*;
    use crate::attribute::Supply;

    #[test]
    fn whoever_takes_the_cores_is_named() {
        let machine = |cores: f64, used: f64, supply: Supply| Findings {
            cores: Some(cores),
            cores_used: Some(used),
            supply: Supply { machine: Some(8.0), ..supply },
            ..findings([0.5, 0.0, 0.0, 0.5, 0.0])
        };
        let pressed = |pressure| Supply { pressure: Some(pressure), ..Supply::default() };
        let quota = |limit, throttled| Supply { limit: Some(limit), throttled: Some(throttled), ..pressed(0.9) };
        let few = Findings { supply: pressed(0.1), ..machine(2.0, 0.6, Supply::default()) };
        let cases = [
            ("affinity narrower than the machine", machine(1.0, 0.9, pressed(0.9)), Some(Rule::Affinity)),
            ("a quota that holds back", machine(8.0, 1.9, quota(2.0, 0.4)), Some(Rule::Quota)),
            ("a quota that is used up", machine(8.0, 1.9, quota(2.0, 0.01)), Some(Rule::Quota)),
            ("a quota far away", machine(8.0, 1.9, quota(6.0, 0.0)), Some(Rule::Others)),
            ("a machine full of other processes", machine(8.0, 2.0, pressed(0.99)), Some(Rule::Others)),
            ("no pressure table", machine(8.0, 2.0, Supply::default()), Some(Rule::Others)),
            ("cores idle", machine(8.0, 2.0, pressed(0.1)), None),
            ("few cores, idle", few, Some(Rule::Affinity)),
            ("the job fills the cores itself", machine(8.0, 7.8, pressed(0.99)), None),
        ];
        for (name, f, rule) in cases {
            let advice = shortage(&f, Who::Workers, 0.5);
            assert_eq!(advice.as_ref().map(|a| a.0), rule, "{name}: {advice:?}");
        }
    }
}
