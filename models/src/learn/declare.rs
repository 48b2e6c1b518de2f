//! What the columns of a file are: inputs, outcomes with their timers, groups, and the tasks to be
//! scored. The declaration is data (a TOML file beside the data), reading it is the caller's part.

use std::collections::BTreeMap;

use feedline_traces::{Error, Result};
use serde::Deserialize;

use super::frame::{Feature, Frame, Group, Target};
use super::stats;
pub use super::table::{Raw, Table, column};
use super::task::{Scale, Task};
use crate::observation;

/// What a file's columns are.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// The data set's name.
    pub name: String,
    /// What it is, in a sentence or two.
    pub about: String,
    /// The file with the rows, beside the declaration.
    pub file: String,
    /// Whether rows are observations of a sweep: what the step model expects of them is put beside them
    /// as columns ([`observation::expect`]).
    #[serde(default)]
    pub observations: bool,
    /// Only rows whose column has one of these values.
    #[serde(default)]
    pub keep: Vec<Keep>,
    /// Of each group of rows only those with the greatest value of a column.
    #[serde(default)]
    pub most: Option<Most>,
    /// The column that is 1, `true` or `simulated` where a row was simulated.
    #[serde(default)]
    pub simulated: Option<String>,
    /// The group of which each member counts alike in a fit, however many rows it has.
    #[serde(default)]
    pub alike: Option<String>,
    /// Columns made of others.
    #[serde(default)]
    pub made: Vec<Made>,
    /// Inputs.
    #[serde(default)]
    pub input: Vec<In>,
    /// Outcomes.
    pub outcome: Vec<Out>,
    /// Predictions without learning.
    #[serde(default)]
    pub baseline: Vec<Out>,
    /// Groups.
    pub group: Vec<By>,
    /// What is scored.
    pub task: Vec<Scored>,
    /// Which classes are told apart.
    #[serde(default)]
    pub class: Vec<Classed>,
}

/// A selection of rows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// The column.
    pub column: String,
    /// Its values.
    pub is: Vec<String>,
}

/// A selection of the greatest rows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Most {
    /// The column whose greatest value counts.
    pub of: String,
    /// The columns whose equal values make a group.
    pub by: Vec<String>,
}

/// A column that is a product and quotient of others.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// Its name.
    pub name: String,
    /// The columns that are multiplied.
    pub product: Vec<String>,
    /// The columns by which that is divided.
    #[serde(default)]
    pub over: Vec<String>,
    /// A constant it is multiplied with.
    #[serde(default = "one")]
    pub factor: f64,
}

fn one() -> f64 {
    1.0
}

/// An input column.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct In {
    /// The column.
    pub column: String,
    /// The unit of its values.
    #[serde(default)]
    pub unit: String,
    /// What measured it; nothing where it is known before a run.
    #[serde(default)]
    pub timer: String,
    /// Whether its values are names.
    #[serde(default)]
    pub named: bool,
}

/// An outcome or baseline column.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Out {
    /// The column.
    pub column: String,
    /// The unit of its values.
    pub unit: String,
    /// What measured it; of a baseline nothing.
    #[serde(default)]
    pub timer: String,
}

/// A group column: the values of one or more columns together.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct By {
    /// Its name.
    pub name: String,
    /// The columns.
    pub columns: Vec<String>,
}

/// A task with what it is scored by.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scored {
    /// The outcome.
    pub target: String,
    /// Its scale.
    pub scale: Scale,
    /// The inputs; none means all that are no outcome's company (`leaked`).
    #[serde(default)]
    pub features: Vec<String>,
    /// The prediction without learning.
    #[serde(default)]
    pub baseline: Option<String>,
    /// The inputs by which group means are taken.
    #[serde(default)]
    pub key: Vec<String>,
    /// The input that holds the last value of the outcome.
    #[serde(default)]
    pub last: Option<String>,
    /// Inputs with which the outcome cannot fall, all else equal.
    #[serde(default)]
    pub rising: Vec<String>,
    /// Inputs with which it cannot rise.
    #[serde(default)]
    pub falling: Vec<String>,
    /// The groups that are left out, one score each; the first is the headline.
    pub splits: Vec<String>,
    /// The group within which rows are repeats of one configuration: the noise floor.
    #[serde(default)]
    pub repeats: Option<String>,
    /// Outcomes that the published recipe would have among its inputs; empty means it is not run.
    #[serde(default)]
    pub leaked: Vec<String>,
}

/// Classes to be told apart, with what that is scored by.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Classed {
    /// The group column whose names are the classes.
    pub label: String,
    /// The inputs; none means all that share no timer with an outcome.
    #[serde(default)]
    pub features: Vec<String>,
    /// The groups that are left out, one score each.
    pub splits: Vec<String>,
}

impl Classed {
    /// The inputs, spelled out.
    #[must_use]
    pub fn features(&self, frame: &Frame) -> Vec<String> {
        if !self.features.is_empty() {
            return self.features.clone();
        }
        let timed = |timer: &str| !timer.is_empty() && frame.targets.iter().any(|t| t.timer == timer);
        frame.features.iter().filter(|f| !timed(&f.timer)).map(|f| f.name.clone()).collect()
    }
}

impl Scored {
    /// The task, with its inputs spelled out.
    #[must_use]
    pub fn task(&self, frame: &Frame) -> Task {
        let all = || frame.features.iter().map(|f| f.name.clone()).filter(|name| !self.leaked.contains(name)).collect();
        Task {
            target: self.target.clone(),
            scale: self.scale,
            features: if self.features.is_empty() { all() } else { self.features.clone() },
            baseline: self.baseline.clone(),
            key: self.key.clone(),
            last: self.last.clone(),
            rising: self.rising.clone(),
            falling: self.falling.clone(),
        }
    }
}

impl Declaration {
    /// The frame of a file's columns.
    ///
    /// # Errors
    /// When the file lacks a column, columns differ in length, or no row is left.
    pub fn frame(&self, table: &Table) -> Result<Frame> {
        self.build(table).map_err(|error| error.at(&self.name))
    }

    fn build(&self, table: &Table) -> Result<Frame> {
        let mut table = table.clone();
        let rows = table.values().next().map_or(0, Raw::len);
        if let Some((name, column)) = table.iter().find(|(_, column)| column.len() != rows) {
            return Err(Error::new(format!("column {name}: {} values for {rows} rows", column.len())));
        }
        if self.observations {
            observation::expect(&mut table)?;
        }
        for made in &self.made {
            let values = made.values(&table, rows)?;
            table.insert(made.name.clone(), Raw::Numbers(values));
        }
        let kept = self.kept(&table, rows)?;
        if kept.is_empty() {
            return Err(Error::new(format!("none of {rows} rows is kept")));
        }
        let numbers = |name: &str| -> Result<Vec<f64>> {
            let all = column(&table, name)?.numbers();
            Ok(kept.iter().map(|&row| all[row]).collect())
        };
        let texts = |name: &str| -> Result<Vec<String>> {
            let mut all = column(&table, name)?.texts();
            Ok(kept.iter().map(|&row| std::mem::take(&mut all[row])).collect())
        };
        let input = |input: &In| -> Result<Feature> {
            let name = &input.column;
            let made = if input.named {
                Feature::names(name, &texts(name)?)
            } else {
                Feature::number(name, &input.unit, numbers(name)?)
            };
            Ok(made.measured_by(&input.timer))
        };
        let outcome = |out: &Out| -> Result<Target> {
            let (unit, timer) = (out.unit.clone(), out.timer.clone());
            Ok(Target { name: out.column.clone(), unit, timer, values: numbers(&out.column)? })
        };
        let group = |by: &By| -> Result<Group> {
            let parts = by.columns.iter().map(|c| texts(c)).collect::<Result<Vec<_>>>()?;
            let name =
                |row: usize| parts.iter().map(|p| p[row].as_str()).collect::<Vec<_>>().join(" ").trim().to_owned();
            Ok(Group::new(&by.name, &(0..kept.len()).map(name).collect::<Vec<_>>()))
        };
        let yes = |text: String| matches!(text.as_str(), "1" | "true" | observation::SIMULATED);
        let mut frame = Frame {
            features: self.input.iter().map(input).collect::<Result<_>>()?,
            targets: self.outcome.iter().map(outcome).collect::<Result<_>>()?,
            baselines: self.baseline.iter().map(outcome).collect::<Result<_>>()?,
            groups: self.group.iter().map(group).collect::<Result<_>>()?,
            weights: Vec::new(),
            simulated: match &self.simulated {
                Some(name) => texts(name)?.into_iter().map(yes).collect(),
                None => Vec::new(),
            },
        };
        frame.check()?;
        if let Some(name) = &self.alike {
            let all: Vec<usize> = (0..kept.len()).collect();
            let members = frame.group(name)?.members(&all);
            let mut weights = vec![0.0; kept.len()];
            for (_, rows) in &members {
                let weight = stats::count(kept.len()) / stats::count(members.len() * rows.len());
                rows.iter().for_each(|&row| weights[row] = weight);
            }
            frame.weights = weights;
        }
        if self.observations {
            self.refuse(&frame)?;
        }
        Ok(frame)
    }

    /// Refuses what a row of a sweep can only say after its run, or that says where it comes from.
    fn refuse(&self, frame: &Frame) -> Result<()> {
        let inputs = self.task.iter().flat_map(|scored| scored.task(frame).features);
        for name in inputs.chain(self.class.iter().flat_map(|class| class.features(frame))) {
            if let Some(why) = observation::refused(&name) {
                return Err(Error::new(format!("`{name}` among the inputs: {why}"))
                    .hint("inputs are what is known before a run: the configuration and the probe"));
            }
        }
        Ok(())
    }

    /// The rows that are kept.
    fn kept(&self, table: &Table, rows: usize) -> Result<Vec<usize>> {
        let mut kept: Vec<usize> = (0..rows).collect();
        for keep in &self.keep {
            let values = column(table, &keep.column)?.texts();
            kept.retain(|&row| keep.is.contains(&values[row]));
        }
        if let Some(most) = &self.most {
            let of = column(table, &most.of)?.numbers();
            let by = most.by.iter().map(|c| Ok(column(table, c)?.texts())).collect::<Result<Vec<_>>>()?;
            let key = |row: usize| by.iter().map(|c| c[row].clone()).collect::<Vec<_>>();
            let mut greatest: BTreeMap<Vec<String>, f64> = BTreeMap::new();
            for &row in &kept {
                let held = greatest.entry(key(row)).or_insert(f64::NEG_INFINITY);
                *held = held.max(of[row]);
            }
            kept.retain(|&row| greatest.get(&key(row)).is_some_and(|most| of[row] >= *most));
        }
        Ok(kept)
    }
}

impl Made {
    fn values(&self, table: &Table, rows: usize) -> Result<Vec<f64>> {
        let mut values = vec![self.factor; rows];
        for (names, divide) in [(&self.product, false), (&self.over, true)] {
            for name in names {
                let other = column(table, name)?.numbers();
                values.iter_mut().zip(other).for_each(|(v, o)| *v = if divide { *v / o } else { *v * o });
            }
        }
        Ok(values)
    }
}

/// The noise floor of a task where its repeats are declared.
///
/// # Errors
/// When the frame lacks a column.
pub fn noise(frame: &Frame, scored: &Scored) -> Result<Option<f64>> {
    let task = scored.task(frame);
    match &scored.repeats {
        Some(repeats) => super::score::noise_floor(frame, &task, repeats, &task.rows(frame)?),
        None => Ok(None),
    }
}

/// How many rows a frame has that are real.
#[must_use]
pub fn observations(frame: &Frame) -> usize {
    (0..frame.len()).filter(|row| !frame.is_simulated(*row)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared() -> Declaration {
        let by = |name: &str| By { name: name.into(), columns: vec![name.into()] };
        let out = |name: &str, timer: &str| Out { column: name.into(), unit: "MB/s".into(), timer: timer.into() };
        let input =
            |name: &str, named: bool| In { column: name.into(), unit: String::new(), timer: String::new(), named };
        Declaration {
            name: "small".into(),
            about: "A test.".into(),
            file: "small.csv".into(),
            keep: vec![Keep { column: "round".into(), is: vec!["1".into()] }],
            most: None,
            simulated: Some("made_up".into()),
            alike: Some("kind".into()),
            made: vec![Made {
                name: "demand".into(),
                product: vec!["readers".into(), "size".into()],
                over: vec!["time".into()],
                factor: 2.0,
            }],
            input: vec![input("readers", false), input("kind", true)],
            outcome: vec![out("rate", "run")],
            baseline: vec![out("demand", "")],
            group: vec![by("kind"), By { name: "both".into(), columns: vec!["kind".into(), "round".into()] }],
            task: vec![],
            class: vec![],
            observations: false,
        }
    }

    fn table() -> Table {
        let texts = |values: &[&str]| Raw::Texts(values.iter().map(|v| (*v).to_owned()).collect());
        let numbers = |values: &[f64]| Raw::Numbers(values.to_vec());
        BTreeMap::from([
            ("round".to_owned(), texts(&["1", "1", "2", "1"])),
            ("made_up".to_owned(), texts(&["0", "true", "0", "0"])),
            ("readers".to_owned(), texts(&["4", "Inf", "1", " 8 "])),
            ("kind".to_owned(), texts(&["nfs", "", "nfs", "local"])),
            ("size".to_owned(), numbers(&[10.0, 20.0, 30.0, 40.0])),
            ("time".to_owned(), numbers(&[2.0, 0.0, 2.0, 4.0])),
            ("rate".to_owned(), numbers(&[1.0, 2.0, 3.0, 4.0])),
        ])
    }

    #[test]
    fn a_table_becomes_a_frame_and_dirt_becomes_missing() {
        let frame = declared().frame(&table()).unwrap();
        assert_eq!(frame.len(), 3);
        assert_eq!(frame.features[0].values[2], 8.0);
        assert!(frame.features[0].values[1].is_nan(), "Inf is no number of readers");
        assert!(frame.features[1].values[1].is_nan());
        assert_eq!(frame.baselines[0].values[0], 40.0);
        assert!(frame.baselines[0].values[1].is_nan(), "by 0");
        assert_eq!(frame.simulated, vec![false, true, false]);
        assert_eq!(frame.groups[1].levels, ["1", "local 1", "nfs 1"]);
        assert_eq!(observations(&frame), 2);
        assert_eq!(frame.weights, vec![1.0; 3], "three kinds, a row each");
    }

    #[test]
    fn only_the_greatest_rows_of_a_group_are_kept() {
        let mut declared = declared();
        declared.keep.clear();
        declared.most = Some(Most { of: "rate".into(), by: vec!["kind".into()] });
        let frame = declared.frame(&table()).unwrap();
        assert_eq!(frame.targets[0].values, vec![2.0, 3.0, 4.0]);
    }

    #[test]
    fn a_missing_column_is_named_with_what_there_is() {
        let mut declared = declared();
        declared.input[0].column = "reader".into();
        let error = declared.frame(&table()).unwrap_err();
        assert!(error.message.contains("small: no column `reader`") && error.hint.unwrap().contains("readers"));
    }
}
