//! One scenario's shares judged against its truth, and all of them together. Pure.

use std::collections::BTreeMap;

use feedline_traces::{Error, Result};
use serde_json::{Value, json};

use crate::bench::median;

/// Shares of wall time by cause, 0 to 1.
pub(super) type Shares = BTreeMap<String, f64>;

/// Below this neither a true nor an estimated share counts as an error that was looked at.
const LOOKED_AT: f64 = 0.01;
/// A data cause above this in a decoy is a false data stall.
const FALSE: f64 = 0.05;

/// The causes that blame the loader.
fn is_data(cause: &str) -> bool {
    cause.starts_with("fetch.") || matches!(cause, "decode" | "handoff" | "startup")
}

/// The largest share besides the step's own work and what nobody knows, and its cause.
fn top(shares: &Shares) -> Option<(&str, f64)> {
    let causes =
        shares.iter().filter(|(cause, share)| !matches!(cause.as_str(), "compute" | "unknown") && **share > 0.0);
    causes.max_by(|a, b| a.1.total_cmp(b.1)).map(|(cause, share)| (cause.as_str(), *share))
}

/// The trainer of a pid in what `record --json` said.
///
/// # Errors
/// When the report has no such trainer.
pub(super) fn trainer(said: &Value, pid: u32) -> Result<&Value> {
    let start = format!("{pid}@");
    let trainers = said["report"]["trainers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = trainers.iter().find(|trainer| trainer["entity"].as_str().is_some_and(|e| e.starts_with(&start)));
    found.ok_or_else(|| {
        let seen: Vec<&str> = trainers.iter().filter_map(|trainer| trainer["entity"].as_str()).collect();
        Error::new(format!("the report has no trainer {pid}, only [{}]", seen.join(", ")))
    })
}

/// The estimated shares of a trainer.
///
/// # Errors
/// When the report names no causes.
pub(super) fn shares(trainer: &Value) -> Result<Shares> {
    let causes = trainer["causes"].as_object().filter(|causes| !causes.is_empty());
    let causes = causes.ok_or_else(|| Error::new("the report names no causes"))?;
    Ok(causes.iter().filter_map(|(cause, share)| Some((cause.clone(), share.as_f64()?))).collect())
}

/// A scenario that was not judged, and why.
pub(super) fn left_out(about: &Value, why: &str) -> Value {
    let mut row = about.clone();
    row["left_out"] = why.into();
    row
}

/// A scenario judged.
pub(super) fn row(about: &Value, truth: &Shares, estimate: &Shares) -> Value {
    let share = |shares: &Shares, cause: &str| shares.get(cause).copied().unwrap_or(0.0);
    let mut causes: Vec<&String> = truth.keys().chain(estimate.keys()).filter(|cause| *cause != "unknown").collect();
    causes.sort_unstable();
    causes.dedup();
    let errors: BTreeMap<&str, f64> = causes
        .into_iter()
        .filter(|cause| share(truth, cause).max(share(estimate, cause)) >= LOOKED_AT)
        .map(|cause| (cause.as_str(), (share(estimate, cause) - share(truth, cause)).abs() * 100.0))
        .collect();
    let (true_top, found_top) = (top(truth), top(estimate));
    let claimed = about["cause"].as_str();
    let decoy = about["decoy"] == true;
    let mut row = about.clone();
    row["true_points"] = points(truth);
    row["estimated_points"] = points(estimate);
    row["true_top"] = true_top.map(|(cause, _)| cause).into();
    row["estimated_top"] = found_top.filter(|(_, share)| *share >= LOOKED_AT).map(|(cause, _)| cause).into();
    // In a decoy there may be nothing to find, and nothing that has to be.
    row["right"] = if decoy && claimed.is_none() {
        Value::Null
    } else {
        true_top.zip(found_top).is_some_and(|(truth, found)| truth.0 == found.0).into()
    };
    row["as_claimed"] = if decoy {
        true_top.is_none_or(|(cause, share)| !is_data(cause) || share < FALSE).into()
    } else {
        (claimed.is_some() && true_top.map(|(cause, _)| cause) == claimed).into()
    };
    row["false_data_stall"] = (decoy && found_top.is_some_and(|(cause, share)| is_data(cause) && share > FALSE)).into();
    row["errors_points"] = json!(errors);
    row["unknown_points"] = (share(estimate, "unknown") * 100.0).into();
    row
}

/// Shares in points, to a tenth, without those that round to nothing.
fn points(shares: &Shares) -> Value {
    let rounded = shares.iter().map(|(cause, share)| (cause.as_str(), (share * 1000.0).round() / 10.0));
    json!(rounded.filter(|(_, points)| *points > 0.0).collect::<BTreeMap<&str, f64>>())
}

/// A row for reading.
pub(super) fn line(row: &Value) -> String {
    let name = row["scenario"].as_str().unwrap_or_default();
    if let Some(why) = row["left_out"].as_str() {
        return format!("{name:<26} left out: {why}");
    }
    let mark = match (row["right"].as_bool(), row["false_data_stall"] == true) {
        (_, true) => "FALSE",
        (Some(false), _) => "WRONG",
        _ => "ok",
    };
    let claim = if row["as_claimed"] == true { "" } else { "  (not what it claims)" };
    format!(
        "{name:<26} {mark:<5} true {}  estimated {}{claim}",
        listed(&row["true_points"]),
        listed(&row["estimated_points"])
    )
}

/// Points by cause, the largest first, from one point on.
pub(super) fn listed(points: &Value) -> String {
    let all = points.as_object().into_iter().flatten().filter_map(|(cause, p)| Some((cause.as_str(), p.as_f64()?)));
    let mut all: Vec<(&str, f64)> = all.filter(|(_, points)| *points >= 1.0).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.iter().map(|(cause, points)| format!("{cause} {points:.0}")).collect::<Vec<_>>().join(", ")
}

/// All rows together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Summary {
    /// Scenarios with a cause, and decoys, that were judged.
    pub(super) judged: usize,
    scenarios: usize,
    decoys: usize,
    left_out: usize,
    not_as_claimed: usize,
    top_cause_pct: f64,
    false_data_stalls: usize,
    median_error: f64,
    worst_error: f64,
    unknown_median: f64,
}

/// Sums up.
pub(super) fn summary(rows: &[Value]) -> Summary {
    let judged: Vec<&Value> = rows.iter().filter(|row| row["left_out"].is_null()).collect();
    let decoys = judged.iter().filter(|row| row["decoy"] == true).count();
    let told: Vec<bool> = judged.iter().filter_map(|row| row["right"].as_bool()).collect();
    let right = told.iter().filter(|right| **right).count();
    let errors = judged.iter().filter_map(|row| row["errors_points"].as_object()).flatten();
    let errors: Vec<f64> = errors.filter_map(|(_, error)| error.as_f64()).collect();
    let unknown: Vec<f64> = judged.iter().filter_map(|row| row["unknown_points"].as_f64()).collect();
    Summary {
        judged: judged.len(),
        scenarios: judged.len() - decoys,
        decoys,
        left_out: rows.len() - judged.len(),
        not_as_claimed: judged.iter().filter(|row| row["as_claimed"] == false).count(),
        top_cause_pct: percent(right, told.len()),
        false_data_stalls: judged.iter().filter(|row| row["false_data_stall"] == true).count(),
        median_error: median(&errors).unwrap_or(f64::NAN),
        worst_error: errors.iter().copied().fold(0.0, f64::max),
        unknown_median: median(&unknown).unwrap_or(f64::NAN),
    }
}

#[expect(clippy::cast_precision_loss, reason = "there are not that many scenarios")]
fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { f64::NAN } else { part as f64 * 100.0 / whole as f64 }
}

impl Summary {
    /// The figures by name.
    pub(super) fn figures(&self) -> Value {
        json!({
            "scenarios": self.scenarios,
            "decoys": self.decoys,
            "left_out": self.left_out,
            "not_as_claimed": self.not_as_claimed,
            "top_cause_pct": self.top_cause_pct,
            "false_data_stalls": self.false_data_stalls,
            "share_error_median_points": self.median_error,
            "share_error_worst_points": self.worst_error,
            "unknown_median_pct": self.unknown_median,
        })
    }

    /// Whether every figure is within its limit and nothing was left out.
    pub(super) fn passes(&self) -> bool {
        self.left_out == 0
            && self.not_as_claimed == 0
            && self.top_cause_pct >= 95.0
            && self.false_data_stalls == 0
            && self.median_error <= 2.0
            && self.worst_error <= 5.0
            && self.unknown_median <= 5.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares_of(pairs: &[(&str, f64)]) -> Shares {
        pairs.iter().map(|(cause, share)| ((*cause).to_owned(), *share)).collect()
    }

    fn injected(cause: &str) -> Value {
        json!({"scenario": "x", "what": "", "cause": cause, "severity": "mild", "decoy": false})
    }

    fn decoy() -> Value {
        json!({"scenario": "d", "what": "", "cause": null, "severity": null, "decoy": true})
    }

    #[test]
    fn the_top_cause_is_neither_compute_nor_unknown() {
        let truth = shares_of(&[("compute", 0.7), ("decode", 0.2), ("handoff", 0.1)]);
        let estimate = shares_of(&[("compute", 0.5), ("unknown", 0.3), ("decode", 0.15), ("handoff", 0.05)]);
        let row = row(&injected("decode"), &truth, &estimate);
        assert_eq!((&row["right"], &row["as_claimed"]), (&json!(true), &json!(true)));
        assert_eq!(row["unknown_points"], 30.0);
    }

    #[test]
    fn errors_are_of_every_cause_that_is_or_seems_there() {
        let truth = shares_of(&[("compute", 0.6), ("decode", 0.4)]);
        let estimate = shares_of(&[("compute", 0.6), ("decode", 0.3), ("fetch.cache", 0.095), ("handoff", 0.005)]);
        let found = row(&injected("decode"), &truth, &estimate);
        let errors: Vec<String> = found["errors_points"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(errors, ["compute", "decode", "fetch.cache"]);
        let summary = summary(&[found]);
        assert!((summary.worst_error - 10.0).abs() < 1e-9 && (summary.median_error - 9.5).abs() < 1e-9, "{summary:?}");
    }

    #[test]
    fn a_decoy_called_a_data_stall_is_false_and_any_other_cause_is_not() {
        let truth = shares_of(&[("compute", 0.99), ("decode", 0.01)]);
        let stall = row(&decoy(), &truth, &shares_of(&[("compute", 0.9), ("decode", 0.1)]));
        let little = row(&decoy(), &truth, &shares_of(&[("compute", 0.96), ("decode", 0.04)]));
        let other = row(&decoy(), &truth, &shares_of(&[("compute", 0.8), ("decode", 0.08), ("host", 0.12)]));
        let judged = [&stall, &little, &other].map(|row| row["false_data_stall"].as_bool());
        assert_eq!(judged, [Some(true), Some(false), Some(false)]);
        assert_eq!(stall["right"], Value::Null, "a decoy without a cause is not told right from wrong");
    }

    #[test]
    fn a_scenario_whose_truth_is_another_cause_is_said_not_to_be_what_it_claims() {
        let truth = shares_of(&[("compute", 0.5), ("decode", 0.3), ("handoff", 0.2)]);
        let row = row(&injected("handoff"), &truth, &truth);
        assert_eq!((&row["as_claimed"], &row["right"]), (&json!(false), &json!(true)));
        assert!(!summary(&[row]).passes());
    }

    #[test]
    fn the_judged_trainer_is_found_by_its_pid() {
        let said = json!({"report": {"trainers": [
            {"entity": "41@7", "causes": {"compute": 1.0}},
            {"entity": "4@7", "causes": {"imbalance": 0.5, "compute": 0.5, "host": null}},
        ]}});
        let found = shares(trainer(&said, 4).unwrap()).unwrap();
        assert_eq!(found, shares_of(&[("compute", 0.5), ("imbalance", 0.5)]));
        assert!(trainer(&said, 5).unwrap_err().message.contains("41@7, 4@7"));
        assert!(shares(&json!({"entity": "4@7"})).is_err());
        assert!(shares(&json!({"entity": "4@7", "causes": {}})).is_err(), "none were concluded");
    }

    #[test]
    fn what_was_left_out_fails_the_bench_and_counts_for_no_figure() {
        let truth = shares_of(&[("compute", 0.5), ("decode", 0.5)]);
        let good = row(&injected("decode"), &truth, &truth);
        assert!(summary(std::slice::from_ref(&good)).passes());
        let all = summary(&[good, left_out(&injected("copy"), "needs root")]);
        assert_eq!((all.judged, all.scenarios, all.left_out, all.top_cause_pct), (1, 1, 1, 100.0));
        assert!(!all.passes());
    }

    #[test]
    fn a_row_reads_as_a_line() {
        let truth = shares_of(&[("compute", 0.6), ("decode", 0.4)]);
        let row = row(&injected("decode"), &truth, &shares_of(&[("compute", 0.55), ("handoff", 0.45)]));
        let shown = line(&row);
        assert!(shown.contains("WRONG true compute 60, decode 40  estimated compute 55, handoff 45"), "{shown}");
    }
}
