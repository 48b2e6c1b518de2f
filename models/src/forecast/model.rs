//! What was learnt from recorded runs, as it is used and as it is saved.

use std::sync::{Arc, OnceLock};

use feedline_traces::{Error, Result};
use serde::{Deserialize, Serialize};

use super::naive::{NAIVES, Naive, UNTRAINED};
use super::{AHEAD, HORIZONS, INPUTS};
use crate::learn::Model;

/// What a file of ours says it is.
const FORMAT: &str = "feedline-forecast";
/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;
/// The most bytes that are read.
pub const LIMIT: usize = 16 << 20;
/// The part of the inputs that may lie where nothing was learnt: trees hold at the edge of what they
/// saw, but a job that is strange in many ways is another job.
const STRANGE: f64 = 0.1;

/// The models that come with the program, and where they are from.
const BUNDLED: &str = include_str!("../../data/forecast/forecast.json");

/// What is known about one horizon.
#[derive(Debug, Clone)]
pub struct Ahead {
    /// The best forecast without learning.
    pub naive: Naive,
    /// How far an outcome may be from it: the radius of its 80 % interval.
    pub radius: Option<f64>,
    /// The model of the share; none where it was not better than the baseline on runs it had not seen.
    pub share: Option<Model>,
    /// The model of whether a stall begins; none where too few were seen.
    pub onset: Option<Model>,
    /// The probability from which an alarm is worth it: the best harmonic mean of how many alarms are
    /// true and how many stalls are announced, on runs not seen.
    pub alarm: f64,
    /// Mean absolute errors on runs not seen: of the baseline, of the model.
    pub errors: [f64; 2],
}

/// Forecasts for every horizon.
#[derive(Debug, Clone)]
pub struct Forecaster {
    /// By horizon, in the order of [`HORIZONS`].
    pub ahead: Vec<Ahead>,
    /// The runs it was trained on; none is untrained.
    pub runs: usize,
    /// Their seconds.
    pub rows: usize,
    /// The seed of its fits.
    pub seed: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: u32,
    runs: usize,
    rows: usize,
    seed: u64,
    inputs: Vec<String>,
    ahead: Vec<Part>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    seconds: usize,
    naive: Naive,
    radius: Option<f64>,
    alarm: f64,
    errors: [f64; 2],
    share: Option<serde_json::Value>,
    onset: Option<serde_json::Value>,
}

impl Forecaster {
    /// What speaks before anything was learnt: forecasts without learning, and no intervals.
    #[must_use]
    pub fn untrained() -> Self {
        let ahead = |naive: Naive| Ahead {
            naive,
            radius: None,
            share: None,
            onset: None,
            alarm: 0.5,
            errors: [f64::NAN, f64::NAN],
        };
        Self { ahead: UNTRAINED.map(ahead).to_vec(), runs: 0, rows: 0, seed: 0 }
    }

    /// What comes with the program, read when it is first asked for. A file that this program cannot
    /// use is as none: a test sees to it that the one that comes with it is of use.
    #[must_use]
    pub fn bundled() -> Arc<Self> {
        static HELD: OnceLock<Arc<Forecaster>> = OnceLock::new();
        let load = || Arc::new(Self::load(BUNDLED).unwrap_or_else(|_| Self::untrained()));
        Arc::clone(HELD.get_or_init(load))
    }

    /// The same as a document, in JSON.
    ///
    /// # Errors
    /// When a model holds what no file of ours may hold.
    pub fn save(&self) -> Result<String> {
        let value = |model: &Option<Model>| {
            let Some(model) = model else { return Ok(None) };
            serde_json::from_str(&model.save()?).map(Some).map_err(|cause| Error::new(format!("forecast: {cause}")))
        };
        let part = |(ahead, seconds): (&Ahead, usize)| -> Result<Part> {
            let finite = |v: f64| if v.is_finite() { v } else { -1.0 };
            Ok(Part {
                seconds,
                naive: ahead.naive,
                radius: ahead.radius,
                alarm: ahead.alarm,
                errors: ahead.errors.map(finite),
                share: value(&ahead.share)?,
                onset: value(&ahead.onset)?,
            })
        };
        let file = File {
            format: FORMAT.to_owned(),
            version: VERSION,
            runs: self.runs,
            rows: self.rows,
            seed: self.seed,
            inputs: INPUTS.iter().map(|input| input.name.to_owned()).collect(),
            ahead: self.ahead.iter().zip(HORIZONS).map(part).collect::<Result<_>>()?,
        };
        serde_json::to_string(&file).map_err(|cause| Error::new(format!("forecast: {cause}")))
    }

    /// Reads a document. Whatever the text, this does not panic, and what it gives can be asked about
    /// any row of [`INPUTS`].
    ///
    /// # Errors
    /// Says why a file is refused.
    pub fn load(text: &str) -> Result<Self> {
        let refused =
            |why: String| Error::new(format!("forecast model: {why}")).hint("train it again: `feedline train`");
        if text.len() > LIMIT {
            return Err(refused(format!("{} bytes, at most {LIMIT} are read", text.len())));
        }
        let file: File = serde_json::from_str(text).map_err(|cause| refused(cause.to_string()))?;
        if file.format != FORMAT || file.version != VERSION {
            return Err(refused(format!(
                "`{}` version {}, read is `{FORMAT}` version {VERSION}",
                file.format, file.version
            )));
        }
        let same = file.inputs.iter().map(String::as_str).eq(INPUTS.iter().map(|input| input.name));
        if !same {
            return Err(refused("it was learnt from other inputs than this program has".to_owned()));
        }
        if !file.ahead.iter().map(|part| part.seconds).eq(HORIZONS) {
            return Err(refused("its horizons are not those of this program".to_owned()));
        }
        let ahead = file.ahead.into_iter().map(Part::read).collect::<Result<_>>()?;
        Ok(Self { ahead, runs: file.runs, rows: file.rows, seed: file.seed })
    }

    /// Whether anything was learnt.
    #[must_use]
    pub fn is_trained(&self) -> bool {
        self.runs > 0
    }
}

impl Part {
    fn read(self) -> Result<Ahead> {
        let model = |value: Option<serde_json::Value>| -> Result<Option<Model>> {
            let Some(value) = value else { return Ok(None) };
            let model = Model::load(&value.to_string())?;
            let same = model.inputs.iter().map(|input| input.name.as_str()).eq(INPUTS.iter().map(|input| input.name));
            let numbers = model.inputs.iter().all(|input| !input.named);
            if same && numbers {
                Ok(Some(model))
            } else {
                Err(Error::new("forecast model: its inputs are not this program's"))
            }
        };
        let fits = self.radius.is_none_or(f64::is_finite) && self.alarm.is_finite() && NAIVES.contains(&self.naive);
        if !fits {
            return Err(Error::new(format!("forecast model: {} s: a baseline that does not fit", self.seconds)));
        }
        let known = |v: f64| if v >= 0.0 { v } else { f64::NAN };
        Ok(Ahead {
            naive: self.naive,
            radius: self.radius,
            share: model(self.share)?,
            onset: model(self.onset)?,
            alarm: self.alarm,
            errors: self.errors.map(known),
        })
    }
}

/// Why a model should not be asked about a row, if it should not.
pub(super) fn strange(model: &Model, x: &[f64]) -> Option<String> {
    let outside = |input: &crate::learn::Input, value: f64| {
        if value.is_nan() { !input.gaps } else { input.range.is_none_or(|(low, high)| value < low || value > high) }
    };
    let count = model.inputs.iter().zip(x).filter(|(input, value)| outside(input, **value)).count();
    let most = crate::learn::stats::share(STRANGE, model.inputs.len());
    if count <= most {
        return None;
    }
    let names: Vec<String> = model.outside(x).into_iter().take(3).map(|out| out.input).collect();
    Some(format!("{count} inputs lie where nothing was learnt, such as {}", names.join(", ")))
}

/// The number of horizons is fixed where the file is read.
const _: () = assert!(HORIZONS.len() == AHEAD);
