//! What is learned from: one run of a loader in one configuration, with what was known before it and
//! what came of it. `feedline sweep` fills the table; `docs/sweep.md` says how.

mod expected;
mod physics;
#[cfg(test)]
mod tests;

use feedline_traces::unit::{Bytes, Count, Nanos, Ratio};
use feedline_traces::{Gauge, Id, Key, table};

pub(crate) use expected::rows;
pub use expected::{BINDS, EXPECTED, Expected, expect};
pub use physics::simulated;

/// The origin of rows that were measured.
pub const REAL: &str = "real";
/// The origin of rows that the step model made; they are kept out of every score.
pub const SIMULATED: &str = "simulated";

table! {
    /// One run of a loader in one configuration: what was known before it, and what came of it.
    pub observation: ObservationRow {
        /// `real` (measured) or `simulated` (by the step model); simulated rows are kept out of every
        /// score.
        origin: Key,
        /// The sweep: its set and its seed.
        sweep: Key,
        /// The machine: processor, cores and memory. Names of hosts and users stay out.
        machine: Key,
        /// The setting: a storage and what the job may use of the machine.
        setting: Key,
        /// Kind of storage: `cache` (a local disk, all of it in the page cache), `tmpfs`, `disk` (local,
        /// buffered, forgotten after each read), `direct` (local, `O_DIRECT`), `throttled`, `fuse` or
        /// `objects` (HTTP).
        storage: Key,
        /// How samples lie: a file each (`files`), in `tar` shards, as `raw` records of one file, or as
        /// windows of a stream of `tokens`.
        format: Key,
        /// What samples are: `photo` (JPEG) or `bytes`.
        content: Key,
        /// The order of samples: `sequential`, `shuffled`, or `shards` (blocks of 128 neighbours in
        /// shuffled order).
        access: Key,
        /// What a step does: `sleep` (as the host of an accelerator) or `spin` (a core is busy).
        step_kind: Key,
        /// Number of the row in the plan.
        row: Id,
        /// Number of the configuration in the plan; repeats share it.
        config: Id,
        /// Which repeat of the configuration, from 0.
        repeat: Id,
        /// When it was run: its place in the order of the sweep, from 0.
        position: Id,

        /// Samples of a batch.
        batch: Gauge<Count>,
        /// Loader workers.
        workers: Gauge<Count>,
        /// Batches ahead per worker.
        prefetch: Gauge<Count>,
        /// Time of a step that was asked for.
        step: Gauge<Nanos>,
        /// Mean bytes of a sample as it is stored.
        sample_bytes: Gauge<Bytes>,
        /// Samples of the data set.
        samples: Gauge<Count>,
        /// Bytes of the data set.
        dataset: Gauge<Bytes>,

        /// Cores that the job may use; a quota makes it a fraction.
        cores: Gauge<Count>,
        /// Memory that could be had before the run.
        available: Gauge<Bytes>,
        /// Share of the machine's CPU time that others used just before.
        busy: Gauge<Ratio>,
        /// Share of the data set in the page cache before the run; null where the storage has none.
        resident: Gauge<Ratio>,

        /// 10th percentile of the time of one read of one sample, nothing else being read.
        read_p10_1: Gauge<Nanos>,
        /// Median of the same.
        read_p50_1: Gauge<Nanos>,
        /// 90th percentile of the same.
        read_p90_1: Gauge<Nanos>,
        /// 99th percentile of the same.
        read_p99_1: Gauge<Nanos>,
        /// Mean of the same.
        read_mean_1: Gauge<Nanos>,
        /// 10th percentile of the time of one read while four threads read.
        read_p10_4: Gauge<Nanos>,
        /// Median of the same.
        read_p50_4: Gauge<Nanos>,
        /// 90th percentile of the same.
        read_p90_4: Gauge<Nanos>,
        /// 99th percentile of the same.
        read_p99_4: Gauge<Nanos>,
        /// Mean of the same.
        read_mean_4: Gauge<Nanos>,
        /// 10th percentile of the time of one read while sixteen threads read.
        read_p10_16: Gauge<Nanos>,
        /// Median of the same.
        read_p50_16: Gauge<Nanos>,
        /// 90th percentile of the same.
        read_p90_16: Gauge<Nanos>,
        /// 99th percentile of the same.
        read_p99_16: Gauge<Nanos>,
        /// Mean of the same.
        read_mean_16: Gauge<Nanos>,
        /// Bytes a second of random samples, read by one thread.
        rate_1: Gauge<Bytes>,
        /// The same by four threads.
        rate_4: Gauge<Bytes>,
        /// The same by sixteen threads.
        rate_16: Gauge<Bytes>,
        /// Bytes a second of neighbouring samples, read by one thread.
        rate_in_order: Gauge<Bytes>,
        /// CPU time of one read.
        read_cpu: Gauge<Nanos>,
        /// CPU time to decode one sample.
        decode_cpu: Gauge<Nanos>,
        /// CPU time to put one batch together.
        collate_cpu: Gauge<Nanos>,
        /// Time of a batch between a worker that only puts batches of one decoded sample together and a
        /// trainer that only takes them; null for a loader without workers.
        handover: Gauge<Nanos>,
        /// CPU time of the trainer for one of those.
        handover_cpu: Gauge<Nanos>,
        /// Bytes of a decoded sample.
        tensor_bytes: Gauge<Bytes>,

        /// Outcome: samples a second.
        samples_rate: Gauge<Count>,
        /// Outcome: stored bytes a second.
        bytes_rate: Gauge<Bytes>,
        /// Outcome: share of time in `next()`, by the job's own timer, started before it asks.
        stall: Gauge<Ratio>,
        /// Outcome: mean time of a step, waiting included.
        period: Gauge<Nanos>,
        /// Outcome: mean wait of a step.
        wait_mean: Gauge<Nanos>,
        /// Outcome: median wait.
        wait_p50: Gauge<Nanos>,
        /// Outcome: 90th percentile of waits.
        wait_p90: Gauge<Nanos>,
        /// Outcome: 99th percentile of waits.
        wait_p99: Gauge<Nanos>,
        /// Outcome: the longest wait.
        wait_most: Gauge<Nanos>,
        /// Outcome: memory of the trainer and its workers right after the last step, shared pages
        /// divided by those who share them; of a simulated row, of batches in flight alone.
        memory: Gauge<Bytes>,
        /// Outcome: steps that were measured.
        steps: Gauge<Count>,
        /// Outcome: time in which they were.
        span: Gauge<Nanos>,
    }
}

/// Columns that are known only after the run: what can be predicted, and must never be an input.
pub const OUTCOMES: [&str; 12] = [
    "samples_rate",
    "bytes_rate",
    "stall",
    "period",
    "wait_mean",
    "wait_p50",
    "wait_p90",
    "wait_p99",
    "wait_most",
    "memory",
    "steps",
    "span",
];

/// Columns that say where a row comes from, for splits and for reading, and must never be an input.
pub const PROVENANCE: [&str; 8] = ["origin", "sweep", "machine", "setting", "row", "config", "repeat", "position"];

/// Columns that may be inputs: known before the run, without having run the job.
pub fn inputs() -> impl Iterator<Item = String> {
    use feedline_traces::Row as _;
    let kept = |name: &String| !OUTCOMES.contains(&name.as_str()) && !PROVENANCE.contains(&name.as_str());
    ObservationRow::table().columns.into_iter().map(|column| column.name.into_owned()).filter(kept)
}

/// Why a column must never be an input; none where it may be one.
#[must_use]
pub fn refused(name: &str) -> Option<&'static str> {
    if OUTCOMES.contains(&name) || name == BINDS {
        Some("it is known only after the run")
    } else if PROVENANCE.contains(&name) {
        Some("it says where a row comes from, which a new job does not have")
    } else {
        None
    }
}
