//! What a thread was at by state, by what its call was on, and by its trainer's state beside it.

use std::collections::BTreeMap;

use super::kind::{Kind, State};

/// Amounts (samples, later seconds) by kind and by the state of the trainer's main thread in the
/// same look. As many entries at most as there are combinations.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Mix(BTreeMap<(Kind, Option<State>), f64>);

impl Mix {
    pub(crate) fn add(&mut self, kind: Kind, beside: Option<State>, amount: f64) {
        if amount > 0.0 && amount.is_finite() {
            *self.0.entry((kind, beside)).or_insert(0.0) += amount;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self, weight: f64) {
        for ((kind, beside), amount) in &other.0 {
            self.add(*kind, *beside, weight * amount);
        }
    }

    pub(crate) fn total(&self) -> f64 {
        self.0.values().sum()
    }

    /// Every entry: kind, the trainer's state beside it, amount.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Kind, Option<State>, f64)> {
        self.0.iter().map(|((kind, beside), amount)| (*kind, *beside, *amount))
    }

    /// Amounts by kind alone.
    pub(crate) fn kinds(&self) -> BTreeMap<Kind, f64> {
        let mut sums = BTreeMap::new();
        self.all().for_each(|(kind, _, amount)| *sums.entry(kind).or_insert(0.0) += amount);
        sums
    }

    /// The same with the part of `running` put right by what exact counters say: `running` gets
    /// the odds that it really has.
    pub(crate) fn calibrated(&self, running: Option<f64>) -> Self {
        let total = self.total();
        let seen = self.all().filter(|(kind, _, _)| kind.0 == State::Running).map(|x| x.2).sum::<f64>();
        let Some(exact) = running.filter(|_| seen > 0.0 && seen < total) else { return self.clone() };
        let (up, down) = (exact * total / seen, (1.0 - exact) * total / (total - seen));
        let mut out = Self::default();
        for (kind, beside, amount) in self.all() {
            out.add(kind, beside, amount * if kind.0 == State::Running { up } else { down });
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::kind::On;

    #[test]
    fn counters_put_the_part_of_running_right_and_keep_the_rest_in_proportion() {
        let mut mix = Mix::default();
        mix.add((State::Running, On::Unknown), None, 2.0);
        mix.add((State::Poll, On::Pipe), None, 6.0);
        mix.add((State::Disk, On::Unknown), Some(State::Futex), 2.0);
        let kinds = mix.calibrated(Some(0.5)).kinds();
        assert!((kinds[&(State::Running, On::Unknown)] - 5.0).abs() < 1e-9);
        assert!((kinds[&(State::Poll, On::Pipe)] - 3.75).abs() < 1e-9);
        assert!((mix.calibrated(Some(0.9)).total() - 10.0).abs() < 1e-9);
    }
}
