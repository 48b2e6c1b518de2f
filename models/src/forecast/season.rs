//! A period in the shares of the last two minutes, by autocorrelation (Box and Jenkins, 1970):
//! epochs, checkpoints, cycles of whoever shares the machine.

use crate::learn::stats::count;

/// The shortest period in seconds.
const SHORTEST: usize = 4;
/// The least autocorrelation at a lag that makes it a period.
const LEAST: f64 = 0.3;
/// Variance of shares below which nothing can recur.
const STILL: f64 = 1e-4;

/// A period that was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Season {
    /// Its length in seconds.
    pub(crate) period: usize,
    /// The autocorrelation at that lag.
    pub(crate) strength: f64,
    shares: Vec<f64>,
}

impl Season {
    /// The period of a series with a value a second, oldest first: two of them must be there.
    pub(crate) fn find(shares: &[f64]) -> Option<Self> {
        let n = shares.len();
        if n < 2 * SHORTEST {
            return None;
        }
        let mean = shares.iter().sum::<f64>() / count(n);
        let off: Vec<f64> = shares.iter().map(|share| share - mean).collect();
        let variance = off.iter().map(|x| x * x).sum::<f64>() / count(n);
        if variance < STILL {
            return None;
        }
        let at = |lag: usize| {
            let products: f64 = off.iter().zip(&off[lag..]).map(|(a, b)| a * b).sum();
            products / count(n - lag) / variance
        };
        let lags: Vec<f64> = (0..=n / 2 + 1).filter(|lag| *lag < n).map(at).collect();
        // The first lags are alike because shares change slowly: a period is a peak after a trough.
        let trough = (1..lags.len()).find(|&lag| lags[lag] < 0.0)?;
        let peak =
            |lag: &usize| lags[*lag] >= lags[lag - 1] && lags.get(lag + 1).is_none_or(|next| lags[*lag] >= *next);
        let (period, strength) = (trough.max(SHORTEST)..=n / 2)
            .filter(|lag| *lag < lags.len() && peak(lag))
            .map(|lag| (lag, lags[lag]))
            .fold(None, |best: Option<(usize, f64)>, (lag, r)| match best {
                // A multiple of a period is as good; the shortest one is meant.
                Some((_, before)) if r < before + 0.1 => best,
                _ => Some((lag, r)),
            })
            .filter(|(_, r)| *r >= LEAST)?;
        Some(Self { period, strength, shares: shares.to_vec() })
    }

    /// The share of the second that is this many ahead, if it is as the one a whole number of periods
    /// before it.
    fn second(&self, ahead: usize) -> f64 {
        self.shares[self.shares.len() - 1 + ahead - self.period * ahead.div_ceil(self.period)]
    }

    /// The mean over the next seconds, each as the one a whole number of periods before it.
    pub(crate) fn ahead(&self, seconds: usize) -> f64 {
        let seconds = seconds.max(1);
        (1..=seconds).map(|ahead| self.second(ahead)).sum::<f64>() / count(seconds)
    }

    /// The greatest of the next seconds, likewise.
    pub(crate) fn most(&self, seconds: usize) -> f64 {
        (1..=seconds.max(1)).map(|ahead| self.second(ahead)).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(period: usize, n: usize) -> Vec<f64> {
        (0..n).map(|i| if i % period < 3 { 0.6 } else { 0.05 }).collect()
    }

    #[test]
    fn the_period_of_a_wave_is_found_and_its_next_turn_is_told() {
        for period in [8, 13, 20] {
            let season = Season::find(&wave(period, 5 * period)).unwrap();
            assert_eq!(season.period, period);
            assert!((season.ahead(3) - 0.6).abs() < 1e-9, "{}", season.ahead(3));
            assert!((season.ahead(period) - (3.0 * 0.6 + 0.05 * count(period - 3)) / count(period)).abs() < 1e-9);
            assert!((season.most(2) - 0.6).abs() < 1e-9);
        }
    }

    #[test]
    fn steps_noise_and_stillness_have_no_period() {
        assert_eq!(Season::find(&vec![0.3; 100]), None);
        let step: Vec<f64> = (0..100).map(|i| if i < 50 { 0.1 } else { 0.7 }).collect();
        assert_eq!(Season::find(&step), None);
        let mut random = crate::learn::random::Random::new(5, 0);
        let noise: Vec<f64> = (0..120).map(|_| random.unit()).collect();
        assert!(Season::find(&noise).is_none_or(|season| season.strength < 0.4));
        assert_eq!(Season::find(&[0.1, 0.9]), None);
    }
}
