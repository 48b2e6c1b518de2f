//! What is to be predicted, from what, and on which scale.

use feedline_traces::{Error, Result};
use serde::{Deserialize, Serialize};

use super::frame::Frame;
use super::leak;

/// The scale on which an outcome is learnt, and its errors are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Logarithm: rates and sizes. What counts is the ratio.
    Log,
    /// As it is: percentages and times.
    Plain,
    /// As it is, within 0 and 1.
    Share,
}

impl Scale {
    /// From the outcome to what is learnt.
    #[must_use]
    pub fn forth(self, y: f64) -> f64 {
        match self {
            Self::Log => y.ln(),
            Self::Plain | Self::Share => y,
        }
    }

    /// From what is learnt to the outcome.
    #[must_use]
    pub fn back(self, z: f64) -> f64 {
        match self {
            Self::Log => z.exp(),
            Self::Plain => z,
            Self::Share => z.clamp(0.0, 1.0),
        }
    }

    /// What is learnt, within what an outcome can be.
    #[must_use]
    pub fn within(self, z: f64) -> f64 {
        match self {
            Self::Log | Self::Plain => z,
            Self::Share => z.clamp(0.0, 1.0),
        }
    }

    /// Whether an outcome can be learnt on this scale.
    #[must_use]
    pub fn takes(self, y: f64) -> bool {
        match self {
            Self::Log => y.is_finite() && y > 0.0,
            Self::Plain | Self::Share => y.is_finite(),
        }
    }
}

/// What is to be predicted, from what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The outcome.
    pub target: String,
    /// The scale it is learnt on.
    pub scale: Scale,
    /// The inputs.
    pub features: Vec<String>,
    /// A prediction without learning: what is learnt may be the ratio to it (on the scale `log`) or
    /// the difference.
    #[serde(default)]
    pub baseline: Option<String>,
    /// The inputs by which group means are taken.
    #[serde(default)]
    pub key: Vec<String>,
    /// The input that holds the last value of the outcome, for persistence.
    #[serde(default)]
    pub last: Option<String>,
    /// Inputs with which the outcome cannot fall, all else equal.
    #[serde(default)]
    pub rising: Vec<String>,
    /// Inputs with which the outcome cannot rise, all else equal.
    #[serde(default)]
    pub falling: Vec<String>,
}

impl Task {
    /// The rows that can be learnt from and judged: real, with an outcome and, where one is named, a
    /// baseline.
    ///
    /// # Errors
    /// When the frame lacks a column that the task names.
    pub fn rows(&self, frame: &Frame) -> Result<Vec<usize>> {
        let target = frame.target(&self.target)?;
        let baseline = self.baseline.as_deref().map(|name| frame.baseline(name)).transpose()?;
        let usable = |row: &usize| {
            !frame.is_simulated(*row)
                && self.scale.takes(target.values[*row])
                && baseline.is_none_or(|b| self.scale.takes(b.values[*row]))
        };
        Ok((0..frame.len()).filter(usable).collect())
    }

    /// For each input 1 where the outcome cannot fall with it, -1 where it cannot rise, else 0.
    #[must_use]
    pub fn directions(&self) -> Vec<i8> {
        let of = |name: &String| i8::from(self.rising.contains(name)) - i8::from(self.falling.contains(name));
        self.features.iter().map(of).collect()
    }

    /// Checks columns, and that no input is or follows from the outcome.
    ///
    /// # Errors
    /// When a column is missing, there are no inputs, or an input leaks; every leak is named.
    pub fn check(&self, frame: &Frame) -> Result<()> {
        self.check_columns(frame)?;
        let leaks = leak::find(frame, self, &self.rows(frame)?)?;
        if leaks.is_empty() {
            return Ok(());
        }
        let list: Vec<String> = leaks.iter().map(ToString::to_string).collect();
        Err(Error::new(format!("inputs of {} that give it away: {}", self.target, list.join("; ")))
            .hint("leave these columns out: a prediction must not need its own outcome"))
    }

    /// Checks that the frame has what the task names.
    ///
    /// # Errors
    /// When a column is missing or there are no inputs.
    pub fn check_columns(&self, frame: &Frame) -> Result<()> {
        frame.check()?;
        frame.target(&self.target)?;
        if self.features.is_empty() {
            return Err(Error::new(format!("no inputs for {}", self.target)));
        }
        for name in self.features.iter().chain(&self.key).chain(&self.last).chain(&self.rising).chain(&self.falling) {
            frame.feature(name)?;
        }
        for name in self.key.iter().chain(&self.last) {
            if !self.features.contains(name) {
                return Err(Error::new(format!("`{name}` is used for {} but is none of its inputs", self.target)));
            }
        }
        self.rows(frame)?;
        Ok(())
    }
}
