//! Writes a run of made-up disks and threads: `write_run FOLDER [ROWS]`. With a number of rows it
//! also says how fast they were written and how large they are.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use feedline_traces::run::{Job, Machine, Meta, RunWriter};
use feedline_traces::unit::{Bytes, Count, Nanos, Ratio};
use feedline_traces::{
    Clock as _, Counter, Error, Gauge, Key, Result, Row as _, Rows, Schema, Sink as _, SystemClock, Text, Tick, Ts,
    table,
};

table! {
    /// A block device.
    disk: DiskRow {
        /// Kernel name.
        device: Key,
        /// Bytes read since boot.
        read_bytes: Counter<Bytes>,
        /// Time at least one request was in flight, since boot.
        busy: Counter<Nanos>,
        /// Share of time in use; missing on every second tick.
        used: Gauge<Ratio>,
    }
}

table! {
    /// What a thread was seen to do in a tick.
    activity: ActivityRow {
        /// Process.
        process: Key,
        /// Thread.
        thread: Key,
        /// State.
        state: Text,
        /// Times seen in that state.
        samples: Gauge<Count>,
    }
}

fn tick(schema: &Schema, n: u64, rows_a_tick: u64) -> Tick {
    let at = Ts(1_700_000_000_000_000_000).plus(Duration::from_millis(n * 100));
    let mut rows = Rows::new(schema, at);
    for i in 0..rows_a_tick / 10 {
        let used = if n.is_multiple_of(2) { Gauge::default() } else { Gauge::from(0.25 * i as f64) };
        let read_bytes = Counter::from((n * 7919 + i) * 4096);
        rows.push(DiskRow { device: format!("sd{i}").into(), read_bytes, busy: (n * 1_000_003).into(), used });
    }
    for i in 0..rows_a_tick - rows_a_tick / 10 {
        let state = Text::from(["running", "futex", "disk", "poll"][((n + i) % 4) as usize]);
        let (process, thread) = (format!("{}@77", i / 8).into(), format!("{i}").into());
        rows.push(ActivityRow { process, thread, state, samples: (((n * 31 + i) % 100) as f64).into() });
    }
    Tick { at, batches: rows.finish() }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || Error::new("expected a folder").hint("write_run FOLDER [ROWS]");
    let folder = arguments.next().ok_or_else(usage)?;
    let wanted: Option<u64> = arguments.next().and_then(|rows| rows.parse().ok());

    let clock = SystemClock::anchored_now();
    let schema = Arc::new(Schema::new(vec![DiskRow::table(), ActivityRow::table()])?);
    let meta = Meta::new(clock.now(), Job { name: "example".to_owned(), ..Job::default() }, Machine::this());
    let mut writer = RunWriter::create(Path::new(&folder), meta, &schema)?;
    // The ticks are made before the clock starts: making them is not what is measured.
    let ticks: Vec<Tick> = (0..100).map(|n| tick(&schema, n, 100)).collect();
    let started = clock.now();
    let mut n = 0;
    while writer.written().rows < wanted.unwrap_or(10_000) {
        let mut tick = ticks[n % ticks.len()].clone();
        tick.at = tick.at.plus(Duration::from_secs(10 * (n / ticks.len()) as u64));
        writer.accept(&schema, &tick)?;
        n += 1;
    }
    writer.finish()?;
    if wanted.is_some() {
        let (seconds, written) = (clock.now().seconds_since(started), writer.written());
        let rows = written.rows as f64;
        let text = format!(
            "{} rows in {} ticks: {:.0} rows/s, {:.1} bytes a row in the segment, {:.2} in {} parts\n",
            written.rows,
            written.ticks,
            rows / seconds,
            written.segment_bytes as f64 / rows,
            written.part_bytes as f64 / rows,
            written.parts,
        );
        std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()).map_err(|e| Error::io("stdout", &e))?;
    }
    Ok(())
}
