//! How good forecasts were on runs that the model had not seen.

use std::sync::Arc;

use feedline_traces::{Error, Result};
use rayon::prelude::*;
use serde::Serialize;

use super::model::Forecaster;
use super::naive::NAIVES;
use super::teller::{Forecasts, Teller};
use super::train::{Lived, Training, best, train};
use super::{AHEAD, HORIZONS, NAMES, ON};
use crate::learn::{Group, folds, stats};

/// Seconds before an onset in which an alarm announces it.
const EARLY: usize = 15;
/// Seconds without a stall after which one that begins is an event.
const QUIET: usize = 5;

/// One run, said second by second by a model that had not seen it.
#[derive(Debug, Clone)]
pub struct Scored {
    /// The run.
    pub run: Lived,
    /// What was said, by second and horizon.
    pub said: Vec<[Forecasts; AHEAD]>,
    /// The probability of an onset within 10 s from which it counted as an alarm.
    pub alarm: f64,
}

impl Scored {
    /// Says a run as a live one would have been, drift watch and all.
    #[must_use]
    pub fn of(run: &Lived, forecaster: &Arc<Forecaster>) -> Self {
        let mut teller = Teller::of(forecaster);
        let said = run.points.iter().map(|point| teller.tell(point)).collect();
        let alarm = forecaster.ahead.get(ALARM).map_or(0.5, |ahead| ahead.alarm);
        Self { run: run.clone(), said, alarm }
    }
}

/// What is left out at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Runs.
    Run,
    /// All runs of a kind.
    Kind,
}

/// Says every run by models that were trained without it: without its fold of runs, or without all of
/// its kind. Runs of one name are never on both sides.
///
/// # Errors
/// When there are too few runs to leave any out, or too few are left to learn from.
pub fn unseen(runs: &[Lived], by: By, most: usize, how: &Training) -> Result<Vec<Scored>> {
    let name = |run: &Lived| if by == By::Kind { run.kind.clone() } else { run.name.clone() };
    let group = Group::new("left out", &runs.iter().map(name).collect::<Vec<_>>());
    let rows: Vec<usize> = (0..runs.len()).collect();
    let folds = folds::grouped(&group, &rows, most, how.seed);
    if folds.is_empty() {
        return Err(Error::new(format!("{} run to score: none can be left out", runs.len()))
            .hint("name two recorded runs or more"));
    }
    let each = folds.par_iter().map(|fold| {
        let seen: Vec<&Lived> = fold.train.iter().map(|&run| &runs[run]).collect();
        let forecaster = Arc::new(train(&seen, how)?);
        Ok(fold.test.iter().map(|&run| Scored::of(&runs[run], &forecaster)).collect::<Vec<_>>())
    });
    Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The horizon that alarms are of, by position: 10 s.
const ALARM: usize = 2;

/// Scores of one horizon.
#[derive(Debug, Clone, Serialize)]
pub struct OneHorizon {
    /// The horizon.
    pub horizon: &'static str,
    /// Seconds judged.
    pub seconds: usize,
    /// Mean absolute error in points of what was said.
    pub mae_points: Option<f64>,
    /// The same of the best naive forecast, chosen in hindsight on these very seconds.
    pub naive_mae_points: Option<f64>,
    /// Which that was.
    pub naive: String,
    /// The first in percent of the second: 100 is equal, less is better.
    pub mae_vs_best_naive_pct: Option<f64>,
    /// The same of persistence of the job's own log, which no outsider has, for comparison.
    pub truth_persistence_mae_points: Option<f64>,
    /// Seconds in percent in which the interval held what came.
    pub coverage_80_pct: Option<f64>,
    /// Mean width of the interval in points.
    pub width_points: Option<f64>,
    /// Seconds in percent in which the model spoke, not the baseline.
    pub model_spoke_pct: Option<f64>,
    /// Area under the ROC curve of onsets within the horizon; the baseline's level in the same role.
    pub auroc: Option<f64>,
    /// The best naive forecast's own value in the role of the probability.
    pub naive_auroc: Option<f64>,
    /// Seconds without a stall.
    pub quiet_seconds: usize,
    /// Those of them by whose horizon one began.
    pub onset_seconds: usize,
    /// The kind of runs with the worst error, in percent of the best naive forecast's on it.
    pub worst_kind: Option<(String, f64)>,
}

/// Stalls that began, and whether they were announced.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Event {
    /// Stalls that began after five quiet seconds or more.
    pub onsets: usize,
    /// Of them those with an alarm within the 15 s before.
    pub announced: usize,
    /// Median time from the first alarm of the unbroken series to the onset.
    pub median_lead_s: Option<f64>,
    /// Alarms an hour of quiet time after which no stall began within 15 s.
    pub false_alarms_per_hour: Option<f64>,
}

/// All scores.
#[derive(Debug, Clone, Serialize)]
pub struct Scores {
    /// Runs judged.
    pub runs: usize,
    /// By horizon.
    pub horizons: Vec<OneHorizon>,
    /// Event by event, at 10 s.
    pub events: Event,
}

impl Scores {
    /// Scores of runs.
    #[must_use]
    pub fn of(scored: &[Scored]) -> Self {
        Self {
            runs: scored.len(),
            horizons: (0..AHEAD).map(|at| horizon(scored, at)).collect(),
            events: events(scored),
        }
    }
}

/// One second of one run.
struct Row<'a> {
    kind: &'a str,
    said: &'a Forecasts,
    naive: &'a [f64; NAIVES.len()],
    level: f64,
    came: f64,
    onset: f64,
}

fn rows(scored: &[Scored], at: usize) -> Vec<Row<'_>> {
    let each = |one: &Scored, i: usize| (one.run.came[i][at], one.run.onset[i][at]);
    let mut rows = Vec::new();
    for one in scored {
        for (i, (said, point)) in one.said.iter().zip(&one.run.points).enumerate() {
            let (came, onset) = each(one, i);
            let level = one.run.level[i];
            rows.push(Row { kind: &one.run.kind, said: &said[at], naive: &point.said[at], level, came, onset });
        }
    }
    rows
}

fn horizon(scored: &[Scored], at: usize) -> OneHorizon {
    let all = rows(scored, at);
    let judged: Vec<&Row> = all.iter().filter(|row| row.came.is_finite() && row.said.share.is_finite()).collect();
    let came: Vec<f64> = judged.iter().map(|row| row.came).collect();
    let naives: Vec<&[f64; NAIVES.len()]> = judged.iter().map(|row| row.naive).collect();
    let naive = best(&came, &naives);
    let mae = mean(judged.iter().map(|row| (row.said.share - row.came).abs()));
    let ratio = |ours: Option<f64>, theirs: Option<f64>| {
        ours.zip(theirs.filter(|t| *t > 0.0)).map(|(ours, theirs)| 100.0 * ours / theirs)
    };
    let spans = || judged.iter().filter(|row| row.said.low.is_finite() && row.said.high.is_finite());
    let held = |row: &&Row<'_>| row.said.low - 1e-9 <= row.came && row.came <= row.said.high + 1e-9;
    let quiet: Vec<&Row> = all.iter().filter(|row| row.onset.is_finite()).collect();
    let told: Vec<(f64, bool)> =
        quiet.iter().filter(|r| r.said.onset.is_finite()).map(|r| (r.said.onset, r.onset > 0.5)).collect();
    let by_naive = |n: usize| {
        auroc(&quiet.iter().filter(|r| r.naive[n].is_finite()).map(|r| (r.naive[n], r.onset > 0.5)).collect::<Vec<_>>())
    };
    let of_all = |count: usize, all: usize| (all > 0).then(|| 100.0 * stats::count(count) / stats::count(all));
    OneHorizon {
        horizon: NAMES[at],
        seconds: judged.len(),
        mae_points: mae.map(|v| v * 100.0),
        naive_mae_points: naive.map(|(_, error)| error * 100.0),
        naive: naive.map(|(n, _)| NAIVES[n].name()).unwrap_or_default(),
        mae_vs_best_naive_pct: ratio(mae, naive.map(|(_, error)| error)),
        truth_persistence_mae_points: mean(judged.iter().map(|row| (row.level - row.came).abs())).map(|v| v * 100.0),
        coverage_80_pct: of_all(spans().filter(|row| held(row)).count(), spans().count()),
        width_points: mean(spans().map(|row| row.said.high - row.said.low)).map(|v| v * 100.0),
        model_spoke_pct: of_all(judged.iter().filter(|row| row.said.why.is_none()).count(), judged.len()),
        auroc: auroc(&told),
        naive_auroc: (0..NAIVES.len()).filter_map(by_naive).reduce(f64::max),
        quiet_seconds: told.len(),
        onset_seconds: told.iter().filter(|(_, began)| *began).count(),
        worst_kind: worst(&judged, naive.map(|(n, _)| n)),
    }
}

/// The kind of runs on which it did worst against that naive forecast.
fn worst(judged: &[&Row<'_>], naive: Option<usize>) -> Option<(String, f64)> {
    let naive = naive?;
    let mut kinds: Vec<&str> = judged.iter().map(|row| row.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let of = |kind: &&str| {
        let mine = || judged.iter().filter(|row| row.kind == *kind && row.naive[naive].is_finite());
        let ours = mean(mine().map(|row| (row.said.share - row.came).abs()))?;
        let theirs = mean(mine().map(|row| (row.naive[naive] - row.came).abs())).filter(|t| *t > 0.0)?;
        Some(((*kind).to_owned(), 100.0 * ours / theirs))
    };
    kinds.iter().filter_map(of).max_by(|a, b| a.1.total_cmp(&b.1))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let known: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    (!known.is_empty()).then(|| stats::mean(&known, &[]))
}

/// The area under the ROC curve of scores: the probability that one that is true ranks above one
/// that is not, ties counting half (Hanley and `McNeil`, 1982). None where one of the two is missing.
#[must_use]
pub fn auroc(scores: &[(f64, bool)]) -> Option<f64> {
    let ranks = stats::ranks(&scores.iter().map(|(score, _)| *score).collect::<Vec<_>>());
    let positive = stats::count(scores.iter().filter(|(_, truth)| *truth).count());
    let negative = stats::count(scores.len()) - positive;
    let sum: f64 = scores.iter().zip(&ranks).filter(|((_, truth), _)| *truth).map(|(_, rank)| rank + 1.0).sum();
    (positive > 0.0 && negative > 0.0).then(|| (sum - positive * (positive + 1.0) / 2.0) / (positive * negative))
}

fn events(scored: &[Scored]) -> Event {
    let (mut event, mut leads, mut false_alarms, mut quiet) = (Event::default(), Vec::new(), 0_usize, 0_usize);
    for one in scored {
        let level = &one.run.level;
        let alarms: Vec<bool> = one.said.iter().map(|said| said[ALARM].onset >= one.alarm).collect();
        let stalled = |at: usize| level.get(at).is_some_and(|level| *level >= ON);
        for (at, now) in level.iter().enumerate().skip(QUIET) {
            if *now >= ON && level[at - QUIET..at].iter().all(|before| *before < ON) {
                event.onsets += 1;
                let series = (1..=EARLY.min(at)).take_while(|back| alarms[at - back]).count();
                if series > 0 {
                    event.announced += 1;
                    leads.push(stats::count(series));
                }
            }
        }
        for (at, now) in level.iter().enumerate() {
            // Only alarms whose time has wholly been seen are judged.
            if *now < ON && at + EARLY < level.len() {
                quiet += 1;
                let begins = alarms[at] && !(at > 0 && alarms[at - 1]);
                false_alarms += usize::from(begins && !(at + 1..=at + EARLY).any(stalled));
            }
        }
    }
    event.median_lead_s = stats::median(&leads);
    event.false_alarms_per_hour = (quiet > 0).then(|| stats::count(false_alarms) * 3600.0 / stats::count(quiet));
    event
}

/// Alarms are of the horizon that the bar is set for.
const _: () = assert!(HORIZONS[ALARM] == 10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_under_the_curve_agrees_with_its_definition() {
        let all = |scores: &[(f64, bool)]| {
            let of = |wanted: bool| scores.iter().filter(move |(_, truth)| *truth == wanted).map(|(score, _)| *score);
            let pairs = of(true).flat_map(|a| of(false).map(move |b| (a, b)));
            let wins: Vec<f64> = pairs
                .map(|(a, b)| {
                    if a > b {
                        1.0
                    } else if a < b {
                        0.0
                    } else {
                        0.5
                    }
                })
                .collect();
            stats::mean(&wins, &[])
        };
        let mut random = crate::learn::random::Random::new(3, 0);
        for _ in 0..20 {
            let scores: Vec<(f64, bool)> =
                (0..40).map(|_| ((random.unit() * 8.0).floor(), random.unit() < 0.3)).collect();
            assert!((auroc(&scores).unwrap() - all(&scores)).abs() < 1e-12);
        }
        assert_eq!(auroc(&[(0.1, false), (0.9, true)]), Some(1.0));
        assert_eq!(auroc(&[(0.1, false)]), None);
    }
}
