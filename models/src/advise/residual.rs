//! How far the step model is off when it says what another setting would do, measured on the
//! observations of `feedline sweep`.
//!
//! Advice never rests on the model's absolute figures, because the model is fitted to the job first;
//! it rests on the ratio of two settings. So that is what is held against the measured ratio: pairs
//! of configurations that differ in workers or prefetch alone.

use std::collections::BTreeMap;

use crate::observation::{ObservationRow, SIMULATED};
use crate::step_model::{Dist, Job, estimate};

/// Pairs of one group at most: a group that was swept finely does not outweigh the others.
const PAIRS: usize = 12;

/// For pairs of configurations of one group, the logarithm of the measured over the predicted time of a
/// step of the second. The model is scaled to the first of each pair, as it is to a job.
#[must_use]
pub fn residuals(rows: &[ObservationRow]) -> Vec<f64> {
    let mut groups: BTreeMap<String, Vec<(Job, f64)>> = BTreeMap::new();
    for (key, (job, period)) in configurations(rows) {
        groups.entry(key).or_default().push((job, period));
    }
    let mut found = Vec::new();
    for group in groups.values() {
        let mut pairs = Vec::new();
        for (job, period) in group {
            for (other, reached) in group.iter().filter(|(other, _)| differ(job, other)) {
                pairs.extend(residual((job, *period), (other, *reached)));
            }
        }
        // Evenly over the group, so that which are left out depends on nothing.
        let step = pairs.len().div_ceil(PAIRS).max(1);
        found.extend(pairs.into_iter().step_by(step));
    }
    found
}

fn differ(one: &Job, other: &Job) -> bool {
    one.workers != other.workers || one.prefetch != other.prefetch
}

/// What is off when the second setting is predicted from the first.
fn residual((job, period): (&Job, f64), (other, reached): (&Job, f64)) -> Option<f64> {
    let (mut low, mut high) = (0.1_f64, 10.0_f64);
    for _ in 0..24 {
        let middle = (low * high).sqrt();
        if estimate(&scaled(job, middle)).ok()?.period < period { low = middle } else { high = middle }
    }
    let scale = (low * high).sqrt();
    let predicted = estimate(&scaled(other, scale)).ok()?.period;
    let off = (reached / predicted).ln();
    off.is_finite().then_some(off)
}

fn scaled(job: &Job, factor: f64) -> Job {
    let mut job = job.clone();
    let times = |dist: &Dist| super::change::times(dist, factor);
    (job.decode, job.collate) = (times(&job.decode), times(&job.collate));
    (job.storage.latency, job.storage.cpu) = (times(&job.storage.latency), times(&job.storage.cpu));
    job
}

/// Each configuration once, the mean over its repeats, by what its group has in common.
fn configurations(rows: &[ObservationRow]) -> Vec<(String, (Job, f64))> {
    let mut by_config: BTreeMap<(String, u64), (Job, f64, f64)> = BTreeMap::new();
    for row in rows.iter().filter(|row| &*row.origin.0 != SIMULATED) {
        let period = row.period.0 / 1e9;
        let (Ok(job), Some(config)) = (row.job(), row.config.0) else { continue };
        if !(period.is_finite() && period > 0.0) {
            continue;
        }
        let key = format!(
            "{} {} {} {} {} {} {} {} {}",
            row.sweep.0,
            row.setting.0,
            row.format.0,
            row.content.0,
            row.access.0,
            row.step_kind.0,
            row.step.0,
            row.sample_bytes.0.round(),
            row.batch.0
        );
        let entry = by_config.entry((key, config)).or_insert((job, 0.0, 0.0));
        (entry.1, entry.2) = (entry.1 + period, entry.2 + 1.0);
    }
    by_config.into_iter().map(|((key, _), (job, sum, count))| (key, (job, sum / count))).collect()
}
