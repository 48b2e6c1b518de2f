//! The derived tables: where a trainer's time went, its steps, and the verdict.

use feedline_traces::unit::{Bytes, Count, Nanos, Ratio};
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
    /// What each second of a trainer's time went into, one row per trainer and cause per tick; the
    /// shares of one trainer and tick add up to one, and so do those over the run.
    pub derived cause: CauseRow {
        /// The trainer, `PID@START`.
        process: Key,
        /// `fetch.storage` `fetch.cache` `fetch.network` `decode` `handoff` `startup` (waits for data,
        /// by what holds it up), `contention` `copy` `offload` `bubble` `collective` `embedding`
        /// `imbalance` `checkpoint` `host` `io`, `compute` (the step itself: no stall) or `unknown`.
        cause: Key,
        /// Share of wall time in the last ten seconds; null while too little is seen.
        share: Gauge<Ratio>,
        /// Share of wall time over the run so far.
        run: Gauge<Ratio>,
        /// Lower end of the 95 % interval of `run`.
        low: Gauge<Ratio>,
        /// Upper end of the 95 % interval of `run`; time whose cause is unknown is counted in.
        high: Gauge<Ratio>,
        /// How far the shares can be trusted, from 0 to 1: a rating of the evidence, no probability.
        confidence: Gauge<Ratio>,
        /// The facts behind the share.
        evidence: Text,
    }
}

table! {
    /// What each loader worker did in the last ten seconds, one row per worker per tick; the shares
    /// of one add up to one.
    pub derived worker: WorkerRow {
        /// The worker, `PID@START`; the trainer for a loader thread within it.
        process: Key,
        /// Its thread id.
        thread: Key,
        /// The trainer it works for.
        trainer: Text,
        /// Share of time getting samples from a local device.
        fetch_storage: Gauge<Ratio>,
        /// Share of time getting samples that are in memory already.
        fetch_cache: Gauge<Ratio>,
        /// Share of time getting samples over a network or through FUSE.
        fetch_network: Gauge<Ratio>,
        /// Share of time decoding and transforming.
        decode: Gauge<Ratio>,
        /// Share of time putting samples together.
        collate: Gauge<Ratio>,
        /// Share of time handing over, waiting for room included.
        put: Gauge<Ratio>,
        /// Share of time waiting for work.
        idle: Gauge<Ratio>,
        /// Share of time runnable but waiting for a CPU, exact.
        queued: Gauge<Ratio>,
        /// Share of time that is none of these, or not known.
        other: Gauge<Ratio>,
        /// Bytes a second that its read calls return; null where they are not counted.
        read_rate: Gauge<Bytes>,
        /// The file that it was last found reading or opening; null where no look met one in 10 s.
        file: Text,
        /// The mount it reads from, where only one can be meant; null otherwise.
        mount: Text,
    }
}

table! {
    /// The training step as far as it can be seen from outside, one row per trainer per tick; null
    /// where no period recurs, as with a loader that is always ahead.
    pub derived step: StepRow {
        /// The trainer, `PID@START`.
        process: Key,
        /// Steps seen: of the last 10 s where they are counted, else of the last minute.
        steps: Gauge<Count>,
        /// Time from step to step: the mean where they are counted (marks in the process, or a variable of
        /// the loop, table `training_loop`), else the median from the start of one wait to the next.
        period: Gauge<Nanos>,
        /// Time a step waits for data.
        wait: Gauge<Nanos>,
        /// How far the period can be trusted, from 0 to 1.
        confidence: Gauge<Ratio>,
    }
}

table! {
    /// Steps one by one, as far as waits for data show them: each from the start of a wait to the start of
    /// the next, which is the row's time. Only where `step.period` is known and nearly all time in the state that
    /// it waits in is a wait for data; a slow step looks like several of which all but the first found their
    /// batch ready, and a step that waits for nothing is not seen at all.
    pub derived step_seen: StepSeenRow {
        /// The trainer, `PID@START`.
        process: Key,
        /// How long it took.
        duration: Gauge<Nanos>,
        /// Of that, the time in the waits that began with it.
        wait: Gauge<Nanos>,
        /// The same in steps of the usual length.
        steps: Gauge<Count>,
    }
}

table! {
    /// What stands in a trainer's way over the run so far, one row per trainer per tick, and what
    /// to do about it.
    pub derived verdict: VerdictRow {
        /// The trainer, `PID@START`.
        process: Key,
        /// What is in the way, as in `cause.cause`: the largest stall once stalls take a twentieth of
        /// the time, else `compute`; `unknown` where most of the time, or of the wait, has no known
        /// cause.
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
    vec![
        StallRow::table(),
        CauseRow::table(),
        WorkerRow::table(),
        StepRow::table(),
        StepSeenRow::table(),
        VerdictRow::table(),
    ]
}
