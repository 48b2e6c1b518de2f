//! Prints what the threads of a running job do: `watch_threads PID [SECONDS]`.
//!
//! The process is taken as a trainer and its Python children as its workers, without looking at
//! what they are; every second the rows of both samplers are printed, and what they cost.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use feedline_collectors::{Context, Host, Process, Role, Scheduled, schema, stack::Stacks, thread::Threads};
use feedline_traces::{Clock as _, Collector, Error, Result, Rows, Schema, SystemClock};

#[expect(clippy::print_stderr, reason = "an example prints")]
fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<u32>().ok());
    let usage = || Error::new("expected a process id").hint("watch_threads PID [SECONDS]");
    let pid = arguments.next().flatten().ok_or_else(usage)?;
    let seconds = arguments.next().flatten().unwrap_or(10);
    let clock = Arc::new(SystemClock::anchored_now());
    let context = Context::new(Host::this(), Arc::clone(&clock) as _);
    let schema = schema(&[
        Scheduled::every(Duration::from_secs(1), Threads::new(&context)),
        Scheduled::every(Duration::from_secs(1), Stacks::new(&context)),
    ])?;
    let mut collectors: [Box<dyn Collector>; 2] = [Box::new(Threads::new(&context)), Box::new(Stacks::new(&context))];
    for _ in 0..=seconds {
        context.target.replace(job(&context.host, pid)?);
        for collector in &mut collectors {
            let mut rows = Rows::new(&schema, clock.now());
            collector.collect(&mut rows)?;
            print(&schema, rows, collector.as_mut());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

/// The process as a trainer, its Python children as workers.
fn job(host: &Host, pid: u32) -> Result<Vec<Process>> {
    let mut processes = vec![process(host, pid, Role::Trainer)?];
    for tid in host.names(format!("proc/{pid}/task")) {
        let children = host.read(format!("proc/{pid}/task/{tid}/children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|c| c.parse().ok());
        processes.extend(children.filter_map(|child| process(host, child, Role::Worker).ok()).filter(|p| p.python));
    }
    Ok(processes)
}

fn process(host: &Host, pid: u32, role: Role) -> Result<Process> {
    let stat = host.read(format!("proc/{pid}/stat"))?;
    let start = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19)?.parse().ok());
    let start = start.ok_or_else(|| Error::new(format!("proc/{pid}/stat: expected a start time in field 22")))?;
    let name = host.read(format!("proc/{pid}/comm"))?;
    let python = host.link(format!("proc/{pid}/exe")).is_ok_and(|exe| exe.display().to_string().contains("python"));
    let key = feedline_collectors::key(pid, start);
    Ok(Process { pid, start, key, role, name: name.trim_end().into(), python, ..Process::default() })
}

#[expect(clippy::print_stdout, reason = "an example prints")]
fn print(schema: &Schema, rows: Rows<'_>, collector: &mut dyn Collector) {
    let cost = collector.background();
    println!(
        "-- {}: {:?} ms CPU, {} drops, {} skipped",
        collector.name(),
        cost.cpu as f64 / 1e6,
        cost.drops,
        cost.skipped
    );
    for batch in rows.finish() {
        let table = schema.table(batch.table);
        for row in 0..batch.len() {
            let cells = table.columns.iter().zip(&batch.columns).map(|(column, values)| {
                let text = values.text(row).map(ToString::to_string);
                let number = values.number(row).map(|n| column.unit.show(n));
                format!("{}={}", column.name, text.or(number).unwrap_or_else(|| "–".into()))
            });
            println!("{} {}", table.name, cells.collect::<Vec<_>>().join(" "));
        }
    }
}
