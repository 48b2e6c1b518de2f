//! A table of observations to learn from: inputs, outcomes and the groups they come from.

use std::collections::BTreeMap;

use feedline_traces::{Error, Result};

/// What an input is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A number; NaN is missing.
    Numeric,
    /// One of these names; a value is the position of its name, NaN is missing.
    Categorical(Vec<String>),
}

/// An input column.
#[derive(Debug, Clone, PartialEq)]
pub struct Feature {
    /// Its name, unique among the inputs.
    pub name: String,
    /// The unit of its values; empty for names and plain counts.
    pub unit: String,
    /// Number or name.
    pub kind: Kind,
    /// What measured it; empty for what is known before a run. An input must not share this with
    /// the outcome it is to predict.
    pub timer: String,
    /// One value a row.
    pub values: Vec<f64>,
}

impl Feature {
    /// A number known before the run.
    #[must_use]
    pub fn number(name: &str, unit: &str, values: Vec<f64>) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), kind: Kind::Numeric, timer: String::new(), values }
    }

    /// A name known before the run; an empty one is missing.
    #[must_use]
    pub fn names<S: AsRef<str>>(name: &str, values: &[S]) -> Self {
        let (levels, codes) = levels(values);
        let values = codes.iter().map(|code| code.map_or(f64::NAN, |c| c as f64)).collect();
        let kind = Kind::Categorical(levels);
        Self { name: name.to_owned(), unit: String::new(), kind, timer: String::new(), values }
    }

    /// The same, measured by this timer or probe.
    #[must_use]
    pub fn measured_by(mut self, timer: &str) -> Self {
        timer.clone_into(&mut self.timer);
        self
    }

    /// The names of a categorical input; of a number none.
    #[must_use]
    pub fn levels(&self) -> &[String] {
        match &self.kind {
            Kind::Numeric => &[],
            Kind::Categorical(levels) => levels,
        }
    }
}

/// The distinct names in rising order, and each value's position; none for an empty name.
fn levels<S: AsRef<str>>(values: &[S]) -> (Vec<String>, Vec<Option<u32>>) {
    let mut positions: BTreeMap<&str, u32> =
        values.iter().map(AsRef::as_ref).filter(|v| !v.is_empty()).map(|v| (v, 0)).collect();
    for (position, (_, code)) in (0..).zip(positions.iter_mut()) {
        *code = position;
    }
    let codes = values.iter().map(|v| positions.get(v.as_ref()).copied()).collect();
    (positions.keys().map(|k| (*k).to_owned()).collect(), codes)
}

/// An outcome, or a prediction of one made without learning (a baseline).
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// The unit of its values. One unit a target: never megabytes and samples in one column.
    pub unit: String,
    /// What measured it.
    pub timer: String,
    /// One value a row; NaN is missing.
    pub values: Vec<f64>,
}

/// The group of rows that have no name.
pub(crate) const NONE: &str = "(none)";

/// A column of names by which rows belong together: they are never split between training and test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name: `dataset`, `backend`, `host`, `submitter`, `configuration`, …
    pub name: String,
    /// The distinct names.
    pub levels: Vec<String>,
    /// For each row the position of its name.
    pub codes: Vec<u32>,
}

impl Group {
    /// A group column from names; rows without one belong together as `(none)`.
    #[must_use]
    pub fn new<S: AsRef<str>>(name: &str, values: &[S]) -> Self {
        let named: Vec<&str> = values.iter().map(|v| if v.as_ref().is_empty() { NONE } else { v.as_ref() }).collect();
        let (levels, codes) = levels(&named);
        Self { name: name.to_owned(), levels, codes: codes.into_iter().map(Option::unwrap_or_default).collect() }
    }

    /// Rows by name, in the order of the names; names without rows are left out.
    #[must_use]
    pub fn members(&self, rows: &[usize]) -> Vec<(usize, Vec<usize>)> {
        let mut members = vec![Vec::new(); self.levels.len()];
        for &row in rows {
            members[self.codes[row] as usize].push(row);
        }
        members.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()).collect()
    }
}

/// Observations, column by column.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Frame {
    /// Inputs.
    pub features: Vec<Feature>,
    /// Outcomes.
    pub targets: Vec<Target>,
    /// Predictions of outcomes that need no learning, such as a step model's; a learner may be
    /// fitted on what they leave.
    pub baselines: Vec<Target>,
    /// What rows belong together.
    pub groups: Vec<Group>,
    /// The weight of each row in a fit; empty means 1 each.
    pub weights: Vec<f64>,
    /// Whether a row was simulated; empty means none. Such rows are in no score.
    pub simulated: Vec<bool>,
}

impl Frame {
    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.targets
            .first()
            .map(|t| t.values.len())
            .or_else(|| self.features.first().map(|f| f.values.len()))
            .unwrap_or(0)
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks that all columns have one length, names are unique, and codes have names.
    ///
    /// # Errors
    /// Names the first column that is wrong.
    pub fn check(&self) -> Result<()> {
        let rows = self.len();
        let lengths = (self.features.iter().map(|f| (&f.name, f.values.len())))
            .chain(self.targets.iter().chain(&self.baselines).map(|t| (&t.name, t.values.len())))
            .chain(self.groups.iter().map(|g| (&g.name, g.codes.len())));
        for (name, length) in lengths {
            if length != rows {
                return Err(Error::new(format!("column {name}: {length} values for {rows} rows")));
            }
        }
        let optional = [("weights", self.weights.len()), ("simulated", self.simulated.len())];
        for (name, length) in optional {
            if length != 0 && length != rows {
                return Err(Error::new(format!("{name}: {length} values for {rows} rows")));
            }
        }
        if let Some(weight) = self.weights.iter().find(|w| !(w.is_finite() && **w >= 0.0)) {
            return Err(Error::new(format!("weights: {weight} is no weight")));
        }
        for (position, feature) in self.features.iter().enumerate() {
            if self.features[..position].iter().any(|f| f.name == feature.name) {
                return Err(Error::new(format!("column {}: it is there twice", feature.name)));
            }
            if let Kind::Categorical(levels) = &feature.kind {
                let wrong = feature.values.iter().find(|v| !v.is_nan() && level(**v, levels.len()).is_none());
                if let Some(code) = wrong {
                    return Err(Error::new(format!(
                        "column {}: {code} is none of {} names",
                        feature.name,
                        levels.len()
                    )));
                }
            }
        }
        for group in &self.groups {
            if let Some(code) = group.codes.iter().find(|&&code| code as usize >= group.levels.len()) {
                return Err(Error::new(format!(
                    "group {}: {code} is none of {} names",
                    group.name,
                    group.levels.len()
                )));
            }
        }
        Ok(())
    }

    /// An input by name.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn feature(&self, name: &str) -> Result<&Feature> {
        self.features
            .iter()
            .find(|f| f.name == name)
            .ok_or_else(|| absent("input", name, self.features.iter().map(|f| &f.name)))
    }

    /// An outcome by name.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn target(&self, name: &str) -> Result<&Target> {
        self.targets
            .iter()
            .find(|t| t.name == name)
            .ok_or_else(|| absent("outcome", name, self.targets.iter().map(|t| &t.name)))
    }

    /// A baseline by name.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn baseline(&self, name: &str) -> Result<&Target> {
        self.baselines
            .iter()
            .find(|t| t.name == name)
            .ok_or_else(|| absent("baseline", name, self.baselines.iter().map(|t| &t.name)))
    }

    /// A group column by name.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn group(&self, name: &str) -> Result<&Group> {
        self.groups
            .iter()
            .find(|g| g.name == name)
            .ok_or_else(|| absent("group", name, self.groups.iter().map(|g| &g.name)))
    }

    /// The weight of a row.
    #[must_use]
    pub fn weight(&self, row: usize) -> f64 {
        self.weights.get(row).copied().unwrap_or(1.0)
    }

    /// Whether a row was simulated.
    #[must_use]
    pub fn is_simulated(&self, row: usize) -> bool {
        self.simulated.get(row).copied().unwrap_or(false)
    }

    /// A hash over names, units and values of these inputs and this outcome in these rows: it says
    /// which data a saved model saw. FNV-1a over the bits.
    #[must_use]
    pub fn hash(&self, features: &[String], target: &str, rows: &[usize]) -> u64 {
        let mut hash = Fnv::default();
        for feature in self.features.iter().filter(|f| features.contains(&f.name)) {
            hash.text(&feature.name);
            hash.text(&feature.unit);
            feature.levels().iter().for_each(|level| hash.text(level));
            rows.iter().for_each(|&row| hash.number(feature.values[row]));
        }
        if let Ok(target) = self.target(target) {
            hash.text(&target.name);
            hash.text(&target.unit);
            rows.iter().for_each(|&row| hash.number(target.values[row]));
        }
        hash.0
    }
}

/// The position a categorical value stands for, if it is one of so many.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be whole and in range")]
pub(crate) fn level(value: f64, count: usize) -> Option<usize> {
    let position = value as usize;
    (value >= 0.0 && value.fract() == 0.0 && position < count).then_some(position)
}

fn absent<'a>(what: &str, name: &str, there: impl Iterator<Item = &'a String>) -> Error {
    let names: Vec<&str> = there.map(String::as_str).collect();
    Error::new(format!("no {what} `{name}`")).hint(format!("there are: {}", names.join(", ")))
}

struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.bytes(&[0xff]);
    }

    fn number(&mut self, value: f64) {
        // All NaNs are one missing value.
        self.bytes(&if value.is_nan() { u64::MAX } else { value.to_bits() }.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Frame {
        Frame {
            features: vec![
                Feature::number("batch", "", vec![1.0, 2.0, f64::NAN]),
                Feature::names("format", &["tar", "", "files"]),
            ],
            targets: vec![Target {
                name: "rate".into(),
                unit: "1/s".into(),
                timer: "loop".into(),
                values: vec![3.0, 4.0, 5.0],
            }],
            groups: vec![Group::new("host", &["b", "a", ""])],
            ..Frame::default()
        }
    }

    #[test]
    fn names_become_positions_and_empty_ones_are_missing() {
        let frame = small();
        assert!(frame.check().is_ok());
        assert_eq!(frame.features[1].levels(), ["files", "tar"]);
        assert_eq!(frame.features[1].values[0], 1.0);
        assert!(frame.features[1].values[1].is_nan());
        assert_eq!(frame.groups[0].levels, ["(none)", "a", "b"]);
        assert_eq!(frame.groups[0].members(&[0, 1, 2]), vec![(0, vec![2]), (1, vec![1]), (2, vec![0])]);
    }

    #[test]
    fn a_wrong_column_is_named() {
        let mut frame = small();
        frame.features[0].values.pop();
        assert!(frame.check().unwrap_err().message.contains("column batch: 2 values for 3 rows"));
        let mut frame = small();
        frame.features[1].values[0] = 7.0;
        assert!(frame.check().unwrap_err().message.contains("none of 2 names"));
        let mut frame = small();
        frame.weights = vec![1.0, -1.0, 1.0];
        assert!(frame.check().unwrap_err().message.contains("no weight"));
        let twice = small();
        let mut frame = small();
        frame.features.extend(twice.features);
        assert!(frame.check().unwrap_err().message.contains("twice"));
        assert!(small().feature("bach").unwrap_err().hint.unwrap().contains("batch"));
    }

    #[test]
    fn the_hash_sees_values_names_and_units_and_only_what_is_used() {
        let frame = small();
        let used = vec!["batch".to_owned()];
        let hash = frame.hash(&used, "rate", &[0, 1]);
        assert_eq!(hash, frame.hash(&used, "rate", &[0, 1]));
        assert_ne!(hash, frame.hash(&used, "rate", &[0, 2]));
        let mut other = frame.clone();
        other.features[1].values[0] = 0.0;
        assert_eq!(hash, other.hash(&used, "rate", &[0, 1]));
        other.features[0].unit = "k".into();
        assert_ne!(hash, other.hash(&used, "rate", &[0, 1]));
    }
}
