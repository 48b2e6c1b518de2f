//! Support vector regression with a Gaussian kernel, by linfa (sequential minimal optimisation).

use feedline_traces::{Error, Result};
use linfa::Dataset;
use linfa::traits::Fit as _;
use linfa_svm::Svm;
use ndarray::{Array1, Array2};
use serde::{Deserialize, Serialize};

use super::design::Design;
use super::random::Random;
use super::stats;
use super::tree::Columns;

/// A fitted machine: a sum of bells around the support vectors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    design: Design,
    /// The kernel is `exp(-distance²/width)`.
    width: f64,
    /// The support vectors, one after the other.
    vectors: Vec<f64>,
    /// The weight of each.
    alpha: Vec<f64>,
    /// What is taken off the sum.
    rho: f64,
    /// The mean and deviation of the outcome.
    mean: f64,
    scale: f64,
}

/// The most rows of a fit; of more, a sample by the seed: the kernel matrix has their square.
const ROWS: usize = 600;

impl Machine {
    pub(super) fn fit(columns: &Columns, z: &[f64], cost: f64, width: f64, seed: u64) -> Result<Self> {
        let design = Design::fit(columns);
        let columns_made = design.width().max(1);
        let rows = Random::new(seed, 0).choose(z.len(), ROWS);
        let values: Vec<f64> = rows.iter().map(|&row| z[row]).collect();
        let mean = stats::mean(&values, &[]);
        let squares: Vec<f64> = values.iter().map(|v| (v - mean) * (v - mean)).collect();
        let scale = stats::mean(&squares, &[]).sqrt();
        let scale = if scale > 1e-12 { scale } else { 1.0 };
        let width = width * stats::count(columns_made);
        let points: Vec<f64> = rows.iter().flat_map(|&row| design.row(&columns.row(row))).collect();
        if design.width() == 0 {
            return Ok(Self { design, width, vectors: Vec::new(), alpha: Vec::new(), rho: 0.0, mean, scale });
        }
        let x = Array2::from_shape_vec((rows.len(), design.width()), points.clone())
            .map_err(|cause| Error::new(format!("matrix of {} rows: {cause}", rows.len())))?;
        let y = Array1::from_iter(values.iter().map(|v| (v - mean) / scale));
        let machine = Svm::<f64, f64>::params()
            .c_svr(cost, Some(0.05))
            .eps(1e-2)
            .gaussian_kernel(width)
            .fit(&Dataset::new(x, y))
            .map_err(|cause| Error::new(format!("support vector regression, cost {cost}: {cause}")))?;
        let mut vectors = Vec::new();
        let mut alpha = Vec::new();
        for (weight, point) in machine.alpha.iter().zip(points.chunks_exact(design.width())) {
            if weight.abs() > 1e-9 {
                alpha.push(*weight);
                vectors.extend_from_slice(point);
            }
        }
        Ok(Self { design, width, vectors, alpha, rho: machine.rho, mean, scale })
    }

    pub(super) fn predict(&self, x: &[f64]) -> f64 {
        let at = self.design.row(x);
        let mut sum = -self.rho;
        for (vector, alpha) in self.vectors.chunks_exact(at.len().max(1)).zip(&self.alpha) {
            let distance: f64 = vector.iter().zip(&at).map(|(a, b)| (a - b) * (a - b)).sum();
            sum += alpha * (-distance / self.width).exp();
        }
        self.mean + self.scale * sum
    }

    pub(super) fn wrong(&self, features: usize) -> Option<String> {
        if self.vectors.len() != self.alpha.len() * self.design.width() {
            return Some(format!("{} numbers for {} support vectors", self.vectors.len(), self.alpha.len()));
        }
        let single = [self.width, self.rho, self.mean, self.scale];
        let bad = self.vectors.iter().chain(&self.alpha).chain(&single).any(|v| !v.is_finite()) || self.width <= 0.0;
        self.design.wrong(features).or_else(|| bad.then(|| "a support vector that is no number".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_a_curve() {
        let x: Vec<f64> = (0..120).map(|i| f64::from(i) / 20.0).collect();
        let z: Vec<f64> = x.iter().map(|x| 10.0 + 3.0 * x.sin()).collect();
        let machine = Machine::fit(&Columns::numbers(vec![x.clone()]), &z, 10.0, 0.25, 1).unwrap();
        for (x, z) in x.iter().zip(&z) {
            assert!((machine.predict(&[*x]) - z).abs() < 0.5, "at {x}: {} for {z}", machine.predict(&[*x]));
        }
        assert!(!machine.alpha.is_empty() && machine.alpha.len() < 120);
    }

    #[test]
    fn without_a_column_it_is_the_mean() {
        let machine = Machine::fit(&Columns::numbers(vec![vec![1.0; 10]]), &[2.0; 10], 1.0, 1.0, 1).unwrap();
        assert!((machine.predict(&[1.0]) - 2.0).abs() < 1e-12);
    }
}
