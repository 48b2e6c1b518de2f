//! What each collector costs and lacks on this machine:
//! `cargo run -p feedline-collectors --example cost -- PID`.
//!
//! Reads every collector twenty times against a running job and prints the CPU time of one reading
//! and of one second at its period, the rows of the last reading, and why values are missing.
//! Threads that sample on their own are not part of it.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::collections::BTreeSet;
use std::sync::Arc;

use feedline_collectors::{Context, Host, Scheduled, all, health, schema};
use feedline_traces::{Batch, Clock, Rows, Schema, SystemClock};

const READINGS: u32 = 20;

fn main() -> feedline_traces::Result<()> {
    let clock = Arc::new(SystemClock::anchored_now());
    let mut context = Context::new(Host::this(), clock.clone());
    context.root = std::env::args().nth(1).and_then(|pid| pid.parse().ok());
    let mut scheduled = all(&context);
    let schema = schema(&scheduled)?;
    let mut total = 0.0;
    for one in &mut scheduled {
        total += cost(one, &schema, clock.as_ref())?;
    }
    println!("{:12} {total:34.3} ms a second", "all");
    Ok(())
}

fn cost(scheduled: &mut Scheduled, schema: &Schema, clock: &dyn Clock) -> feedline_traces::Result<f64> {
    let mut missing = BTreeSet::new();
    let mut last = Vec::new();
    let mut spent = 0;
    for _ in 0..READINGS {
        let mut rows = Rows::new(schema, clock.now());
        let before = health::thread_cpu();
        scheduled.collector.collect(&mut rows)?;
        spent += health::thread_cpu() - before;
        last = rows.finish();
        missing.extend(last.iter().filter(|batch| schema.table(batch.table).name == "absent").flat_map(reasons));
    }
    let one = std::time::Duration::from_nanos(spent).as_secs_f64() * 1e3 / f64::from(READINGS);
    let second = one / scheduled.period.as_secs_f64();
    let rows: usize = last.iter().map(Batch::len).sum();
    println!("{:12} {one:8.3} ms a reading {second:8.3} ms a second {rows:4} rows", scheduled.collector.name());
    missing.iter().for_each(|reason| println!("    {reason}"));
    Ok(second)
}

fn reasons(batch: &Batch) -> Vec<String> {
    let cell = |row: usize, column: usize| batch.columns[column].text(row).map_or("there again", |text| text);
    (0..batch.len()).map(|row| format!("{} {}: {}", cell(row, 0), cell(row, 1), cell(row, 2))).collect()
}
