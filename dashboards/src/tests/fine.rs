//! What is concluded at the second level of the made-up jobs: causes, worker times, findings.

use feedline_traces::unit::{Bytes, Count, Nanos, Ratio};
use feedline_traces::{Gauge, Key, Rows, Text, table};

use super::fixture::{DECODE, Job};

table! {
    /// Causes.
    pub(crate) derived cause: CauseRow {
        /// Process.
        process: Key,
        /// Cause.
        cause: Key,
        /// Share.
        share: Gauge<Ratio>,
        /// Over the run.
        run: Gauge<Ratio>,
        /// Low.
        low: Gauge<Ratio>,
        /// High.
        high: Gauge<Ratio>,
        /// Confidence.
        confidence: Gauge<Ratio>,
        /// Evidence.
        evidence: Text,
    }
}
table! {
    /// Workers.
    pub(crate) derived worker: WorkerRow {
        /// Process.
        process: Key,
        /// Thread.
        thread: Key,
        /// Trainer.
        trainer: Text,
        /// Storage.
        fetch_storage: Gauge<Ratio>,
        /// Cache.
        fetch_cache: Gauge<Ratio>,
        /// Network.
        fetch_network: Gauge<Ratio>,
        /// Decode.
        decode: Gauge<Ratio>,
        /// Collate.
        collate: Gauge<Ratio>,
        /// Put.
        put: Gauge<Ratio>,
        /// Idle.
        idle: Gauge<Ratio>,
        /// Queued.
        queued: Gauge<Ratio>,
        /// Other.
        other: Gauge<Ratio>,
        /// Read.
        read_rate: Gauge<Bytes>,
        /// File.
        file: Text,
        /// Mount.
        mount: Text,
    }
}
table! {
    /// Findings.
    pub(crate) derived finding: FindingRow {
        /// Process.
        process: Key,
        /// Kind.
        kind: Key,
        /// Since.
        since: Gauge<Nanos>,
        /// Cost.
        severity: Gauge<Ratio>,
        /// Text.
        text: Text,
        /// Advice.
        advice: Text,
        /// Evidence.
        evidence: Text,
    }
}
table! {
    /// The job.
    pub(crate) job: JobRow {
        /// Job.
        job: Key,
        /// Trainers.
        trainers: Gauge<Count>,
    }
}

/// Four workers on one core of eight.
pub(crate) const PINNED: Job = Job {
    text: "Waits 41 % ± 3 of its time for data; its 4 workers are queueing for a core 70 %, on a CPU 24 % of theirs.",
    advice: Some(
        "Widen the job's CPU affinity (`taskset -cp`, cpuset): it may use 1 of 8 cores, and workers queue for a core 70 % \
         of the time.",
    ),
    fine: true,
    ..DECODE
};

/// Four ranks, of which the third decodes more than the others.
pub(crate) const RANKS: Job = Job {
    trainers: 4,
    workers: 8,
    text: "Waits 50 % ± 2 of its time for data, mostly decode; its 2 workers are on a CPU 97 % of theirs.",
    advice: Some(
        "Use more workers: they are on a CPU 97 % of their time, mostly decoding, and the job uses 5.1 of 8 cores.",
    ),
    ..PINNED
};

/// More trainers than are judged.
pub(crate) const MANY: Job = Job { trainers: 3, workers: 0, ..RANKS };

const STRIPS: [[f64; 9]; 2] =
    [[0.0, 0.02, 0.0, 0.22, 0.02, 0.0, 0.02, 0.7, 0.02], [0.18, 0.05, 0.0, 0.7, 0.03, 0.0, 0.02, 0.02, 0.0]];

pub(crate) fn rows(job: &Job, rows: &mut Rows<'_>, s: u64) {
    let ranks = job.trainers > 1;
    let many = job.workers == 0;
    rows.push(JobRow { job: "4000@77".into(), trainers: if many { 47.0 } else { 0.0 + as_f64(job.trainers) }.into() });
    for rank in 0..job.trainers {
        causes(rows, rank, ranks);
    }
    for worker in 0..job.workers {
        let pid = 4998 + worker;
        let [storage, cache, network, decode, collate, put, idle, queued, other] = STRIPS[usize::from(ranks)];
        rows.push(WorkerRow {
            process: format!("{pid}@99").into(),
            thread: pid.to_string().into(),
            trainer: format!("{}@77", 4000 + worker % job.trainers).into(),
            fetch_storage: storage.into(),
            fetch_cache: cache.into(),
            fetch_network: if network > 0.0 { network.into() } else { Gauge::default() },
            decode: decode.into(),
            collate: collate.into(),
            put: put.into(),
            idle: idle.into(),
            queued: queued.into(),
            other: other.into(),
            read_rate: 12e6.into(),
            file: format!("train/n01440764/n01440764_{:05}.JPEG", (s * 37 + worker) % 100_000).into(),
            mount: "/data".into(),
        });
    }
    if ranks {
        let said =
            ["A CPU quota of 6.0 cores holds the job back in 22 % of its periods.", "Raise the quota (`cpu.max`)."];
        finding(rows, "cpu_quota", "", s, Some(0.07), said);
    } else if s < 10 {
        let said = ["Still starting: it has waited 9 s for its first batch.", "Wait: nothing is concluded yet."];
        finding(rows, "starting", "4000@77", s.min(8), None, said);
    } else if s > 20 {
        let said = [
            "All 4 workers share core 0 of 8.",
            "Give the workers all cores: look for what narrows the affinity (an import of a numerical library, \
             `OMP_PROC_BIND`, `taskset`), and call `os.sched_setaffinity(0, range(os.cpu_count()))` in `worker_init_fn`.",
        ];
        finding(rows, "narrow_affinity", "4000@77", s - 20, Some(0.33), said);
        let said = ["`/dev/shm` is 97 % full: 62 MiB of 64 MiB.", "Make it larger (`docker run --shm-size`)."];
        finding(rows, "shm_full", "4000@77", s - 20, None, said);
    }
}

fn causes(rows: &mut Rows<'_>, rank: u64, ranks: bool) {
    let pinned: &[(&str, f64)] = &[
        ("fetch.storage", 0.02),
        ("decode", 0.06),
        ("contention", 0.33),
        ("handoff", 0.01),
        ("host", 0.05),
        ("compute", 0.52),
        ("unknown", 0.01),
    ];
    let fast: &[(&str, f64)] =
        &[("decode", 0.08), ("imbalance", 0.42), ("collective", 0.03), ("compute", 0.46), ("unknown", 0.01)];
    let slow: &[(&str, f64)] =
        &[("decode", 0.5), ("imbalance", 0.01), ("collective", 0.03), ("compute", 0.45), ("unknown", 0.01)];
    let shares = match (ranks, rank) {
        (false, _) => pinned,
        (true, 2) => slow,
        (true, _) => fast,
    };
    for (cause, share) in shares {
        rows.push(CauseRow {
            process: format!("{}@77", 4000 + rank).into(),
            cause: (*cause).into(),
            share: (*share).into(),
            run: (*share).into(),
            low: (share - 0.02).max(0.0).into(),
            high: (share + 0.03).min(1.0).into(),
            confidence: 0.9.into(),
            evidence: match *cause {
                "contention" => "4 workers queue for a core 70 % of their time, on core 0 of 8".into(),
                "decode" => "2 workers are on a CPU 70 % of their time in PIL/Image.py:decode".into(),
                _ => Text::default(),
            },
        });
    }
}

fn finding(rows: &mut Rows<'_>, kind: &str, process: &str, seconds: u64, severity: Option<f64>, said: [&str; 2]) {
    rows.push(FindingRow {
        process: process.into(),
        kind: kind.into(),
        since: (as_f64(seconds) * 1e9).into(),
        severity: severity.into(),
        text: said[0].into(),
        advice: said[1].into(),
        evidence: "as the tables say".into(),
    });
}

#[expect(clippy::cast_precision_loss, reason = "small numbers of a test")]
fn as_f64(number: u64) -> f64 {
    number as f64
}
