//! What one thread did over one span by state and call, and what its process read meanwhile.

use super::evidence::{self, Evidence};
use super::flow::Flow;
use super::kind::State;
use super::lately::{Lately, Sum};
use super::mix::Mix;

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
    use crate::attribute::kind::On;

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
