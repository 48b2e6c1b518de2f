//! A random forest (Breiman, 2001) over the histogram trees.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::boost::narrow;
use super::grow::{Grow, Limits};
use super::{Columns, Ensemble, Tree};
use crate::learn::random::Random;
use crate::learn::stats;

/// How to grow a forest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forest {
    /// How many trees.
    pub trees: usize,
    /// The fewest rows of a leaf.
    pub rows: u32,
    /// The longest way from a root to a leaf.
    pub depth: usize,
    /// The share of columns each node may choose from.
    pub column_share: f64,
}

impl Default for Forest {
    fn default() -> Self {
        Self { trees: 100, rows: 2, depth: 24, column_share: 0.5 }
    }
}

/// The most leaves of a tree. More would not be read by anyone, and a saved forest must stay small.
const LEAVES: usize = 1_024;
/// Bins a column: deep trees on few rows gain nothing from finer ones.
const BINS: usize = 64;

impl Forest {
    /// Fits trees to one value a row, each on a bootstrap sample.
    #[must_use]
    pub fn fit(&self, columns: &Columns, y: &[f64], weights: &[f64], seed: u64) -> Ensemble {
        let binned = columns.binned(BINS);
        let used: Vec<usize> = (0..columns.values.len()).collect();
        let limits = Limits {
            leaves: LEAVES,
            depth: self.depth.min(60),
            rows: self.rows.max(1),
            l2: 0.0,
            columns: stats::share(self.column_share, used.len()),
        };
        let trees = self.trees.max(1);
        let part = 1.0 / f64::from(narrow(trees));
        let one = |number: u64| -> Tree {
            let mut random = Random::new(seed, number);
            let mut drawn = vec![0.0_f64; y.len()];
            for _ in 0..y.len() {
                drawn[random.below(y.len())] += 1.0;
            }
            let rows: Vec<u32> = (0..y.len()).filter(|row| drawn[*row] > 0.0).map(narrow).collect();
            let slope = |row: usize| {
                let weight = drawn[row] * weights.get(row).copied().unwrap_or(1.0);
                (-weight * y[row], weight)
            };
            let slopes: Vec<(f64, f64)> = (0..y.len()).map(slope).collect();
            let grow =
                Grow { columns: &binned, used: &used, slopes: &slopes, limits, monotone: &[], seed: random.bits() };
            let mut tree = grow.run(rows).tree;
            tree.nodes.iter_mut().for_each(|node| node.value *= part);
            tree
        };
        Ensemble { base: 0.0, trees: (0..trees as u64).into_par_iter().map(one).collect() }
    }
}
