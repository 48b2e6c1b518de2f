//! Intervals that hold as often as they say on groups that were not seen: split-conformal
//! prediction (Vovk; Lei et al., 2018) and its quantile form (CQR: Romano, Patterson and Candès,
//! 2019). Errors are taken from inner grouped folds, and each group counts alike (pooling over
//! groups: Dunn, Wasserman and Ramdas, 2022), because what is to be covered is a new group. Their
//! guarantee for a finite number of groups is not asked for: of six groups it would take nearly all.

use feedline_traces::Result;
use serde::{Deserialize, Serialize};

use super::folds::Fold;
use super::frame::{Frame, Group};
use super::learner::Learner;
use super::model::{Reader, Spec};
use super::stats;
use super::task::Task;
use super::tree::{Boost, Ensemble, Loss};

/// How far an outcome may be from its prediction, on the outcome's scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Band {
    /// As far on both sides, everywhere.
    Even {
        /// How far.
        radius: f64,
    },
    /// Between two quantiles of their own, moved by what held-out groups asked for.
    Quantiles {
        /// The lower.
        low: Ensemble,
        /// The upper.
        high: Ensemble,
        /// By how much they are moved apart; below 0, together.
        radius: f64,
    },
}

/// A row that was predicted by a model that had not seen its group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldOut {
    /// The row of the frame.
    pub row: usize,
    /// What was said of it, on the outcome's scale.
    pub said: f64,
    /// How far off it was: of an even band the absolute error, of quantiles how far outside.
    pub miss: f64,
}

impl Band {
    /// The interval around a prediction, on its scale.
    #[must_use]
    pub fn around(&self, predicted: f64, x: &[f64]) -> (f64, f64) {
        match self {
            Self::Even { radius } => (predicted - radius, predicted + radius),
            Self::Quantiles { low, high, radius } => {
                let (low, high) = (low.predict(x) - radius, high.predict(x) + radius);
                // Quantiles may cross, and the prediction is inside by definition.
                (low.min(high).min(predicted), high.max(low).max(predicted))
            }
        }
    }

    /// Why this is no band over so many inputs, if it is none.
    pub(crate) fn wrong(&self, features: usize) -> Option<String> {
        match self {
            Self::Even { radius } => (!radius.is_finite()).then(|| "a band that is no number".to_owned()),
            Self::Quantiles { low, high, radius } => low
                .wrong(features)
                .or_else(|| high.wrong(features))
                .or_else(|| (!radius.is_finite()).then(|| "a band that is no number".to_owned())),
        }
    }
}

/// The distance that held-out rows exceed in no more than `1 - level` of the cases, each group having
/// the same weight. What is to come is a new group, of which a finite number of groups can promise
/// nothing for certain: coverage is measured, not proved.
#[must_use]
pub fn radius(held: &[HeldOut], group: &Group, level: f64) -> f64 {
    let rows: Vec<usize> = (0..held.len()).collect();
    let mut sizes = vec![0_usize; group.levels.len()];
    rows.iter().for_each(|&i| sizes[group.codes[held[i].row] as usize] += 1);
    let groups = stats::count(sizes.iter().filter(|s| **s > 0).count());
    let mut misses: Vec<(f64, f64)> = held
        .iter()
        .map(|h| (h.miss, 1.0 / stats::count(sizes[group.codes[h.row] as usize])))
        .filter(|(miss, _)| miss.is_finite())
        .collect();
    misses.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let wanted = level * groups;
    let mut seen = 0.0;
    for (miss, weight) in &misses {
        seen += weight;
        if seen >= wanted - 1e-9 {
            return *miss;
        }
    }
    misses.last().map_or(f64::INFINITY, |m| m.0)
}

/// The band of a fitted learner: even from its held-out errors, or, for boosted trees, by quantiles
/// fitted to the same folds.
///
/// # Errors
/// When a fit fails.
#[expect(clippy::too_many_arguments, reason = "a fit's own arguments, and the folds")]
pub fn fit(
    frame: &Frame,
    rows: &[usize],
    task: &Task,
    spec: &Spec,
    held: &[HeldOut],
    folds: &[Fold],
    group: &Group,
    level: f64,
    seed: u64,
) -> Result<Band> {
    let Learner::Boosted(boost) = &spec.learner else {
        return Ok(Band::Even { radius: radius(held, group, level) });
    };
    let side = |share: f64| {
        let loss = Loss::Quantile(share);
        // Small trees: quantiles of few rows overfit sooner than means.
        Spec {
            learner: Learner::Boosted(Boost {
                loss,
                leaves: boost.leaves.min(8),
                trees: boost.trees.div_ceil(2),
                ..boost.clone()
            }),
            residual: spec.residual,
        }
    };
    let (low, high) = (side(f64::midpoint(0.0, 1.0 - level)), side(f64::midpoint(level, 1.0)));
    let mut misses = Vec::new();
    let target = frame.target(&task.target)?;
    for fold in folds {
        let (below, above) = (low.fit(frame, &fold.train, task, seed)?, high.fit(frame, &fold.train, task, seed)?);
        let reader = Reader::new(frame, &below.inputs)?;
        let baselines = below.baselines(frame)?;
        for &row in &fold.test {
            let x = reader.row(row);
            let baseline = baselines.map_or(f64::NAN, |b| b[row]);
            let z = task.scale.forth(target.values[row]);
            let (low, high) = (below.scaled(&x, baseline), above.scaled(&x, baseline));
            let miss = (low.min(high) - z).max(z - high.max(low));
            misses.push(HeldOut { row, said: f64::midpoint(low, high), miss });
        }
    }
    let trees = |spec: &Spec| -> Result<Ensemble> {
        match spec.fit(frame, rows, task, seed)?.fitted {
            super::learner::Fitted::Trees(trees) => Ok(trees),
            _ => Err(feedline_traces::Error::new("boosted trees did not become trees")),
        }
    };
    Ok(Band::Quantiles { low: trees(&low)?, high: trees(&high)?, radius: radius(&misses, group, level) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(misses: &[f64]) -> Vec<HeldOut> {
        misses.iter().enumerate().map(|(row, miss)| HeldOut { row, said: 0.0, miss: *miss }).collect()
    }

    #[test]
    fn the_radius_is_the_conformal_quantile() {
        // Nine rows of nine groups: the 0.8 quantile is the ceil(0.8 * 10) = 8th.
        let misses: Vec<f64> = (1..=9).map(f64::from).collect();
        let names: Vec<String> = (0..9).map(|i| i.to_string()).collect();
        assert_eq!(radius(&held(&misses), &Group::new("g", &names), 0.8), 8.0);
    }

    #[test]
    fn a_group_with_many_rows_counts_once() {
        let mut misses = vec![0.1; 100];
        misses.extend([5.0, 6.0, 7.0, 8.0]);
        let mut names = vec!["large".to_owned(); 100];
        names.extend((0..4).map(|i| i.to_string()));
        assert_eq!(radius(&held(&misses), &Group::new("g", &names), 0.5), 6.0);
    }

    #[test]
    fn quantiles_that_cross_still_hold_the_prediction() {
        let at = |base| Ensemble { base, trees: Vec::new() };
        let band = Band::Quantiles { low: at(3.0), high: at(1.0), radius: 0.0 };
        assert_eq!(band.around(4.0, &[]), (1.0, 4.0));
    }
}
