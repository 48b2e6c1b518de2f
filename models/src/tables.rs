//! The derived tables: where a trainer's time went, its steps, and the verdict.

use feedline_traces::unit::{Count, Nanos, Ratio};
use feedline_traces::{Gauge, Key, Row as _, Table, Text, table};

table! {
    /// Where a trainer's wall time went in the last ten seconds, one row per trainer and cause per
    /// tick; the shares of one trainer and tick add up to one.
    pub derived stall: StallRow {
        /// The trainer, `PID@START`.
        process: Key,
        /// `data` (waiting in the loader, CPU burnt there included), `io` (other input and output),
        /// `device` (device sync, collectives), `host` (own work) or `unknown`.
        cause: Key,
        /// Share of wall time.
        share: Gauge<Ratio>,
        /// Lower end of the 95 % interval.
        low: Gauge<Ratio>,
        /// Upper end of the 95 % interval; time whose cause is unknown is counted in.
        high: Gauge<Ratio>,
        /// How far the share can be trusted, from 0 to 1: a rating of the evidence, no probability.
        confidence: Gauge<Ratio>,
        /// The facts behind the share.
        evidence: Text,
    }
}

table! {
    /// The training step as far as it can be seen from outside, one row per trainer per tick; null
    /// where no period recurs, as with a loader that is always ahead.
    pub derived step: StepRow {
        /// The trainer, `PID@START`.
        process: Key,
        /// Steps seen in the last minute.
        steps: Gauge<Count>,
        /// Median time from the start of one step's wait to the start of the next.
        period: Gauge<Nanos>,
        /// Time a step waits for data.
        wait: Gauge<Nanos>,
        /// How far the period can be trusted, from 0 to 1.
        confidence: Gauge<Ratio>,
    }
}

table! {
    /// What stands in a trainer's way over the run so far, one row per trainer per tick, and what
    /// to do about it.
    pub derived verdict: VerdictRow {
        /// The trainer, `PID@START`.
        process: Key,
        /// What is in the way: `data` or `io` once it takes a twentieth of the time, else the
        /// largest of `device`, `host` and `unknown`.
        cause: Text,
        /// Share of wall time waiting for data.
        data: Gauge<Ratio>,
        /// Lower end of the 95 % interval of `data`.
        low: Gauge<Ratio>,
        /// Upper end of the 95 % interval of `data`; time whose cause is unknown is counted in.
        high: Gauge<Ratio>,
        /// How far the verdict can be trusted, from 0 to 1: a rating of the evidence, no probability.
        confidence: Gauge<Ratio>,
        /// The verdict in one sentence, with its evidence.
        text: Text,
        /// What to do about it, with the fact it rests on; null while it is too early to say.
        advice: Text,
        /// Share of time in which the trainer's accelerator was idle; null where none is visible.
        accelerator_idle: Gauge<Ratio>,
    }
}

/// All tables of this crate, in the order in which they stand in a schema.
#[must_use]
pub fn all() -> Vec<Table> {
    vec![StallRow::table(), StepRow::table(), VerdictRow::table()]
}
