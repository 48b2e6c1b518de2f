//! Models as files: one JSON document with everything it takes to use a model and to distrust it.

use feedline_traces::{Error, Result};
use serde::{Deserialize, Serialize};

use super::band::Band;
use super::learner::Fitted;
use super::model::{Input, Model, Spec};
use super::score::Score;
use super::task::Task;

/// What a file of ours says it is.
const FORMAT: &str = "feedline-model";
/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;
/// The most bytes that are read.
pub const BYTES: usize = 64 << 20;
/// The most inputs, names of an input, and trees.
const MANY: usize = 20_000;

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    format: String,
    #[serde(default)]
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: u32,
    task: Task,
    unit: String,
    spec: Spec,
    inputs: Vec<Input>,
    fitted: Fitted,
    band: Option<Band>,
    score: Option<Score>,
    rows: usize,
    seed: u64,
    /// As hexadecimal digits: readers in other languages have no whole numbers of 64 bits.
    data: String,
}

impl Model {
    /// The model as a JSON document.
    ///
    /// # Errors
    /// When the model holds what no file of ours may hold, such as infinite weights.
    pub fn save(&self) -> Result<String> {
        if let Some(why) = wrong(self) {
            return Err(Error::new(format!("model of {}: {why}", self.task.target)));
        }
        let file = File {
            format: FORMAT.to_owned(),
            version: VERSION,
            task: self.task.clone(),
            unit: self.unit.clone(),
            spec: self.spec.clone(),
            inputs: self.inputs.clone(),
            fitted: self.fitted.clone(),
            band: self.band.clone(),
            score: self.score.clone(),
            rows: self.rows,
            seed: self.seed,
            data: format!("{:016x}", self.data),
        };
        serde_json::to_string(&file).map_err(|cause| Error::new(format!("model of {}: {cause}", self.task.target)))
    }

    /// A model from the text of its file. Whatever the text, this does not panic, and what it gives
    /// can be asked about any row.
    ///
    /// # Errors
    /// Says why a file is refused: too large, no model, another version, or parts that do not fit.
    pub fn load(text: &str) -> Result<Self> {
        let again = "train it again: `feedline train`";
        if text.len() > BYTES {
            return Err(Error::new(format!("a model of {} bytes, at most {BYTES} are read", text.len())));
        }
        let head: Head =
            serde_json::from_str(text).map_err(|cause| Error::new(format!("no model: {cause}")).hint(again))?;
        if head.format != FORMAT {
            return Err(Error::new(format!("no model: its format is `{}`, not `{FORMAT}`", head.format)).hint(again));
        }
        if head.version != VERSION {
            let age = if head.version < VERSION { "an old" } else { "a newer" };
            return Err(
                Error::new(format!("{age} model: version {}, this program reads {VERSION}", head.version)).hint(again)
            );
        }
        let file: File =
            serde_json::from_str(text).map_err(|cause| Error::new(format!("a damaged model: {cause}")).hint(again))?;
        let data = u64::from_str_radix(&file.data, 16)
            .map_err(|_| Error::new(format!("a damaged model: data hash `{}`", file.data)).hint(again))?;
        let model = Self {
            task: file.task,
            unit: file.unit,
            spec: file.spec,
            inputs: file.inputs,
            fitted: file.fitted,
            band: file.band,
            score: file.score,
            rows: file.rows,
            seed: file.seed,
            data,
        };
        match wrong(&model) {
            Some(why) => Err(Error::new(format!("a damaged model: {why}")).hint(again)),
            None => Ok(model),
        }
    }
}

/// Why a model cannot be used, if it cannot.
fn wrong(model: &Model) -> Option<String> {
    let inputs = model.inputs.len();
    if inputs > MANY || model.task.features.len() != inputs {
        return Some(format!("{inputs} inputs for {} names", model.task.features.len()));
    }
    for (input, name) in model.inputs.iter().zip(&model.task.features) {
        if &input.name != name || input.levels.len() > MANY {
            return Some(format!("input {}: expected {name}", input.name));
        }
        if input.range.is_some_and(|(low, high)| !(low.is_finite() && high.is_finite() && low <= high)) {
            return Some(format!("input {}: its range", input.name));
        }
    }
    if model.spec.residual && model.task.baseline.is_none() {
        return Some("it learns what a baseline leaves, and names none".to_owned());
    }
    if model.fitted.trees() > MANY {
        return Some(format!("{} trees", model.fitted.trees()));
    }
    model.fitted.wrong(inputs).or_else(|| model.band.as_ref().and_then(|band| band.wrong(inputs)))
}
