//! A CPU quota of a control group (a container's limit) that holds the job back although the
//! machine may have cores to spare.

use super::scene::Scene;
use super::{Pattern, Seen, percent};

/// Share of the quota periods in which the job was held back.
const HELD: f64 = 0.1;
/// Periods that have to be seen: two seconds of the usual 100 ms.
const PERIODS: f64 = 20.0;

#[derive(Debug)]
pub(super) struct CpuQuota;

impl Pattern for CpuQuota {
    fn kind(&self) -> &'static str {
        "cpu_quota"
    }

    fn look(&mut self, scene: &Scene, out: &mut Vec<Seen>) {
        let groups = scene.groups.iter().filter_map(|(name, group)| {
            let (ran, held) = (group.periods.grown()?, group.held.grown()?);
            let share = held / ran;
            (ran >= PERIODS && share >= HELD).then_some((name, group, share))
        });
        let Some((name, group, share)) = groups.max_by(|a, b| a.2.total_cmp(&b.2)) else { return };
        let granted = group.limit.map(|limit| format!(" of {limit:.1} cores")).unwrap_or_default();
        let used = scene.job_cpu().map(|used| format!("; the job uses {used:.1} cores")).unwrap_or_default();
        out.push(Seen {
            process: scene.job(),
            severity: scene.worst("contention"),
            text: format!("A CPU quota{granted} holds the job back in {} of its periods.", percent(share)),
            advice:
                "Raise the quota (`cpu.max`, the container's CPU limit), or start fewer workers and compute threads \
                     than it grants cores: what it grants is not what `os.cpu_count()` says."
                    .to_owned(),
            evidence: format!("cgroup {name}: held back in {} of the last periods{used}", percent(share)),
        });
    }
}
