//! The recipe of a published predictor of training throughput (arXiv 2512.06699), run on any frame:
//! its learners with their settings, its preparation (medians for what is missing, scaling, both
//! before the split), its split (one random fifth) and its choice of inputs, with outcomes among
//! them. Beside it the same recipe with the outcomes taken out, and with a group left out.

use feedline_traces::Result;
use rayon::prelude::*;
use serde::Serialize;

use super::folds::{self, Fold};
use super::frame::{Feature, Frame, Group, Kind};
use super::leak;
use super::learner::Learner;
use super::model::Spec;
use super::score::{Predicted, Score};
use super::stats;
use super::task::Task;
use super::tree::{Boost, Forest};

/// How the published recipe did under one choice of inputs and one split.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// The learner.
    pub learner: &'static str,
    /// Whether outcomes were among the inputs, as published.
    pub leaked: bool,
    /// The group that was left out; none for one random fifth, as published.
    pub left_out: Option<String>,
    /// The share of variance explained, on the logarithm.
    pub r2_log: Option<f64>,
    /// The mean of `|predicted / true - 1|`, in percent.
    pub mean_error_pct: Option<f64>,
    /// The middle of it, in percent.
    pub median_error_pct: Option<f64>,
}

/// What the recipe gives, and what the leak test says of its inputs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Published {
    /// A row for each learner, choice of inputs and split.
    pub entries: Vec<Entry>,
    /// Why its inputs would be refused here.
    pub refused: Vec<String>,
}

/// The published learners and settings; its small neural network, the worst of its seven, is left
/// out.
fn learners(rows: usize) -> Vec<Learner> {
    let boost = Boost { trees: 100, leaves: 64, depth: 6, rate: 0.1, rows: 1, ..Boost::default() };
    vec![
        Learner::Boosted(boost),
        Learner::Forest(Forest { trees: 100, rows: 2, depth: 10, column_share: 1.0 }),
        Learner::Lasso { penalty: 0.1 },
        Learner::ElasticNet { penalty: 0.1 },
        // Its penalty is over all rows, ours is per row.
        Learner::Ridge { penalty: 1.0 / stats::count(rows.max(1)) },
        Learner::Linear,
    ]
}

/// Runs the recipe: `leaked` are the outcomes it has among its inputs, `group` is left out in the
/// honest split.
///
/// # Errors
/// When the frame lacks a column or a fit fails.
pub fn run(frame: &Frame, task: &Task, leaked: &[String], group: &str, seed: u64) -> Result<Published> {
    let numeric = |name: &&String| frame.feature(name).is_ok_and(|f| f.kind == Kind::Numeric);
    let honest: Vec<String> = task.features.iter().filter(numeric).cloned().collect();
    let bare = Task {
        features: honest.clone(),
        baseline: None,
        key: Vec::new(),
        last: None,
        rising: Vec::new(),
        falling: Vec::new(),
        ..task.clone()
    };
    let full = Task { features: [honest, leaked.to_vec()].concat(), ..bare.clone() };
    let rows = bare.rows(frame)?;
    let group = frame.group(group)?;
    let mut entries = Vec::new();
    for (task, leaked) in [(&full, true), (&bare, false)] {
        let prepared = prepared(frame, &task.features, &rows)?;
        let random = one_fifth(&rows, seed);
        let grouped = folds::grouped(group, &rows, 12, seed);
        for learner in learners(rows.len()) {
            let spec = Spec { learner, residual: false };
            for (folds, left_out) in [(&random, None), (&grouped, Some(group.name.clone()))] {
                let score = judge(&prepared, task, &spec, folds, group, seed)?;
                entries.push(Entry {
                    learner: spec.learner.name(),
                    leaked,
                    left_out,
                    r2_log: score.r2,
                    mean_error_pct: score.mean_error_pct,
                    median_error_pct: score.median_error_pct,
                });
            }
        }
    }
    let refused = leak::find(frame, &full, &rows)?.iter().map(ToString::to_string).collect();
    Ok(Published { entries, refused })
}

fn one_fifth(rows: &[usize], seed: u64) -> Vec<Fold> {
    folds::random(rows, 5, seed).into_iter().take(1).collect()
}

fn judge(frame: &Frame, task: &Task, spec: &Spec, folds: &[Fold], group: &Group, seed: u64) -> Result<Score> {
    let judged = |fold: &Fold| -> Result<Vec<Predicted>> {
        let model = spec.fit(frame, &fold.train, task, seed)?;
        let values = model.predict_rows(frame, &fold.test)?;
        let one = |(row, value): (&usize, f64)| {
            let scaled = task.scale.forth(value);
            Predicted { row: *row, scaled, value, interval: None, outside: false }
        };
        Ok(fold.test.iter().zip(values).map(one).collect())
    };
    let predicted = folds.par_iter().map(judged).collect::<Result<Vec<_>>>()?.concat();
    Score::of(frame, task, group, &predicted)
}

/// As published: what is missing becomes the median of all rows, then all columns are scaled by all
/// rows, those to be judged among them.
fn prepared(frame: &Frame, features: &[String], rows: &[usize]) -> Result<Frame> {
    let one = |name: &String| {
        let feature = frame.feature(name)?;
        let known: Vec<f64> = rows.iter().map(|&r| feature.values[r]).filter(|v| v.is_finite()).collect();
        let fill = stats::quantile(&known, &[], 0.5);
        let filled: Vec<f64> = feature.values.iter().map(|v| if v.is_finite() { *v } else { fill }).collect();
        let mean = stats::mean(&filled, &[]);
        let squares: Vec<f64> = filled.iter().map(|v| (v - mean) * (v - mean)).collect();
        let scale = stats::mean(&squares, &[]).sqrt().max(f64::MIN_POSITIVE);
        Ok(Feature { values: filled.iter().map(|v| (v - mean) / scale).collect(), ..feature.clone() })
    };
    let features = features.iter().map(one).collect::<Result<_>>()?;
    Ok(Frame { features, ..frame.clone() })
}

#[cfg(test)]
mod tests {
    use super::super::frame::Target;
    use super::super::random::Random;
    use super::super::task::Scale;
    use super::*;

    /// Rates of six files: each file has a speed that no input knows.
    fn frame() -> (Frame, Task) {
        let mut random = Random::new(4, 0);
        let names: Vec<String> = (0..150).map(|i| format!("file {}", i % 6)).collect();
        let block: Vec<f64> = (0..150).map(|_| 1.0 + 30.0 * random.unit()).collect();
        let speed: Vec<f64> = (0..6).map(|_| (2.0 * random.normal()).exp()).collect();
        let rate: Vec<f64> = block.iter().enumerate().map(|(i, b)| b.sqrt() * speed[i % 6]).collect();
        let size = (0..150).map(|i| [10.0, 70.0, 71.0, 200.0, 900.0, 1745.0][i % 6]).collect();
        let copy = Feature::number("throughput", "MB/s", rate.clone()).measured_by("loop");
        let frame = Frame {
            features: vec![Feature::number("block", "KiB", block), Feature::number("size", "MB", size), copy],
            targets: vec![Target { name: "rate".into(), unit: "MB/s".into(), timer: "loop".into(), values: rate }],
            groups: vec![Group::new("file", &names)],
            ..Frame::default()
        };
        let features = vec!["block".to_owned(), "size".to_owned()];
        let task = Task {
            target: "rate".into(),
            scale: Scale::Log,
            features,
            baseline: None,
            key: vec![],
            last: None,
            rising: Vec::new(),
            falling: Vec::new(),
        };
        (frame, task)
    }

    #[test]
    fn a_copied_outcome_makes_the_score_jump_and_is_refused() {
        let (frame, task) = frame();
        let published = run(&frame, &task, &["throughput".to_owned()], "file", 42).unwrap();
        assert!(published.refused.iter().any(|r| r.contains("throughput")), "{:?}", published.refused);
        let r2 = |leaked: bool, grouped: bool| {
            let of = |e: &&Entry| e.leaked == leaked && e.left_out.is_some() == grouped && e.learner == "random forest";
            published.entries.iter().find(of).unwrap().r2_log.unwrap()
        };
        assert!(r2(true, false) > 0.97, "with the copy: {}", r2(true, false));
        assert!(r2(true, true) > r2(false, true) + 0.3, "{} against {}", r2(true, true), r2(false, true));
        // Without it a random split still flatters: the same files are on both sides.
        assert!(r2(false, false) > r2(false, true) + 0.3, "{} against {}", r2(false, false), r2(false, true));
        let honest = super::super::validate::validate(
            &frame,
            &Task { features: vec!["throughput".into()], ..task },
            &[Spec { learner: Learner::Linear, residual: false }],
            &super::super::validate::Plan::leaving_out("file", 1),
        );
        assert!(honest.unwrap_err().message.contains("throughput"));
    }
}
