//! What the collector writes as threads come, on a machine of files.

use std::sync::Arc;

use feedline_traces::{Batch, Schema, SimClock, Ts};

use super::*;
use crate::job::Jobs;
use crate::job::fixture::{Fake, machine};

const LINE: &str = "/usr/bin/python3 train.py";

fn collect(schema: &Schema, collector: &mut dyn Collector) -> Vec<Batch> {
    let mut rows = Rows::new(schema, Ts(1_000_000_000));
    collector.collect(&mut rows).unwrap();
    assert!(rows.undeclared().is_empty());
    rows.finish()
}

fn trainer() -> Fake {
    Fake::new(100, 1, "pt_main_thread", LINE).environ("RANK=3")
}

#[test]
fn a_thread_has_a_row_as_soon_as_it_is_known_and_then_once_a_tick() {
    let (folder, host) = machine(&[trainer(), Fake::new(110, 100, "pt_data_worker", LINE)]);
    let context = Context::new(host, Arc::new(SimClock::default()));
    let (mut jobs, mut threads) = (Jobs::new(&context, 100), Threads::new(&context));
    let mut tables = threads.tables();
    tables.extend(jobs.tables());
    let schema = Schema::new(tables).unwrap();
    let rows = |threads: &mut Threads| {
        let batches = collect(&schema, threads);
        let table = schema.find_table("thread").unwrap();
        batches.iter().find(|batch| batch.table == table).map_or(0, Batch::len)
    };
    collect(&schema, &mut jobs);
    assert_eq!(rows(&mut threads), 2, "both, at first sight");
    assert_eq!(rows(&mut threads), 0, "nobody came, and no row is due");
    let (later, _) = machine(&[trainer(), Fake::new(120, 100, "pt_data_worker", LINE)]);
    std::fs::rename(folder.path().join("proc"), folder.path().join("before")).unwrap();
    std::fs::rename(later.path().join("proc"), folder.path().join("proc")).unwrap();
    collect(&schema, &mut jobs);
    assert_eq!(rows(&mut threads), 3, "those that were there a last time, and the new one");
    assert_eq!(rows(&mut threads), 0);
    assert_eq!(rows(&mut threads), 2, "a row is due");
}
