//! What every collector must keep to, checked over the list of all of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use feedline_traces::{Batch, Column, Kind, Rows, Schema, SimClock, Symbol, SystemClock, Ts};

use crate::absent::AbsentRow;
use crate::job::fixture::{Fake, machine};
use crate::{Context, Host, Scheduled, all, schema};
use feedline_traces::Row as _;

/// A machine of files with a job on it and hardly anything else.
fn fixture() -> (tempfile::TempDir, Context) {
    let line = "/usr/bin/python3 train.py";
    let (folder, host) = machine(&[
        Fake::new(100, 1, "pt_main_thread", line).threads(&["pt_data_pin"]),
        Fake::new(110, 100, "pt_data_worker", line),
    ]);
    let context = Context { root: Some(100), ..Context::new(host, Arc::new(SimClock::new(Ts(1_000_000_000)))) };
    (folder, context)
}

/// This machine, with this test as the job.
fn this() -> Context {
    let clock = Arc::new(SystemClock::anchored_now());
    Context { root: Some(std::process::id()), ..Context::new(Host::this(), clock) }
}

/// The rows of one reading, or none where the collector cannot read this machine.
fn collect(schema: &Schema, one: &mut Scheduled, at: Ts) -> Vec<Batch> {
    let mut rows = Rows::new(schema, at);
    let outcome = one.collector.collect(&mut rows);
    let name = one.collector.name();
    assert!(rows.undeclared().is_empty(), "{name} fills undeclared {:?}", rows.undeclared());
    let Err(error) = outcome else { return rows.finish() };
    assert!(!error.message.is_empty() && !error.message.ends_with('.'), "{name}: {error}");
    Vec::new()
}

#[test]
fn names_and_tables_are_unique_and_every_table_is_documented() {
    let (_folder, context) = fixture();
    let mut names = HashMap::new();
    let mut owners = HashMap::new();
    for one in all(&context) {
        let name = one.collector.name();
        assert!(names.insert(name, ()).is_none(), "two collectors are called {name}");
        assert!(one.period >= Duration::from_millis(100), "{name} reads more often than ten times a second");
        for table in one.collector.tables() {
            assert!(table.doc.ends_with('.'), "{}: `{}`", table.name, table.doc);
            for Column { name: column, doc, .. } in &table.columns {
                assert!(doc.ends_with('.'), "{}.{column}: `{doc}`", table.name);
            }
            if table.name == AbsentRow::NAME {
                continue;
            }
            assert!(table.columns.iter().any(|c| c.kind == Kind::Key), "{} has no key", table.name);
            let other = owners.insert(table.name.clone(), name);
            assert!(other.is_none(), "{} is filled by {name} and {other:?}", table.name);
        }
    }
}

#[test]
fn a_collector_fills_the_tables_it_declares_and_no_others() {
    let (_folder, fixture) = fixture();
    for context in [fixture, this()] {
        for mut one in all(&context) {
            // A schema of its own tables only: a row for any other is undeclared.
            let mut tables = one.collector.tables();
            if !tables.iter().any(|t| t.name == AbsentRow::NAME) {
                tables.push(AbsentRow::table());
            }
            let own = Schema::new(tables).unwrap();
            for second in 1..=2 {
                let batches = collect(&own, &mut one, Ts(second * 1_000_000_000));
                for batch in &batches {
                    let rows = batch.len();
                    assert!(batch.columns.iter().all(|c| c.len() == rows), "{}", own.table(batch.table).name);
                }
            }
        }
    }
}

#[test]
fn all_tables_fit_in_one_schema() {
    let (_folder, context) = fixture();
    assert!(schema(&all(&context)).unwrap().tables.len() > 3);
}

/// Counters of a reading, by table, key and column.
fn counters(schema: &Schema, batches: &[Batch]) -> HashMap<(String, Vec<Symbol>, String), u64> {
    let mut out = HashMap::new();
    for batch in batches {
        let table = schema.table(batch.table);
        for row in 0..batch.len() {
            let key: Vec<Symbol> = table.keys().filter_map(|k| batch.columns[k].text(row).cloned()).collect();
            for (i, column) in table.columns.iter().enumerate().filter(|(_, c)| c.kind == Kind::Counter) {
                if let Some(value) = batch.columns[i].whole(row) {
                    out.insert((table.name.to_string(), key.clone(), column.name.to_string()), value);
                }
            }
        }
    }
    out
}

#[test]
fn no_counter_falls_from_one_reading_to_the_next() {
    let (_folder, fixture) = fixture();
    for context in [fixture, this()] {
        let mut list = all(&context);
        let schema = schema(&list).unwrap();
        for one in &mut list {
            let mut before = HashMap::new();
            for second in 1..=3 {
                let now = counters(&schema, &collect(&schema, one, Ts(second * 1_000_000_000)));
                for (place, value) in &now {
                    let earlier = before.get(place).copied().unwrap_or(0);
                    assert!(*value >= earlier, "{place:?} fell from {earlier} to {value}");
                }
                before.extend(now);
            }
        }
    }
}

#[test]
fn without_a_job_and_without_a_machine_nothing_breaks() {
    let folder = tempfile::tempdir().unwrap();
    let context = Context::new(Host::at(folder.path()), Arc::new(SimClock::new(Ts(1))));
    let mut list = all(&context);
    let schema = schema(&list).unwrap();
    for one in &mut list {
        collect(&schema, one, Ts(1));
    }
}
