//! A setting seen from all sides: how its error falls with rows, what it makes of its inputs.

use feedline_traces::Result;
use rayon::prelude::*;

use super::folds::{self, Fold};
use super::frame::Frame;
use super::model::{Model, Reader, Spec};
use super::random::Random;
use super::score::{Predicted, Score};
use super::stats;
use super::task::Task;
use super::validate::{self, Plan};

/// A setting, fitted once without each outer fold's groups. Its intervals are not.
#[derive(Debug)]
pub struct Opened {
    fitted: Vec<(Fold, Model)>,
}

/// The most rows whose contributions are added up: their mean is known well from these.
const EXPLAINED: usize = 120;

/// Fits a setting without each outer fold's groups, on the plan's share of the other rows.
///
/// # Errors
/// When the frame lacks a column or a fit fails.
pub fn open(frame: &Frame, task: &Task, spec: &Spec, plan: &Plan) -> Result<Opened> {
    let outer = folds::grouped(frame.group(&plan.group)?, &task.rows(frame)?, plan.outer, plan.seed);
    let fit = |fold: Fold| {
        let sampled = (plan.share < 1.0).then(|| folds::sample(&fold.train, plan.share, plan.seed));
        let model = spec.fit(frame, sampled.as_deref().unwrap_or(&fold.train), task, plan.seed)?;
        Ok((fold, model))
    };
    Ok(Opened { fitted: outer.into_par_iter().map(fit).collect::<Result<_>>()? })
}

/// The error of a setting as training rows grow: for each share of them, the score.
///
/// # Errors
/// As [`open`].
pub fn curve(frame: &Frame, task: &Task, spec: &Spec, plan: &Plan, shares: &[f64]) -> Result<Vec<(f64, Score)>> {
    let at = |share: &f64| {
        let plan = Plan { share: *share, ..plan.clone() };
        Ok((*share, open(frame, task, spec, &plan)?.score(frame, task, &plan)?))
    };
    shares.iter().map(at).collect()
}

impl Opened {
    /// How far predictions of the groups that were left out are off.
    ///
    /// # Errors
    /// When the frame lacks a column.
    pub fn score(&self, frame: &Frame, task: &Task, plan: &Plan) -> Result<Score> {
        let each = self.fitted.iter().map(|(fold, model)| validate::judge(frame, model, &fold.test));
        let predicted: Vec<Predicted> = each.collect::<Result<Vec<_>>>()?.concat();
        Score::of(frame, task, frame.group(&plan.group)?, &predicted)
    }

    /// How much worse predictions of unseen groups get when an input's values are shuffled: the rise of
    /// the mean absolute error on the outcome's scale, for each input (Breiman, 2001).
    ///
    /// # Errors
    /// When the frame lacks a column.
    pub fn permutation(&self, frame: &Frame, task: &Task, seed: u64) -> Result<Vec<(String, f64)>> {
        let target = frame.target(&task.target)?;
        let rows = task.rows(frame)?;
        // Shuffled over all rows: within one group many an input does not vary at all.
        let shuffled = |input: usize| {
            let mut order = rows.clone();
            Random::new(seed, input as u64).shuffle(&mut order);
            rows.iter().copied().zip(order).collect::<std::collections::BTreeMap<_, _>>()
        };
        let orders: Vec<_> = (0..task.features.len()).map(shuffled).collect();
        let one = |(fold, model): &(Fold, Model)| -> Result<Vec<f64>> {
            let reader = Reader::new(frame, &model.inputs)?;
            let baselines = model.baselines(frame)?;
            let mut rises = vec![0.0; task.features.len()];
            for &row in &fold.test {
                let error = |x: &[f64]| {
                    let said = model.scaled(x, baselines.map_or(f64::NAN, |b| b[row]));
                    (said - task.scale.forth(target.values[row])).abs()
                };
                let mut x = reader.row(row);
                let before = error(&x);
                for (input, rise) in rises.iter_mut().enumerate() {
                    let own = std::mem::replace(&mut x[input], reader.value(input, orders[input][&row]));
                    *rise += error(&x) - before;
                    x[input] = own;
                }
            }
            Ok(rises)
        };
        let each: Vec<Vec<f64>> = self.fitted.par_iter().map(one).collect::<Result<_>>()?;
        let judged = stats::count(self.fitted.iter().map(|(fold, _)| fold.test.len()).sum());
        Ok(by_input(task, &each, judged))
    }

    /// The mean absolute contribution of each input to predictions of unseen groups (SHAP), over at most
    /// 120 rows; empty for learners that have none.
    ///
    /// # Errors
    /// When the frame lacks a column.
    pub fn contributions(&self, frame: &Frame, task: &Task, seed: u64) -> Result<Vec<(String, f64)>> {
        let all: usize = self.fitted.iter().map(|(fold, _)| fold.test.len()).sum();
        let share = stats::count(EXPLAINED.min(all)) / stats::count(all.max(1));
        let one = |(number, (fold, model)): (usize, &(Fold, Model))| -> Result<Option<(Vec<f64>, f64)>> {
            let reader = Reader::new(frame, &model.inputs)?;
            let mut sums = vec![0.0; task.features.len()];
            let some = Random::new(seed, number as u64).choose(fold.test.len(), stats::share(share, fold.test.len()));
            for at in &some {
                let Some(parts) = model.fitted.contributions(&reader.row(fold.test[*at])) else { return Ok(None) };
                sums.iter_mut().zip(&parts).for_each(|(sum, part)| *sum += part.abs());
            }
            Ok(Some((sums, stats::count(some.len()))))
        };
        let each: Vec<_> = self.fitted.par_iter().enumerate().map(one).collect::<Result<_>>()?;
        let Some(each) = each.into_iter().collect::<Option<Vec<_>>>() else { return Ok(Vec::new()) };
        let judged = each.iter().map(|(_, rows)| rows).sum();
        Ok(by_input(task, &each.into_iter().map(|(sums, _)| sums).collect::<Vec<_>>(), judged))
    }
}

/// Sums of folds as a mean for each input, the greatest first.
fn by_input(task: &Task, each: &[Vec<f64>], judged: f64) -> Vec<(String, f64)> {
    let mean = |input: usize| each.iter().map(|sums| sums[input]).sum::<f64>() / judged;
    let mut means: Vec<(String, f64)> =
        task.features.iter().enumerate().map(|(input, name)| (name.clone(), mean(input))).collect();
    means.sort_by(|a, b| b.1.total_cmp(&a.1));
    means
}
