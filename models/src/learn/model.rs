//! A learner fitted to a task: what it was given, what it says, and how far it may be asked.

use feedline_traces::{Error, Result};
use serde::{Deserialize, Serialize};

use super::band::Band;
use super::frame::{Frame, Kind};
use super::learner::{Fitted, Learner, Lesson};
use super::score::Score;
use super::task::Task;
use super::tree::Columns;

/// A learner, and whether it learns the outcome or what a baseline leaves of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The learner.
    pub learner: Learner,
    /// Whether it learns the ratio (on a logarithmic scale) or the difference to the baseline.
    pub residual: bool,
}

impl Spec {
    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> String {
        let on = if self.residual && self.learner != Learner::Baseline { " on baseline" } else { "" };
        format!("{}{on}", self.learner.name())
    }

    /// Fits it to these rows of a frame.
    ///
    /// # Errors
    /// When the frame lacks a column, no row can be learnt from, or the method finds no solution.
    pub fn fit(&self, frame: &Frame, rows: &[usize], task: &Task, seed: u64) -> Result<Model> {
        let target = frame.target(&task.target)?;
        if rows.is_empty() {
            return Err(Error::new(format!("{}: no rows to learn from", task.target)));
        }
        let inputs = task.features.iter().map(|name| Input::of(frame, name, rows)).collect::<Result<Vec<_>>>()?;
        let fitted = match &self.learner {
            Learner::Mean(parts) => {
                let nested = parts.is_empty() || parts.iter().any(|part| matches!(part.learner, Learner::Mean(_)));
                if nested {
                    return Err(Error::new(format!("{}: a mean of nothing, or of means", task.target)));
                }
                let one = |part: &Self| part.function(frame, rows, task, &inputs, seed);
                Fitted::Mean(parts.iter().map(one).collect::<Result<_>>()?)
            }
            _ => self.function(frame, rows, task, &inputs, seed)?,
        };
        Ok(Model {
            task: task.clone(),
            unit: target.unit.clone(),
            spec: self.clone(),
            fitted,
            inputs,
            band: None,
            score: None,
            rows: rows.len(),
            seed,
            data: frame.hash(&task.features, &task.target, rows),
        })
    }

    fn function(&self, frame: &Frame, rows: &[usize], task: &Task, inputs: &[Input], seed: u64) -> Result<Fitted> {
        let lesson = self.lesson(frame, rows, task, inputs)?;
        if let Some(at) = lesson.z.iter().position(|z| !z.is_finite()) {
            return Err(Error::new(format!("{}: row {} has no outcome or baseline", task.target, rows[at]))
                .hint("take the rows of `Task::rows`"));
        }
        self.learner.constrained(self.directions(task)).fit(&lesson, seed)
    }

    /// The share of the baseline that is added to what was learnt: of a mean, that of its parts.
    fn leaning(&self) -> f64 {
        match &self.learner {
            Learner::Mean(parts) if !parts.is_empty() => {
                let on = parts.iter().filter(|part| part.residual).count();
                super::stats::count(on) / super::stats::count(parts.len())
            }
            _ if self.residual => 1.0,
            _ => 0.0,
        }
    }

    /// What a baseline leaves of an outcome may go anywhere.
    fn directions(&self, task: &Task) -> Vec<i8> {
        if self.residual { Vec::new() } else { task.directions() }
    }

    fn lesson(&self, frame: &Frame, rows: &[usize], task: &Task, inputs: &[Input]) -> Result<Lesson> {
        let target = frame.target(&task.target)?;
        let baseline = self.baseline(frame, task)?;
        let z =
            |row: &usize| task.scale.forth(target.values[*row]) - baseline.map_or(0.0, |b| task.scale.forth(b[*row]));
        let reader = Reader::new(frame, inputs)?;
        let values = (0..inputs.len()).map(|i| rows.iter().map(|&row| reader.value(i, row)).collect()).collect();
        let position = |name: &String| task.features.iter().position(|f| f == name);
        Ok(Lesson {
            columns: Columns { values, levels: inputs.iter().map(|input| input.levels.len()).collect() },
            z: rows.iter().map(z).collect(),
            weights: rows.iter().map(|&row| frame.weight(row)).collect(),
            key: task.key.iter().filter_map(position).collect(),
            last: task.last.as_ref().and_then(position),
            scale: task.scale,
        })
    }

    fn baseline<'a>(&self, frame: &'a Frame, task: &Task) -> Result<Option<&'a [f64]>> {
        if !self.residual {
            return Ok(None);
        }
        let name = task.baseline.as_deref().ok_or_else(|| {
            Error::new(format!("{}: `{}` needs a baseline", task.target, self.name())).hint("name one in the task")
        })?;
        Ok(Some(&frame.baseline(name)?.values))
    }
}

/// An input of a fitted model: what it must be called and measured in, and the range it was seen in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The names that were seen, of an input that is a name; of a number none.
    pub levels: Vec<String>,
    /// Whether it is a name.
    pub named: bool,
    /// The least and the most that was seen, of a number; none where it was never there.
    pub range: Option<(f64, f64)>,
    /// Whether it was ever missing.
    pub gaps: bool,
}

impl Input {
    pub(super) fn of(frame: &Frame, name: &str, rows: &[usize]) -> Result<Self> {
        let feature = frame.feature(name)?;
        let known = || rows.iter().map(|&row| feature.values[row]).filter(|v| v.is_finite());
        let mut seen = vec![false; feature.levels().len()];
        if let Kind::Categorical(levels) = &feature.kind {
            known().filter_map(|v| super::frame::level(v, levels.len())).for_each(|level| seen[level] = true);
        }
        let levels = feature.levels().iter().zip(&seen).filter(|(_, seen)| **seen).map(|(l, _)| l.clone()).collect();
        let named = feature.kind != Kind::Numeric;
        let spread = known().fold(None, |range: Option<(f64, f64)>, v| {
            Some(range.map_or((v, v), |(low, high)| (low.min(v), high.max(v))))
        });
        Ok(Self {
            name: feature.name.clone(),
            unit: feature.unit.clone(),
            levels,
            named,
            range: if named { None } else { spread },
            gaps: known().count() < rows.len(),
        })
    }
}

/// A name that the training rows did not have, in a row of inputs. Missing is NaN.
pub const UNKNOWN: f64 = -1.0;

/// Rows of a frame as a model's inputs: by name, with the model's positions of names.
pub struct Reader<'a> {
    columns: Vec<(&'a [f64], Option<Vec<f64>>)>,
}

impl<'a> Reader<'a> {
    /// Binds a frame to the inputs of a model.
    ///
    /// # Errors
    /// When the frame lacks an input, or has it in another unit or of another kind.
    pub fn new(frame: &'a Frame, inputs: &[Input]) -> Result<Self> {
        let bind = |input: &Input| {
            let feature = frame.feature(&input.name)?;
            if feature.unit != input.unit {
                return Err(Error::new(format!(
                    "input {}: in `{}`, learnt in `{}`",
                    input.name, feature.unit, input.unit
                )));
            }
            if (feature.kind != Kind::Numeric) != input.named {
                return Err(Error::new(format!("input {}: a name in one place, a number in the other", input.name)));
            }
            let position =
                |level: &String| input.levels.iter().position(|l| l == level).map_or(UNKNOWN, super::stats::count);
            let map = input.named.then(|| feature.levels().iter().map(position).collect());
            Ok((feature.values.as_slice(), map))
        };
        Ok(Self { columns: inputs.iter().map(bind).collect::<Result<_>>()? })
    }

    /// One input of one row; what is no finite number is missing.
    #[must_use]
    pub fn value(&self, input: usize, row: usize) -> f64 {
        let (values, map) = &self.columns[input];
        let value = values[row];
        match map {
            Some(map) => super::frame::level(value, map.len()).map_or(f64::NAN, |level| map[level]),
            None if value.is_finite() => value,
            None => f64::NAN,
        }
    }

    /// All inputs of one row.
    #[must_use]
    pub fn row(&self, row: usize) -> Vec<f64> {
        (0..self.columns.len()).map(|input| self.value(input, row)).collect()
    }
}

/// An input that lies where nothing was learnt.
#[derive(Debug, Clone, PartialEq)]
pub struct Outside {
    /// The input.
    pub input: String,
    /// Its value; NaN where it is missing and never was, [`UNKNOWN`] for a new name.
    pub value: f64,
    /// The range that was learnt from.
    pub range: Option<(f64, f64)>,
}

impl std::fmt::Display for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.range {
            _ if self.value.is_nan() => write!(f, "{} is missing, and never was", self.input),
            None => write!(f, "{} has a name that was never seen", self.input),
            Some((low, high)) => write!(f, "{} is {}, seen were {low} to {high}", self.input, self.value),
        }
    }
}

/// A fitted model, with what it takes to trust it or not.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// What it predicts, from what.
    pub task: Task,
    /// The unit of what it predicts.
    pub unit: String,
    /// How it was learnt.
    pub spec: Spec,
    /// Its inputs, in the order of a row.
    pub inputs: Vec<Input>,
    /// The function.
    pub fitted: Fitted,
    /// How far off it may be.
    pub band: Option<Band>,
    /// How it did on rows of groups it had not seen.
    pub score: Option<Score>,
    /// The number of rows it was learnt from.
    pub rows: usize,
    /// The seed of its fit.
    pub seed: u64,
    /// The hash of the data it was learnt from: [`Frame::hash`].
    pub data: u64,
}

impl Model {
    /// The prediction on the outcome's scale. `baseline` is the baseline's prediction, in the
    /// outcome's unit; a model that learns no residual does not look at it.
    #[must_use]
    pub fn scaled(&self, x: &[f64], baseline: f64) -> f64 {
        self.shift(baseline) + self.fitted.predict(x)
    }

    /// What the baseline adds, on the outcome's scale.
    pub(super) fn shift(&self, baseline: f64) -> f64 {
        let leaning = self.spec.leaning();
        if leaning > 0.0 { leaning * self.task.scale.forth(baseline) } else { 0.0 }
    }

    /// The prediction for a row of inputs, in the outcome's unit.
    #[must_use]
    pub fn predict(&self, x: &[f64], baseline: f64) -> f64 {
        self.task.scale.back(self.scaled(x, baseline))
    }

    /// The interval that is to hold the outcome as often as the band says.
    #[must_use]
    pub fn interval(&self, x: &[f64], baseline: f64) -> Option<(f64, f64)> {
        let band = self.band.as_ref()?;
        let (low, high) = band.around(self.fitted.predict(x), x);
        let shift = self.shift(baseline);
        Some((self.task.scale.back(low + shift), self.task.scale.back(high + shift)))
    }

    /// The inputs of a row that lie outside what was learnt from: where there are any, better no
    /// answer than this one.
    #[must_use]
    pub fn outside(&self, x: &[f64]) -> Vec<Outside> {
        let out = |input: &Input, value: f64| {
            if value.is_nan() {
                return !input.gaps;
            }
            if input.named {
                return super::frame::level(value, input.levels.len()).is_none();
            }
            input.range.is_none_or(|(low, high)| value < low || value > high)
        };
        let rows = self.inputs.iter().zip(x).filter(|(input, value)| out(input, **value));
        rows.map(|(input, value)| Outside { input: input.name.clone(), value: *value, range: input.range }).collect()
    }

    /// Baselines of a frame's rows, where this model needs them.
    ///
    /// # Errors
    /// When the frame lacks the baseline.
    pub fn baselines<'a>(&self, frame: &'a Frame) -> Result<Option<&'a [f64]>> {
        self.spec.baseline(frame, &self.task)
    }

    /// Predictions for rows of a frame, in the outcome's unit.
    ///
    /// # Errors
    /// When the frame lacks an input or the baseline, or has an input in another unit.
    pub fn predict_rows(&self, frame: &Frame, rows: &[usize]) -> Result<Vec<f64>> {
        let reader = Reader::new(frame, &self.inputs)?;
        let baselines = self.baselines(frame)?;
        let one = |&row: &usize| self.predict(&reader.row(row), baselines.map_or(f64::NAN, |b| b[row]));
        Ok(rows.iter().map(one).collect())
    }
}
