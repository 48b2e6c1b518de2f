//! What a finished run says: gathered as a sink, rendered as text, Markdown or JSON.

mod fine;
mod gather;
mod inside;
mod page;
mod rows;
mod sections;
mod stat;
mod story;
mod time;
mod wording;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use feedline_traces::{Error, Result, Schema, Sink, Tick};
use serde::Serialize;

use gather::Gather;
pub(crate) use time::utc;

/// How a report is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For the terminal, without colour.
    Text,
    /// For an issue or a wiki.
    Markdown,
    /// For programs; `docs/report.md` lists the keys.
    Json,
}

/// Gathers a report. It is a sink; its clones share what they gather, so that one can be given
/// away and the other asked for the report.
#[derive(Debug, Clone)]
pub struct ReportBuilder {
    gather: Arc<Mutex<Gather>>,
}

impl ReportBuilder {
    /// Nothing gathered yet; the title says what was looked at.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { gather: Arc::new(Mutex::new(Gather::new(title.into()))) }
    }

    /// Adds a note, for example that the end of the run was recovered after a crash.
    pub fn note(&self, text: impl Into<String>) {
        self.gather.lock().unwrap_or_else(PoisonError::into_inner).notes.push(text.into());
    }

    /// The report of what was gathered so far.
    #[must_use]
    pub fn report(&self) -> Report {
        self.gather.lock().unwrap_or_else(PoisonError::into_inner).report()
    }
}

impl Sink for ReportBuilder {
    fn accept(&mut self, schema: &Schema, tick: &Tick) -> Result<()> {
        self.gather.lock().unwrap_or_else(PoisonError::into_inner).accept(schema, tick);
        Ok(())
    }
}

/// A report. Its fields are the keys of the JSON form; a number that is not known is `None`, which
/// is `null` there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of this form; it changes when a key changes its meaning or goes.
    pub format: u32,
    /// What was looked at.
    pub title: String,
    /// Time of the first tick, UTC.
    pub started: Option<String>,
    /// Time of the last tick, UTC.
    pub ended: Option<String>,
    /// Seconds between them.
    pub seconds: f64,
    /// Number of ticks.
    pub ticks: u64,
    /// The verdict on the slow rank that the others wait for, else on the trainer that waits longest
    /// for data.
    pub verdict: Option<Verdict>,
    /// The rank that the others wait for; null where none stands out.
    pub slow: Option<Slow>,
    /// Each trainer.
    pub trainers: Vec<Trainer>,
    /// Known patterns that held, those that hold at the end first.
    pub findings: Vec<Finding>,
    /// Measured things by section: `workers`, `regions`, `disks`, `mounts`, `network`,
    /// `accelerators`, `pressure`, `cgroup`.
    #[serde(flatten)]
    pub sections: BTreeMap<&'static str, Section>,
    /// What could not be known, and why.
    pub absent: Vec<Reason>,
    /// What Feedline itself cost.
    pub own: Own,
    /// Notes, such as what was recovered.
    pub notes: Vec<String>,
}

/// A verdict over the whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Key of the trainer, `PID@START`.
    pub process: String,
    /// The cause that stands out.
    pub cause: Option<String>,
    /// Share of wall time waiting for data.
    pub data: Option<f64>,
    /// Lower end of its 95 % interval.
    pub low: Option<f64>,
    /// Upper end of its 95 % interval.
    pub high: Option<f64>,
    /// Confidence, 0 to 1.
    pub confidence: Option<f64>,
    /// Idle share of the accelerator.
    pub accelerator_idle: Option<f64>,
    /// The verdict in a sentence.
    pub text: Option<String>,
    /// One piece of advice.
    pub advice: Option<String>,
}

/// The rank that the others wait for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slow {
    /// The trainer, `PID@START`.
    pub process: String,
    /// Its number in the whole job.
    pub rank: Option<u64>,
    /// The most of its time that another rank waits for a slower one.
    pub lost: f64,
    /// What takes most of its own time, the step's own work left out.
    pub cause: Option<String>,
}

/// One trainer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trainer {
    /// Its entry among the processes.
    #[serde(flatten)]
    pub entry: Entry,
    /// Its key, `PID@START`.
    pub process: String,
    /// Its number in the whole job, where the launcher says so.
    pub rank: Option<u64>,
    /// Its number among the ranks of this machine.
    pub local_rank: Option<u64>,
    /// Its verdict.
    pub verdict: Option<Verdict>,
    /// Share of the run by cause, 0 to 1; empty where only the first level was concluded.
    pub causes: BTreeMap<String, f64>,
    /// The same with what stands behind it, the largest first.
    pub causes_detail: Vec<CauseShare>,
    /// What its workers did with their time.
    pub workers: Vec<WorkerTime>,
    /// Its threads beside the main one, as far as they were sampled.
    pub threads: Vec<ThreadTime>,
    /// What its main thread was blocked in.
    pub waits: Vec<Waits>,
    /// How often it saved; null where no stack found it saving.
    pub saves: Option<Saves>,
    /// Where its time went.
    pub stall: Vec<Stall>,
    /// Its steps.
    pub step: Option<Step>,
}

/// The share of a cause of the second level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseShare {
    /// The cause.
    pub cause: String,
    /// Share of the run.
    pub share: Option<f64>,
    /// Lower end of its 95 % interval.
    pub low: Option<f64>,
    /// Upper end of its 95 % interval.
    pub high: Option<f64>,
    /// Confidence, 0 to 1.
    pub confidence: Option<f64>,
    /// Mean share of the windows of ten seconds.
    pub window: Option<f64>,
    /// The facts behind it, at the end of the run.
    pub evidence: Option<String>,
}

/// What a worker did with its time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkerTime {
    /// The worker, `PID@START`.
    pub process: String,
    /// Its thread.
    pub thread: String,
    /// Mean share of its time by what it did.
    pub shares: BTreeMap<String, Option<f64>>,
    /// Mean bytes a second that it read.
    pub read_rate: Option<f64>,
    /// The file it read last.
    pub file: Option<String>,
    /// The mount that file is on.
    pub mount: Option<String>,
}

/// A thread of a trainer beside its main one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThreadTime {
    /// Its thread id.
    pub thread: String,
    /// Its name.
    pub name: Option<String>,
    /// What it does: `loader` or `worker` (feeds the trainer), `pin`, `other`.
    pub role: String,
    /// Share of time on a CPU, exact.
    pub cpu: Option<f64>,
    /// Shares of the states in which it was seen.
    pub states: BTreeMap<String, f64>,
    /// The innermost function in which its stacks most often are.
    pub function: Option<String>,
}

/// Times of 2 ms or more that a trainer's main thread was blocked in one state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Waits {
    /// The state.
    pub state: String,
    /// How many.
    pub times: u64,
    /// Mean length, in nanoseconds.
    pub mean: Option<f64>,
    /// The longest, in nanoseconds.
    pub longest: Option<f64>,
}

/// Saves of checkpoints, as far as stacks tell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Saves {
    /// How many at least: one that lies between two stacks is not seen.
    pub times: u64,
    /// Mean length of those seen, in nanoseconds.
    pub length: Option<f64>,
}

/// A known pattern that held during the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The pattern.
    pub kind: String,
    /// The trainer it stood in the way of, `PID@START`; empty: the whole job.
    pub process: String,
    /// When it first began, UTC.
    pub started: Option<String>,
    /// Seconds for which it held, in all.
    pub seconds: f64,
    /// How often it began.
    pub times: u64,
    /// Whether it held at the end.
    pub holds: bool,
    /// Mean share of the trainer's time that it cost.
    pub severity: Option<f64>,
    /// What was the matter, as last said.
    pub text: String,
    /// What to do about it.
    pub advice: String,
    /// The facts it rested on.
    pub evidence: String,
}

/// The share of one cause, the mean of all windows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stall {
    /// The cause.
    pub cause: String,
    /// Mean share of wall time.
    pub share: Option<f64>,
    /// Mean of the lower ends of the windows' 95 % intervals: wider than the interval of the mean.
    pub low: Option<f64>,
    /// Mean of the upper ends.
    pub high: Option<f64>,
    /// Mean confidence.
    pub confidence: Option<f64>,
    /// Windows.
    pub windows: u64,
}

/// Steps of one trainer. Each tick gives the median of the last minute; these are over all ticks
/// that give one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Mean time of a step, in nanoseconds.
    pub period: Option<f64>,
    /// The shortest that a tick gives, in nanoseconds.
    pub shortest: Option<f64>,
    /// The longest that a tick gives, in nanoseconds.
    pub longest: Option<f64>,
    /// Mean wait within a step, in nanoseconds.
    pub wait: Option<f64>,
    /// Mean confidence.
    pub confidence: Option<f64>,
}

/// One section of measured things.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Section {
    /// Whether the run has the table at all.
    pub recorded: bool,
    /// The things.
    pub entries: Vec<Entry>,
    /// Things that did not fit the report.
    pub left_out: u64,
}

/// One measured thing.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Entry {
    /// Its key; keys of several columns are joined by `/`.
    pub entity: String,
    /// Names, numbers that are names, and the latest of texts.
    pub labels: BTreeMap<String, String>,
    /// Measured values.
    pub values: BTreeMap<String, Measured>,
    /// Shares of the states in which it was seen.
    pub states: BTreeMap<String, f64>,
    #[serde(skip)]
    pub(crate) cells: Vec<(String, String, bool)>,
}

/// One measured value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// Mean over the run; of a counter, its increase over the time it was seen.
    pub mean: Option<f64>,
    /// The largest value of a tick.
    pub peak: Option<f64>,
    /// Unit of both: `bytes`, `bytes_per_second`, `ratio`, `nanoseconds`, `per_second` and so on.
    pub unit: String,
}

/// Why something is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The table or column.
    pub what: String,
    /// Of which thing; empty: of all.
    pub entity: String,
    /// The reason.
    pub reason: String,
}

/// What Feedline itself cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Own {
    /// CPU, of one core.
    pub cpu: Option<f64>,
    /// Largest resident memory in bytes.
    pub rss_peak: Option<f64>,
    /// Samples and events lost.
    pub drops: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Samples left out to keep to the CPU budget.
    pub skipped: u64,
    /// By collector.
    pub collectors: Vec<Collector>,
}

/// What one collector cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Collector {
    /// Its name.
    pub collector: String,
    /// CPU time in nanoseconds.
    pub cost: f64,
    /// Latest it came, in nanoseconds.
    pub late_peak: Option<f64>,
    /// Rows.
    pub rows: u64,
    /// Samples and events lost.
    pub drops: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Samples left out to keep to the CPU budget.
    pub skipped: u64,
    /// Its last error.
    pub error: Option<String>,
}

impl Report {
    /// Renders it.
    ///
    /// # Errors
    /// When JSON cannot be made of it.
    pub fn render(&self, format: Format) -> Result<String> {
        match format {
            Format::Text => Ok(page::text(&sections::blocks(self))),
            Format::Markdown => Ok(page::markdown(&sections::blocks(self))),
            Format::Json => serde_json::to_string_pretty(self)
                .map(|text| text + "\n")
                .map_err(|cause| Error::new(format!("report: {cause}"))),
        }
    }
}
