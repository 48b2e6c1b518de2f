//! Advice as rows, so that a trace can hold it.

use feedline_traces::unit::{Bytes, Count, Ratio};
use feedline_traces::{Gauge, Key, Text, table};

use super::{Plan, Step};

table! {
    /// What to change, one row per trainer and change, the first to be made first; a change of two
    /// things has both names in `knob`. Nothing to gain is no row.
    pub derived advice: AdviceRow {
        /// The trainer, `PID@START`.
        process: Key,
        /// What to set, such as `num_workers`, or `num_workers+prefetch_factor`.
        knob: Key,
        /// What it is now.
        from: Text,
        /// What it is to be.
        to: Text,
        /// Place in the order in which to try, from 1.
        place: Gauge<Count>,
        /// Share of time that is no step, now.
        stall_before: Gauge<Ratio>,
        /// The same afterwards, predicted.
        stall_after: Gauge<Ratio>,
        /// Lower end of the 80 % interval of `stall_after`.
        stall_low: Gauge<Ratio>,
        /// Upper end of it.
        stall_high: Gauge<Ratio>,
        /// Steps a second afterwards over those now, less one, predicted.
        gain: Gauge<Ratio>,
        /// Lower end of its 80 % interval.
        gain_low: Gauge<Ratio>,
        /// Upper end of it.
        gain_high: Gauge<Ratio>,
        /// Memory that it takes, at most; null where that is not known.
        memory: Gauge<Bytes>,
        /// Room in `/dev/shm` that it takes.
        shm: Gauge<Bytes>,
        /// Cores that it keeps busy.
        cores: Gauge<Count>,
        /// Room on a disk that it takes; null where that is not known.
        disk: Gauge<Bytes>,
        /// Why memory or room on a disk is not known; null where both are.
        unknown: Text,
        /// How far it can be trusted, from 0 to 1: a rating of the evidence, no probability.
        confidence: Gauge<Ratio>,
        /// The facts it rests on.
        evidence: Text,
        /// The line to change.
        line: Text,
        /// Measured share of time that is no step after the change; null until it was made and watched.
        measured_stall: Gauge<Ratio>,
        /// Measured steps a second after the change over those before, less one; null until then.
        measured_gain: Gauge<Ratio>,
    }
}

/// A plan as a row; `place` counts from 1.
#[must_use]
pub fn row(trainer: &str, place: u32, plan: &Plan) -> AdviceRow {
    let joined = |pick: fn(&Step) -> &str| plan.steps.iter().map(pick).collect::<Vec<_>>().join("+");
    AdviceRow {
        process: trainer.into(),
        knob: joined(|step| step.knob).as_str().into(),
        from: joined(|step| &step.from).into(),
        to: joined(|step| &step.to).into(),
        place: u64::from(place).into(),
        stall_before: plan.stall_before.into(),
        stall_after: plan.stall.guess.into(),
        stall_low: plan.stall.low.min(plan.stall.high).into(),
        stall_high: plan.stall.high.max(plan.stall.low).into(),
        gain: plan.gain.guess.into(),
        gain_low: plan.gain.low.into(),
        gain_high: plan.gain.high.into(),
        memory: plan.price.memory.into(),
        shm: plan.price.shm.into(),
        cores: plan.price.cores.into(),
        disk: plan.price.disk.into(),
        unknown: Some(plan.price.open().join(", ")).filter(|text| !text.is_empty()).into(),
        confidence: plan.confidence.into(),
        evidence: plan.evidence.as_str().into(),
        line: plan.line.as_str().into(),
        ..AdviceRow::default()
    }
}
