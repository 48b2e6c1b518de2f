//! What is said of one trainer second by second, and whether the model still deserves to say it.

use std::collections::VecDeque;
use std::sync::Arc;

use feedline_traces::Ts;

use super::model::{Ahead, Forecaster, strange};
use super::{AHEAD, HORIZONS, Point};
use crate::learn::stats::count;

/// What is kept of older errors from second to second: half of it after a minute.
const KEPT: f64 = 0.9885;
/// Weight of errors, in seconds, before the model is judged by them.
const JUDGED: f64 = 20.0;
/// The model gives way when its error exceeds the baseline's by this factor, and these points…
const WORSE: f64 = 1.15;
const POINTS: f64 = 0.005;
/// …and comes back when it is below this part of it.
const BETTER: f64 = 0.95;
/// Part of a horizon whose seconds must have been seen before it is judged.
const SEEN: f64 = 0.8;
/// Forecasts kept until their time has come; more than the longest horizon.
const KEPT_FORECASTS: usize = 160;

/// What is said about one horizon.
#[derive(Debug, Clone)]
pub struct Forecasts {
    /// The share; NaN where nothing is known at all.
    pub share: f64,
    /// The 80 % interval; NaN where there is none.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The probability that a stall begins; NaN while one is on.
    pub onset: f64,
    /// What the baseline says.
    pub baseline: f64,
    /// Which method said the share.
    pub model: String,
    /// Why it is the baseline, if it is.
    pub why: Option<String>,
    /// What was said a horizon ago, what the baseline said then, and what came.
    pub told: f64,
    /// The baseline's forecast of then.
    pub told_baseline: f64,
    /// What came.
    pub came: f64,
}

impl Default for Forecasts {
    /// Nothing is said.
    fn default() -> Self {
        let none = f64::NAN;
        Self {
            share: none,
            low: none,
            high: none,
            onset: none,
            baseline: none,
            model: String::new(),
            why: None,
            told: none,
            told_baseline: none,
            came: none,
        }
    }
}

/// A forecast that waits for its time.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    at: Ts,
    /// What was said, what the model would have said, what the baseline said.
    said: f64,
    model: f64,
    baseline: f64,
}

/// Errors of the model and of the baseline, the latest counting most.
#[derive(Debug, Clone, Copy, Default)]
struct Drift {
    model: f64,
    baseline: f64,
    weight: f64,
    fallen: bool,
}

impl Drift {
    fn note(&mut self, model: f64, baseline: f64) {
        if !(model.is_finite() && baseline.is_finite()) {
            return;
        }
        self.model = self.model * KEPT + model;
        self.baseline = self.baseline * KEPT + baseline;
        self.weight = self.weight * KEPT + 1.0;
        if self.weight < JUDGED {
            return;
        }
        let (model, baseline) = (self.model / self.weight, self.baseline / self.weight);
        if !self.fallen && model > baseline * WORSE + POINTS {
            self.fallen = true;
        } else if self.fallen && model < baseline * BETTER {
            self.fallen = false;
        }
    }

    fn why(&self) -> Option<String> {
        let points = |error: f64| error / self.weight * 100.0;
        self.fallen.then(|| {
            let (model, baseline) = (points(self.model), points(self.baseline));
            format!("the model was off by {model:.1} points in the last minutes, the baseline by {baseline:.1}")
        })
    }
}

/// One horizon of one trainer.
#[derive(Debug, Clone, Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    drift: Drift,
}

/// Says forecasts of one trainer.
#[derive(Debug, Clone)]
pub struct Teller {
    forecaster: Arc<Forecaster>,
    lines: [Line; AHEAD],
    /// Shares as they came, each with the time that it ended.
    came: VecDeque<(Ts, f64)>,
}

impl Teller {
    /// Nothing said yet.
    #[must_use]
    pub fn of(forecaster: &Arc<Forecaster>) -> Self {
        Self { forecaster: Arc::clone(forecaster), lines: Default::default(), came: VecDeque::new() }
    }

    /// When it last said something.
    #[must_use]
    pub fn seen(&self) -> Ts {
        self.came.back().map_or(Ts::default(), |(at, _)| *at)
    }

    /// What is to be said after a second, for every horizon.
    pub fn tell(&mut self, point: &Point) -> [Forecasts; AHEAD] {
        self.came.push_back((point.at, point.share));
        while self.came.len() > KEPT_FORECASTS {
            self.came.pop_front();
        }
        std::array::from_fn(|at| {
            let Some(ahead) = self.forecaster.ahead.get(at) else { return Forecasts::default() };
            let past = come(&mut self.lines[at], &self.came, point.at, count(HORIZONS[at]));
            let trained = self.forecaster.is_trained();
            let (mut said, model) = say(ahead, at, point, trained, &self.lines[at].drift);
            if let Some((waiting, came)) = past {
                (said.told, said.told_baseline, said.came) = (waiting.said, waiting.baseline, came);
            }
            let waiting = Waiting { at: point.at, said: said.share, model, baseline: said.baseline };
            self.lines[at].waiting.push_back(waiting);
            said
        })
    }
}

/// The forecast whose time has just come and what came, its error noted.
fn come(line: &mut Line, came: &VecDeque<(Ts, f64)>, now: Ts, seconds: f64) -> Option<(Waiting, f64)> {
    let mut due = None;
    while line.waiting.len() > KEPT_FORECASTS
        || line.waiting.front().is_some_and(|w| now.seconds_since(w.at) > seconds - 0.5)
    {
        due = line.waiting.pop_front();
    }
    let waiting = due.filter(|w| now.seconds_since(w.at) < seconds + 0.5)?;
    let shares = came.iter().rev().take_while(|(at, _)| *at > waiting.at).map(|(_, share)| *share);
    let (sum, known) =
        shares.filter(|share| share.is_finite()).fold((0.0, 0.0), |(sum, n), share| (sum + share, n + 1.0));
    if known < (seconds * SEEN).max(1.0) {
        return Some((waiting, f64::NAN));
    }
    let mean = sum / known;
    line.drift.note((waiting.model - mean).abs(), (waiting.baseline - mean).abs());
    Some((waiting, mean))
}

/// What is said about a horizon, and what the model would say.
fn say(ahead: &Ahead, at: usize, point: &Point, trained: bool, drift: &Drift) -> (Forecasts, f64) {
    let baseline = point.said[at][ahead.naive.position()];
    let even = |radius: f64| ((baseline - radius).clamp(0.0, 1.0), (baseline + radius).clamp(0.0, 1.0));
    let (low, high) = ahead.radius.map_or((f64::NAN, f64::NAN), even);
    let onset = ahead.onset.as_ref().filter(|model| !point.on && strange(model, &point.x).is_none());
    let mut said = Forecasts {
        share: baseline,
        low,
        high,
        onset: onset.map_or(f64::NAN, |model| model.predict(&point.x, f64::NAN)),
        baseline,
        model: ahead.naive.name(),
        ..Forecasts::default()
    };
    let Some(model) = &ahead.share else {
        said.why = Some(if trained {
            "no model was better than the baseline on runs it had not seen".to_owned()
        } else {
            "no model was trained yet: `feedline train` makes one of recorded runs".to_owned()
        });
        return (said, f64::NAN);
    };
    if !baseline.is_finite() {
        said.why = Some("too little was seen".to_owned());
        return (said, f64::NAN);
    }
    let value = model.predict(&point.x, baseline);
    said.why = strange(model, &point.x).or_else(|| drift.why());
    if said.why.is_none() {
        let (low, high) = model.interval(&point.x, baseline).unwrap_or((low, high));
        (said.share, said.low, said.high) = (value, low.clamp(0.0, 1.0), high.clamp(0.0, 1.0));
        model.spec.learner.name().clone_into(&mut said.model);
    }
    (said, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_drifts_gives_way_and_comes_back_only_when_it_is_better() {
        let mut drift = Drift::default();
        for _ in 0..15 {
            drift.note(0.5, 0.1);
        }
        assert!(drift.why().is_none(), "too few to judge by");
        (0..60).for_each(|_| drift.note(0.2, 0.1));
        let why = drift.why().unwrap();
        assert!(why.contains("in the last minutes"), "{why}");
        // Equal is not better: the baseline goes on.
        (0..2000).for_each(|_| drift.note(0.1, 0.1));
        assert!(drift.fallen);
        (0..200).for_each(|_| drift.note(0.05, 0.1));
        assert!(!drift.fallen);
        // And a little worse is not worse enough.
        (0..2000).for_each(|_| drift.note(0.105, 0.1));
        assert!(!drift.fallen);
    }

    #[test]
    fn what_is_not_known_does_not_count_against_anybody() {
        let mut drift = Drift::default();
        (0..1000).for_each(|_| drift.note(f64::NAN, 0.0));
        assert!(drift.weight < 1.0 && drift.why().is_none());
    }
}
