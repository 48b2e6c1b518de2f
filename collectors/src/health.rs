//! What Feedline itself costs, misses and fails at: rows of every trace.

use feedline_traces::unit::{Bytes, Count, Nanos};
use feedline_traces::{Clock, Counter, Gauge, Key, Text, table};

table! {
    /// How each collector did since the last tick: its cost, lateness, failures and losses.
    pub health: HealthRow {
        /// Name of the collector.
        collector: Key,
        /// CPU time it used, its sampling threads included.
        cost: Gauge<Nanos>,
        /// Time its longest reading took; for one that is still at it, the time so far.
        took: Gauge<Nanos>,
        /// How long after its due time a reading began, at worst.
        late: Gauge<Nanos>,
        /// Rows it gave.
        rows: Gauge<Count>,
        /// Readings that failed; none of their rows were kept.
        failures: Gauge<Count>,
        /// Samples, events or rows lost because a buffer was full.
        drops: Gauge<Count>,
        /// Samples left out to keep to the CPU budget.
        skipped: Gauge<Count>,
        /// The last failure, or that it hangs; null when all went well.
        error: Text,
    }
}

table! {
    /// Feedline itself, once a tick.
    pub own: OwnRow {
        /// The program.
        part: Key,
        /// CPU time used since it started.
        cpu: Counter<Nanos>,
        /// Memory resident.
        rss: Gauge<Bytes>,
        /// Threads.
        threads: Gauge<Count>,
        /// How far the wall clock has moved from the run's clock since the run began.
        clock_drift: Gauge<Nanos>,
    }
}

/// CPU time of the calling thread, in nanoseconds.
#[must_use]
pub fn thread_cpu() -> u64 {
    cpu(rustix::time::ClockId::ThreadCPUTime)
}

/// CPU time of the whole process, in nanoseconds.
#[must_use]
pub fn process_cpu() -> u64 {
    cpu(rustix::time::ClockId::ProcessCPUTime)
}

/// Feedline's own row, now.
#[must_use]
pub fn own(clock: &dyn Clock) -> OwnRow {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field =
        |name: &str| status.lines().find_map(|l| l.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok());
    OwnRow {
        part: "feedline".into(),
        cpu: process_cpu().into(),
        rss: field("VmRSS:").map(|kib| kib * 1024).into(),
        threads: field("Threads:").into(),
        clock_drift: {
            #[expect(clippy::cast_precision_loss, reason = "a drift of less than 104 days is exact")]
            let drift = clock.drift() as f64;
            drift.into()
        },
    }
}

fn cpu(id: rustix::time::ClockId) -> u64 {
    let time = rustix::time::clock_gettime(id);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
