//! Runs to test with.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use feedline_traces::run::{Job, Limits, Machine, Meta, Run, RunWriter};
use feedline_traces::unit::{Bytes, Nanos, Ratio};
use feedline_traces::{Counter, Gauge, Id, Key, Row as _, Rows, Schema, Sink as _, Text, Tick, Ts, table};

table! {
    /// A block device.
    pub(crate) disk: DiskRow {
        /// Kernel name.
        device: Key,
        /// Bytes read since boot.
        read_bytes: Counter<Bytes>,
        /// Time at least one request was in flight.
        busy: Counter<Nanos>,
        /// Share of time in use.
        used: Gauge<Ratio>,
    }
}

table! {
    /// A thread.
    pub(crate) thread: ThreadRow {
        /// Its process.
        process: Key,
        /// Its number.
        number: Id,
        /// Its state.
        state: Text,
    }
}

table! {
    /// A conclusion.
    pub(crate) derived stall: StallRow {
        /// The cause.
        cause: Key,
        /// The share.
        share: Gauge<Ratio>,
    }
}

pub(crate) fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![DiskRow::table(), StallRow::table(), ThreadRow::table()]).unwrap())
}

pub(crate) fn second(n: u64) -> Ts {
    Ts(1_700_000_000_000_000_000).plus(Duration::from_secs(n))
}

/// The tick of a number is always the same; some have no rows, and tables come in changing order.
pub(crate) fn tick(n: u64) -> Tick {
    let schema = schema();
    let at = second(n);
    let mut rows = Rows::new(&schema, at);
    let threads = |rows: &mut Rows<'_>| {
        for number in 0..n % 4 {
            let state = if number == 2 { Text::default() } else { Text::from(["running", "futex"][(n % 2) as usize]) };
            rows.push_at(
                Ts(at.0 - 1000 * number as i64),
                ThreadRow { process: "7@1".into(), number: number.into(), state },
            );
        }
    };
    if n.is_multiple_of(3) {
        threads(&mut rows);
    }
    if !n.is_multiple_of(5) {
        for device in ["sda", "nvme0n1", "dm-ü"] {
            let used = if n.is_multiple_of(2) { f64::NAN } else { 0.1 * n as f64 };
            let read_bytes = (!n.is_multiple_of(7)).then_some(u64::MAX - n).into();
            rows.push(DiskRow { device: device.into(), read_bytes, busy: (n * 1_000_003).into(), used: used.into() });
        }
    }
    if !n.is_multiple_of(3) {
        threads(&mut rows);
    }
    if n.is_multiple_of(4) {
        rows.push(StallRow { cause: format!("cause {}", n % 9).into(), share: (n as f64).into() });
    }
    Tick { at, batches: rows.finish() }
}

pub(crate) fn meta() -> Meta {
    let job =
        Job { pid: Some(7), name: "train.py".to_owned(), command: vec!["python3".to_owned(), "train.py".to_owned()] };
    Meta::new(second(0), job, Machine { host: "node7".to_owned(), ..Machine::default() })
}

/// Closes a segment that often.
pub(crate) fn every(bytes: u64) -> Limits {
    Limits { bytes, ..Limits::default() }
}

pub(crate) fn writer(folder: &Path, limits: Limits) -> RunWriter {
    RunWriter::create(folder, meta(), &schema()).unwrap().limits(limits)
}

pub(crate) fn write(folder: &Path, ticks: std::ops::Range<u64>, limits: Limits) -> RunWriter {
    let mut writer = writer(folder, limits);
    for n in ticks {
        writer.accept(&schema(), &tick(n)).unwrap();
    }
    writer
}

pub(crate) fn replay(run: &Run) -> Vec<Tick> {
    let mut replay = run.replay().unwrap();
    let mut ticks = Vec::new();
    while let Some(tick) = replay.read().unwrap() {
        ticks.push(tick);
    }
    ticks
}

/// Copies the files of a run, as a crash would leave them.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
