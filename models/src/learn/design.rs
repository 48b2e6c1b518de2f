//! From raw inputs to the columns that linear and distance learners need. Everything here is
//! learnt from training rows only, so it belongs inside the fold.

use serde::{Deserialize, Serialize};

use super::frame;
use super::stats;
use super::tree::Columns;

/// One column of the matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Column {
    /// The input it is made of.
    input: usize,
    what: What,
    /// What is taken off, so that the column is 0 in the mean.
    mean: f64,
    /// What it is divided by.
    scale: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum What {
    /// The number; where missing, the median.
    Number { fill: f64 },
    /// Its logarithm, of inputs that are positive and span more than a factor of twenty.
    Logarithm { fill: f64 },
    /// 1 where the input is missing.
    Missing,
    /// 1 where it has this name.
    Is { level: usize },
}

impl What {
    fn of(self, value: f64) -> f64 {
        let known = |fill: f64| if value.is_finite() { value } else { fill };
        match self {
            Self::Number { fill } => known(fill),
            // A later value of 0 or less is taken as far below what was seen, not as no number.
            Self::Logarithm { fill } => known(fill).max(fill * 1e-6).ln(),
            Self::Missing => f64::from(u8::from(!value.is_finite())),
            Self::Is { level } => f64::from(u8::from(frame::level(value, usize::MAX) == Some(level))),
        }
    }
}

/// How rows become a matrix: medians for what is missing (and a column that says so), logarithms
/// of wide positive inputs, a column a name, all with mean 0 and numbers with deviation 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Design {
    columns: Vec<Column>,
}

/// From which ratio of the 95th to the 5th percentile an input is taken as a logarithm.
const WIDE: f64 = 20.0;

impl Design {
    /// Learns medians, means and scales from these rows.
    #[must_use]
    pub fn fit(columns: &Columns) -> Self {
        let mut made = Vec::new();
        for (input, (values, levels)) in columns.values.iter().zip(&columns.levels).enumerate() {
            let known: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
            let missing = values.len() - known.len();
            let mut whats = Vec::new();
            if *levels > 0 {
                whats.extend((0..*levels).map(|level| What::Is { level }));
            } else if !known.is_empty() {
                let fill = stats::quantile(&known, &[], 0.5);
                let positive = known.iter().all(|v| *v > 0.0);
                let wide = stats::quantile(&known, &[], 0.95) > WIDE * stats::quantile(&known, &[], 0.05);
                whats.push(if positive && wide { What::Logarithm { fill } } else { What::Number { fill } });
            }
            if missing > 0 && *levels == 0 {
                whats.push(What::Missing);
            }
            made.extend(whats.into_iter().filter_map(|what| column(input, what, values)));
        }
        Self { columns: made }
    }

    /// The number of columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// The columns of a row.
    #[must_use]
    pub fn row(&self, x: &[f64]) -> Vec<f64> {
        self.columns.iter().map(|c| c.of(x)).collect()
    }

    /// All rows, one after the other.
    #[must_use]
    pub fn matrix(&self, columns: &Columns) -> Vec<f64> {
        (0..columns.rows()).flat_map(|row| self.row(&columns.row(row))).collect()
    }

    /// The weighted sum of a row's columns.
    #[must_use]
    pub fn dot(&self, weights: &[f64], x: &[f64]) -> f64 {
        self.columns.iter().zip(weights).map(|(c, w)| c.of(x) * w).sum()
    }

    /// What each input adds to the weighted sum.
    #[must_use]
    pub fn parts(&self, weights: &[f64], x: &[f64]) -> Vec<f64> {
        let mut parts = vec![0.0; x.len()];
        for (column, weight) in self.columns.iter().zip(weights) {
            parts[column.input] += column.of(x) * weight;
        }
        parts
    }

    /// Why this is no design over so many inputs, if it is none.
    pub(crate) fn wrong(&self, features: usize) -> Option<String> {
        let bad = |c: &Column| {
            let fill = match c.what {
                What::Number { fill } | What::Logarithm { fill } => fill,
                What::Missing | What::Is { .. } => 0.0,
            };
            !(c.input < features && fill.is_finite() && c.mean.is_finite() && c.scale.is_finite() && c.scale > 0.0)
        };
        self.columns.iter().position(bad).map(|at| format!("column {at} of the matrix"))
    }
}

impl Column {
    fn of(&self, x: &[f64]) -> f64 {
        (self.what.of(x[self.input]) - self.mean) / self.scale
    }
}

/// A column, unless it is constant.
fn column(input: usize, what: What, values: &[f64]) -> Option<Column> {
    let made: Vec<f64> = values.iter().map(|v| what.of(*v)).collect();
    let mean = stats::mean(&made, &[]);
    let square: Vec<f64> = made.iter().map(|v| (v - mean) * (v - mean)).collect();
    let deviation = stats::mean(&square, &[]).sqrt();
    if deviation.is_nan() || deviation <= 1e-12 * mean.abs().max(1e-12) {
        return None;
    }
    let scale = if matches!(what, What::Is { .. } | What::Missing) { 1.0 } else { deviation };
    Some(Column { input, what, mean, scale })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_centred_scaled_and_complete() {
        let columns = Columns {
            values: vec![
                vec![1.0, 2.0, f64::NAN, 3.0],
                vec![0.0, 1.0, 0.0, -1.0],
                vec![1.0, 10.0, 1e4, 1e6],
                vec![5.0; 4],
            ],
            levels: vec![0, 2, 0, 0],
        };
        let design = Design::fit(&columns);
        // The number and its mark of missing, two names, a logarithm; the constant is left out.
        assert_eq!(design.width(), 5);
        let matrix = design.matrix(&columns);
        for column in 0..5 {
            let values: Vec<f64> = (0..4).map(|row| matrix[row * 5 + column]).collect();
            assert!(stats::mean(&values, &[]).abs() < 1e-12, "column {column}");
        }
        let logs: Vec<f64> = (0..4).map(|row| matrix[row * 5 + 4]).collect();
        let steps = (logs[1] - logs[0], logs[3] - logs[2]);
        assert!((steps.1 / steps.0 - 2.0).abs() < 1e-9, "1 to 10 is half of 1e4 to 1e6");
        assert!(design.row(&[f64::NAN, -1.0, 0.0, 7.0]).iter().all(|v| v.is_finite()));
    }

    #[test]
    fn test_rows_do_not_move_the_design() {
        let train = Columns::numbers(vec![vec![1.0, 2.0, 3.0]]);
        let design = Design::fit(&train);
        let before = design.row(&[2.0]);
        assert_eq!(before, vec![0.0]);
        assert!(design.row(&[1e9])[0] > 1e8);
    }
}
