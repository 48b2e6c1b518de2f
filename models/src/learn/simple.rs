//! Learners without a fit worth the name: means by key, and nearest rows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::design::Design;
use super::learner::key_of;
use super::random::Random;
use super::stats;
use super::tree::Columns;

/// Means or medians by key; rows with an unknown key get that of all rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cells {
    key: Vec<usize>,
    /// Keys in rising order, each with its value.
    cells: Vec<(Vec<i64>, f64)>,
    rest: f64,
}

impl Cells {
    pub(super) fn fit(columns: &Columns, z: &[f64], weights: &[f64], key: &[usize], median: bool) -> Self {
        let middle = |rows: &[usize]| {
            let values: Vec<f64> = rows.iter().map(|&r| z[r]).collect();
            let weights: Vec<f64> = rows.iter().map(|&r| weights.get(r).copied().unwrap_or(1.0)).collect();
            if median { stats::quantile(&values, &weights, 0.5) } else { stats::mean(&values, &weights) }
        };
        let mut members: BTreeMap<Vec<i64>, Vec<usize>> = BTreeMap::new();
        for row in 0..z.len() {
            members.entry(key_of(&columns.row(row), key)).or_default().push(row);
        }
        let all: Vec<usize> = (0..z.len()).collect();
        let cells = members.into_iter().map(|(key, rows)| (key, middle(&rows))).collect();
        Self { key: key.to_vec(), cells, rest: middle(&all) }
    }

    pub(super) fn predict(&self, x: &[f64]) -> f64 {
        let key = key_of(x, &self.key);
        self.cells.binary_search_by(|(k, _)| k.cmp(&key)).map_or(self.rest, |at| self.cells[at].1)
    }

    pub(super) fn wrong(&self, features: usize) -> Option<String> {
        if let Some(input) = self.key.iter().find(|input| **input >= features) {
            return Some(format!("input {input} of {features}"));
        }
        let bad = self.cells.iter().any(|(key, value)| key.len() != self.key.len() || !value.is_finite());
        (bad || !self.rest.is_finite()).then(|| "a mean that is no number".to_owned())
    }
}

/// The training rows as points; a prediction is the mean of the nearest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbours {
    design: Design,
    count: usize,
    /// The points, one after the other.
    points: Vec<f64>,
    z: Vec<f64>,
}

/// The most rows that are kept; of more, a sample by the seed.
const KEPT: usize = 4_000;

impl Neighbours {
    pub(super) fn fit(columns: &Columns, z: &[f64], count: usize, seed: u64) -> Self {
        let design = Design::fit(columns);
        let rows = Random::new(seed, 0).choose(z.len(), KEPT);
        let points = rows.iter().flat_map(|&row| design.row(&columns.row(row))).collect();
        Self { design, count: count.clamp(1, rows.len().max(1)), points, z: rows.iter().map(|&row| z[row]).collect() }
    }

    pub(super) fn predict(&self, x: &[f64]) -> f64 {
        let at = self.design.row(x);
        let mut nearest: Vec<(f64, f64)> = Vec::with_capacity(self.count + 1);
        for (row, z) in self.z.iter().enumerate() {
            let point = &self.points[row * at.len()..(row + 1) * at.len()];
            let distance: f64 = point.iter().zip(&at).map(|(a, b)| (a - b) * (a - b)).sum();
            if nearest.len() < self.count || nearest.last().is_some_and(|far| distance < far.0) {
                let place = nearest.partition_point(|near| near.0 <= distance);
                nearest.insert(place, (distance, *z));
                nearest.truncate(self.count);
            }
        }
        stats::mean(&nearest.iter().map(|n| n.1).collect::<Vec<_>>(), &[])
    }

    pub(super) fn wrong(&self, features: usize) -> Option<String> {
        if self.points.len() != self.z.len() * self.design.width() || self.count == 0 || self.count > self.z.len() {
            return Some(format!("{} numbers for {} points", self.points.len(), self.z.len()));
        }
        let bad = self.points.iter().chain(&self.z).any(|v| !v.is_finite());
        self.design.wrong(features).or_else(|| bad.then(|| "a point that is no number".to_owned()))
    }
}
