//! What a thread was at by state, by what its call was on, and by its trainer's state beside it.

use std::collections::BTreeMap;

use super::cause::Flow;
use super::evidence::{self, Evidence};
use super::kind::{On, State};
use super::lately::{Lately, Sum};

/// A state, and what the call was on.
pub(crate) type Kind = (State, On);

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

/// What one thread did over one span, in seconds, and what its process read meanwhile.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Slice {
    /// Seconds by kind.
    pub(crate) mix: Mix,
    /// Seconds between readings of the exact counters, and of those on a CPU and in its queue.
    pub(crate) exact: f64,
    pub(crate) on_cpu: f64,
    pub(crate) run_queue: f64,
    /// Seconds in which the worker may still have been starting.
    pub(crate) young: f64,
    /// Samples.
    pub(crate) samples: f64,
    pub(crate) flow: Flow,
}

impl Slice {
    /// The samples of a tick, which stand for the time of its evidence.
    pub(crate) fn of(samples: &Mix, evidence: &Evidence, flow: Flow) -> Self {
        let total = samples.total();
        let mut mix = Mix::default();
        if total > 0.0 && evidence.time > 0.0 {
            mix.merge(samples, evidence.time / total);
        }
        let Evidence { exact, on_cpu, run_queue, .. } = *evidence;
        Self { mix, exact, on_cpu, run_queue, young: 0.0, samples: total, flow }
    }

    /// Share of time on a CPU or in its queue, as the counters say.
    pub(crate) fn counted(&self) -> Option<f64> {
        (self.exact > 0.0).then(|| ((self.on_cpu + self.run_queue) / self.exact).clamp(0.0, 1.0))
    }

    /// The same with what the machine took from it while it ran.
    pub(crate) fn running(&self) -> Option<f64> {
        let (counted, total) = (self.counted()?, self.mix.total());
        let found: f64 = self.mix.all().filter(|(kind, ..)| kind.0 == State::Running).map(|x| x.2).sum();
        let rate = self.flow.switch_rate().filter(|_| total > 0.0);
        Some(evidence::running(found / total.max(f64::MIN_POSITIVE), self.samples, counted, rate))
    }

    /// Of that, the part in the queue.
    pub(crate) fn queued(&self) -> f64 {
        let all = self.on_cpu + self.run_queue;
        if all > 0.0 { self.run_queue / all } else { 0.0 }
    }
}

impl Sum for Slice {
    fn add(&mut self, other: &Self) {
        self.mix.merge(&other.mix, 1.0);
        self.exact += other.exact;
        self.on_cpu += other.on_cpu;
        self.run_queue += other.run_queue;
        self.young += other.young;
        self.samples += other.samples;
        self.flow.add(&other.flow, 1.0);
    }
}

/// Slices over the last ten seconds, and over the run.
pub(crate) type Slices = Lately<Slice>;

#[cfg(test)]
mod tests {
    use feedline_traces::Ts;

    use super::*;

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

    #[test]
    fn a_window_holds_ten_seconds_and_samples_become_seconds() {
        let mut slices = Slices::default();
        for second in 0..30 {
            let mut samples = Mix::default();
            samples.add((State::Disk, On::Unknown), None, 37.0);
            let evidence = Evidence { time: 1.0, exact: 1.0, on_cpu: 0.2, run_queue: 0.1, ..Evidence::default() };
            slices.push(Ts(second * 1_000_000_000), Slice::of(&samples, &evidence, Flow::default()));
        }
        assert!((slices.window().mix.total() - 10.0).abs() < 1e-9);
        assert!((slices.run.mix.total() - 30.0).abs() < 1e-9);
        assert!((slices.run.running().unwrap() - 0.3).abs() < 1e-9 && (slices.run.queued() - 1.0 / 3.0).abs() < 1e-9);
    }
}
