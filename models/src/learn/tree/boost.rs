//! Gradient boosting (Friedman, 2001) over the histogram trees.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::grow::{Grow, Grown, Leaf, Limits};
use super::{Columns, Ensemble, bins};
use crate::learn::random::Random;
use crate::learn::stats;

/// What is made small.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Loss {
    /// Squared error: the mean.
    Squared,
    /// Absolute error: the median.
    Absolute,
    /// Pinball loss: this quantile, within (0, 1).
    Quantile(f64),
}

/// How to boost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Boost {
    /// What is made small.
    pub loss: Loss,
    /// How many trees.
    pub trees: usize,
    /// The most leaves of a tree.
    pub leaves: usize,
    /// The longest way from a tree's root to a leaf.
    pub depth: usize,
    /// How much of each tree is added.
    pub rate: f64,
    /// The fewest rows of a leaf; 0 means by the number of rows: 3 below 1,000, then 20.
    pub rows: u32,
    /// Shrinks leaves.
    pub l2: f64,
    /// The share of rows each tree sees, chosen by the seed.
    pub row_share: f64,
    /// The share of columns each tree sees, chosen by the seed.
    pub column_share: f64,
    /// For each column 1 where the prediction must not fall with it, -1 where it must not rise,
    /// else 0; shorter than the columns means 0 for the rest. Names have no order: theirs are ignored.
    pub monotone: Vec<i8>,
}

impl Default for Boost {
    fn default() -> Self {
        Self {
            loss: Loss::Squared,
            trees: 200,
            leaves: 15,
            depth: 8,
            rate: 0.07,
            rows: 0,
            l2: 1.0,
            row_share: 0.8,
            column_share: 0.8,
            monotone: Vec::new(),
        }
    }
}

/// The fewest rows of a leaf that suit so many rows: below 1,000 small leaves decide.
fn usual_rows(rows: usize) -> u32 {
    if rows < 1_000 { 3 } else { 20 }
}

/// The columns as the builder wants them, with what one fit shares among its trees.
struct Ground<'a> {
    plan: &'a Boost,
    binned: Vec<bins::Column>,
    limits: Limits,
    monotone: Vec<i8>,
    all: Vec<usize>,
    seed: u64,
}

impl<'a> Ground<'a> {
    fn new(plan: &'a Boost, columns: &Columns, seed: u64) -> Self {
        let rows = if plan.rows == 0 { usual_rows(columns.rows()) } else { plan.rows };
        let monotone = (columns.levels.iter().enumerate())
            .map(|(c, levels)| if *levels == 0 { plan.monotone.get(c).copied().unwrap_or(0) } else { 0 })
            .collect();
        Self {
            plan,
            binned: columns.binned(bins::usual(columns.rows())),
            limits: Limits { leaves: plan.leaves.max(1), depth: plan.depth.min(60), rows, l2: plan.l2, columns: 0 },
            monotone,
            all: (0..columns.values.len()).collect(),
            seed,
        }
    }

    /// The tree of this number on these slopes.
    fn tree(&self, number: u64, slopes: &[(f64, f64)]) -> Grown {
        let mut random = Random::new(self.seed, number);
        let used = if self.plan.column_share < 1.0 {
            random.choose(self.all.len(), stats::share(self.plan.column_share, self.all.len()))
        } else {
            self.all.clone()
        };
        let rows: Vec<u32> = if self.plan.row_share < 1.0 {
            random
                .choose(slopes.len(), stats::share(self.plan.row_share, slopes.len()))
                .into_iter()
                .map(narrow)
                .collect()
        } else {
            (0..narrow(slopes.len())).collect()
        };
        let grow =
            Grow { columns: &self.binned, used: &used, slopes, limits: self.limits, monotone: &self.monotone, seed: 0 };
        grow.run(rows)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a frame has fewer than 2^32 rows")]
pub(super) fn narrow(row: usize) -> u32 {
    row as u32
}

impl Boost {
    /// Fits trees to one value a row.
    #[must_use]
    pub fn fit(&self, columns: &Columns, y: &[f64], weights: &[f64], seed: u64) -> Ensemble {
        let ground = Ground::new(self, columns, seed);
        let rows = Rows::new(columns);
        let weight = |row: usize| weights.get(row).copied().unwrap_or(1.0);
        let base = self.base(y, weights);
        let mut trees = Vec::with_capacity(self.trees);
        let mut predicted = vec![base; y.len()];
        for number in 0..self.trees as u64 {
            let slopes: Vec<(f64, f64)> =
                (0..y.len()).map(|row| self.slope(predicted[row] - y[row], weight(row))).collect();
            let Grown { mut tree, leaves } = ground.tree(number, &slopes);
            for leaf in &leaves {
                if let Some(value) = self.renewed(leaf, y, &predicted, &weight) {
                    tree.nodes[leaf.node].value = value;
                }
            }
            tree.nodes.iter_mut().for_each(|node| node.value *= self.rate);
            let each = predicted.par_iter_mut().enumerate().with_min_len(8_192);
            each.for_each(|(row, predicted)| *predicted += tree.predict(rows.row(row)));
            trees.push(tree);
        }
        Ensemble { base, trees }
    }

    /// Fits one ensemble a class to class numbers, by softmax: the class with the greatest
    /// prediction is the likeliest.
    #[must_use]
    pub fn classify(
        &self,
        columns: &Columns,
        class: &[usize],
        classes: usize,
        weights: &[f64],
        seed: u64,
    ) -> Vec<Ensemble> {
        let ground = Ground::new(self, columns, seed);
        let rows = Rows::new(columns);
        let weight = |row: usize| weights.get(row).copied().unwrap_or(1.0);
        let total: f64 = (0..class.len()).map(weight).sum();
        let base = |c: usize| {
            let held: f64 = (0..class.len()).filter(|r| class[*r] == c).map(weight).sum();
            ((held + 0.5) / (total + 1.0)).ln()
        };
        let mut ensembles: Vec<Ensemble> =
            (0..classes).map(|c| Ensemble { base: base(c), trees: Vec::with_capacity(self.trees) }).collect();
        let mut scores: Vec<Vec<f64>> = vec![ensembles.iter().map(|e| e.base).collect(); class.len()];
        for round in 0..self.trees as u64 {
            let shares: Vec<Vec<f64>> = scores.iter().map(|s| softmax(s)).collect();
            for (c, ensemble) in ensembles.iter_mut().enumerate() {
                let slope = |row: usize| {
                    let p = shares[row][c];
                    let truth = if class[row] == c { 1.0 } else { 0.0 };
                    (weight(row) * (p - truth), weight(row) * (p * (1.0 - p)).max(1e-6))
                };
                let slopes: Vec<(f64, f64)> = (0..class.len()).map(slope).collect();
                let Grown { mut tree, .. } = ground.tree(round * classes as u64 + c as u64, &slopes);
                tree.nodes.iter_mut().for_each(|node| node.value *= self.rate);
                for (row, score) in scores.iter_mut().enumerate() {
                    score[c] += tree.predict(rows.row(row));
                }
                ensemble.trees.push(tree);
            }
        }
        ensembles
    }

    fn base(&self, y: &[f64], weights: &[f64]) -> f64 {
        match self.loss {
            Loss::Squared => stats::mean(y, weights),
            Loss::Absolute => stats::quantile(y, weights, 0.5),
            Loss::Quantile(q) => stats::quantile(y, weights, q),
        }
    }

    /// First and second derivative of the loss where the prediction is this much too high.
    fn slope(&self, over: f64, weight: f64) -> (f64, f64) {
        let first = match self.loss {
            Loss::Squared => over,
            Loss::Absolute => stats::sign(over),
            Loss::Quantile(q) => {
                if over > 0.0 {
                    1.0 - q
                } else {
                    -q
                }
            }
        };
        (weight * first, weight)
    }

    /// The exact best value of a leaf under losses whose slope says nothing of the distance.
    fn renewed(&self, leaf: &Leaf, y: &[f64], predicted: &[f64], weight: &impl Fn(usize) -> f64) -> Option<f64> {
        let q = match self.loss {
            Loss::Squared => return None,
            Loss::Absolute => 0.5,
            Loss::Quantile(q) => q,
        };
        let rows = || leaf.rows.iter().map(|row| *row as usize);
        let left: Vec<f64> = rows().map(|row| y[row] - predicted[row]).collect();
        let weights: Vec<f64> = rows().map(weight).collect();
        Some(stats::quantile(&left, &weights, q).clamp(leaf.bounds.0, leaf.bounds.1))
    }
}

/// The inputs row by row, for walking trees.
struct Rows {
    values: Vec<f64>,
    width: usize,
}

impl Rows {
    fn new(columns: &Columns) -> Self {
        let values = (0..columns.rows()).flat_map(|row| columns.values.iter().map(move |c| c[row])).collect();
        Self { values, width: columns.values.len() }
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.width..(row + 1) * self.width]
    }
}

/// Shares that add up to 1, from scores.
pub(crate) fn softmax(scores: &[f64]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|p| p / sum).collect()
}
