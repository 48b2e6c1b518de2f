//! What is not known exactly, drawn: shares within their intervals, what storage can give, and how far
//! the step model is off. A plan is judged by many draws, and its interval is theirs.

use serde::{Deserialize, Serialize};

use super::facts::{Facts, Share};
use crate::step_model::dice::{Dice, normal_quantile, unit};

/// How many worlds are drawn.
pub(super) const DRAWS: usize = 48;
/// Half of a 95 % interval in standard deviations.
const HALF: f64 = 1.96;
/// Standard deviation of the model's error where no observations tell: the logarithm of the measured
/// over the predicted time of a step.
const ASSUMED: f64 = 0.10;
/// Further deviation for each unit by which the model had to be scaled to reproduce the present setting.
const FOR_SCALE: f64 = 0.25;

/// Standard deviation of a step from run to run, on a logarithmic scale.
const AGAIN: f64 = 0.025;

/// One world: numbers inside (0, 1), each for one thing that is not known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Draw {
    /// The share of waiting.
    wait: f64,
    /// The model's error.
    error: f64,
    /// Whether storage is at its limit.
    capped: f64,
    /// How far that limit is away.
    room: f64,
    /// What a busy neighbouring core costs.
    pub(super) sharing: f64,
    /// How well a change works of which only a range is known.
    pub(super) works: f64,
    /// How far the next run of the very same job is off.
    again: f64,
}

impl Draw {
    /// The middle of everything.
    pub(super) const MIDDLE: Self =
        Self { wait: 0.5, error: 0.5, capped: 0.5, room: 0.5, sharing: 0.5, works: 0.5, again: 0.5 };

    /// So many worlds, spread evenly over each of the things (a Latin hypercube: McKay, Beckman and
    /// Conover, 1979).
    pub(super) fn all(seed: u64, count: usize) -> Vec<Self> {
        let column = |stream: u64| {
            let dice = Dice::new(seed, stream);
            let mut order: Vec<usize> = (0..count).collect();
            order.sort_by_key(|i| dice.bits(*i as u64, 0));
            let at = |(i, place): (usize, usize)| (real(place) + unit(dice.bits(i as u64, 1))) / real(count);
            order.into_iter().enumerate().map(at).collect::<Vec<f64>>()
        };
        let columns: [Vec<f64>; 7] = [1, 2, 3, 4, 5, 6, 7].map(column);
        let draw = |i: usize| Self {
            wait: columns[0][i],
            error: columns[1][i],
            capped: columns[2][i],
            room: columns[3][i],
            sharing: columns[4][i],
            works: columns[5][i],
            again: columns[6][i],
        };
        (0..count).map(draw).collect()
    }

    /// The share of waiting in this world.
    pub(super) fn wait(&self, share: &Share) -> f64 {
        let z = normal_quantile(self.wait.clamp(1e-6, 1.0 - 1e-6));
        let end = if z < 0.0 { share.low } else { share.high };
        let deviation = (end - share.share).abs() / HALF;
        (share.share + z * deviation).clamp(0.0, 1.0)
    }

    /// The factor by which the work of workers is other than the model thinks, in another setting.
    pub(super) fn error(&self, errors: &Errors, scale: f64) -> f64 {
        let more = FOR_SCALE * scale.ln().abs();
        let z = normal_quantile(self.error.clamp(1e-6, 1.0 - 1e-6));
        (errors.at(self.error) + z * more).clamp(-1.5, 1.5).exp()
    }

    /// The factor by which a step of another run takes longer, with nothing changed.
    pub(super) fn again(&self) -> f64 {
        (AGAIN * normal_quantile(self.again.clamp(1e-6, 1.0 - 1e-6))).exp()
    }

    /// Batches a second that storage gives at most, as a multiple of what it gives now; `None` where it
    /// gives what is asked of it.
    pub(super) fn cap(&self, facts: &Facts) -> Option<f64> {
        if let Some((limit, rate)) = facts.reads.limit.zip(facts.reads.rate.filter(|rate| *rate > 0.0)) {
            return Some((limit / rate).max(1.0));
        }
        (self.capped < full(facts)).then_some(1.0 + 0.3 * self.room)
    }
}

/// How likely storage is at its limit already. From the outside a device that is full and one that is
/// slow look alike; what is small and far away is slow, and a local disk that is idle while workers wait
/// for it is held back by something.
fn full(facts: &Facts) -> f64 {
    let crew = &facts.crew;
    let (storage, remote) = if facts.workers() == 0 {
        (facts.cause("fetch.storage"), facts.cause("fetch.network"))
    } else {
        (crew.storage, crew.remote)
    };
    if storage + remote < 0.05 {
        return 0.0;
    }
    if remote > storage {
        let small = facts.reads.bytes.is_none_or(|bytes| bytes < 512.0 * 1024.0);
        return if small { 0.2 } else { 0.4 };
    }
    let asked = (f64::from(facts.workers().max(1)) * storage).min(1.0);
    match facts.machine.disk_busy {
        Some(busy) if busy < 0.5 * asked => 0.7,
        Some(busy) if busy > 0.9 => 0.45,
        _ => 0.35,
    }
}

/// How far the step model is off when it says what another setting would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// Logarithms of measured over predicted time of a step, rising: quantiles at equal distances.
    pub quantiles: Vec<f64>,
    /// Pairs of observations that they come from; 0: assumed.
    pub pairs: u64,
    /// Where from, in words.
    pub source: String,
}

impl Default for Errors {
    /// What is bundled: measured where there are observations, else assumed.
    fn default() -> Self {
        serde_json::from_str(include_str!("../../data/advise/errors.json")).unwrap_or_else(|_| Self::assumed())
    }
}

impl Errors {
    /// A normal distribution, for want of observations.
    #[must_use]
    pub fn assumed() -> Self {
        let quantiles = (1..20).map(|i| ASSUMED * normal_quantile(f64::from(i) / 20.0)).collect();
        Self { quantiles, pairs: 0, source: "assumed, for want of observations".to_owned() }
    }

    /// Of measured residuals; `None` of fewer than twenty.
    #[must_use]
    pub fn measured(residuals: &[f64], source: &str) -> Option<Self> {
        let mut sorted: Vec<f64> = residuals.iter().copied().filter(|r| r.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        if sorted.len() < 20 {
            return None;
        }
        let last = real(sorted.len() - 1);
        let at = |i: u32| interpolated(&sorted, f64::from(i) / 20.0 * last);
        // Four digits are more than is known, and keep the file small.
        let rounded = |r: f64| (r * 1e4).round() / 1e4;
        let quantiles = (1..20).map(|i| rounded(at(i))).collect();
        Some(Self { quantiles, pairs: sorted.len() as u64, source: source.to_owned() })
    }

    /// The quantile at `p`; beyond the outermost it goes on as a normal distribution would.
    fn at(&self, p: f64) -> f64 {
        let last = self.quantiles.len().saturating_sub(1);
        if last == 0 {
            return 0.0;
        }
        let step = 1.0 / real(self.quantiles.len() + 1);
        let (first, end) = (self.quantiles[0], self.quantiles[last]);
        let beyond = |edge: f64, value: f64| {
            value + (normal_quantile(p.clamp(1e-6, 1.0 - 1e-6)) - normal_quantile(edge)) * (end - first).abs() / 3.3
        };
        match p {
            p if p < step => beyond(step, first),
            p if p > 1.0 - step => beyond(1.0 - step, end),
            p => interpolated(&self.quantiles, (p / step - 1.0).clamp(0.0, real(last))),
        }
    }
}

/// A value between two neighbours in a list.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position within the list")]
fn interpolated(values: &[f64], place: f64) -> f64 {
    let below = (place.max(0.0).floor() as usize).min(values.len().saturating_sub(1));
    let above = (below + 1).min(values.len().saturating_sub(1));
    values[below] + (values[above] - values[below]) * place.fract()
}

#[expect(clippy::cast_precision_loss, reason = "a small number of draws or residuals")]
fn real(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_fill_every_part_of_a_range_and_are_the_same_for_a_seed() {
        let draws = Draw::all(7, 20);
        assert_eq!(draws, Draw::all(7, 20));
        assert_ne!(draws, Draw::all(8, 20));
        for part in 0..20 {
            let inside = |x: f64| (x * 20.0).floor() as usize == part;
            assert_eq!(draws.iter().filter(|d| inside(d.wait)).count(), 1);
            assert_eq!(draws.iter().filter(|d| inside(d.works)).count(), 1);
        }
    }

    #[test]
    fn a_share_is_drawn_from_its_interval() {
        let share = Share { share: 0.4, low: 0.36, high: 0.5 };
        let all: Vec<f64> = Draw::all(1, 400).iter().map(|draw| draw.wait(&share)).collect();
        let inside = all.iter().filter(|w| (0.36..=0.5).contains(*w)).count();
        assert!((370..=390).contains(&inside), "{inside} of 400 in the 95 % interval");
        assert!((Draw::MIDDLE.wait(&share) - 0.4).abs() < 1e-9);
    }

    #[test]
    fn measured_errors_take_the_place_of_assumed_ones() {
        let residuals: Vec<f64> = (0..200).map(|i| f64::from(i) / 1000.0 - 0.05).collect();
        let errors = Errors::measured(&residuals, "a test").unwrap();
        assert_eq!(errors.pairs, 200);
        let middle = Draw::MIDDLE.error(&errors, 1.0).ln();
        assert!((middle - 0.05).abs() < 0.002, "the bias of the observations is the bias of a draw: {middle}");
        assert!(Errors::measured(&residuals[..19], "too few").is_none());
        let assumed =
            Draw::all(1, 100).iter().filter(|d| d.error(&Errors::assumed(), 1.0).ln().abs() < ASSUMED).count();
        assert!((60..=76).contains(&assumed), "two thirds within a deviation: {assumed}");
        assert!(Draw { error: 0.9, ..Draw::MIDDLE }.error(&Errors::assumed(), 2.0) > 1.2, "disagreement widens it");
    }

    #[test]
    fn the_errors_that_come_with_the_source_can_be_read() {
        let errors: Errors = serde_json::from_str(include_str!("../../data/advise/errors.json")).unwrap();
        assert_eq!(errors.quantiles.len(), 19);
        assert!(errors.quantiles.windows(2).all(|w| w[0] <= w[1]) && !errors.source.is_empty());
    }
}
