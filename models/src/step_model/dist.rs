//! Distributions of what one operation takes: seconds, bytes or core-seconds.

use std::sync::Arc;

use feedline_traces::{Error, Result};

use super::dice::{normal_quantile, unit};

/// No single draw is larger: thirty years in seconds, a gigabyte in bytes, and far from where sums
/// of doubles lose what is added.
pub const LARGEST: f64 = 1e9;

/// How an amount is distributed. Draws are never negative and never above [`LARGEST`].
#[derive(Debug, Clone, PartialEq)]
pub enum Dist {
    /// Always the same.
    Constant(f64),
    /// Exponential with this mean.
    Exponential(f64),
    /// Lognormal, by its mean and its squared coefficient of variation (variance over squared mean).
    Lognormal {
        /// Mean.
        mean: f64,
        /// Variance over the square of the mean.
        scv: f64,
    },
    /// Measured: pairs of a probability and the value at that quantile, both rising, linear between
    /// them. The first and the last value bound it.
    Quantiles(Arc<[(f64, f64)]>),
}

impl Default for Dist {
    fn default() -> Self {
        Self::Constant(0.0)
    }
}

impl Dist {
    /// Nothing at all.
    pub const ZERO: Self = Self::Constant(0.0);

    /// The distribution of some measured values, by up to 65 of their quantiles; `None` of none.
    /// Values that are not finite or negative are left out.
    #[must_use]
    pub fn measured(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite() && *v >= 0.0).collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let points = last.clamp(1, 64);
        let at = |i: usize| {
            let p = real(i) / real(points);
            let place = p * real(last);
            let below = sorted[floor(place).min(last)];
            let above = sorted[(floor(place) + 1).min(last)];
            (p, (above - below).mul_add(place.fract(), below).min(LARGEST))
        };
        Some(Self::Quantiles((0..=points).map(at).collect()))
    }

    /// The same, of quantiles that are known already: pairs of probability and value in any order.
    /// What lies outside the given probabilities is taken to be the nearest value. `None` where no
    /// pair is finite and within bounds.
    #[must_use]
    pub fn from_quantiles(pairs: &[(f64, f64)]) -> Option<Self> {
        let fits = |&(p, v): &(f64, f64)| (0.0..=1.0).contains(&p) && v.is_finite() && v >= 0.0;
        let mut pairs: Vec<(f64, f64)> = pairs.iter().copied().filter(fits).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (first, last) = (*pairs.first()?, *pairs.last()?);
        if first.0 > 0.0 {
            pairs.insert(0, (0.0, first.1));
        }
        if last.0 < 1.0 {
            pairs.push((1.0, last.1));
        }
        let mut least = 0.0_f64;
        for (_, value) in &mut pairs {
            // Quantiles that were measured apart may cross by a little.
            least = least.max(value.min(LARGEST));
            *value = least;
        }
        Some(Self::Quantiles(pairs.into()))
    }

    /// Mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant(value) | Self::Exponential(value) => *value,
            Self::Lognormal { mean, .. } => *mean,
            Self::Quantiles(pairs) => pieces(pairs).map(|(w, a, b)| w * f64::midpoint(a, b)).sum(),
        }
    }

    /// Variance over the square of the mean; 0 where the mean is.
    #[must_use]
    pub fn scv(&self) -> f64 {
        match self {
            Self::Constant(_) => 0.0,
            Self::Exponential(_) => 1.0,
            Self::Lognormal { scv, .. } => *scv,
            Self::Quantiles(pairs) => {
                let mean = self.mean();
                let second: f64 = pieces(pairs).map(|(w, a, b)| w * (a * a + a * b + b * b) / 3.0).sum();
                if mean > 0.0 { (second / (mean * mean) - 1.0).max(0.0) } else { 0.0 }
            }
        }
    }

    /// Whether every draw is 0.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Constant(value) | Self::Exponential(value) => *value == 0.0,
            Self::Lognormal { mean, .. } => *mean == 0.0,
            Self::Quantiles(pairs) => pairs.last().is_none_or(|last| last.1 == 0.0),
        }
    }

    /// The draw that 64 random bits stand for; it rises with the bits (inversion), so that common
    /// bits give comparable draws of different distributions.
    #[must_use]
    pub fn draw(&self, bits: u64) -> f64 {
        let value = match self {
            Self::Constant(value) => return *value,
            Self::Exponential(mean) => -mean * (1.0 - unit(bits)).ln(),
            Self::Lognormal { mean, scv } => {
                let variance = (1.0 + scv).ln();
                mean * variance.sqrt().mul_add(normal_quantile(unit(bits)), -variance / 2.0).exp()
            }
            Self::Quantiles(pairs) => quantile(pairs, unit(bits)),
        };
        value.clamp(0.0, LARGEST)
    }

    /// Refuses what is no distribution of an amount; `what` names it.
    ///
    /// # Errors
    /// Where a parameter is negative, not finite or above [`LARGEST`], or quantiles fall.
    pub fn check(&self, what: &str) -> Result<()> {
        let amount = |value: f64| (0.0..=LARGEST).contains(&value);
        let fits = match self {
            Self::Constant(value) | Self::Exponential(value) => amount(*value),
            Self::Lognormal { mean, scv } => amount(*mean) && (0.0..=1e6).contains(scv),
            Self::Quantiles(pairs) => {
                let rising = pairs.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 <= w[1].1);
                let whole = pairs.first().is_some_and(|p| p.0 == 0.0) && pairs.last().is_some_and(|p| p.0 == 1.0);
                rising && whole && pairs.iter().all(|p| amount(p.1))
            }
        };
        if fits {
            return Ok(());
        }
        let error =
            Error::new(format!("{what}: expected amounts from 0 to {LARGEST:e} with rising quantiles, found {self:?}"));
        Err(error.hint("times are in seconds, sizes in bytes"))
    }
}

/// Weight, lower and upper value of each piece.
fn pieces(pairs: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64, f64)> + '_ {
    pairs.windows(2).map(|w| (w[1].0 - w[0].0, w[0].1, w[1].1))
}

fn quantile(pairs: &[(f64, f64)], p: f64) -> f64 {
    let above = pairs.partition_point(|pair| pair.0 < p).clamp(1, pairs.len().max(2) - 1);
    let (Some(low), Some(high)) = (pairs.get(above - 1), pairs.get(above)) else {
        return pairs.first().map_or(0.0, |pair| pair.1);
    };
    let width = high.0 - low.0;
    if width > 0.0 { (high.1 - low.1).mul_add((p - low.0) / width, low.1) } else { high.1 }
}

#[expect(clippy::cast_precision_loss, reason = "positions in a list of measured values")]
fn real(n: usize) -> f64 {
    n as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position: not negative, and small")]
fn floor(x: f64) -> usize {
    x as usize
}
