//! Estimated against true data wait, on real training jobs.

use std::path::Path;
use std::time::Duration;

use feedline_traces::run::Run;
use feedline_traces::{Error, Result};
use serde_json::{Value, json};

use super::jobs::Scenario;
use super::{Jobs, Outcome, median};
use crate::cli::progress;
use crate::demo::truth::Truth;

/// Records each job unprivileged, by its pid, after it started, and holds the share of its time
/// that Feedline says it waits for data against what the job logged of itself over the same window.
///
/// # Errors
/// When no job could be run.
pub fn run(jobs: &Jobs, span: Duration, out: &Path) -> Result<Outcome> {
    let scenarios: Vec<&Scenario> = jobs.scenarios(&["short", "long"]).collect();
    let bar = progress::bar("recording jobs", scenarios.len() as u64);
    let mut rows = Vec::new();
    for scenario in scenarios {
        bar.set_message(scenario.name.clone());
        let row = one(jobs, scenario, span).unwrap_or_else(
            |error| json!({ "job": scenario.name, "what": scenario.what, "left_out": error.to_string() }),
        );
        bar.suspend(|| crate::cli::output::note(&line(&row)));
        rows.push(row);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let errors: Vec<f64> = rows.iter().filter_map(|row| row["error_points"].as_f64()).collect();
    let ahead: Vec<f64> =
        rows.iter().filter(|row| row["ahead"] == true).filter_map(|row| row["estimated_points"].as_f64()).collect();
    let inside = rows.iter().filter(|row| row["inside_interval"] == true).count();
    if errors.is_empty() {
        return Err(Error::new("no job could be recorded").hint("the rows above say why each was left out"));
    }
    let worst = errors.iter().copied().fold(0.0, f64::max);
    let most_ahead = ahead.iter().copied().fold(f64::NAN, f64::max);
    let middle = median(&errors).unwrap_or(f64::NAN);
    let complete = errors.len() == rows.len();
    let pass = complete && errors.len() >= 8 && middle <= 1.5 && worst <= 4.0 && most_ahead <= 1.0;
    let figures = json!({
        "jobs": errors.len(),
        "left_out": rows.len() - errors.len(),
        "median_error_points": middle,
        "worst_error_points": worst,
        "ahead_points": most_ahead,
        "inside_interval": inside,
        "unprivileged": jobs.unprivileged(),
        "seconds_each": span.as_secs(),
    });
    Outcome::write("attribution", out, &rows, figures, pass)
}

/// Records one job and compares.
fn one(jobs: &Jobs, scenario: &Scenario, span: Duration) -> Result<Value> {
    let mut job = jobs.start(scenario)?;
    let (folder, said) = jobs.record(&job, span)?;
    job.stop();
    let run = Run::open(&folder)?;
    let until = run.extent()?.1.map(|(_, last)| last).ok_or_else(|| Error::new("the run has no ticks"))?;
    let truth = Truth::read(&job.truth)?;
    let told = truth.window(run.meta().started, until).ok_or_else(|| Error::new("no step lies in the window"))?;
    if told.covered < 0.95 {
        return Err(Error::new(format!("the job's log covers only {:.2} of the window", told.covered)));
    }
    let verdict = &said["report"]["verdict"];
    let number = |name: &str| verdict[name].as_f64();
    let estimated = number("data").ok_or_else(|| Error::new("the verdict has no data share"))?;
    let (low, high) = (number("low"), number("high"));
    let period = said["report"]["trainers"][0]["step"]["period"].as_f64();
    Ok(json!({
        "job": scenario.name,
        "what": scenario.what,
        "ahead": scenario.ahead,
        "true_points": told.share * 100.0,
        "estimated_points": estimated * 100.0,
        "low_points": low.map(|v| v * 100.0),
        "high_points": high.map(|v| v * 100.0),
        "error_points": (estimated - told.share).abs() * 100.0,
        "inside_interval": low.zip(high).map(|(low, high)| low <= told.share && told.share <= high),
        "confidence": number("confidence"),
        "steps": told.steps,
        "true_period_ms": told.period_ns.map(|ns| Duration::from_nanos(ns.unsigned_abs()).as_secs_f64() * 1e3),
        "estimated_period_ms": period.map(|ns| ns / 1e6),
        "own_cpu_pct": said["report"]["own"]["cpu"].as_f64().map(|v| v * 100.0),
        "own_rss_mb": said["report"]["own"]["rss_peak"].as_f64().map(|v| v / 1e6),
        "text": verdict["text"],
    }))
}

fn line(row: &Value) -> String {
    let shown = |name: &str| row[name].as_f64().map_or_else(|| "–".to_owned(), |v| format!("{v:.1}"));
    match row["left_out"].as_str() {
        Some(why) => format!("{:<20} left out: {why}", row["job"].as_str().unwrap_or_default()),
        None => format!(
            "{:<20} true {:>5}  estimated {:>5} ({} to {})  error {}",
            row["job"].as_str().unwrap_or_default(),
            shown("true_points"),
            shown("estimated_points"),
            shown("low_points"),
            shown("high_points"),
            shown("error_points"),
        ),
    }
}
