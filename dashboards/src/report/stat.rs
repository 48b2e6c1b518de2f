//! A mean, and what lies furthest from it.

/// A weighted mean, the largest and the smallest value.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stat {
    sum: f64,
    /// The sum of weights.
    pub(crate) weight: f64,
    /// The largest value.
    pub(crate) peak: Option<f64>,
    /// The smallest value.
    pub(crate) least: Option<f64>,
}

impl Stat {
    pub(crate) fn add(&mut self, value: f64, weight: f64) {
        if value.is_finite() && weight > 0.0 {
            self.sum += value * weight;
            self.weight += weight;
            self.peak = Some(self.peak.map_or(value, |peak| peak.max(value)));
            self.least = Some(self.least.map_or(value, |least| least.min(value)));
        }
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// The nearest whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "negative and huge values saturate")]
pub(crate) fn whole(number: f64) -> u64 {
    number.round() as u64
}
