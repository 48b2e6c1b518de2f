//! Estimated against true causes, on real jobs in which a cause is injected.

mod judge;
mod page;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use feedline_traces::run::Run;
use feedline_traces::{Error, Result};
use serde_json::{Value, json};

use super::jobs::Scenario;
use super::{Jobs, Outcome};
use crate::cli::progress;
use crate::demo::truth::Truth;

/// Which scenarios are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Set {
    /// All that the bench is judged by
    All,
    /// The few that stand for all, none of which needs root
    Short,
    /// Those that were not used while the estimate was built
    Heldout,
    /// Those that need a CUDA device
    Gpu,
}

impl Set {
    /// The list, in the folder of the jobs, that holds the set.
    #[must_use]
    pub fn list(self) -> &'static str {
        match self {
            Self::All | Self::Short => "jobs.json",
            Self::Heldout => "heldout.json",
            Self::Gpu => "gpu.json",
        }
    }

    fn holds(self, scenario: &Scenario) -> bool {
        match self {
            Self::All => scenario.set == "causes",
            Self::Short => scenario.set == "causes" && scenario.quick,
            Self::Heldout => scenario.set == "heldout",
            Self::Gpu => scenario.set == "gpu",
        }
    }
}

/// How the bench is run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Which scenarios.
    pub set: Set,
    /// How long each is recorded.
    pub span: Duration,
    /// Whether rows that an earlier run left in the file are kept and counted, and only scenarios
    /// without one are measured.
    pub resume: bool,
    /// The page to write the confusion matrix and the shares to.
    pub page: Option<PathBuf>,
    /// The folder to keep what was recorded in, for a look at what led to a row.
    pub keep: Option<PathBuf>,
}

/// Records each scenario by its pid, after it started, and holds the shares of causes that Feedline
/// finds in the judged trainer against what the injector logged over the same window.
///
/// A row is written as soon as it is known, so that a bench that was cut short can be resumed.
///
/// # Errors
/// When no scenario could be recorded, or rows or the page cannot be written.
pub fn run(jobs: &Jobs, plan: &Plan, out: &Path) -> Result<Outcome> {
    fs::create_dir_all(out).map_err(|cause| Error::io(out.display(), &cause))?;
    let name = match plan.set {
        Set::All | Set::Short => "causes",
        Set::Heldout => "heldout",
        Set::Gpu => "causes-gpu",
    };
    let file = out.join(format!("{name}.jsonl"));
    let kept = if plan.resume { earlier(&file) } else { Vec::new() };
    let mut log = fs::File::create(&file).map_err(|cause| Error::io(file.display(), &cause))?;
    let mut keep = |row: &Value| writeln!(log, "{row}").map_err(|cause| Error::io(file.display(), &cause));
    kept.iter().try_for_each(&mut keep)?;
    let scenarios: Vec<&Scenario> =
        jobs.scenarios(&["causes", "heldout", "gpu"]).filter(|s| plan.set.holds(s)).collect();
    let bar = progress::bar("recording scenarios", scenarios.len() as u64);
    let mut rows = kept;
    for scenario in scenarios {
        bar.set_message(scenario.name.clone());
        if !rows.iter().any(|row| row["scenario"] == scenario.name.as_str()) {
            let row =
                one(jobs, scenario, plan).unwrap_or_else(|error| judge::left_out(&about(scenario), &error.to_string()));
            bar.suspend(|| crate::cli::output::note(&judge::line(&row)));
            keep(&row)?;
            rows.push(row);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let summary = judge::summary(&rows);
    if summary.judged == 0 {
        return Err(Error::new("no scenario could be recorded").hint("the rows above say why each was left out"));
    }
    if let Some(page) = &plan.page {
        fs::write(page, page::text(&rows, plan.set, &super::machine(), plan.span))
            .map_err(|cause| Error::io(page.display(), &cause))?;
    }
    let mut figures = summary.figures();
    figures["seconds_each"] = plan.span.as_secs().into();
    Outcome::write(name, out, &rows, figures, summary.passes())
}

/// The rows of an earlier run that were measured.
pub(super) fn earlier(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    rows.filter(|row| row["left_out"].is_null()).collect()
}

/// What a row says of its scenario.
fn about(scenario: &Scenario) -> Value {
    json!({
        "scenario": scenario.name,
        "what": scenario.what,
        "cause": scenario.cause,
        "severity": scenario.severity,
        "decoy": scenario.decoy,
        "root": scenario.root,
    })
}

/// Records one scenario and compares.
fn one(jobs: &Jobs, scenario: &Scenario, plan: &Plan) -> Result<Value> {
    let mut job = jobs.start(scenario)?;
    let (folder, said) = jobs.record_as(scenario, &job, plan.span)?;
    job.stop();
    if let Some(keep) = &plan.keep {
        super::keep(&folder, &keep.join(&scenario.name))?;
    }
    let run = Run::open(&folder)?;
    let until = run.extent()?.1.map(|(_, last)| last).ok_or_else(|| Error::new("the run has no ticks"))?;
    let truth = Truth::read(&job.truth)?;
    let from = run.meta().started;
    let told = truth.window(from, until).ok_or_else(|| Error::new("no step lies in the window"))?;
    if told.covered < 0.9 {
        return Err(Error::new(format!("the job's log covers only {:.2} of the window", told.covered)));
    }
    let causes = truth.causes(from, until).ok_or_else(|| Error::new("the job logs no causes"))?;
    let pid = truth.head.pid.unwrap_or(job.pid);
    let trainer = judge::trainer(&said, pid)?;
    let mut row = judge::row(&about(scenario), &causes, &judge::shares(trainer)?);
    row["steps"] = told.steps.into();
    row["text"] = trainer["verdict"]["text"].clone();
    row["own_cpu_pct"] = said["report"]["own"]["cpu"].as_f64().map(|cpu| cpu * 100.0).into();
    Ok(row)
}
