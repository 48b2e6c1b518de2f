//! Both samplers against a real Python process that says itself where its time went.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use feedline_collectors::{Context, Host, Process, Role, Scheduled, key, schema, stack::Stacks, thread::Threads};
use feedline_traces::{Clock as _, Collector, Rows, Schema, SystemClock};

/// Enough stacks for a share to be known within 0.1 at worst (two standard deviations).
const ENOUGH: f64 = 150.0;
/// Readings before giving up, each at least 100 ms apart.
const MOST_READINGS: usize = 300;
const MARGIN: f64 = 0.2;

struct Job {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Job {
    /// Starts the job, once it says that it runs; `None` without a Python.
    fn start() -> Option<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/queue_job.py");
        let mut command = Command::new("python3");
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let output = BufReader::new(child.stdout.take()?);
        let mut job = Self { child, output };
        (job.line() == "ready").then_some(job)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Ends the job; gives its shares of waiting, computing and sleeping.
    fn truth(&mut self) -> Vec<f64> {
        drop(self.child.stdin.take());
        self.line().split(' ').map(|share| share.parse().unwrap()).collect()
    }

    fn process(&self) -> Process {
        let pid = self.child.id();
        let stat = Host::this().read(format!("proc/{pid}/stat")).unwrap();
        let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap();
        let role = Role::Trainer;
        Process { pid, start, key: key(pid, start), role, name: "python3".into(), python: true, ..Process::default() }
    }
}

/// Samples by (table, state, site) of the main thread and of the others, and the reasons why something
/// is absent.
#[derive(Default)]
struct Seen {
    samples: HashMap<(String, String, String), f64>,
    others: HashMap<(String, String, String), f64>,
    missed: f64,
    reasons: Vec<String>,
}

impl Seen {
    fn collect(&mut self, schema: &Schema, clock: &SystemClock, collector: &mut dyn Collector) {
        let mut rows = Rows::new(schema, clock.now());
        collector.collect(&mut rows).unwrap();
        for batch in rows.finish() {
            let table = schema.table(batch.table);
            let column = |name: &str| table.columns.iter().position(|c| c.name == name).map(|i| &batch.columns[i]);
            for row in 0..batch.len() {
                let text =
                    |name: &str| column(name).and_then(|c| c.text(row)).map(ToString::to_string).unwrap_or_default();
                let number = |name: &str| column(name).and_then(|c| c.number(row)).unwrap_or_default();
                match table.name.as_ref() {
                    "absent" => self.reasons.push(text("reason")),
                    name @ ("activity" | "stack") => {
                        let place = (name.to_owned(), text("state"), text("site"));
                        let is_main = text("process").split('@').next() == Some(text("thread").as_str());
                        let samples = if is_main { &mut self.samples } else { &mut self.others };
                        *samples.entry(place).or_default() += number("samples");
                        self.missed += number("missed");
                    }
                    _ => {}
                }
            }
        }
    }

    fn of(&self, table: &str, which: impl Fn(&str, &str) -> bool) -> f64 {
        self.samples.iter().filter(|((t, state, site), _)| t == table && which(state, site)).map(|(_, n)| n).sum()
    }

    fn share(&self, table: &str, which: impl Fn(&str, &str) -> bool) -> f64 {
        self.of(table, which) / self.of(table, |_, _| true)
    }
}

#[test]
fn the_share_of_time_in_a_queue_get_is_what_the_job_says_it_is() {
    let Some(mut job) = Job::start() else {
        eprintln!("skipped: no python3 on the path that runs");
        return;
    };
    let clock = Arc::new(SystemClock::anchored_now());
    let mut context = Context::new(Host::this(), Arc::clone(&clock) as _);
    (context.settings.stack_hz, context.settings.budget) = (100, 1.0);
    context.target.replace(vec![job.process()]);
    let (mut threads, mut stacks) = (Threads::new(&context), Stacks::new(&context));
    let second = Duration::from_secs(1);
    let scheduled = [Scheduled::every(second, Threads::new(&context)), Scheduled::every(second, Stacks::new(&context))];
    let schema = schema(&scheduled).unwrap();
    let mut seen = Seen::default();
    for _ in 0..MOST_READINGS {
        seen.collect(&schema, &clock, &mut threads);
        seen.collect(&schema, &clock, &mut stacks);
        if seen.of("stack", |_, _| true) >= ENOUGH || !seen.reasons.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    if let Some(reason) = seen.reasons.first() {
        eprintln!("skipped: {reason}");
        return;
    }
    let truth = job.truth();
    let [wait, compute, sleep] = truth[..] else { panic!("{truth:?}") };
    let close = |what: &str, estimate: f64, truth: f64| {
        assert!((estimate - truth).abs() < MARGIN, "{what}: {estimate} of a true {truth}; {:?}", seen.samples);
    };
    assert!(seen.of("stack", |_, _| true) >= ENOUGH, "{:?}, {} missed", seen.samples, seen.missed);
    close("stacks in the loader", seen.share("stack", |_, site| site == "loader"), wait);
    close("stacks on the host", seen.share("stack", |_, site| site == "host"), compute + sleep);
    close("the thread in a futex", seen.share("activity", |state, _| state == "futex"), wait);
    // The thread that fills the queue sleeps nearly all of the time; the other waits for its input.
    let producer = seen.others.iter().filter(|((table, state, _), _)| table == "stack" && state == "sleep");
    let producer: f64 = producer.map(|(_, n)| n).sum();
    assert!(producer > 20.0, "{:?}", seen.others);
    // Emulated compute is no wait for data.
    assert!(seen.share("stack", |state, site| state == "sleep" && site == "loader") < 0.1, "{:?}", seen.samples);
}
