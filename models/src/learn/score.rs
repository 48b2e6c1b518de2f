//! How far predictions of unseen groups were off.

use feedline_traces::Result;
use serde::{Deserialize, Serialize};

use super::frame::{Frame, Group};
use super::stats;
use super::task::{Scale, Task};

/// A row that was predicted by a model which had not seen its group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Predicted {
    /// The row of the frame.
    pub row: usize,
    /// The prediction, on the outcome's scale and as it was learnt, beyond what an outcome can be too.
    pub scaled: f64,
    /// The prediction, in the outcome's unit.
    pub value: f64,
    /// The interval, in the outcome's unit.
    pub interval: Option<(f64, f64)>,
    /// Whether an input lay outside what was learnt from, so that the model would rather not say.
    pub outside: bool,
}

/// How far predictions were off. What does not apply to an outcome's scale is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// The rows that were judged: all of them, also those the model would rather not say.
    pub rows: usize,
    /// The groups they were of.
    pub groups: usize,
    /// The share of variance explained, on the outcome's scale (of rates their logarithm), over all
    /// rows.
    pub r2: Option<f64>,
    /// The middle of `|predicted / true - 1|`, in percent.
    pub median_error_pct: Option<f64>,
    /// The mean of it, in percent: a few rows that are far off show here.
    pub mean_error_pct: Option<f64>,
    /// The mean distance, in the outcome's unit.
    pub mean_error: Option<f64>,
    /// The mean distance in points, of shares and percentages.
    pub points: Option<f64>,
    /// The least share of variance explained within a group, of groups with enough rows.
    pub worst_r2: Option<f64>,
    /// The group it is of.
    pub worst_r2_group: Option<String>,
    /// The greatest of the groups' middle errors, in percent.
    pub worst_error_pct: Option<f64>,
    /// The greatest of the groups' mean distances, in points.
    pub worst_points: Option<f64>,
    /// The group that is worst by the distance that fits the outcome.
    pub worst_group: Option<String>,
    /// How many outcomes lay in their interval, in percent.
    pub coverage_pct: Option<f64>,
    /// The same in the worst group.
    pub worst_coverage_pct: Option<f64>,
    /// The middle width of intervals: of rates their upper end over their lower, less 1, in percent,
    /// else in the outcome's unit.
    pub width: Option<f64>,
    /// How many rows had an input outside what was learnt from, in percent.
    pub outside_pct: f64,
    /// The middle error of the others, in percent.
    pub inside_median_error_pct: Option<f64>,
}

/// The fewest rows of a group whose own share of explained variance means anything.
const GROUP_ROWS: usize = 10;

impl Score {
    /// Judges predictions of a task's outcome, overall and by group.
    ///
    /// # Errors
    /// When the frame lacks the outcome.
    pub fn of(frame: &Frame, task: &Task, group: &Group, predicted: &[Predicted]) -> Result<Self> {
        let target = frame.target(&task.target)?;
        let percent = target.unit == "%";
        let judge = Judge { scale: task.scale, values: &target.values, percent };
        let mut score = judge.all(predicted);
        let rows: Vec<usize> = (0..predicted.len()).collect();
        let by_row = Group {
            name: group.name.clone(),
            levels: group.levels.clone(),
            codes: predicted.iter().map(|p| group.codes[p.row]).collect(),
        };
        let mut worst = f64::NEG_INFINITY;
        for (level, members) in by_row.members(&rows) {
            score.groups += 1;
            let part: Vec<Predicted> = members.iter().map(|&at| predicted[at]).collect();
            let own = judge.all(&part);
            if part.len() >= GROUP_ROWS && own.r2.is_some_and(|r| score.worst_r2.is_none_or(|w| r < w)) {
                score.worst_r2 = own.r2;
                score.worst_r2_group = Some(group.levels[level].clone());
            }
            let far = if task.scale == Scale::Log { own.median_error_pct } else { own.mean_error };
            if let Some(far) = far.filter(|far| *far > worst) {
                worst = far;
                score.worst_group = Some(group.levels[level].clone());
                score.worst_error_pct = own.median_error_pct;
                score.worst_points = own.points;
            }
            if part.len() >= GROUP_ROWS
                && own.coverage_pct.is_some_and(|c| score.worst_coverage_pct.is_none_or(|w| c < w))
            {
                score.worst_coverage_pct = own.coverage_pct;
            }
        }
        Ok(score)
    }
}

struct Judge<'a> {
    scale: Scale,
    values: &'a [f64],
    percent: bool,
}

impl Judge<'_> {
    fn all(&self, predicted: &[Predicted]) -> Score {
        let truth: Vec<f64> = predicted.iter().map(|p| self.values[p.row]).collect();
        let off: Vec<f64> = predicted.iter().zip(&truth).map(|(p, y)| (p.value - y).abs()).collect();
        let mean_error = (!off.is_empty()).then(|| stats::mean(&off, &[]));
        let ratios: Vec<f64> = off.iter().zip(&truth).map(|(off, y)| 100.0 * off / y.abs()).collect();
        let inside: Vec<f64> = ratios.iter().zip(predicted).filter(|(_, p)| !p.outside).map(|(r, _)| *r).collect();
        let log = self.scale == Scale::Log;
        let points = match (self.scale, self.percent) {
            (Scale::Share, _) => mean_error.map(|e| 100.0 * e),
            (_, true) => mean_error,
            _ => None,
        };
        let outside = predicted.iter().filter(|p| p.outside).count();
        Score {
            rows: predicted.len(),
            r2: self.explained(predicted, &truth),
            median_error_pct: if log { stats::median(&ratios) } else { None },
            mean_error_pct: if log && !ratios.is_empty() { Some(stats::mean(&ratios, &[])) } else { None },
            mean_error,
            points,
            coverage_pct: coverage(predicted, &truth),
            width: self.width(predicted),
            outside_pct: percent(outside, predicted.len()),
            inside_median_error_pct: if log { stats::median(&inside) } else { None },
            ..Score::default()
        }
    }

    /// The share of variance explained, on the outcome's scale; none where nothing varies.
    fn explained(&self, predicted: &[Predicted], truth: &[f64]) -> Option<f64> {
        let z: Vec<f64> = truth.iter().map(|y| self.scale.forth(*y)).collect();
        let mean = stats::mean(&z, &[]);
        let all: f64 = z.iter().map(|z| (z - mean) * (z - mean)).sum();
        let off = |(p, z): (&Predicted, &f64)| {
            let said =
                self.scale.forth(p.value.max(if self.scale == Scale::Log { f64::MIN_POSITIVE } else { f64::MIN }));
            (said - z) * (said - z)
        };
        let left: f64 = predicted.iter().zip(&z).map(off).sum();
        (all > 1e-12 * stats::count(z.len().max(1))).then(|| 1.0 - left / all)
    }

    fn width(&self, predicted: &[Predicted]) -> Option<f64> {
        let width = |p: &Predicted| {
            p.interval.map(|(low, high)| if self.scale == Scale::Log { 100.0 * (high / low - 1.0) } else { high - low })
        };
        stats::median(&predicted.iter().filter_map(width).collect::<Vec<_>>())
    }
}

fn coverage(predicted: &[Predicted], truth: &[f64]) -> Option<f64> {
    let with: Vec<bool> = predicted
        .iter()
        .zip(truth)
        .filter_map(|(p, y)| p.interval.map(|(low, high)| low <= *y && *y <= high))
        .collect();
    (!with.is_empty()).then(|| percent(with.iter().filter(|held| **held).count(), with.len()))
}

fn percent(part: usize, of: usize) -> f64 {
    if of == 0 { 0.0 } else { 100.0 * stats::count(part) / stats::count(of) }
}

/// What repeats of one configuration differ by: an oracle that knew every configuration would still
/// be this far off. In percent on the scale `log`, in points of shares and percentages, else in the
/// outcome's unit. Each row is compared with the median of the others of its group.
///
/// # Errors
/// When the frame lacks the outcome or the group.
pub fn noise_floor(frame: &Frame, task: &Task, repeats: &str, rows: &[usize]) -> Result<Option<f64>> {
    let target = frame.target(&task.target)?;
    let mut off = Vec::new();
    for (_, members) in frame.group(repeats)?.members(rows) {
        for row in &members {
            let others: Vec<f64> = members.iter().filter(|r| *r != row).map(|r| target.values[*r]).collect();
            let Some(middle) = stats::median(&others) else { continue };
            let distance = (target.values[*row] - middle).abs();
            off.push(match task.scale {
                Scale::Log => 100.0 * distance / target.values[*row],
                Scale::Share => 100.0 * distance,
                Scale::Plain => distance,
            });
        }
    }
    // The measure of the error it stands beside: the middle of ratios, the mean of distances.
    Ok(match task.scale {
        Scale::Log => stats::median(&off),
        Scale::Plain | Scale::Share => (!off.is_empty()).then(|| stats::mean(&off, &[])),
    })
}

#[cfg(test)]
mod tests {
    use super::super::frame::Target;
    use super::*;

    fn frame(values: Vec<f64>, unit: &str, scale: Scale, groups: &[&str]) -> (Frame, Task) {
        let target = Target { name: "y".into(), unit: unit.into(), timer: "t".into(), values };
        let task = Task {
            target: "y".into(),
            scale,
            features: vec![],
            baseline: None,
            key: vec![],
            last: None,
            rising: Vec::new(),
            falling: Vec::new(),
        };
        (Frame { targets: vec![target], groups: vec![Group::new("g", groups)], ..Frame::default() }, task)
    }

    fn said(values: &[f64]) -> Vec<Predicted> {
        let one = |(row, value): (usize, &f64)| Predicted {
            row,
            scaled: *value,
            value: *value,
            interval: Some((value * 0.9, value * 1.1)),
            outside: false,
        };
        values.iter().enumerate().map(one).collect()
    }

    #[test]
    fn a_perfect_prediction_and_the_mean_have_their_scores() {
        let names = vec!["a"; 12];
        let truth: Vec<f64> = (1..=12).map(f64::from).collect();
        let (frame, task) = frame(truth.clone(), "1/s", Scale::Log, &names);
        let perfect = Score::of(&frame, &task, &frame.groups[0], &said(&truth)).unwrap();
        assert_eq!((perfect.r2, perfect.median_error_pct, perfect.coverage_pct), (Some(1.0), Some(0.0), Some(100.0)));
        let mean = (truth.iter().map(|y| y.ln()).sum::<f64>() / 12.0).exp();
        let flat = Score::of(&frame, &task, &frame.groups[0], &said(&[mean; 12])).unwrap();
        assert!(flat.r2.unwrap().abs() < 1e-12);
        assert_eq!(flat.worst_r2_group.as_deref(), Some("a"));
    }

    #[test]
    fn the_worst_group_is_named() {
        let names = ["a", "a", "b", "b"];
        let (frame, task) = frame(vec![0.1, 0.2, 0.3, 0.4], "", Scale::Share, &names);
        let score = Score::of(&frame, &task, &frame.groups[0], &said(&[0.1, 0.2, 0.4, 0.5])).unwrap();
        assert_eq!(score.worst_group.as_deref(), Some("b"));
        assert!((score.points.unwrap() - 5.0).abs() < 1e-9);
        assert!((score.worst_points.unwrap() - 10.0).abs() < 1e-9);
        assert_eq!((score.groups, score.median_error_pct), (2, None));
    }

    #[test]
    fn the_noise_floor_is_what_repeats_differ_by() {
        let names = ["a", "a", "a", "b"];
        let (frame, task) = frame(vec![100.0, 110.0, 90.0, 5.0], "1/s", Scale::Log, &names);
        let floor = noise_floor(&frame, &task, "g", &[0, 1, 2, 3]).unwrap().unwrap();
        // Against the median of the others: 0 %, 15/110, 15/90; alone in its group there is nothing to compare.
        assert!((floor - 100.0 * 15.0 / 110.0).abs() < 1e-9, "{floor}");
    }
}
