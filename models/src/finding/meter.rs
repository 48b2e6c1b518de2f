//! The last seconds of counters and samples, in bounded memory.

use std::collections::VecDeque;

use feedline_traces::Ts;

/// Seconds that patterns look back on.
pub(super) const SPAN: f64 = 10.0;
/// Readings kept; with ticks more frequent than this allows the span is shorter.
const READINGS: usize = 64;

/// Readings of a counter over the last seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Meter(VecDeque<(Ts, u64)>);

impl Meter {
    /// Takes a reading; a counter that falls was reset and starts anew.
    pub(super) fn read(&mut self, at: Ts, value: Option<u64>) {
        let Some(value) = value else { return };
        if self.0.back().is_some_and(|(then, before)| value < *before || at <= *then) {
            self.0.clear();
        }
        self.0.push_back((at, value));
        // One reading from before the span stays, so that the span is whole.
        while self.0.len() > READINGS || self.0.get(1).is_some_and(|(then, _)| at.seconds_since(*then) >= SPAN) {
            self.0.pop_front();
        }
    }

    /// Increase over the readings kept.
    #[expect(clippy::cast_precision_loss, reason = "differences of a few seconds")]
    pub(super) fn grown(&self) -> Option<f64> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        (last.0 > first.0).then(|| (last.1 - first.1) as f64)
    }

    /// Increase per second over the readings kept.
    pub(super) fn rate(&self) -> Option<f64> {
        let span = self.0.back()?.0.seconds_since(self.0.front()?.0);
        Some(self.grown()? / span)
    }

    /// Of a counter of time in nanoseconds, the share of wall time.
    pub(super) fn share(&self) -> Option<f64> {
        self.rate().map(|nanos| nanos / 1e9)
    }
}

/// Counts by kind over the last seconds, and over the run.
#[derive(Debug, Clone)]
pub(super) struct Mix<const N: usize> {
    recent: VecDeque<(Ts, [f64; N])>,
    /// Everything so far.
    pub(super) run: [f64; N],
}

impl<const N: usize> Default for Mix<N> {
    fn default() -> Self {
        Self { recent: VecDeque::new(), run: [0.0; N] }
    }
}

impl<const N: usize> Mix<N> {
    /// Adds to one kind, for the tick that ends at `at`.
    pub(super) fn add(&mut self, at: Ts, kind: usize, count: f64) {
        let count = count.clamp(0.0, 1e9);
        if self.recent.back().is_none_or(|(then, _)| *then != at) {
            self.recent.push_back((at, [0.0; N]));
        }
        while self.recent.len() > READINGS || self.recent.front().is_some_and(|(t, _)| at.seconds_since(*t) >= SPAN) {
            self.recent.pop_front();
        }
        if let Some((_, counts)) = self.recent.back_mut() {
            counts[kind] += count;
        }
        self.run[kind] += count;
    }

    /// Counts of the last seconds before `now`.
    pub(super) fn sums(&self, now: Ts) -> [f64; N] {
        let mut sums = [0.0; N];
        for (_, counts) in self.recent.iter().filter(|(at, _)| now.seconds_since(*at) < SPAN) {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        sums
    }

    /// Counts of the tick that ended at `now`.
    pub(super) fn tick(&self, now: Ts) -> Option<[f64; N]> {
        self.recent.back().filter(|(at, _)| *at == now).map(|(_, counts)| *counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(s: i64) -> Ts {
        Ts(s * 1_000_000_000)
    }

    #[test]
    fn a_meter_is_the_increase_over_the_last_ten_seconds() {
        let mut meter = Meter::default();
        for s in 0..60 {
            meter.read(second(s), Some(if s < 40 { 0 } else { u64::try_from(s - 40).unwrap() * 7 }));
        }
        assert_eq!((meter.rate(), meter.grown()), (Some(7.0), Some(70.0)));
        meter.read(second(60), Some(1));
        assert_eq!(meter.rate(), None);
        meter.read(second(62), Some(5));
        assert_eq!(meter.rate(), Some(2.0));
    }

    #[test]
    fn a_mix_forgets_and_its_run_does_not() {
        let mut mix = Mix::<2>::default();
        for s in 0..30 {
            mix.add(second(s), usize::from(s >= 15), 1.0);
        }
        assert_eq!((mix.sums(second(29)), mix.run), ([0.0, 10.0], [15.0, 15.0]));
        assert_eq!((mix.tick(second(29)), mix.tick(second(30))), (Some([0.0, 1.0]), None));
        assert_eq!(mix.sums(second(45)), [0.0, 0.0]);
    }
}
