//! The `process` table from a machine of files and from this one.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use feedline_traces::{Batch, Schema, SimClock};

use super::*;
use crate::job::Jobs;
use crate::job::fixture::{Fake, machine};

fn schema() -> Schema {
    let mut tables = vec![ProcessRow::table(), AbsentRow::table()];
    tables.extend(Jobs::new(&Context::new(Host::at("/nowhere"), Arc::new(SimClock::default())), 1).tables());
    Schema::new(tables).unwrap()
}

fn read(schema: &Schema, collector: &mut dyn Collector, second: i64) -> Vec<Batch> {
    let mut rows = Rows::new(schema, Ts(second * 1_000_000_000));
    collector.collect(&mut rows).unwrap();
    assert!(rows.undeclared().is_empty());
    rows.finish()
}

fn job() -> [Fake; 2] {
    let line = "/usr/bin/python3 train.py";
    [
        Fake::new(100, 1, "pt_main_thread", line).environ("RANK=3").file("/data/a").file("/data/b"),
        Fake::new(110, 100, "pt_data_worker", line),
    ]
}

#[test]
fn a_row_says_who_a_process_is_and_what_it_uses() {
    let (_folder, host) = machine(&job());
    let context = Context::new(host, Arc::new(SimClock::default()));
    let schema = schema();
    read(&schema, &mut Jobs::new(&context, 100), 1);
    let mut processes = Processes::new(&context);
    let batches = read(&schema, &mut processes, 1);
    let rows = &batches[0];
    assert_eq!(rows.len(), 2);
    let column = |name: &str| &rows.columns[schema.find(&format!("process.{name}")).unwrap().column];
    let text = |name: &str, row: usize| column(name).text(row).map(ToString::to_string);
    let number = |name: &str, row: usize| column(name).number(row);
    assert_eq!((text("process", 0), text("role", 0)), (Some("100@100".into()), Some("trainer".into())));
    assert_eq!((text("parent", 0), text("parent", 1)), (None, Some("100@100".into())));
    assert_eq!((text("command", 1), text("cgroup", 1)), (Some("python3 train.py".into()), Some("/job.slice".into())));
    assert_eq!((number("rank", 0), number("worker", 1)), (Some(3.0), Some(0.0)));
    assert_eq!((number("read", 0), number("storage_read", 0)), (Some(14483.0), Some(5488.0)));
    assert_eq!((number("pss", 0), number("pss", 1)), (Some(867.0 * 1024.0), None));
    assert_eq!((number("fds", 0), number("cores_allowed", 0)), (Some(2.0), Some(2.0)));
    assert_eq!(text("allowed", 0).as_deref(), Some("0-1"));
    let tick = 1e9 / f64::from(u32::try_from(rustix::param::clock_ticks_per_second()).unwrap());
    assert_eq!(number("cpu_user", 0), Some(100.0 * tick));
    let again = read(&schema, &mut processes, 2);
    let fds = &again[0].columns[schema.find("process.fds").unwrap().column];
    assert_eq!(fds.number(0), None, "open files are counted every ten seconds");
    let again = read(&schema, &mut processes, 12);
    assert_eq!(again[0].columns[schema.find("process.fds").unwrap().column].number(0), Some(2.0));
}

#[test]
fn what_may_not_be_read_is_missing_with_a_reason() {
    let (folder, host) = machine(&job());
    fs::remove_file(folder.path().join("proc/100/io")).unwrap();
    let context = Context::new(host, Arc::new(SimClock::default()));
    let schema = schema();
    read(&schema, &mut Jobs::new(&context, 100), 1);
    let batches = read(&schema, &mut Processes::new(&context), 1);
    let table = |name: &str| batches.iter().find(|b| b.table == schema.find_table(name).unwrap()).unwrap();
    let read = &table("process").columns[schema.find("process.read").unwrap().column];
    assert_eq!((read.whole(0), read.whole(1)), (None, Some(14483)));
    let absent = table("absent");
    let what: Vec<&str> = (0..absent.len()).map(|i| absent.columns[0].text(i).unwrap().as_ref()).collect();
    let expected = ["storage_read", "read", "storage_written", "written", "read_calls"].map(|c| format!("process.{c}"));
    assert_eq!(what, expected);
    assert!(absent.columns[2].text(0).unwrap().starts_with("proc/100/io: "));
}

#[test]
fn a_pid_that_names_another_process_by_now_gives_no_row() {
    let (folder, host) = machine(&job());
    let context = Context::new(host, Arc::new(SimClock::default()));
    let schema = schema();
    read(&schema, &mut Jobs::new(&context, 100), 1);
    let mut other = Fake::new(110, 1, "cat", "cat");
    other.start = 999;
    other.write(folder.path());
    let batches = read(&schema, &mut Processes::new(&context), 1);
    assert_eq!(batches[0].len(), 1);
}

/// Prints what a tick costs for nine processes; run with `--ignored --nocapture`.
#[test]
#[ignore = "measures, and decides nothing"]
fn cost_of_a_tick() {
    let mut children: Vec<_> = (0..9).map(|_| std::process::Command::new("sleep").arg("30").spawn().unwrap()).collect();
    let context = Context::new(Host::this(), Arc::new(SimClock::default()));
    let mut target = Vec::new();
    for child in &children {
        let stat = parse::stat(&context.host.read(format!("proc/{}/stat", child.id())).unwrap()).unwrap();
        let key = crate::key(child.id(), stat.start);
        target.push(Process { pid: child.id(), start: stat.start, key, ..Process::default() });
    }
    target[0].role = Role::Trainer;
    context.target.replace(target);
    let schema = schema();
    let mut processes = Processes::new(&context);
    let mut jobs = Jobs::new(&Context { target: Target::default(), ..context.clone() }, std::process::id());
    for (name, collector) in [("process", &mut processes as &mut dyn Collector), ("job", &mut jobs)] {
        read(&schema, collector, 0);
        let before = cpu();
        for second in 1..=100 {
            read(&schema, collector, second);
        }
        println!("{name}: {:?} of CPU a tick", (cpu() - before) / 100);
    }
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}
