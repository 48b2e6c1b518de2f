//! Validation without flattery: whole groups are left out, settings are chosen and intervals are
//! fitted on the rows that remain, and nothing is learnt from what is judged.

use feedline_traces::{Error, Result};
use rayon::prelude::*;

use super::band::{self, HeldOut};
use super::folds::{self, Fold};
use super::frame::{Frame, Group};
use super::learner::Learner;
use super::model::{Model, Reader, Spec};
use super::score::{Predicted, Score};
use super::stats;
use super::task::Task;

/// How to validate.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The group that is left out.
    pub group: String,
    /// The most outer folds; with more groups than this, several are left out at a time.
    pub outer: usize,
    /// The most inner folds.
    pub inner: usize,
    /// How often intervals are to hold.
    pub level: f64,
    /// The seed of fits and folds.
    pub seed: u64,
    /// The share of training rows that is used, for learning curves.
    pub share: f64,
}

impl Plan {
    /// The usual plan for a group: each of up to 12 groups alone, five inner folds, 80 % intervals.
    #[must_use]
    pub fn leaving_out(group: &str, seed: u64) -> Self {
        Self { group: group.to_owned(), outer: 12, inner: 5, level: 0.8, seed, share: 1.0 }
    }
}

/// What a validation found.
#[derive(Debug, Clone)]
pub struct Validated {
    /// The learner's name.
    pub name: String,
    /// Each row once, predicted by a model that had not seen its group.
    pub predicted: Vec<Predicted>,
    /// What happened in each outer fold.
    pub folds: Vec<Outer>,
    /// How far off it was.
    pub score: Score,
}

/// An outer fold of a validation.
#[derive(Debug, Clone)]
pub struct Outer {
    /// The groups that were left out.
    pub left_out: String,
    /// The setting that was chosen.
    pub chosen: Spec,
    /// What it said of the training rows while they were held out in the inner folds.
    pub held: Vec<HeldOut>,
    /// The mean absolute error of that, on the outcome's scale.
    pub inner_error: f64,
    /// The rows that were left out, predicted.
    pub predicted: Vec<Predicted>,
}

/// Chooses among settings by inner folds: the least mean absolute error on the outcome's scale. Gives
/// the setting and its errors on the rows it was not fitted to.
///
/// Settings of learners that take long are screened on one fold, the one with most rows, and only the
/// best goes on to the others (successive halving: Jamieson and Talwalkar, 2016).
///
/// # Errors
/// When no setting can be fitted.
pub fn tune(frame: &Frame, task: &Task, settings: &[Spec], folds: &[Fold], seed: u64) -> Result<(Spec, Vec<HeldOut>)> {
    let screened = settings.len() > 1 && folds.len() > 1 && settings.iter().any(|s| s.learner.is_slow());
    if !screened {
        return least(frame, task, settings, folds, seed);
    }
    let widest = (0..folds.len()).reduce(|a, b| if folds[b].test.len() > folds[a].test.len() { b } else { a });
    let widest = widest.unwrap_or_default();
    let (spec, mut held) = least(frame, task, settings, &folds[widest..=widest], seed)?;
    for (_, fold) in folds.iter().enumerate().filter(|(at, _)| *at != widest) {
        held.extend(held_out(frame, task, &spec, std::slice::from_ref(fold), seed)?);
    }
    held.sort_by_key(|h| h.row);
    Ok((spec, held))
}

/// The setting with the least error over these folds.
fn least(frame: &Frame, task: &Task, settings: &[Spec], folds: &[Fold], seed: u64) -> Result<(Spec, Vec<HeldOut>)> {
    let mut best: Option<(f64, Spec, Vec<HeldOut>)> = None;
    let mut failed = None;
    for spec in settings {
        match held_out(frame, task, spec, folds, seed) {
            Ok(held) => {
                let error = mean_miss(frame, held.iter());
                if error.is_finite() && best.as_ref().is_none_or(|b| error < b.0) {
                    best = Some((error, spec.clone(), held));
                }
            }
            Err(error) => failed = Some(error),
        }
    }
    match (best, failed) {
        (Some((_, spec, held)), _) => Ok((spec, held)),
        (None, Some(error)) => Err(error),
        (None, None) => Err(Error::new(format!("{}: no setting predicts finite numbers", task.target))),
    }
}

/// The mean of how far off held-out rows were, each counting as much as in a fit.
pub(super) fn mean_miss<'a>(frame: &Frame, held: impl Iterator<Item = &'a HeldOut>) -> f64 {
    let (misses, weights): (Vec<f64>, Vec<f64>) = held.map(|h| (h.miss, frame.weight(h.row))).unzip();
    stats::mean(&misses, &weights)
}

/// How far off a prediction on the outcome's scale is.
pub(super) fn miss(task: &Task, said: f64, outcome: f64) -> f64 {
    (task.scale.within(said) - task.scale.forth(outcome)).abs()
}

fn held_out(frame: &Frame, task: &Task, spec: &Spec, folds: &[Fold], seed: u64) -> Result<Vec<HeldOut>> {
    let target = frame.target(&task.target)?;
    let mut held = Vec::new();
    for fold in folds {
        let model = spec.fit(frame, &fold.train, task, seed)?;
        let reader = Reader::new(frame, &model.inputs)?;
        let baselines = model.baselines(frame)?;
        for &row in &fold.test {
            let said = model.scaled(&reader.row(row), baselines.map_or(f64::NAN, |b| b[row]));
            held.push(HeldOut { row, said, miss: miss(task, said, target.values[row]) });
        }
    }
    held.sort_by_key(|h| h.row);
    Ok(held)
}

/// Fits a learner for use: the setting is chosen and the interval fitted by inner folds over these
/// rows. Gives the model and what it said of those rows while they were held out.
///
/// # Errors
/// When the frame lacks a column or no setting can be fitted.
pub fn fit(
    frame: &Frame,
    rows: &[usize],
    task: &Task,
    settings: &[Spec],
    plan: &Plan,
) -> Result<(Model, Vec<HeldOut>)> {
    let group = frame.group(&plan.group)?;
    let folds = folds::inner(group, rows, plan.inner, plan.seed);
    let (spec, held) = tune(frame, task, settings, &folds, plan.seed)?;
    let mut model = spec.fit(frame, rows, task, plan.seed)?;
    model.band = Some(band::fit(frame, rows, task, &spec, &held, &folds, group, plan.level, plan.seed)?);
    Ok((model, held))
}

/// Validates a learner with its settings on a task: nested, grouped.
///
/// # Errors
/// When the task leaks, the frame lacks a column, or there are not two groups.
pub fn validate(frame: &Frame, task: &Task, settings: &[Spec], plan: &Plan) -> Result<Validated> {
    task.check(frame)?;
    let group = frame.group(&plan.group)?;
    let rows = task.rows(frame)?;
    let outer = folds::grouped(group, &rows, plan.outer, plan.seed);
    if outer.is_empty() {
        return Err(Error::new(format!("{}: all {} rows are of one `{}`", task.target, rows.len(), plan.group))
            .hint("to leave a group out there must be two"));
    }
    let folds: Vec<Outer> =
        outer.par_iter().map(|fold| outer_fold(frame, task, settings, plan, fold)).collect::<Result<_>>()?;
    let name = settings.first().map(Spec::name).unwrap_or_default();
    Validated::new(frame, task, group, name, folds)
}

impl Validated {
    pub(super) fn new(frame: &Frame, task: &Task, group: &Group, name: String, folds: Vec<Outer>) -> Result<Self> {
        let mut predicted: Vec<Predicted> = folds.iter().flat_map(|fold| fold.predicted.iter().copied()).collect();
        predicted.sort_by_key(|p| p.row);
        let score = Score::of(frame, task, group, &predicted)?;
        Ok(Self { name, predicted, folds, score })
    }
}

/// What one gets who, in each outer fold, takes the learner that did best in the inner folds: the
/// score of choosing, without a look at the rows that are judged.
///
/// # Errors
/// When there are no validations, or they are of different folds.
pub fn chosen(frame: &Frame, task: &Task, plan: &Plan, all: &[Validated]) -> Result<Validated> {
    let first = all.first().ok_or_else(|| Error::new(format!("{}: nothing to choose from", task.target)))?;
    let best = |at: usize| {
        let there = all.iter().filter_map(|v| v.folds.get(at)).filter(|f| f.left_out == first.folds[at].left_out);
        let least = there.min_by(|a, b| a.inner_error.total_cmp(&b.inner_error));
        least.cloned().ok_or_else(|| Error::new(format!("{}: validations of different folds", task.target)))
    };
    let folds = (0..first.folds.len()).map(best).collect::<Result<_>>()?;
    Validated::new(frame, task, frame.group(&plan.group)?, "chosen in the fold".to_owned(), folds)
}

fn outer_fold(frame: &Frame, task: &Task, settings: &[Spec], plan: &Plan, fold: &Fold) -> Result<Outer> {
    let sampled;
    let train = if plan.share < 1.0 {
        sampled = folds::sample(&fold.train, plan.share, plan.seed);
        &sampled
    } else {
        &fold.train
    };
    let (model, held) = fit(frame, train, task, settings, plan)?;
    let predicted = judge(frame, &model, &fold.test)?;
    let inner_error = mean_miss(frame, held.iter());
    Ok(Outer { left_out: fold.name.clone(), chosen: model.spec, inner_error, held, predicted })
}

/// What a model says of some rows, with its interval and whether it would rather not say.
///
/// # Errors
/// When the frame lacks an input or the baseline.
pub fn judge(frame: &Frame, model: &Model, rows: &[usize]) -> Result<Vec<Predicted>> {
    let reader = Reader::new(frame, &model.inputs)?;
    let baselines = model.baselines(frame)?;
    let one = |&row: &usize| {
        let x = reader.row(row);
        let baseline = baselines.map_or(f64::NAN, |b| b[row]);
        let scaled = model.scaled(&x, baseline);
        Predicted {
            row,
            scaled,
            value: model.task.scale.back(scaled),
            interval: model.interval(&x, baseline),
            outside: !model.outside(&x).is_empty(),
        }
    };
    Ok(rows.iter().map(one).collect())
}

/// All learners of a leaderboard for a task: each plain, and on the baseline where there is one.
#[must_use]
pub fn contenders(task: &Task) -> Vec<Vec<Spec>> {
    let mut all = Vec::new();
    for family in Learner::families() {
        let with = |residual: bool| family.iter().map(|l| Spec { learner: l.clone(), residual }).collect::<Vec<_>>();
        let bare = family[0] == Learner::Baseline;
        let last = family[0] == Learner::Persistence && task.last.is_some();
        if !bare {
            all.push(with(false));
        }
        if task.baseline.is_some() && !last {
            all.push(with(true));
        }
    }
    all
}
