//! Regression trees over binned inputs, boosted or bagged.
//!
//! The builder is leaf-wise over histograms (Ke et al., `LightGBM`, `NeurIPS` 2017): missing values go
//! to the side that gains more, names are split by their mean gradient (Fisher, 1958), and monotone
//! constraints hold by propagating bounds to the leaves. [`Boost`] fits squared, absolute, pinball
//! and softmax losses (Friedman, 2001), [`Forest`] averages trees on bootstrap samples (Breiman,
//! 2001), and `shap` gives what each input adds to a prediction (Lundberg et al., 2018).

use serde::{Deserialize, Serialize};

use super::frame;

mod bins;
mod boost;
mod forest;
mod grow;
mod shap;
mod split;
mod traits;

pub(crate) use boost::softmax;
pub use boost::{Boost, Loss};
pub use forest::Forest;
pub use traits::{NotFitted, Seeded};

/// The inputs of a fit, column by column.
#[derive(Debug, Clone)]
pub struct Columns {
    /// One vector a column; NaN is missing.
    pub values: Vec<Vec<f64>>,
    /// For each column the number of its names, 0 where it is a number.
    pub levels: Vec<usize>,
}

impl Columns {
    /// Numbers only.
    #[must_use]
    pub fn numbers(values: Vec<Vec<f64>>) -> Self {
        let levels = vec![0; values.len()];
        Self { values, levels }
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.values.first().map_or(0, Vec::len)
    }

    /// One row.
    #[must_use]
    pub fn row(&self, row: usize) -> Vec<f64> {
        self.values.iter().map(|column| column[row]).collect()
    }

    fn binned(&self, most: usize) -> Vec<bins::Column> {
        let bin = |(values, levels): (&Vec<f64>, &usize)| match levels {
            0 => bins::Column::numeric(values, most),
            &levels => bins::Column::named(values, levels),
        };
        self.values.iter().zip(&self.levels).map(bin).collect()
    }
}

/// A node; one whose `left` is 0 is a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "Flat", into = "Flat")]
pub struct Node {
    /// The input that is asked.
    pub feature: u32,
    /// A number up to this goes left.
    pub threshold: f64,
    /// The child on the left.
    pub left: u32,
    /// The child on the right.
    pub right: u32,
    /// Of a split by name, 1 + the position of its set; else 0.
    pub set: u32,
    /// Whether missing and unknown values go left.
    pub missing_left: bool,
    /// What a leaf predicts.
    pub value: f64,
    /// The weight of the training rows that came here.
    pub cover: f64,
}

impl Node {
    /// A leaf that predicts 0, of rows of this weight.
    fn leaf(cover: f64) -> Self {
        let cover = cover.max(0.0);
        Self { feature: 0, threshold: 0.0, left: 0, right: 0, set: 0, missing_left: false, value: 0.0, cover }
    }
}

/// A node as it is saved.
type Flat = (u32, f64, u32, u32, u32, bool, f64, f64);

impl From<Flat> for Node {
    fn from((feature, threshold, left, right, set, missing_left, value, cover): Flat) -> Self {
        Self { feature, threshold, left, right, set, missing_left, value, cover }
    }
}

impl From<Node> for Flat {
    fn from(n: Node) -> Self {
        (n.feature, n.threshold, n.left, n.right, n.set, n.missing_left, n.value, n.cover)
    }
}

/// The names that go left: a bit each.
pub type Set = [u64; 4];

/// A tree. Children stand behind their parents, so that a walk ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    /// The root first.
    pub nodes: Vec<Node>,
    /// The sets of splits by name.
    pub sets: Vec<Set>,
}

impl Tree {
    /// The child that a row goes to from a node that is no leaf.
    #[inline]
    fn next(&self, node: &Node, x: &[f64]) -> usize {
        let value = x[node.feature as usize];
        let left = if node.set == 0 {
            if value.is_nan() { node.missing_left } else { value <= node.threshold }
        } else {
            match frame::level(value, bins::MOST) {
                Some(level) => self.sets[node.set as usize - 1][level / 64] >> (level % 64) & 1 == 1,
                None => node.missing_left,
            }
        };
        (if left { node.left } else { node.right }) as usize
    }

    /// The leaf that a row falls into.
    #[inline]
    #[must_use]
    pub fn leaf(&self, x: &[f64]) -> usize {
        let mut at = 0;
        while self.nodes[at].left != 0 {
            at = self.next(&self.nodes[at], x);
        }
        at
    }

    /// What it predicts for a row.
    #[inline]
    #[must_use]
    pub fn predict(&self, x: &[f64]) -> f64 {
        self.nodes[self.leaf(x)].value
    }

    /// The mean over the training rows.
    #[must_use]
    pub fn expected(&self) -> f64 {
        let leaves = self.nodes.iter().filter(|n| n.left == 0);
        let (sum, cover) = leaves.fold((0.0, 0.0), |(s, c), n| (s + n.value * n.cover, c + n.cover));
        if cover > 0.0 { sum / cover } else { 0.0 }
    }

    /// Why this cannot be walked by rows of so many inputs, if it cannot.
    pub(crate) fn wrong(&self, features: usize) -> Option<String> {
        if self.nodes.is_empty() {
            return Some("a tree without nodes".to_owned());
        }
        let mut parents = vec![false; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            if !(node.value.is_finite() && node.cover.is_finite() && node.cover >= 0.0 && node.threshold.is_finite()) {
                return Some(format!("node {at}: a value that is no number"));
            }
            if node.left == 0 {
                continue;
            }
            let behind = |child: u32| child as usize > at && (child as usize) < self.nodes.len();
            if !behind(node.left) || !behind(node.right) || node.left == node.right {
                return Some(format!("node {at}: children {} and {}", node.left, node.right));
            }
            for child in [node.left as usize, node.right as usize] {
                if std::mem::replace(&mut parents[child], true) {
                    return Some(format!("node {child}: it has two parents"));
                }
            }
            if node.feature as usize >= features {
                return Some(format!("node {at}: input {} of {features}", node.feature));
            }
            if node.set as usize > self.sets.len() {
                return Some(format!("node {at}: set {} of {}", node.set, self.sets.len()));
            }
        }
        (self.depth() > 64).then(|| "a tree deeper than 64".to_owned())
    }

    /// The longest way from the root to a leaf.
    fn depth(&self) -> usize {
        let mut depths = vec![0_usize; self.nodes.len()];
        let mut deepest = 0;
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, n)| n.left != 0) {
            let depth = depths[at] + 1;
            depths[node.left as usize] = depths[node.left as usize].max(depth);
            depths[node.right as usize] = depths[node.right as usize].max(depth);
            deepest = deepest.max(depth);
        }
        deepest
    }
}

/// Trees whose predictions are added to a base value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ensemble {
    /// What is predicted without any tree.
    pub base: f64,
    /// The trees, in the order they were grown.
    pub trees: Vec<Tree>,
}

impl Ensemble {
    /// The prediction for a row.
    #[must_use]
    pub fn predict(&self, x: &[f64]) -> f64 {
        self.base + self.trees.iter().map(|tree| tree.predict(x)).sum::<f64>()
    }

    /// The mean over the training rows.
    #[must_use]
    pub fn expected(&self) -> f64 {
        self.base + self.trees.iter().map(Tree::expected).sum::<f64>()
    }

    /// What each input adds to the prediction for a row, against the mean over the training rows:
    /// path-dependent `TreeSHAP`. The sum is the prediction less [`Self::expected`].
    #[must_use]
    pub fn contributions(&self, x: &[f64]) -> Vec<f64> {
        let mut phi = vec![0.0; x.len()];
        for tree in &self.trees {
            shap::add(tree, x, &mut phi);
        }
        phi
    }

    /// Why this is no ensemble over so many inputs, if it is none.
    pub(crate) fn wrong(&self, features: usize) -> Option<String> {
        if !self.base.is_finite() {
            return Some("a base that is no number".to_owned());
        }
        self.trees.iter().enumerate().find_map(|(i, tree)| tree.wrong(features).map(|why| format!("tree {i}: {why}")))
    }
}

#[cfg(test)]
mod tests;
