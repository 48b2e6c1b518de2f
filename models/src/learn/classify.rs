//! Classifiers, for the resource that binds and the format that is best: nearest rows, multinomial
//! logistic regression (by linfa) and boosted trees with softmax, validated by leaving groups out.

use feedline_traces::{Error, Result};
use linfa::Dataset;
use linfa::traits::Fit as _;
use linfa_logistic::MultiLogisticRegression;
use ndarray::{Array1, Array2};
use rayon::prelude::*;
use serde::Serialize;

use super::design::Design;
use super::folds::{self, Fold};
use super::frame::{Frame, NONE};
use super::model::{Input, Reader};
use super::stats;
use super::tree::{Boost, Columns, Ensemble, softmax};

/// A method of telling classes apart, with its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum Classifier {
    /// The most frequent class among the nearest rows.
    Nearest {
        /// How many.
        count: usize,
    },
    /// Multinomial logistic regression with a penalty on squares.
    Logistic {
        /// The weight of the penalty, over all rows.
        penalty: f64,
    },
    /// Boosted trees with softmax.
    Boosted(Boost),
}

#[derive(Debug, Clone)]
enum Told {
    Nearest { design: Design, count: usize, points: Vec<f64>, class: Vec<usize> },
    Logistic { design: Design, weights: Vec<Vec<f64>>, intercepts: Vec<f64> },
    Trees(Vec<Ensemble>),
}

/// A fitted classifier.
#[derive(Debug, Clone)]
pub struct Classes {
    /// Its inputs, in the order of a row.
    pub inputs: Vec<Input>,
    /// The classes that were seen.
    pub names: Vec<String>,
    told: Told,
}

impl Classifier {
    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Nearest { .. } => "nearest configuration",
            Self::Logistic { .. } => "logistic",
            Self::Boosted(_) => "boosted trees",
        }
    }

    /// The three, with their usual settings.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let boost = Boost { trees: 100, leaves: 8, ..Boost::default() };
        vec![Self::Nearest { count: 5 }, Self::Logistic { penalty: 1.0 }, Self::Boosted(boost)]
    }

    /// Fits it: the class of a row is its name in the group column `label`.
    ///
    /// # Errors
    /// When the frame lacks a column, there are no rows, or the method finds no solution.
    pub fn fit(&self, frame: &Frame, rows: &[usize], features: &[String], label: &str, seed: u64) -> Result<Classes> {
        let group = frame.group(label)?;
        let members = group.members(rows);
        if members.is_empty() || features.is_empty() {
            return Err(Error::new(format!("{label}: {} rows and {} inputs", rows.len(), features.len())));
        }
        let inputs = features.iter().map(|name| Input::of(frame, name, rows)).collect::<Result<Vec<_>>>()?;
        let reader = Reader::new(frame, &inputs)?;
        let columns = Columns {
            values: (0..inputs.len()).map(|i| rows.iter().map(|&row| reader.value(i, row)).collect()).collect(),
            levels: inputs.iter().map(|input| input.levels.len()).collect(),
        };
        let position = |row: &usize| members.iter().position(|(level, _)| *level == group.codes[*row] as usize);
        let class: Vec<usize> = rows.iter().filter_map(position).collect();
        let names: Vec<String> = members.iter().map(|(level, _)| group.levels[*level].clone()).collect();
        let told = match self {
            Self::Nearest { count } => {
                let design = Design::fit(&columns);
                let points = design.matrix(&columns);
                Told::Nearest { design, count: (*count).max(1), points, class }
            }
            Self::Logistic { penalty } if names.len() > 1 => logistic(&columns, class, *penalty)?,
            Self::Logistic { .. } => Told::Trees(vec![Ensemble { base: 0.0, trees: Vec::new() }]),
            Self::Boosted(boost) => {
                let weights: Vec<f64> = rows.iter().map(|&row| frame.weight(row)).collect();
                Told::Trees(boost.classify(&columns, &class, names.len(), &weights, seed))
            }
        };
        Ok(Classes { inputs, names, told })
    }
}

fn logistic(columns: &Columns, class: Vec<usize>, penalty: f64) -> Result<Told> {
    let design = Design::fit(columns);
    let failed = |cause: String| Error::new(format!("logistic regression, penalty {penalty}: {cause}"));
    let x = Array2::from_shape_vec((class.len(), design.width()), design.matrix(columns))
        .map_err(|cause| failed(cause.to_string()))?;
    let model = MultiLogisticRegression::default()
        .alpha(penalty)
        .max_iterations(300)
        .fit(&Dataset::new(x, Array1::from(class)))
        .map_err(|cause| failed(cause.to_string()))?;
    let weights = model.params().columns().into_iter().map(|c| c.to_vec()).collect();
    Ok(Told::Logistic { design, weights, intercepts: model.intercept().to_vec() })
}

impl Classes {
    /// The probability of each class, in the order of [`Self::names`].
    #[must_use]
    pub fn shares(&self, x: &[f64]) -> Vec<f64> {
        match &self.told {
            Told::Nearest { design, count, points, class } => {
                let at = design.row(x);
                let distance = |row: usize| -> f64 {
                    points[row * at.len()..(row + 1) * at.len()].iter().zip(&at).map(|(a, b)| (a - b) * (a - b)).sum()
                };
                let mut near: Vec<(f64, usize)> =
                    class.iter().enumerate().map(|(row, c)| (distance(row), *c)).collect();
                near.sort_by(|a, b| a.0.total_cmp(&b.0));
                near.truncate(*count);
                let mut shares = vec![0.0; self.names.len()];
                near.iter().for_each(|(_, c)| shares[*c] += 1.0 / stats::count(near.len()));
                shares
            }
            Told::Logistic { design, weights, intercepts } => {
                softmax(&weights.iter().zip(intercepts).map(|(w, i)| i + design.dot(w, x)).collect::<Vec<_>>())
            }
            Told::Trees(trees) => softmax(&trees.iter().map(|t| t.predict(x)).collect::<Vec<_>>()),
        }
    }

    /// The likeliest class.
    #[must_use]
    pub fn predict(&self, x: &[f64]) -> &str {
        let shares = self.shares(x);
        let best = (0..shares.len()).reduce(|a, b| if shares[b] > shares[a] { b } else { a });
        best.map_or("", |at| &self.names[at])
    }
}

/// How often a classifier was right about groups it had not seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Accuracy {
    /// The rows that were judged.
    pub rows: usize,
    /// How many were right, in percent.
    pub right_pct: f64,
    /// The mean over the classes of how many of each were right, in percent: guessing the most
    /// frequent class gains nothing here.
    pub balanced_pct: f64,
    /// How many were right in the worst group, in percent.
    pub worst_group_pct: f64,
    /// How many the most frequent class of the training rows would have been right about, in percent.
    pub majority_pct: f64,
}

/// Leaves groups out one by one and asks a classifier about them.
///
/// # Errors
/// When the frame lacks a column, the label is among the inputs, or there are not two groups.
pub fn validate(
    frame: &Frame,
    classifier: &Classifier,
    features: &[String],
    label: &str,
    left_out: &str,
    seed: u64,
) -> Result<Accuracy> {
    let group = frame.group(left_out)?;
    let classes = frame.group(label)?;
    let known = |row: &usize| !frame.is_simulated(*row) && classes.levels[classes.codes[*row] as usize] != NONE;
    let rows: Vec<usize> = (0..frame.len()).filter(known).collect();
    tells(frame, features, label, &rows)?;
    let folds = folds::grouped(group, &rows, 12, seed);
    if folds.is_empty() {
        return Err(Error::new(format!("{label}: all {} rows are of one `{left_out}`", rows.len())));
    }
    // Of each fold what was true and whether it was said, and whether the most frequent class was it.
    let judged = |fold: &Fold| -> Result<Vec<(usize, f64, f64)>> {
        let model = classifier.fit(frame, &fold.train, features, label, seed)?;
        let reader = Reader::new(frame, &model.inputs)?;
        let most = classes.members(&fold.train).into_iter().max_by_key(|(_, rows)| rows.len()).map(|(level, _)| level);
        let one = |&row: &usize| {
            let truth = classes.codes[row] as usize;
            let hit = model.predict(&reader.row(row)) == classes.levels[truth];
            (truth, f64::from(u8::from(hit)), f64::from(u8::from(most == Some(truth))))
        };
        Ok(fold.test.iter().map(one).collect())
    };
    let each: Vec<Vec<(usize, f64, f64)>> = folds.par_iter().map(judged).collect::<Result<_>>()?;
    let mut accuracy = Accuracy { worst_group_pct: 100.0, ..Accuracy::default() };
    let mut by_class = vec![(0.0, 0.0); classes.levels.len()];
    let (mut right, mut majority) = (0.0, 0.0);
    for fold in &each {
        let mut own = 0.0;
        for (truth, hit, most) in fold {
            own += hit;
            by_class[*truth].0 += hit;
            by_class[*truth].1 += 1.0;
            majority += most;
        }
        right += own;
        accuracy.rows += fold.len();
        accuracy.worst_group_pct = accuracy.worst_group_pct.min(100.0 * own / stats::count(fold.len()));
    }
    let share = |part: f64| 100.0 * part / stats::count(accuracy.rows);
    accuracy.right_pct = share(right);
    accuracy.majority_pct = share(majority);
    let each: Vec<f64> = by_class.iter().filter(|c| c.1 > 0.0).map(|c| 100.0 * c.0 / c.1).collect();
    accuracy.balanced_pct = stats::mean(&each, &[]);
    Ok(accuracy)
}

/// Refuses an input that is the class under another name: each of its names in one class only, and
/// as many names as classes.
fn tells(frame: &Frame, features: &[String], label: &str, rows: &[usize]) -> Result<()> {
    let classes = frame.group(label)?;
    for name in features {
        let feature = frame.feature(name)?;
        let mut seen = std::collections::BTreeMap::new();
        let one = rows.iter().all(|&row| {
            let value = feature.values[row];
            !value.is_finite() || *seen.entry(value.to_bits()).or_insert(classes.codes[row]) == classes.codes[row]
        });
        let there = classes.members(rows).len();
        if name == label || (one && seen.len() == there && there > 1 && rows.len() > 20) {
            return Err(Error::new(format!("input {name} gives {label} away: each of its values has one class"))
                .hint("leave this column out"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Feature, Group};
    use super::super::random::Random;
    use super::*;

    /// The greatest of three loads binds.
    fn frame(rows: usize) -> (Frame, Vec<String>) {
        let mut random = Random::new(9, 0);
        let mut loads = vec![Vec::new(); 3];
        let mut names = Vec::new();
        for _ in 0..rows {
            let row: Vec<f64> = (0..3).map(|_| random.unit()).collect();
            let most = (0..3).reduce(|a, b| if row[b] > row[a] { b } else { a }).unwrap();
            names.push(["cpu", "disk", "network"][most]);
            loads.iter_mut().zip(&row).for_each(|(load, v)| load.push(*v));
        }
        let hosts: Vec<String> = (0..rows).map(|i| format!("host {}", i % 4)).collect();
        let inputs = ["cpu_load", "disk_load", "network_load"];
        let features = inputs.iter().zip(loads).map(|(n, v)| Feature::number(n, "", v)).collect();
        let groups = vec![Group::new("binds", &names), Group::new("host", &hosts)];
        let target = super::super::frame::Target {
            name: "t".into(),
            unit: String::new(),
            timer: String::new(),
            values: vec![0.0; rows],
        };
        (Frame { features, targets: vec![target], groups, ..Frame::default() }, inputs.map(str::to_owned).to_vec())
    }

    #[test]
    fn all_three_tell_what_binds_on_hosts_they_have_not_seen() {
        let (frame, features) = frame(400);
        for classifier in Classifier::all() {
            let accuracy = validate(&frame, &classifier, &features, "binds", "host", 1).unwrap();
            assert!(
                accuracy.right_pct > 85.0 && accuracy.worst_group_pct > 75.0,
                "{}: {accuracy:?}",
                classifier.name()
            );
            assert!(accuracy.majority_pct < 50.0 && accuracy.rows == 400);
        }
    }

    #[test]
    fn shares_add_up_to_one_and_the_label_is_no_input() {
        let (mut frame, features) = frame(100);
        let rows: Vec<usize> = (0..100).collect();
        for classifier in Classifier::all() {
            let model = classifier.fit(&frame, &rows, &features, "binds", 1).unwrap();
            let shares = model.shares(&[0.9, 0.1, 0.1]);
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            assert_eq!(model.predict(&[0.99, 0.01, 0.01]), "cpu", "{}", classifier.name());
        }
        let codes: Vec<f64> = frame.groups[0].codes.iter().map(|c| f64::from(*c)).collect();
        frame.features.push(Feature::number("code", "", codes));
        let error = validate(&frame, &Classifier::Nearest { count: 1 }, &["code".to_owned()], "binds", "host", 1);
        assert!(error.unwrap_err().message.contains("gives binds away"));
    }
}
