//! What next? The share of its time that a trainer will wait for data over the next seconds.
//!
//! [`Forecast`] comes after [`Attribute`](crate::attribute::Attribute) in a chain. Each second it
//! makes one row of inputs of a trainer's past ([`INPUTS`], the same routine as in training), asks
//! what was learnt from recorded runs ([`Forecaster`]), and holds it against forecasts without
//! learning ([`Naive`]), which speak where no model may: because none was trained, because the job
//! is unlike any that was learnt from, or because the model has lately been worse than they.
//! `docs/forecast.md` says how it is trained and scored.

mod features;
mod model;
mod naive;
mod past;
mod sampled;
mod score;
mod season;
mod signals;
mod tables;
mod teller;
mod train;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use feedline_traces::unit::{Nanos, Ratio};
use feedline_traces::{Derive, Gauge, Key, Result, Row as _, Rows, Schema, Symbol, Table, Text, Tick, Ts, table};

pub use features::{INPUTS, Input};
pub use model::{Ahead, Forecaster, LIMIT};
pub use naive::{NAIVES, Naive, Said, UNTRAINED};
pub use score::{By, Event, OneHorizon, Scored, Scores, auroc, unseen};
pub use teller::{Forecasts, Teller};
pub use train::{Lived, Training, estimated, train};

use past::Past;
use watch::Watch;

/// The number of horizons.
pub const AHEAD: usize = 5;
/// The horizons in seconds: what is forecast is the mean share from now up to there.
pub const HORIZONS: [usize; AHEAD] = [1, 5, 10, 15, 60];
/// The horizons as keys.
pub const NAMES: [&str; AHEAD] = ["1s", "5s", "10s", "15s", "60s"];
/// A stall is on while its share over the last [`WITHIN`] seconds is at least this.
pub const ON: f64 = 0.10;
/// Seconds over which a stall has to take its share.
pub const WITHIN: f64 = 2.0;

table! {
    /// How much of its time a trainer will wait for data, one row per trainer and horizon each second, and
    /// what came of the forecast that was made that long ago.
    pub derived forecast: ForecastRow {
        /// The trainer, `PID@START`.
        process: Key,
        /// The horizon: `1s` `5s` `10s` `15s` `60s`.
        horizon: Key,
        /// The same as a time: the forecast is of the mean share from now up to then.
        ahead: Gauge<Nanos>,
        /// Share of wall time that it will wait for data.
        share: Gauge<Ratio>,
        /// Lower end of the 80 % interval; null where nothing was learnt to say it from.
        low: Gauge<Ratio>,
        /// Upper end of the 80 % interval.
        high: Gauge<Ratio>,
        /// Probability that a stall begins (10 % of two seconds or more) by then; null while one is on, and where
        /// no model says it.
        onset: Gauge<Ratio>,
        /// What the best forecast without learning says.
        baseline: Gauge<Ratio>,
        /// Which method said `share`: `boosted trees`, or the baseline's name.
        model: Text,
        /// Why the baseline speaks; null where the model does.
        why: Text,
        /// The forecast that was made a horizon ago, of the time that ends now.
        told: Gauge<Ratio>,
        /// The baseline's forecast of then.
        told_baseline: Gauge<Ratio>,
        /// What came: the share of that time, as far as it can be seen; null while too little was.
        came: Gauge<Ratio>,
    }
}

/// One second of a trainer as the forecast sees it.
#[derive(Debug, Clone)]
pub struct Point {
    /// The end of the second.
    pub at: Ts,
    /// The inputs, in the order of [`INPUTS`].
    pub x: Vec<f64>,
    /// What forecasts without learning say.
    pub said: Said,
    /// The share of this second that it waited, as far as it can be seen; else NaN.
    pub share: f64,
    /// Whether a stall is on, likewise.
    pub on: bool,
}

/// Makes points of ticks: what a live run and training have in common.
#[derive(Debug)]
pub struct Points {
    watch: Watch,
    pasts: BTreeMap<Symbol, Past>,
}

/// Seconds without a row after which a trainer's past is forgotten.
const SILENT: f64 = 60.0;

impl Points {
    /// Binds to the tables that a source has; each may be missing, and then less is known.
    #[must_use]
    pub fn bind(schema: &Schema) -> Self {
        Self { watch: Watch::bind(schema), pasts: BTreeMap::new() }
    }

    /// Takes a tick; gives the seconds that ended with it, one a trainer.
    pub fn account(&mut self, tick: &Tick) -> Vec<(Symbol, Point)> {
        let mut points = Vec::new();
        for second in self.watch.account(tick) {
            let past = self.pasts.entry(second.trainer.clone()).or_default();
            past.push(second.at, second.values);
            let share = past.last(signals::Signal::Share);
            let point = Point { at: second.at, x: features::row(past), said: naive::said(past), share, on: past.on };
            points.push((second.trainer, point));
        }
        self.pasts.retain(|_, past| tick.at.seconds_since(past.now()) < SILENT);
        points
    }

    /// How often something was left out because there was too much.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.watch.left_out()
    }
}

/// Adds `forecast` rows to ticks.
#[derive(Debug)]
pub struct Forecast {
    points: Points,
    forecaster: Arc<Forecaster>,
    tellers: BTreeMap<Symbol, Teller>,
}

impl Forecast {
    /// Binds to the tables a source has, attribution's among them; any of them may be missing.
    #[must_use]
    pub fn bind(schema: &Schema, forecaster: Arc<Forecaster>) -> Self {
        Self { points: Points::bind(schema), forecaster, tellers: BTreeMap::new() }
    }
}

impl Derive for Forecast {
    fn tables(&self) -> Vec<Table> {
        vec![ForecastRow::table()]
    }

    fn derive(&mut self, tick: &Tick, out: &mut Rows<'_>) -> Result<()> {
        for (trainer, point) in self.points.account(tick) {
            let teller = self.tellers.entry(trainer.clone()).or_insert_with(|| Teller::of(&self.forecaster));
            let told = teller.tell(&point);
            for (at, told) in told.iter().enumerate() {
                out.push(ForecastRow {
                    process: trainer.clone().into(),
                    horizon: NAMES[at].into(),
                    ahead: (crate::learn::stats::count(HORIZONS[at]) * 1e9).into(),
                    share: told.share.into(),
                    low: told.low.into(),
                    high: told.high.into(),
                    onset: told.onset.into(),
                    baseline: told.baseline.into(),
                    model: told.model.as_str().into(),
                    why: told.why.clone().into(),
                    told: told.told.into(),
                    told_baseline: told.told_baseline.into(),
                    came: told.came.into(),
                });
            }
        }
        self.tellers.retain(|_, teller| tick.at.seconds_since(teller.seen()) < SILENT);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
