//! Learning from recorded runs: for each horizon the best naive forecast, boosted trees of what it
//! leaves (Friedman, 2001) with conformal quantiles (CQR: Romano, Patterson and Candès, 2019), and
//! trees of whether a stall begins. Runs are never split: what is kept has proved itself on runs it
//! had not seen.

use feedline_traces::{Error, Result, Ts};
use rayon::prelude::*;

use super::model::{Ahead, Forecaster};
use super::naive::{NAIVES, UNTRAINED};
use super::{AHEAD, HORIZONS, INPUTS, ON, Point, WITHIN};
use crate::learn::band::{self, HeldOut};
use crate::learn::tree::{Boost, Loss};
use crate::learn::validate;
use crate::learn::{Feature, Frame, Group, Learner, Model, Reader, Scale, Spec, Target, Task, folds, stats};

/// The group of a row that is never split.
const RUN: &str = "run";
/// How often intervals are to hold.
const LEVEL: f64 = 0.8;
/// Fewer rows than this, or than two runs, teach nothing.
const FEWEST: usize = 60;
/// Fewer onsets than this teach nothing.
const ONSETS: usize = 12;
/// A model is kept where its error on unseen runs is below this part of the baseline's.
const GAIN: f64 = 0.97;
/// …and where it is better on this part of the runs, of which there must be so many.
const WON: f64 = 0.6;
const RUNS: usize = 4;
/// The share that is learnt, and whether a stall begins.
const SHARE: &str = "share_ahead";
const ONSET: &str = "onset_ahead";
const BASELINE: &str = "naive";

/// How to train.
#[derive(Debug, Clone, Copy)]
pub struct Training {
    /// The seed of fits and folds.
    pub seed: u64,
    /// Trees of each model.
    pub trees: usize,
    /// Inner folds.
    pub folds: usize,
}

impl Default for Training {
    fn default() -> Self {
        Self { seed: 1, trees: 80, folds: 4 }
    }
}

/// A run as it is learnt from: what was seen each second, and what came after it.
#[derive(Debug, Clone)]
pub struct Lived {
    /// Its name: runs of one name are never split.
    pub name: String,
    /// What kind of run it is, for leaving whole kinds out.
    pub kind: String,
    /// Its seconds.
    pub points: Vec<Point>,
    /// For each second and horizon the share that came; NaN where that is not known.
    pub came: Vec<[f64; AHEAD]>,
    /// For each second the share over the last [`WITHIN`] seconds.
    pub level: Vec<f64>,
    /// For each second and horizon 1 where a stall began by then, 0 where none did; NaN where one was
    /// on already, or it is not known.
    pub onset: Vec<[f64; AHEAD]>,
}

impl Lived {
    /// A run whose truth is a function: the share that was waited between two times, none where that
    /// is not wholly known.
    #[must_use]
    pub fn of(name: &str, kind: &str, points: Vec<Point>, truth: &dyn Fn(Ts, Ts) -> Option<f64>) -> Self {
        let after = |at: Ts, seconds: f64| Ts(at.0 + nanos(seconds));
        let share = |at: Ts, from: f64, to: f64| truth(after(at, from), after(at, to)).unwrap_or(f64::NAN);
        let came = points.iter().map(|p| HORIZONS.map(|h| share(p.at, 0.0, stats::count(h)))).collect();
        let level = points.iter().map(|p| share(p.at, -WITHIN, 0.0)).collect();
        let onset = points.iter().map(|p| onsets(&|ahead| share(p.at, ahead - WITHIN, ahead))).collect();
        Self { name: name.to_owned(), kind: kind.to_owned(), points, came, level, onset }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "seconds of a horizon")]
fn nanos(seconds: f64) -> i64 {
    (seconds * 1e9) as i64
}

/// For each horizon whether a stall begins, from the level at seconds from now.
fn onsets(level: &dyn Fn(f64) -> f64) -> [f64; AHEAD] {
    let mut out = [f64::NAN; AHEAD];
    let now = level(0.0);
    if now.is_nan() || now >= ON {
        return out;
    }
    let (mut began, mut done) = (false, 0);
    for (to, seconds) in out.iter_mut().zip(HORIZONS) {
        for ahead in done + 1..=seconds {
            let then = level(stats::count(ahead));
            if then.is_nan() && !began {
                return out;
            }
            began |= then >= ON;
        }
        done = seconds;
        *to = if began { 1.0 } else { 0.0 };
    }
    out
}

/// The truth as far as the run itself knows it, for runs without a log of their own: the mean of its
/// seconds' shares, where at least nine tenths of them were seen.
pub fn estimated(points: &[Point]) -> impl Fn(Ts, Ts) -> Option<f64> + use<> {
    let seconds: Vec<(Ts, f64)> = points.iter().map(|p| (p.at, p.share)).collect();
    move |from, to| {
        // A second belongs to the window that its middle lies in.
        let half = 500_000_000;
        let start = seconds.partition_point(|(at, _)| at.0 - half < from.0);
        let end = seconds.partition_point(|(at, _)| at.0 - half < to.0);
        let known: Vec<f64> =
            seconds.get(start..end)?.iter().map(|(_, share)| *share).filter(|share| share.is_finite()).collect();
        let enough = stats::count(known.len()) >= (0.9 * to.seconds_since(from)).max(1.0);
        enough.then(|| stats::mean(&known, &[]))
    }
}

/// Trains on runs. The same runs and seed give the same models on any number of threads.
///
/// # Errors
/// When there are too few runs or seconds to learn from.
pub fn train(runs: &[&Lived], how: &Training) -> Result<Forecaster> {
    let frame = frame(runs)?;
    let rows = frame.len();
    if runs.len() < 2 || rows < FEWEST {
        return Err(Error::new(format!(
            "{} runs of {rows} seconds with a trainer in all are too few to learn from",
            runs.len()
        ))
        .hint("name at least two recorded runs of a minute or more"));
    }
    let ahead: Vec<Ahead> = (0..AHEAD).into_par_iter().map(|at| one(&frame, runs, at, how)).collect::<Result<_>>()?;
    Ok(Forecaster { ahead, runs: runs.len(), rows, seed: how.seed })
}

/// The frame of all seconds; outcomes and baselines of each horizon are put in by [`one`].
fn frame(runs: &[&Lived]) -> Result<Frame> {
    let points = || runs.iter().flat_map(|run| &run.points);
    let values = |i: usize| points().map(|point| point.x[i]).collect();
    let features = INPUTS.iter().enumerate().map(|(i, input)| Feature::number(input.name, input.unit, values(i)));
    let names: Vec<&str> = runs.iter().flat_map(|run| run.points.iter().map(|_| run.name.as_str())).collect();
    let frame = Frame { features: features.collect(), groups: vec![Group::new(RUN, &names)], ..Frame::default() };
    frame.check()?;
    Ok(frame)
}

fn column(name: &str, values: Vec<f64>) -> Target {
    Target { name: name.to_owned(), unit: String::new(), timer: "later".to_owned(), values }
}

fn task(target: &str, baseline: Option<&str>) -> Task {
    Task {
        target: target.to_owned(),
        scale: Scale::Share,
        features: INPUTS.iter().map(|input| input.name.to_owned()).collect(),
        baseline: baseline.map(str::to_owned),
        key: Vec::new(),
        last: None,
        rising: Vec::new(),
        falling: Vec::new(),
    }
}

fn boosted(loss: Loss, trees: usize) -> Learner {
    Learner::Boosted(Boost {
        loss,
        trees: trees.max(1),
        leaves: 8,
        depth: 6,
        rate: 0.08,
        rows: 15,
        l2: 3.0,
        row_share: 0.7,
        column_share: 0.4,
        monotone: Vec::new(),
    })
}

/// One horizon.
fn one(frame: &Frame, runs: &[&Lived], at: usize, how: &Training) -> Result<Ahead> {
    let came: Vec<f64> = runs.iter().flat_map(|run| run.came.iter().map(|came| came[at])).collect();
    let said: Vec<&[f64; NAIVES.len()]> = runs.iter().flat_map(|run| run.points.iter().map(|p| &p.said[at])).collect();
    let (naive, error) = best(&came, &said).unwrap_or((UNTRAINED[at].position(), f64::NAN));
    let mut frame = frame.clone();
    frame.baselines = vec![column(BASELINE, said.iter().map(|said| said[naive]).collect())];
    frame.targets = vec![
        column(SHARE, came.clone()),
        column(ONSET, runs.iter().flat_map(|run| run.onset.iter().map(|onset| onset[at])).collect()),
    ];
    let share = task(SHARE, Some(BASELINE));
    let rows = share.rows(&frame)?;
    let misses: Vec<f64> = rows.iter().map(|&row| (came[row] - said[row][naive]).abs()).collect();
    let error = if misses.is_empty() { error } else { stats::mean(&misses, &[]) };
    let radius = (!misses.is_empty()).then(|| stats::quantile(&misses, &[], LEVEL));
    let mut ahead =
        Ahead { naive: NAIVES[naive], radius, share: None, onset: None, alarm: 0.5, errors: [error, f64::NAN] };
    if seen(&frame, &rows) {
        let settings = [true, false].map(|residual| Spec { learner: boosted(Loss::Absolute, how.trees), residual });
        let group = frame.group(RUN)?;
        let folds = folds::inner(group, &rows, how.folds, how.seed);
        let (spec, held) = validate::tune(&frame, &share, &settings, &folds, how.seed)?;
        ahead.errors[1] = stats::mean(&held.iter().map(|held| held.miss).collect::<Vec<_>>(), &[]);
        let naive = |row: usize| (came[row] - said[row][naive]).abs();
        if ahead.errors[1] < GAIN * error && wins(group, &held, &naive) {
            let mut model = spec.fit(&frame, &rows, &share, how.seed)?;
            let band = band::fit(&frame, &rows, &share, &spec, &held, &folds, group, LEVEL, how.seed)?;
            model.band = Some(band);
            ahead.share = Some(model);
        }
    }
    (ahead.onset, ahead.alarm) = onset(&frame, how)?;
    Ok(ahead)
}

/// Whether the model is better than the baseline on enough of the runs that it had not seen: on one
/// run it can be by chance.
fn wins(group: &Group, held: &[HeldOut], naive: &dyn Fn(usize) -> f64) -> bool {
    let mut sums = vec![[0.0; 2]; group.levels.len()];
    for held in held {
        let sum = &mut sums[group.codes[held.row] as usize];
        sum[0] += held.miss;
        sum[1] += naive(held.row);
    }
    let runs: Vec<[f64; 2]> = sums.into_iter().filter(|sum| sum[0] + sum[1] > 0.0).collect();
    let won = runs.iter().filter(|sum| sum[0] < sum[1]).count();
    runs.len() >= RUNS && stats::count(won) >= WON * stats::count(runs.len())
}

/// Whether rows are enough, and of several runs.
fn seen(frame: &Frame, rows: &[usize]) -> bool {
    rows.len() >= FEWEST && frame.group(RUN).is_ok_and(|group| group.members(rows).len() >= 2)
}

/// The naive forecast with the least mean absolute error, and that error. All are judged on the same
/// rows: those on which each says something.
pub(super) fn best(came: &[f64], said: &[&[f64; NAIVES.len()]]) -> Option<(usize, f64)> {
    let known: Vec<usize> = (0..came.len()).filter(|&row| came[row].is_finite()).collect();
    let error = |naive: usize| {
        let misses: Vec<f64> = known.iter().map(|&row| (said[row][naive] - came[row]).abs()).collect();
        let all = !misses.is_empty() && misses.iter().filter(|m| m.is_nan()).count() * 10 < misses.len();
        let known: Vec<f64> = misses.into_iter().filter(|m| m.is_finite()).collect();
        all.then(|| stats::mean(&known, &[]))
    };
    (0..NAIVES.len()).filter_map(|naive| Some((naive, error(naive)?))).min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The model of whether a stall begins, and the probability from which an alarm is worth it.
fn onset(frame: &Frame, how: &Training) -> Result<(Option<Model>, f64)> {
    let task = task(ONSET, None);
    let rows = task.rows(frame)?;
    let truth = &frame.target(ONSET)?.values;
    let began = rows.iter().filter(|row| truth[**row] > 0.5).count();
    if !seen(frame, &rows) || began < ONSETS || rows.len() - began < ONSETS {
        return Ok((None, 0.5));
    }
    let spec = Spec { learner: boosted(Loss::Squared, how.trees * 3 / 4), residual: false };
    let mut held = Vec::with_capacity(rows.len());
    for fold in folds::inner(frame.group(RUN)?, &rows, how.folds, how.seed) {
        let model = spec.fit(frame, &fold.train, &task, how.seed)?;
        let reader = Reader::new(frame, &model.inputs)?;
        held.extend(fold.test.iter().map(|&row| (model.predict(&reader.row(row), f64::NAN), truth[row] > 0.5)));
    }
    Ok((Some(spec.fit(frame, &rows, &task, how.seed)?), alarm(&held)))
}

/// The threshold with the best harmonic mean of precision and recall; 0.5 where nothing was to find.
fn alarm(held: &[(f64, bool)]) -> f64 {
    let mut held = held.to_vec();
    held.sort_by(|a, b| b.0.total_cmp(&a.0));
    let all = stats::count(held.iter().filter(|(_, began)| *began).count());
    let (mut best, mut threshold, mut hits) = (0.0, 0.5, 0.0);
    for (at, (said, began)) in held.iter().enumerate() {
        hits += if *began { 1.0 } else { 0.0 };
        let f1 = 2.0 * hits / (stats::count(at + 1) + all).max(1.0);
        if f1 > best {
            (best, threshold) = (f1, *said);
        }
    }
    threshold
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_onset_is_a_stall_that_is_not_on_yet() {
        let from = |shares: &'static [f64]| {
            move |ahead: f64| {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and whole")]
                shares.get(ahead as usize).copied().unwrap_or(f64::NAN)
            }
        };
        let begins = onsets(&from(&[0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.0]));
        assert_eq!((begins[0], begins[1]), (0.0, 1.0));
        // Once one began, what is not known of later does not matter.
        assert_eq!(begins[4], 1.0);
        assert!(onsets(&from(&[0.3, 0.0, 0.5])).iter().all(|onset| onset.is_nan()));
        let short = onsets(&from(&[0.0, 0.0, 0.0]));
        assert!(short[0] == 0.0 && short[1].is_nan());
    }

    #[test]
    fn the_alarm_is_where_hits_and_misses_balance() {
        let held = [(0.9, true), (0.8, true), (0.3, false), (0.2, true), (0.1, false), (0.05, false)];
        assert_eq!(alarm(&held), 0.2);
        assert_eq!(alarm(&held[..4]), 0.2);
        assert_eq!(alarm(&[(0.9, true), (0.5, false), (0.4, false), (0.3, false), (0.2, true)]), 0.9);
        assert_eq!(alarm(&[]), 0.5);
    }
}
