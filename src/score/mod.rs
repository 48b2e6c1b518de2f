//! `feedline score`: every learner on every data set, validated with whole groups left out.

use std::collections::BTreeMap;
use std::path::Path;

use feedline_models::learn::blend;
use feedline_models::learn::classify::{self, Accuracy, Classifier};
use feedline_models::learn::declare::{self, Classed, Scored};
use feedline_models::learn::published::{self, Published};
use feedline_models::learn::study;
use feedline_models::learn::validate::{self, Plan, Validated};
use feedline_models::learn::{Frame, Learner, Scale, Score, Spec, Task};
use feedline_traces::Result;
use serde::Serialize;

mod load;
pub mod page;
#[cfg(test)]
mod tests;
pub mod timing;

pub(crate) use load::from_parquet;
pub use load::{Found, Set, sets};

/// All scores.
#[derive(Debug, Serialize)]
pub struct Scores {
    /// Real rows over all files; simulated ones are in no score. Data sets that ask about the same file
    /// count once.
    pub observations: usize,
    /// Rows that were simulated, and left out.
    pub simulated: usize,
    /// The seed of fits and folds.
    pub seed: u64,
    /// The scores of each data set.
    pub sets: Vec<SetScores>,
    /// What learning costs on this machine, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<timing::Timing>,
}

/// The scores of a data set.
#[derive(Debug, Serialize)]
pub struct SetScores {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Its real rows.
    pub observations: usize,
    /// For each way to leave groups out, the figures of its rate and of its stall share together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<Together>,
    /// The scores of each task.
    pub tasks: Vec<TaskScores>,
    /// How well classes are told apart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassScores>,
}

/// The figures of a data set's rate and of its stall share, with the same groups left out.
#[derive(Debug, Serialize)]
pub struct Together {
    /// The group that is left out.
    pub split: String,
    /// Of the rate: the share of variance explained, on the logarithm.
    pub r2_log: Option<f64>,
    /// Of the rate: the middle error, in percent.
    pub median_error_pct: Option<f64>,
    /// Of the rate: the least share of variance explained within a group.
    pub worst_group_r2: Option<f64>,
    /// Of the stall share: the mean distance, in points.
    pub stall_mae_points: Option<f64>,
    /// Of the rate: how many outcomes lay in their 80 % interval, in percent.
    pub coverage_80_pct: Option<f64>,
    /// The same in the worst group.
    pub worst_group_coverage_80_pct: Option<f64>,
    /// Of the rate: what repeats of a configuration differ by, in percent.
    pub noise_floor_pct: Option<f64>,
}

/// How well classes are told apart when groups are left out.
#[derive(Debug, Serialize)]
pub struct ClassScores {
    /// What the classes are.
    pub label: String,
    /// The group that is left out.
    pub split: String,
    /// The inputs.
    pub inputs: Vec<String>,
    /// Each classifier, the best first.
    pub classifiers: Vec<(String, Accuracy)>,
}

/// The scores of a task.
#[derive(Debug, Serialize)]
pub struct TaskScores {
    /// The outcome.
    pub target: String,
    /// Its unit.
    pub unit: String,
    /// Rows with an outcome.
    pub observations: usize,
    /// The inputs.
    pub inputs: Vec<String>,
    /// One score a split, the headline first.
    pub splits: Vec<SplitScores>,
    /// The published recipe on the same rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
}

/// The scores of one way to leave groups out. The figures are those of the mean of the learners that
/// do best in each fold's inner folds: nobody looked at the rows that are judged.
#[derive(Debug, Serialize)]
pub struct SplitScores {
    /// The group that is left out.
    pub split: String,
    /// How many groups there are.
    pub groups: usize,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// The learners that were averaged, and in how many folds.
    pub together: Vec<(String, usize)>,
    /// The figures of the one learner that did best in each fold's inner folds.
    pub single: Figures,
    /// The learners that were that one, and in how many folds.
    pub chosen: Vec<(String, usize)>,
    /// Every learner, the best first.
    pub leaderboard: Vec<Row>,
    /// For shares of the training rows, the error of the best learner's usual setting, which is not
    /// chosen anew: percent, or points, or units.
    pub learning_curve: Vec<(f64, f64)>,
    /// The rise of the best learner's error when an input is shuffled.
    pub permutation: Vec<(String, f64)>,
    /// What each input adds to the best learner's predictions (SHAP), where it can say.
    pub contributions: Vec<(String, f64)>,
}

/// A learner's place.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub learner: String,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// The figures of a score, by the names that are asked for.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// Share of variance explained; of rates on the logarithm.
    pub r2_log: Option<f64>,
    /// The middle error of rates, in percent.
    pub median_error_pct: Option<f64>,
    /// The mean error of rates, in percent.
    pub mean_error_pct: Option<f64>,
    /// The mean distance, in the outcome's unit.
    pub mean_error: Option<f64>,
    /// The least share of variance explained within a group.
    pub worst_group_r2: Option<f64>,
    /// The group that is worst by its error.
    pub worst_group: Option<String>,
    /// Its middle error, in percent.
    pub worst_group_median_error_pct: Option<f64>,
    /// The mean distance of shares and percentages, in points.
    pub stall_mae_points: Option<f64>,
    /// The same in the worst group.
    pub worst_group_mae_points: Option<f64>,
    /// How many outcomes lay in their 80 % interval, in percent.
    pub coverage_80_pct: Option<f64>,
    /// The same in the worst group.
    pub worst_group_coverage_80_pct: Option<f64>,
    /// The middle width of the intervals, in percent of rates, else in the outcome's unit.
    pub interval_width: Option<f64>,
    /// Rows that have an input outside what was learnt from, in percent.
    pub outside_pct: f64,
    /// The middle error of the other rows, in percent.
    pub inside_median_error_pct: Option<f64>,
    /// What repeats of a configuration differ by: percent of rates, points of percentages.
    pub noise_floor_pct: Option<f64>,
}

impl Figures {
    fn of(score: &Score, noise: Option<f64>) -> Self {
        let score = score.clone();
        Self {
            r2_log: score.r2,
            median_error_pct: score.median_error_pct,
            mean_error_pct: score.mean_error_pct,
            mean_error: score.mean_error,
            worst_group_r2: score.worst_r2,
            worst_group: score.worst_group,
            worst_group_median_error_pct: score.worst_error_pct,
            stall_mae_points: score.points,
            worst_group_mae_points: score.worst_points,
            coverage_80_pct: score.coverage_pct,
            worst_group_coverage_80_pct: score.worst_coverage_pct,
            interval_width: score.width,
            outside_pct: score.outside_pct,
            inside_median_error_pct: score.inside_median_error_pct,
            noise_floor_pct: noise,
        }
    }
}

/// The figure by which learners of a task are put in order, the less the better.
#[must_use]
pub fn error(scale: Scale, score: &Score) -> f64 {
    let figure = if scale == Scale::Log { score.median_error_pct } else { score.points.or(score.mean_error) };
    figure.unwrap_or(f64::INFINITY)
}

/// The published recipe is one for rates, and about outcomes among the inputs.
fn runs_published(scored: &Scored) -> bool {
    scored.scale == Scale::Log && !scored.leaked.is_empty()
}

/// Which learners are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// A few that take little time, without the closer look at the best.
    Quick,
}

impl Which {
    fn settings(self, task: &Task) -> Vec<Vec<Spec>> {
        let quick = |settings: &Vec<Spec>| {
            let is = |wanted: &Learner| std::mem::discriminant(&settings[0].learner) == std::mem::discriminant(wanted);
            [Learner::Baseline, Learner::GroupMedian, Learner::Ridge { penalty: 0.0 }].iter().any(is)
                || matches!(settings[0].learner, Learner::Boosted(_))
        };
        let mut all = validate::contenders(task);
        all.retain(|settings| self == Self::All || quick(settings));
        all
    }

    /// Steps after the learners: the curve, and what is made of inputs.
    fn after(self) -> usize {
        if self == Self::All { 2 } else { 0 }
    }
}

/// How many steps scoring these data sets takes, for a bar.
#[must_use]
pub fn steps(sets: &[Set], which: Which) -> u64 {
    let task = |set: &Set, scored: &Scored| {
        (which.settings(&scored.task(&set.frame)).len() + which.after()) * scored.splits.len()
            + usize::from(runs_published(scored))
    };
    let one = |set: &Set| {
        let classes: usize = set.declared.class.iter().map(|class| class.splits.len()).sum();
        classes + set.declared.task.iter().map(|scored| task(set, scored)).sum::<usize>()
    };
    sets.iter().map(one).sum::<usize>() as u64
}

/// Scores all data sets; `step` is called after each step.
///
/// # Errors
/// When a task leaks, or a data set does not fit its tasks.
pub fn run(sets: &[Set], which: Which, seed: u64, step: &dyn Fn()) -> Result<Scores> {
    let mut scores = Scores { observations: 0, simulated: 0, seed, sets: Vec::new(), timing: None };
    let mut files: BTreeMap<&Path, (usize, usize)> = BTreeMap::new();
    for set in sets {
        let observations = declare::observations(&set.frame);
        let rows = files.entry(&set.path).or_default();
        *rows = (rows.0.max(observations), rows.1.max(set.frame.len() - observations));
        scores.sets.push(of_set(set, observations, which, seed, step).map_err(|e| e.at(&set.declared.name))?);
    }
    scores.observations = files.values().map(|rows| rows.0).sum();
    scores.simulated = files.values().map(|rows| rows.1).sum();
    Ok(scores)
}

fn of_set(set: &Set, observations: usize, which: Which, seed: u64, step: &dyn Fn()) -> Result<SetScores> {
    let Set { declared, frame, .. } = set;
    let tasks: Vec<TaskScores> =
        declared.task.iter().map(|scored| task(frame, scored, which, seed, step)).collect::<Result<_>>()?;
    let classes: Vec<Vec<ClassScores>> =
        declared.class.iter().map(|class| classes(frame, class, seed, step)).collect::<Result<_>>()?;
    let (name, about) = (declared.name.clone(), declared.about.clone());
    let splits = together(&tasks);
    Ok(SetScores { name, about, observations, splits, tasks, classes: classes.into_iter().flatten().collect() })
}

/// Figures side by side, of a data set that has both a rate and a share.
fn together(tasks: &[TaskScores]) -> Vec<Together> {
    let rate = tasks.iter().find(|task| task.splits.iter().any(|s| s.figures.median_error_pct.is_some()));
    let share = tasks.iter().find(|task| task.splits.iter().any(|s| s.figures.stall_mae_points.is_some()));
    let (Some(rate), Some(share)) = (rate, share) else { return Vec::new() };
    let of = |split: &SplitScores| {
        let other = share.splits.iter().find(|other| other.split == split.split);
        let f = &split.figures;
        Together {
            split: split.split.clone(),
            r2_log: f.r2_log,
            median_error_pct: f.median_error_pct,
            worst_group_r2: f.worst_group_r2,
            stall_mae_points: other.and_then(|other| other.figures.stall_mae_points),
            coverage_80_pct: f.coverage_80_pct,
            worst_group_coverage_80_pct: f.worst_group_coverage_80_pct,
            noise_floor_pct: f.noise_floor_pct,
        }
    };
    rate.splits.iter().map(of).collect()
}

fn classes(frame: &Frame, class: &Classed, seed: u64, step: &dyn Fn()) -> Result<Vec<ClassScores>> {
    let inputs = class.features(frame);
    let one = |split: &String| {
        let judged = |classifier: &Classifier| {
            let accuracy = classify::validate(frame, classifier, &inputs, &class.label, split, seed)?;
            Ok((classifier.name().to_owned(), accuracy))
        };
        let mut classifiers = Classifier::all().iter().map(judged).collect::<Result<Vec<_>>>()?;
        classifiers.sort_by(|a, b| b.1.balanced_pct.total_cmp(&a.1.balanced_pct));
        step();
        Ok(ClassScores { label: class.label.clone(), split: split.clone(), inputs: inputs.clone(), classifiers })
    };
    class.splits.iter().map(one).collect()
}

fn task(frame: &Frame, scored: &Scored, which: Which, seed: u64, step: &dyn Fn()) -> Result<TaskScores> {
    let task = scored.task(frame);
    let noise = declare::noise(frame, scored)?;
    let one = |group: &String| split(frame, &task, which, &Plan::leaving_out(group, seed), noise, step);
    let splits = scored.splits.iter().map(one).collect::<Result<_>>()?;
    let mut published = None;
    if let (true, Some(group)) = (runs_published(scored), scored.splits.first()) {
        published = Some(published::run(frame, &task, &scored.leaked, group, seed)?);
        step();
    }
    Ok(TaskScores {
        unit: frame.target(&task.target)?.unit.clone(),
        observations: task.rows(frame)?.len(),
        target: task.target,
        inputs: task.features,
        splits,
        published,
    })
}

fn split(
    frame: &Frame,
    task: &Task,
    which: Which,
    plan: &Plan,
    noise: Option<f64>,
    step: &dyn Fn(),
) -> Result<SplitScores> {
    let mut all: Vec<Validated> = Vec::new();
    for settings in which.settings(task) {
        all.push(validate::validate(frame, task, &settings, plan)?);
        step();
    }
    let chosen = validate::chosen(frame, task, plan, &all)?;
    let blended = blend::blended(frame, task, plan, &all)?;
    all.sort_by(|a, b| error(task.scale, &a.score).total_cmp(&error(task.scale, &b.score)));
    let mut scores = SplitScores {
        split: plan.group.clone(),
        groups: blended.score.groups,
        figures: Figures::of(&blended.score, noise),
        together: counted(blended.folds.iter().flat_map(|fold| parts(&fold.chosen))),
        single: Figures::of(&chosen.score, noise),
        chosen: counted(chosen.folds.iter().map(|fold| fold.chosen.name())),
        leaderboard: Vec::new(),
        learning_curve: Vec::new(),
        permutation: Vec::new(),
        contributions: Vec::new(),
    };
    if which == Which::All {
        let spec = often(all[0].folds.iter().map(|fold| &fold.chosen));
        let curve = study::curve(frame, task, spec, plan, &[0.1, 0.25, 0.5])?;
        scores.learning_curve = curve.iter().map(|(s, score)| (*s, error(task.scale, score))).collect();
        step();
        let opened = study::open(frame, task, spec, plan)?;
        scores.learning_curve.push((1.0, error(task.scale, &opened.score(frame, task, plan)?)));
        scores.permutation = opened.permutation(frame, task, plan.seed)?;
        scores.contributions = opened.contributions(frame, task, plan.seed)?;
        step();
    }
    let row = |found: &Validated| Row { learner: found.name.clone(), figures: Figures::of(&found.score, noise) };
    scores.leaderboard = all.iter().map(row).collect();
    Ok(scores)
}

/// The names of what is averaged.
fn parts(spec: &Spec) -> Vec<String> {
    match &spec.learner {
        Learner::Mean(parts) => parts.iter().map(Spec::name).collect(),
        _ => vec![spec.name()],
    }
}

/// The setting that was chosen most often.
fn often<'a>(specs: impl Iterator<Item = &'a Spec>) -> &'a Spec {
    static BASELINE: Spec = Spec { learner: Learner::Baseline, residual: true };
    let all: Vec<&Spec> = specs.collect();
    let count = |spec: &Spec| all.iter().filter(|s| **s == spec).count();
    all.iter().copied().max_by_key(|spec| count(spec)).unwrap_or(&BASELINE)
}

fn counted(names: impl Iterator<Item = String>) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}
