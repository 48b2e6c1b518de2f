//! The forecast against what came, on real jobs whose surroundings change while they run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use feedline_models::forecast::{By, Lived, NAMES, Scored, Scores, Training, unseen};
use feedline_traces::{Error, Result};
use serde_json::{Map, Value, json};

use super::jobs::Scenario;
use super::{Jobs, Outcome};
use crate::cli::{output, progress};
use crate::train::{self, TRUTH};

/// The list of jobs, in their folder.
pub const LIST: &str = "regimes.json";
/// The horizon that the bar is set for.
const TEN: usize = 2;
/// The most folds of runs.
const FOLDS: usize = 8;
/// The bars at ten seconds.
const AUROC: f64 = 0.90;
const PERCENT: f64 = 65.0;
const RUNS: usize = 24;

/// How the bench is run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How long each job is recorded.
    pub span: Duration,
    /// How many seeds of each kind.
    pub seeds: u64,
    /// Where runs are kept, each with the log of its job.
    pub keep: PathBuf,
    /// Whether runs that are there already are kept, and only those that lack are recorded.
    pub resume: bool,
    /// Whether to record nothing, and judge what is there.
    pub judge: bool,
}

/// Records each kind under each seed, one at a time, and judges forecasts of runs that the models
/// had not seen. Inputs come from the recorded run alone, what came from the job's own log.
///
/// # Errors
/// When no run could be recorded or read, or rows cannot be written.
pub fn run(jobs: impl FnOnce() -> Result<Jobs>, plan: &Plan, out: &Path) -> Result<Outcome> {
    if !plan.judge {
        record(&jobs()?, plan)?;
    }
    judge(&plan.keep, out)
}

fn record(jobs: &Jobs, plan: &Plan) -> Result<()> {
    fs::create_dir_all(&plan.keep).map_err(|cause| Error::io(plan.keep.display(), &cause))?;
    let planned: Vec<Scenario> = (1..=plan.seeds)
        .flat_map(|seed| jobs.scenarios(&["regimes"]).map(move |scenario| scenario.seeded(seed)))
        .collect();
    let bar = progress::bar("recording changes", planned.len() as u64);
    for scenario in &planned {
        bar.set_message(scenario.name.clone());
        let to = plan.keep.join(&scenario.name);
        let there = to.join("run.json").is_file() && to.join(TRUTH).is_file();
        if !(there && plan.resume) {
            let left_out = one(jobs, scenario, plan.span, &to).err();
            let note = |error: Error| output::note(&format!("{:<20} left out: {error}", scenario.name));
            left_out.into_iter().for_each(|error| bar.suspend(|| note(error)));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Records one job and keeps its run and its log.
fn one(jobs: &Jobs, scenario: &Scenario, span: Duration, to: &Path) -> Result<()> {
    let mut job = jobs.start(scenario)?;
    let (folder, _) = jobs.record_as(scenario, &job, span)?;
    job.stop();
    // A run that was cut short lies there without its log.
    if to.exists() && !to.join(TRUTH).is_file() {
        fs::remove_dir_all(to).map_err(|cause| Error::io(to.display(), &cause))?;
    }
    super::keep(&folder, to)?;
    fs::copy(&job.truth, to.join(TRUTH)).map(|_| ()).map_err(|cause| Error::io(job.truth.display(), &cause))
}

/// Judges the kept runs of a folder.
fn judge(keep: &Path, out: &Path) -> Result<Outcome> {
    let folders: Vec<PathBuf> =
        crate::chain::find_runs(keep)?.into_iter().filter(|folder| folder.join(TRUTH).is_file()).collect();
    let bar = progress::bar("reading runs", folders.len() as u64);
    let mut runs: Vec<Lived> = Vec::new();
    for folder in &folders {
        match train::lived(folder) {
            Ok(lived) => runs.extend(lived),
            Err(error) => bar.suspend(|| output::note(&format!("{} left out: {error}", folder.display()))),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let how = Training::default();
    let scored = unseen(&runs, By::Run, FOLDS, &how)?;
    let scores = Scores::of(&scored);
    // Needs two kinds: a folder with one alone has no such score.
    let kinds = unseen(&runs, By::Kind, usize::MAX, &how).ok().map(|scored| Scores::of(&scored));
    let rows: Vec<Value> = scored.iter().flat_map(rows).collect();
    let ten = &scores.horizons[TEN];
    let pass = scores.runs >= RUNS
        && ten.auroc.is_some_and(|v| v >= AUROC)
        && ten.mae_vs_best_naive_pct.is_some_and(|v| v <= PERCENT);
    Outcome::write("forecast", out, &rows, figures(&scores, kinds.as_ref(), &scored), pass)
}

fn figures(scores: &Scores, kinds: Option<&Scores>, scored: &[Scored]) -> Value {
    let ten = &scores.horizons[TEN];
    let mut by_kind: Map<String, Value> = Map::new();
    let mut names: Vec<&str> = scored.iter().map(|one| one.run.kind.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let mine: Vec<Scored> = scored.iter().filter(|one| one.run.kind == name).cloned().collect();
        let one = &Scores::of(&mine).horizons[TEN];
        let percent = one.mae_points.zip(one.naive_mae_points).filter(|(_, naive)| *naive > 0.0);
        let about = json!({
            "mae_points": one.mae_points,
            "mae_vs_best_naive_pct": percent.map(|(mae, naive)| 100.0 * mae / naive),
            "best_naive": one.naive,
            "auroc": one.auroc,
            "coverage_80_pct": one.coverage_80_pct,
        });
        by_kind.insert(name.to_owned(), about);
    }
    let left_out = kinds.map(|kinds| {
        let one = &kinds.horizons[TEN];
        json!({
            "auroc_10s": one.auroc,
            "mae_vs_best_naive_pct": one.mae_vs_best_naive_pct,
            "coverage_80_pct": one.coverage_80_pct,
            "worst_kind": one.worst_kind,
        })
    });
    json!({
        "runs": scores.runs,
        "auroc_10s": ten.auroc,
        "mae_vs_best_naive_pct": ten.mae_vs_best_naive_pct,
        "best_naive_10s": ten.naive,
        "coverage_80_pct": ten.coverage_80_pct,
        "events": scores.events,
        "horizons": scores.horizons,
        "leave_kind_out": left_out,
        "kinds": by_kind,
    })
}

/// Every second of a run at every horizon: what was said, and what came.
fn rows(scored: &Scored) -> Vec<Value> {
    let start = scored.run.points.first().map(|point| point.at).unwrap_or_default();
    let mut rows = Vec::new();
    for (i, (said, point)) in scored.said.iter().zip(&scored.run.points).enumerate() {
        for (at, said) in said.iter().enumerate() {
            rows.push(json!({
                "run": scored.run.name,
                "second": point.at.seconds_since(start).round(),
                "horizon": NAMES[at],
                "share": said.share,
                "low": said.low,
                "high": said.high,
                "onset": said.onset,
                "baseline": said.baseline,
                "model": said.model,
                "why": said.why,
                "came": scored.run.came[i][at],
                "began": scored.run.onset[i][at],
                "level": scored.run.level[i],
                "seen": point.share,
            }));
        }
    }
    rows
}
