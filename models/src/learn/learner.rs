//! The learners, behind one enum.

use feedline_traces::{Error, Result};
use serde::{Deserialize, Serialize};

use super::design::Design;
use super::model::Spec;
use super::simple::{Cells, Neighbours};
use super::task::Scale;
use super::tree::{Boost, Columns, Ensemble, Forest, Loss};
use super::{linear, stats, svr};

/// A method of learning, with its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Learner {
    /// The baseline as it is, nothing learnt: what the others must beat.
    Baseline,
    /// The last value of the outcome, where the task names the input that holds it; else the median.
    Persistence,
    /// The mean of the rows with the same key.
    GroupMean,
    /// The median of the rows with the same key.
    GroupMedian,
    /// The mean of the nearest configurations.
    Nearest {
        /// How many.
        count: usize,
    },
    /// Ordinary least squares.
    Linear,
    /// Least squares with a penalty on squares.
    Ridge {
        /// The weight of the penalty, per row.
        penalty: f64,
    },
    /// Least squares with a penalty on absolute values.
    Lasso {
        /// The weight of the penalty, per row.
        penalty: f64,
    },
    /// Least squares with both penalties, half and half.
    ElasticNet {
        /// The weight of the penalty, per row.
        penalty: f64,
    },
    /// Support vector regression with a Gaussian kernel.
    Svr {
        /// The weight of errors.
        cost: f64,
        /// The kernel's width, as a multiple of the number of columns.
        width: f64,
    },
    /// A random forest.
    Forest(Forest),
    /// Gradient-boosted trees.
    Boosted(Boost),
    /// The mean of several, on the outcome's scale; none of them a mean itself.
    Mean(Vec<Spec>),
}

/// What a fit learns from: inputs, the outcome on its scale, and weights.
#[derive(Debug, Clone)]
pub struct Lesson {
    /// The inputs.
    pub columns: Columns,
    /// The outcome on its scale, less the baseline where a residual is learnt.
    pub z: Vec<f64>,
    /// A weight a row.
    pub weights: Vec<f64>,
    /// The positions of the inputs that are the key of group means.
    pub key: Vec<usize>,
    /// The position of the input that holds the last value of the outcome.
    pub last: Option<usize>,
    /// The scale of the outcome.
    pub scale: Scale,
}

/// A learner after its fit: a function from a row to the outcome on its scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Fitted {
    /// The same for all rows.
    Value(f64),
    /// An input, put on the outcome's scale; where it is missing, a value.
    Last {
        /// The position of the input.
        input: usize,
        /// The scale of the outcome.
        scale: Scale,
        /// For rows without it, on that scale.
        fill: f64,
    },
    /// Means by key.
    Cells(Cells),
    /// Nearest rows.
    Neighbours(Neighbours),
    /// A weighted sum.
    Sum {
        /// How rows become columns.
        design: Design,
        /// A weight a column.
        weights: Vec<f64>,
        /// The sum where all columns are 0.
        intercept: f64,
    },
    /// Support vectors.
    Svr(svr::Machine),
    /// Trees.
    Trees(Ensemble),
    /// The mean of several.
    Mean(Vec<Fitted>),
}

impl Learner {
    /// Its name in tables and files.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Persistence => "persistence",
            Self::GroupMean => "group mean",
            Self::GroupMedian => "group median",
            Self::Nearest { .. } => "nearest configuration",
            Self::Linear => "linear",
            Self::Ridge { .. } => "ridge",
            Self::Lasso { .. } => "lasso",
            Self::ElasticNet { .. } => "elastic net",
            Self::Svr { .. } => "SVR",
            Self::Forest(_) => "random forest",
            Self::Boosted(_) => "boosted trees",
            Self::Mean(_) => "mean of several",
        }
    }

    /// The settings that are tried for each learner, by inner folds of the training rows: few, and
    /// chosen before any score was seen.
    #[must_use]
    pub fn families() -> Vec<Vec<Self>> {
        let penalties = [0.001, 0.01, 0.1];
        let boosted =
            |leaves, l2, loss| Self::Boosted(Boost { leaves, l2, loss, trees: 150, rate: 0.08, ..Boost::default() });
        vec![
            vec![Self::Baseline],
            vec![Self::Persistence],
            vec![Self::GroupMean],
            vec![Self::GroupMedian],
            [1, 3, 7].map(|count| Self::Nearest { count }).to_vec(),
            vec![Self::Linear],
            penalties.map(|penalty| Self::Ridge { penalty }).to_vec(),
            penalties.map(|penalty| Self::Lasso { penalty }).to_vec(),
            penalties.map(|penalty| Self::ElasticNet { penalty }).to_vec(),
            vec![Self::Svr { cost: 1.0, width: 1.0 }, Self::Svr { cost: 10.0, width: 4.0 }],
            [2, 6].map(|rows| Self::Forest(Forest { rows, trees: 60, ..Forest::default() })).to_vec(),
            vec![boosted(4, 3.0, Loss::Squared), boosted(15, 1.0, Loss::Squared), boosted(4, 3.0, Loss::Absolute)],
        ]
    }

    /// Whether its fits take so long that settings are screened before they are compared.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        matches!(
            self,
            Self::Lasso { .. } | Self::ElasticNet { .. } | Self::Svr { .. } | Self::Forest(_) | Self::Boosted(_)
        )
    }

    /// Whether it looks at no input but a key: what others must beat to be worth their trouble.
    #[must_use]
    pub fn is_simple(&self) -> bool {
        matches!(self, Self::Baseline | Self::Persistence | Self::GroupMean | Self::GroupMedian)
    }

    /// The same learner with the directions that a task knows: 1 where the outcome must not fall with
    /// an input, -1 where it must not rise. Only boosted trees can keep to them.
    #[must_use]
    pub fn constrained(&self, directions: Vec<i8>) -> Self {
        match self {
            Self::Boosted(boost) if directions.iter().any(|d| *d != 0) => {
                Self::Boosted(Boost { monotone: directions, ..boost.clone() })
            }
            other => other.clone(),
        }
    }

    /// Fits it. The same lesson and seed give the same function on any number of threads.
    ///
    /// # Errors
    /// When the method finds no solution on these rows.
    pub fn fit(&self, lesson: &Lesson, seed: u64) -> Result<Fitted> {
        let Lesson { columns, z, weights, .. } = lesson;
        Ok(match self {
            Self::Baseline => Fitted::Value(0.0),
            Self::Persistence => {
                let fill = stats::quantile(z, weights, 0.5);
                lesson.last.map_or(Fitted::Value(fill), |input| Fitted::Last { input, scale: lesson.scale, fill })
            }
            Self::GroupMean => Fitted::Cells(Cells::fit(columns, z, weights, &lesson.key, false)),
            Self::GroupMedian => Fitted::Cells(Cells::fit(columns, z, weights, &lesson.key, true)),
            Self::Nearest { count } => Fitted::Neighbours(Neighbours::fit(columns, z, *count, seed)),
            Self::Linear => linear::least_squares(columns, z, weights)?,
            Self::Ridge { penalty } => linear::penalised(columns, z, weights, *penalty, 0.0)?,
            Self::Lasso { penalty } => linear::penalised(columns, z, weights, *penalty, 1.0)?,
            Self::ElasticNet { penalty } => linear::penalised(columns, z, weights, *penalty, 0.5)?,
            Self::Svr { cost, width } => Fitted::Svr(svr::Machine::fit(columns, z, *cost, *width, seed)?),
            Self::Forest(forest) => Fitted::Trees(forest.fit(columns, z, weights, seed)),
            Self::Boosted(boost) => Fitted::Trees(boost.fit(columns, z, weights, seed)),
            // Each part has a lesson of its own: `Spec::fit` sees to that.
            Self::Mean(_) => return Err(Error::new("a mean of several is fitted part by part")),
        })
    }
}

impl Fitted {
    /// What it says of a row, on the outcome's scale, less the baseline where a residual was learnt.
    #[must_use]
    pub fn predict(&self, x: &[f64]) -> f64 {
        match self {
            Self::Value(value) => *value,
            Self::Last { input, scale, fill } => {
                let value = x[*input];
                if scale.takes(value) { scale.forth(value) } else { *fill }
            }
            Self::Cells(cells) => cells.predict(x),
            Self::Neighbours(neighbours) => neighbours.predict(x),
            Self::Sum { design, weights, intercept } => intercept + design.dot(weights, x),
            Self::Svr(machine) => machine.predict(x),
            Self::Trees(trees) => trees.predict(x),
            Self::Mean(parts) => parts.iter().map(|part| part.predict(x)).sum::<f64>() / stats::count(parts.len()),
        }
    }

    /// Why this cannot be asked about rows of so many inputs, if it cannot.
    pub(crate) fn wrong(&self, features: usize) -> Option<String> {
        let finite = |values: &[f64], what: &str| {
            values.iter().any(|v| !v.is_finite()).then(|| format!("{what} that is no number"))
        };
        match self {
            Self::Value(value) => finite(&[*value], "a value"),
            Self::Last { input, fill, .. } => {
                if *input >= features {
                    Some(format!("input {input} of {features}"))
                } else {
                    finite(&[*fill], "a value")
                }
            }
            Self::Cells(cells) => cells.wrong(features),
            Self::Neighbours(neighbours) => neighbours.wrong(features),
            Self::Sum { design, weights, intercept } => {
                if weights.len() != design.width() {
                    return Some(format!("{} weights for {} columns", weights.len(), design.width()));
                }
                design
                    .wrong(features)
                    .or_else(|| finite(weights, "a weight"))
                    .or_else(|| finite(&[*intercept], "a value"))
            }
            Self::Svr(machine) => machine.wrong(features),
            Self::Trees(trees) => trees.wrong(features),
            Self::Mean(parts) => {
                let nested = parts.is_empty() || parts.iter().any(|part| matches!(part, Self::Mean(_)));
                if nested {
                    return Some("a mean of nothing, or of means".to_owned());
                }
                parts.iter().find_map(|part| part.wrong(features))
            }
        }
    }

    /// How many trees it is made of.
    pub(crate) fn trees(&self) -> usize {
        match self {
            Self::Trees(ensemble) => ensemble.trees.len(),
            Self::Mean(parts) => {
                parts.iter().map(|part| if matches!(part, Self::Mean(_)) { 0 } else { part.trees() }).sum()
            }
            _ => 0,
        }
    }

    /// What each input adds to the prediction for a row: exact for sums (the mean row adds 0) and
    /// for trees; none where the method has no such answer.
    #[must_use]
    pub fn contributions(&self, x: &[f64]) -> Option<Vec<f64>> {
        match self {
            Self::Trees(trees) => Some(trees.contributions(x)),
            Self::Sum { design, weights, .. } => Some(design.parts(weights, x)),
            Self::Mean(parts) => {
                let mut sums = vec![0.0; x.len()];
                for part in parts {
                    let own = part.contributions(x)?;
                    sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own / stats::count(parts.len()));
                }
                Some(sums)
            }
            _ => None,
        }
    }
}

/// The inputs of a key, bit for bit; missing is -1, which no number is.
pub(super) fn key_of(x: &[f64], key: &[usize]) -> Vec<i64> {
    let part = |value: f64| if value.is_finite() { value.to_bits().cast_signed() } else { -1 };
    key.iter().map(|&input| part(x[input])).collect()
}
