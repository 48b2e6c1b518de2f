//! The track record: what was predicted of a change, and what was measured after it.

use serde::{Deserialize, Serialize};

use super::{Advised, Plan};

/// Entries that are kept; older ones go first.
pub const KEPT: usize = 2000;

/// One change that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When the outcome was measured, Unix seconds.
    pub at: i64,
    /// What was watched: the name of the job.
    pub job: String,
    /// What was set, such as `num_workers`, and to what.
    pub knob: String,
    /// What it was.
    pub from: String,
    /// What it became.
    pub to: String,
    /// Share of time that was no step before.
    pub stall_before: f64,
    /// What was predicted of it, and both ends of the 80 % interval.
    pub predicted: [f64; 3],
    /// What was measured.
    pub measured: f64,
    /// The predicted gain in steps a second, and both ends of its 80 % interval.
    pub gain: [f64; 3],
    /// The measured gain; null where steps were not counted before or after.
    pub measured_gain: Option<f64>,
    /// How far the advice could be trusted, 0 to 1.
    pub confidence: f64,
}

impl Entry {
    /// The outcome of a plan.
    #[must_use]
    pub fn of(at: i64, job: &str, (before, plan): (&Advised, &Plan), after: &Advised) -> Self {
        let joined = |pick: fn(&super::Step) -> &str| plan.steps.iter().map(pick).collect::<Vec<_>>().join("+");
        let period = |advised: &Advised| advised.fitted.and_then(|fitted| fitted.period);
        Self {
            at,
            job: job.to_owned(),
            knob: joined(|step| step.knob),
            from: joined(|step| &step.from),
            to: joined(|step| &step.to),
            stall_before: before.stall,
            predicted: [plan.stall.guess, plan.stall.low.min(plan.stall.high), plan.stall.high.max(plan.stall.low)],
            measured: after.stall,
            gain: [plan.gain.guess, plan.gain.low, plan.gain.high],
            measured_gain: period(before).zip(period(after)).map(|(before, after)| before / after - 1.0),
            confidence: plan.confidence,
        }
    }

    /// Whether the measured outcome lies in the interval: of the gain where steps were counted, else of
    /// the stall.
    #[must_use]
    pub fn hit(&self) -> bool {
        match self.measured_gain {
            Some(gain) => (self.gain[1]..=self.gain[2]).contains(&gain),
            None => (self.predicted[1]..=self.predicted[2]).contains(&self.measured),
        }
    }
}

/// The record as a whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// Changes that were made and watched.
    pub changes: usize,
    /// Share of them whose outcome lies in the 80 % interval, in percent; null without any.
    pub interval_hits_pct: Option<f64>,
    /// Mean of measured less predicted stall, in points: above 0 the advice was too hopeful.
    pub stall_bias_points: Option<f64>,
    /// Mean absolute difference of the two, in points.
    pub stall_error_points: Option<f64>,
    /// Mean of measured over predicted speed, less one, in percent: below 0 too hopeful.
    pub gain_bias_pct: Option<f64>,
    /// Changes that made the job faster.
    pub faster: usize,
}

/// Sums up a record.
#[must_use]
pub fn record(entries: &[Entry]) -> Record {
    let mean = |values: Vec<f64>| {
        let known: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / real(known.len()))
    };
    let off: Vec<f64> = entries.iter().map(|e| 100.0 * (e.measured - e.predicted[0])).collect();
    let gains = entries.iter().filter_map(|e| Some(100.0 * ((1.0 + e.measured_gain?) / (1.0 + e.gain[0]) - 1.0)));
    let hits: Vec<f64> = entries.iter().map(|e| if e.hit() { 100.0 } else { 0.0 }).collect();
    let faster = |e: &&Entry| e.measured_gain.unwrap_or(e.stall_before - e.measured) > 0.0;
    Record {
        changes: entries.len(),
        interval_hits_pct: mean(hits),
        stall_bias_points: mean(off.clone()),
        stall_error_points: mean(off.into_iter().map(f64::abs).collect()),
        gain_bias_pct: mean(gains.collect()),
        faster: entries.iter().filter(faster).count(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand entries at most")]
fn real(n: usize) -> f64 {
    n as f64
}
