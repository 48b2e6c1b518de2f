//! `feedline score`: every learner on every data set, validated with whole groups left out.

use feedline_models::learn::declare::{self, Scored};
use feedline_models::learn::published::{self, Published};
use feedline_models::learn::validate::{self, Plan, Validated};
use feedline_models::learn::{Frame, Scale, Score, Spec, Task};
use feedline_traces::Result;
use serde::Serialize;

mod load;
pub mod page;
pub mod timing;

pub use load::{Set, sets};

/// All scores.
#[derive(Debug, Serialize)]
pub struct Scores {
    /// Real rows over all data sets; simulated ones are in no score.
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
    /// The scores of each task.
    pub tasks: Vec<TaskScores>,
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

/// The scores of one way to leave groups out. The figures are those of the learner that is chosen
/// within each fold, by its inner folds: nobody looked at the rows that are judged.
#[derive(Debug, Serialize)]
pub struct SplitScores {
    /// The group that is left out.
    pub split: String,
    /// How many groups there are.
    pub groups: usize,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// The learners that were chosen, and in how many folds.
    pub chosen: Vec<(String, usize)>,
    /// Every learner, the best first.
    pub leaderboard: Vec<Row>,
    /// For shares of the training rows, the error of the best learner: percent, or points, or units.
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

/// How many steps scoring these data sets takes, for a bar.
#[must_use]
pub fn steps(sets: &[Set]) -> u64 {
    let split = |set: &Set, scored: &Scored| validate::contenders(&scored.task(&set.frame)).len() + 3;
    let task =
        |set: &Set, scored: &Scored| split(set, scored) * scored.splits.len() + usize::from(runs_published(scored));
    let all: usize = sets.iter().map(|set| set.declared.task.iter().map(|t| task(set, t)).sum::<usize>()).sum();
    all as u64
}

/// Scores all data sets; `step` is called after each step.
///
/// # Errors
/// When a task leaks, or a data set does not fit its tasks.
pub fn run(sets: &[Set], seed: u64, step: &dyn Fn()) -> Result<Scores> {
    let mut scores = Scores { observations: 0, simulated: 0, seed, sets: Vec::new(), timing: None };
    for set in sets {
        let observations = declare::observations(&set.frame);
        scores.observations += observations;
        scores.simulated += set.frame.len() - observations;
        let tasks = set.declared.task.iter().map(|scored| task(&set.frame, scored, seed, step)).collect::<Result<_>>();
        scores.sets.push(SetScores {
            name: set.declared.name.clone(),
            about: set.declared.about.clone(),
            observations,
            tasks: tasks.map_err(|e| e.at(&set.declared.name))?,
        });
    }
    Ok(scores)
}

fn task(frame: &Frame, scored: &Scored, seed: u64, step: &dyn Fn()) -> Result<TaskScores> {
    let task = scored.task(frame);
    let noise = declare::noise(frame, scored)?;
    let one = |group: &String| split(frame, &task, &Plan::leaving_out(group, seed), noise, step);
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

fn split(frame: &Frame, task: &Task, plan: &Plan, noise: Option<f64>, step: &dyn Fn()) -> Result<SplitScores> {
    let mut all: Vec<(Vec<Spec>, Validated)> = Vec::new();
    for settings in validate::contenders(task) {
        let found = validate::validate(frame, task, &settings, plan)?;
        all.push((settings, found));
        step();
    }
    let found: Vec<Validated> = all.iter().map(|(_, found)| found.clone()).collect();
    let chosen = validate::chosen(frame, task, plan, &found)?;
    all.sort_by(|a, b| error(task.scale, &a.1.score).total_cmp(&error(task.scale, &b.1.score)));
    let (settings, best) = &all[0];
    let curve = validate::curve(frame, task, settings, plan, &[0.1, 0.25, 0.5])?;
    let mut learning_curve: Vec<(f64, f64)> = curve.iter().map(|(s, score)| (*s, error(task.scale, score))).collect();
    learning_curve.push((1.0, error(task.scale, &best.score)));
    step();
    let spec = often(best.folds.iter().map(|fold| &fold.chosen));
    let permutation = validate::permutation(frame, task, spec, plan)?;
    step();
    let contributions = validate::contributions(frame, task, spec, plan)?;
    step();
    let row = |(_, found): &(Vec<Spec>, Validated)| Row {
        learner: found.name.clone(),
        figures: Figures::of(&found.score, noise),
    };
    Ok(SplitScores {
        split: plan.group.clone(),
        groups: chosen.score.groups,
        figures: Figures::of(&chosen.score, noise),
        chosen: counted(chosen.folds.iter().map(|fold| fold.chosen.name())),
        leaderboard: all.iter().map(row).collect(),
        learning_curve,
        permutation,
        contributions,
    })
}

/// The setting that was chosen most often.
fn often<'a>(specs: impl Iterator<Item = &'a Spec>) -> &'a Spec {
    static BASELINE: Spec = Spec { learner: feedline_models::learn::Learner::Baseline, residual: true };
    let all: Vec<&Spec> = specs.collect();
    let count = |spec: &Spec| all.iter().filter(|s| **s == spec).count();
    all.iter().copied().max_by_key(|spec| count(spec)).unwrap_or(&BASELINE)
}

fn counted(names: impl Iterator<Item = String>) -> Vec<(String, usize)> {
    let mut counts: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}
