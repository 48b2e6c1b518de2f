//! Made-up jobs: tables by the same names and columns as the real ones, and ticks of them.

use std::sync::Arc;

use super::fine::{CauseRow, FindingRow, JobRow, WorkerRow};
use feedline_traces::unit::{Bytes, Celsius, Count, Nanos, Ratio, Watts};
use feedline_traces::{Counter, Gauge, Id, Key, Row, Rows, Schema, Text, Tick, Ts, table};

table! {
    /// A process.
    pub(crate) process: ProcessRow {
        /// Key.
        process: Key,
        /// Pid.
        pid: Id,
        /// Role.
        role: Text,
        /// Name.
        name: Text,
        /// Rank.
        rank: Id,
        /// CPU.
        cpu_user: Counter<Nanos>,
        /// CPU.
        cpu_system: Counter<Nanos>,
        /// From storage.
        storage_read: Counter<Bytes>,
        /// All.
        read: Counter<Bytes>,
        /// Faults.
        major_faults: Counter<Count>,
        /// Memory.
        rss: Gauge<Bytes>,
        /// Threads.
        threads: Gauge<Count>,
    }
}
table! {
    /// States.
    pub(crate) activity: ActivityRow {
        /// Process.
        process: Key,
        /// Thread.
        thread: Key,
        /// State.
        state: Key,
        /// Samples.
        samples: Gauge<Count>,
    }
}
table! {
    /// A disk.
    pub(crate) disk: DiskRow {
        /// Name.
        device: Key,
        /// Read.
        read_bytes: Counter<Bytes>,
        /// Busy.
        busy: Counter<Nanos>,
        /// In flight.
        in_flight: Gauge<Count>,
    }
}
table! {
    /// An interface.
    pub(crate) interface: InterfaceRow {
        /// Name.
        interface: Key,
        /// Received.
        received_bytes: Counter<Bytes>,
        /// Sent.
        sent_bytes: Counter<Bytes>,
    }
}
table! {
    /// A GPU.
    pub(crate) accelerator: AcceleratorRow {
        /// Uuid.
        device: Key,
        /// Index.
        index: Id,
        /// Name.
        name: Text,
        /// Busy.
        busy: Gauge<Ratio>,
        /// SMs.
        sm_active: Gauge<Ratio>,
        /// Memory.
        memory_used: Gauge<Bytes>,
        /// Power.
        power: Gauge<Watts>,
        /// Temperature.
        temperature: Gauge<Celsius>,
        /// Throttle.
        throttle: Text,
    }
}
table! {
    /// Pressure.
    pub(crate) pressure: PressureRow {
        /// Of whom.
        scope: Key,
        /// Of what.
        resource: Key,
        /// Some.
        some: Counter<Nanos>,
        /// Full.
        full: Counter<Nanos>,
    }
}
table! {
    /// Cost.
    pub(crate) health: HealthRow {
        /// Collector.
        collector: Key,
        /// CPU.
        cost: Gauge<Nanos>,
        /// Late.
        late: Gauge<Nanos>,
        /// Rows.
        rows: Gauge<Count>,
        /// Failures.
        failures: Gauge<Count>,
        /// Drops.
        drops: Gauge<Count>,
        /// Error.
        error: Text,
    }
}
table! {
    /// Own.
    pub(crate) own: OwnRow {
        /// Part.
        part: Key,
        /// CPU.
        cpu: Counter<Nanos>,
        /// Memory.
        rss: Gauge<Bytes>,
    }
}
table! {
    /// Missing.
    pub(crate) absent: AbsentRow {
        /// What.
        what: Key,
        /// Of what.
        entity: Key,
        /// Why.
        reason: Text,
    }
}
table! {
    /// Shares.
    pub(crate) derived stall: StallRow {
        /// Process.
        process: Key,
        /// Cause.
        cause: Key,
        /// Share.
        share: Gauge<Ratio>,
        /// Low.
        low: Gauge<Ratio>,
        /// High.
        high: Gauge<Ratio>,
        /// Confidence.
        confidence: Gauge<Ratio>,
    }
}
table! {
    /// Steps.
    pub(crate) derived step: StepRow {
        /// Process.
        process: Key,
        /// Steps.
        steps: Gauge<Count>,
        /// Period.
        period: Gauge<Nanos>,
        /// Wait.
        wait: Gauge<Nanos>,
        /// Confidence.
        confidence: Gauge<Ratio>,
    }
}
table! {
    /// Verdicts.
    pub(crate) derived verdict: VerdictRow {
        /// Process.
        process: Key,
        /// Cause.
        cause: Text,
        /// Share.
        data: Gauge<Ratio>,
        /// Low.
        low: Gauge<Ratio>,
        /// High.
        high: Gauge<Ratio>,
        /// Confidence.
        confidence: Gauge<Ratio>,
        /// Sentence.
        text: Text,
        /// Advice.
        advice: Text,
        /// Idle.
        accelerator_idle: Gauge<Ratio>,
    }
}

/// A job to make ticks of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) data: f64,
    pub(crate) worker_state: &'static str,
    pub(crate) storage: u64,
    pub(crate) cache: u64,
    pub(crate) trainers: u64,
    pub(crate) workers: u64,
    pub(crate) accelerators: u64,
    pub(crate) text: &'static str,
    pub(crate) advice: Option<&'static str>,
    /// Whether causes, worker times and findings are concluded too.
    pub(crate) fine: bool,
}

pub(crate) const HEALTHY: Job = Job {
    data: 0.004,
    worker_state: "futex",
    storage: 0,
    cache: 40 << 20,
    trainers: 1,
    workers: 4,
    accelerators: 1,
    text: "Waits 79 % ± 3 of its time for the device or other ranks; waits 0.4 % (at most 1.2 %) for data.",
    advice: Some("Nothing to gain from the loader here: the device or another rank sets the pace."),
    fine: false,
};
pub(crate) const STORAGE: Job = Job {
    data: 0.62,
    worker_state: "disk",
    storage: 12 << 20,
    cache: 1 << 20,
    trainers: 2,
    workers: 12,
    accelerators: 2,
    text: "Waits 62 % ± 3 of its time for data; its 12 workers are waiting for storage 80 % of theirs; its accelerator is idle 67 % of the time.",
    advice: Some(
        "Storage is the limit: workers wait 80 % of their time for it. More workers or deeper prefetch overlap more \
         reads; else faster storage, or larger sequential files.",
    ),
    fine: false,
};
pub(crate) const DECODE: Job = Job {
    data: 0.41,
    worker_state: "running",
    storage: 0,
    cache: 30 << 20,
    trainers: 1,
    workers: 4,
    accelerators: 0,
    text: "Waits 41 % ± 3 of its time for data; its 4 workers are on a CPU 95 % of theirs.",
    advice: Some(
        "Make each sample cheaper (decode smaller, resize ahead of time, cache decoded samples) or add cores: workers \
         are on a CPU 95 % of their time and the job uses 7.8 of 8 cores; more workers would not help.",
    ),
    fine: false,
};

pub(crate) fn schema() -> Arc<Schema> {
    let tables = vec![
        ProcessRow::table(),
        ActivityRow::table(),
        DiskRow::table(),
        InterfaceRow::table(),
        AcceleratorRow::table(),
        PressureRow::table(),
        HealthRow::table(),
        OwnRow::table(),
        AbsentRow::table(),
        StallRow::table(),
        StepRow::table(),
        VerdictRow::table(),
        CauseRow::table(),
        WorkerRow::table(),
        FindingRow::table(),
        JobRow::table(),
    ];
    Arc::new(Schema::new(tables).unwrap())
}

/// 2026-11-30 12:00:00 UTC.
pub(crate) const BEGIN: i64 = 1_796_040_000;

pub(crate) fn second(s: u64) -> Ts {
    Ts((BEGIN + i64::try_from(s).unwrap()) * 1_000_000_000)
}

impl Job {
    pub(crate) fn ticks(&self, schema: &Schema, seconds: u64) -> Vec<Arc<Tick>> {
        (0..seconds).map(|s| Arc::new(self.tick(schema, s))).collect()
    }

    pub(crate) fn tick(&self, schema: &Schema, s: u64) -> Tick {
        let at = second(s);
        let mut rows = Rows::new(schema, at);
        for rank in 0..self.trainers {
            self.trainer(&mut rows, s, rank);
        }
        for worker in 0..self.workers {
            self.worker(&mut rows, s, worker);
        }
        self.machine(&mut rows, s);
        if self.fine {
            super::fine::rows(self, &mut rows, s);
        }
        Tick { at, batches: rows.finish() }
    }

    fn trainer(&self, rows: &mut Rows<'_>, s: u64, rank: u64) {
        let pid = 4000 + rank;
        let key = format!("{pid}@77");
        rows.push(ProcessRow {
            process: key.as_str().into(),
            pid: pid.into(),
            role: "trainer".into(),
            name: "pt_main_thread".into(),
            rank: if self.trainers > 1 { rank.into() } else { Id::default() },
            cpu_user: (s * 600_000_000).into(),
            cpu_system: (s * 50_000_000).into(),
            storage_read: 0.into(),
            read: (s << 14).into(),
            major_faults: 0.into(),
            rss: 2.5e9.into(),
            threads: 34.0.into(),
        });
        // The stall sets in after ten seconds and breathes a little.
        #[expect(clippy::cast_precision_loss, reason = "seconds of a test")]
        let wave = ((s as f64) / 7.0).sin() * 0.05;
        let data = if s < 10 { 0.02 } else { (self.data + wave * self.data).clamp(0.0, 1.0) }
            - 0.01 * f64::from(u32::try_from(rank).unwrap());
        let data = data.max(0.0);
        let rest = (1.0 - data) * 0.8;
        for (cause, share) in [("data", data), ("device", rest), ("host", rest * 0.15), ("io", 0.01), ("unknown", 0.01)]
        {
            rows.push(StallRow {
                process: key.as_str().into(),
                cause: cause.into(),
                share: share.into(),
                low: (share - 0.03).max(0.0).into(),
                high: (share + 0.03).min(1.0).into(),
                confidence: 0.9.into(),
            });
        }
        rows.push(StepRow {
            process: key.as_str().into(),
            steps: 3.0.into(),
            period: (120e6 / (1.0 - data)).into(),
            wait: (120e6 / (1.0 - data) * data).into(),
            confidence: 0.95.into(),
        });
        rows.push(VerdictRow {
            process: key.as_str().into(),
            cause: if self.data > 0.05 { "data" } else { "device" }.into(),
            data: (self.data - 0.01 * f64::from(u32::try_from(rank).unwrap())).into(),
            low: (self.data - 0.03).max(0.0).into(),
            high: (self.data + 0.02).into(),
            confidence: 0.93.into(),
            text: self.text.into(),
            advice: Text::from(self.advice),
            accelerator_idle: if self.accelerators > 0 { (self.data + 0.05).into() } else { Gauge::default() },
        });
        for (state, samples) in [("futex", 60.0), ("running", 40.0)] {
            activity(rows, &key, pid, state, samples);
        }
    }

    fn worker(&self, rows: &mut Rows<'_>, s: u64, worker: u64) {
        let pid = 4998 + worker;
        let key = format!("{pid}@99");
        let cpu = if self.worker_state == "running" { 970_000_000 } else { 120_000_000 };
        rows.push(ProcessRow {
            process: key.as_str().into(),
            pid: pid.into(),
            role: "worker".into(),
            name: "pt_data_worker".into(),
            rank: Id::default(),
            cpu_user: (s * cpu).into(),
            cpu_system: (s * 30_000_000).into(),
            storage_read: (s * self.storage).into(),
            read: (s * (self.storage + self.cache)).into(),
            major_faults: (s * 2).into(),
            rss: 310e6.into(),
            threads: 2.0.into(),
        });
        activity(rows, &key, pid, self.worker_state, 80.0);
        activity(rows, &key, pid, "poll", 20.0);
    }

    fn machine(&self, rows: &mut Rows<'_>, s: u64) {
        for (device, part) in [("nvme0n1", 1), ("sda", 0)] {
            rows.push(DiskRow {
                device: device.into(),
                read_bytes: (s * self.storage * self.workers * part).into(),
                busy: (s * 900_000_000 * part * u64::from(self.storage > 0)).into(),
                in_flight: 3.0.into(),
            });
        }
        rows.push(InterfaceRow {
            interface: "eth0".into(),
            received_bytes: (s * 40_000).into(),
            sent_bytes: (s * 9_000).into(),
        });
        for index in 0..self.accelerators {
            rows.push(AcceleratorRow {
                device: format!("GPU-{index}").into(),
                index: index.into(),
                name: "H100 SXM".into(),
                busy: (1.0 - self.data).into(),
                sm_active: ((1.0 - self.data) * 0.6).into(),
                memory_used: 41e9.into(),
                power: 380.0.into(),
                temperature: 58.0.into(),
                throttle: Text::default(),
            });
        }
        if self.accelerators == 0 && s == 0 {
            rows.push(AbsentRow {
                what: "accelerator".into(),
                entity: "".into(),
                reason: "no `libnvidia-ml.so.1` and no amdgpu device on this machine".into(),
            });
        }
        for resource in ["cpu", "io", "memory"] {
            rows.push(PressureRow {
                scope: "host".into(),
                resource: resource.into(),
                some: (s * 210_000_000 * u64::from(self.storage > 0)).into(),
                full: Counter::default(),
            });
        }
        for (collector, cost) in [("activity", 7.1e6), ("process", 1.9e6), ("stack", 4.4e6)] {
            let failed = collector == "stack" && s == 5;
            rows.push(HealthRow {
                collector: collector.into(),
                cost: cost.into(),
                late: 0.4e6.into(),
                rows: 20.0.into(),
                failures: f64::from(u8::from(failed)).into(),
                drops: 0.0.into(),
                error: if failed { Text::from("proc/4000/mem: permission denied") } else { Text::default() },
            });
        }
        rows.push(OwnRow { part: "feedline".into(), cpu: (s * 14_000_000).into(), rss: 38e6.into() });
    }
}

fn activity(rows: &mut Rows<'_>, key: &str, pid: u64, state: &str, samples: f64) {
    rows.push(ActivityRow {
        process: key.into(),
        thread: pid.to_string().into(),
        state: state.into(),
        samples: samples.into(),
    });
}
