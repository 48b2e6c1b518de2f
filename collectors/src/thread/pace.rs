//! When to sample next: at random within each period, and no more often than the budget allows.

use std::time::Duration;

use feedline_traces::Ts;

/// Random numbers for timing (SplitMix64): quality enough not to beat with a training step.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    /// A sequence of its own for each seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Uniform in `0..bound`; 0 where `bound` is 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).checked_rem(bound).unwrap_or(0)
    }
}

/// Stratified random times: one in each period, uniform within it. Every moment is as likely as
/// any other, so shares of samples are shares of time, and no period of the target is favoured.
#[derive(Debug, Clone)]
pub(crate) struct Strata {
    start: Ts,
}

impl Strata {
    /// Periods that follow each other from `start`.
    pub(crate) fn new(start: Ts) -> Self {
        Self { start }
    }

    /// The time within the next period, and how many whole periods had passed unused by `now`.
    pub(crate) fn next(&mut self, now: Ts, period: Duration, chance: &mut Chance) -> (Ts, u64) {
        let nanos = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1);
        let late = u64::try_from(now.since(self.start)).unwrap_or(0);
        let missed = (late / nanos).saturating_sub(1);
        if missed > 0 {
            self.start = self.start.plus(Duration::from_nanos(nanos.saturating_mul(missed)));
        }
        let due = self.start.plus(Duration::from_nanos(chance.below(nanos)));
        self.start = self.start.plus(period);
        (due, missed)
    }
}

/// Keeps the CPU time of a sampling thread within its share of one core, by slowing it down.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    share: f64,
    scale: f64,
    cpu: u64,
    at: Ts,
    /// CPU nanoseconds of one-off work, spread over the following time.
    debt: f64,
}

/// One-off work (attaching to a process) is paid for over this long, or longer: it never takes more
/// than this part of what may be used, so that attaching to a large program does not end sampling.
const SPREAD_SECONDS: f64 = 60.0;
const MOST_REPAID: f64 = 0.5;
const SLOWEST: f64 = 0.01;

impl Pace {
    /// Full rate, until told otherwise; `share` is of one core.
    pub(crate) fn new(share: f64, at: Ts, cpu: u64) -> Self {
        Self { share, scale: 1.0, cpu, at, debt: 0.0 }
    }

    /// Share of the wanted rate to sample at, above 0 and at most 1.
    pub(crate) fn scale(&self) -> f64 {
        self.scale
    }

    /// Takes one-off work out of the running account.
    #[expect(clippy::cast_precision_loss, reason = "CPU nanoseconds of one piece of work")]
    pub(crate) fn owe(&mut self, nanos: u64) {
        self.cpu = self.cpu.saturating_add(nanos);
        self.debt += nanos as f64;
    }

    /// Whether so much one-off work is still to be paid for that more had better wait.
    pub(crate) fn is_in_debt(&self) -> bool {
        self.debt >= self.share * 1e9 * SPREAD_SECONDS
    }

    /// Whether a second has passed, so that it is time to adapt: reading the CPU time costs.
    pub(crate) fn is_due(&self, now: Ts) -> bool {
        now.seconds_since(self.at) >= 1.0
    }

    /// Adapts to the CPU time used by `now`, once a second has passed. Gives the seconds gone by
    /// when it did.
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of about a second")]
    pub(crate) fn adapt(&mut self, now: Ts, cpu: u64) -> Option<f64> {
        if !self.is_due(now) {
            return None;
        }
        let seconds = now.seconds_since(self.at);
        let repaid = self.debt.min(self.debt * seconds / SPREAD_SECONDS + 1.0);
        let repaid = repaid.min(MOST_REPAID * self.share * 1e9 * seconds);
        self.debt -= repaid;
        let used = (cpu.saturating_sub(self.cpu) as f64 + repaid) / 1e9 / seconds;
        (self.cpu, self.at) = (cpu, now);
        // Slow down at once, speed up little by little.
        let change = if used > 0.0 { (self.share / used).clamp(0.1, 1.25) } else { 1.25 };
        self.scale = (self.scale * change).clamp(SLOWEST, 1.0);
        Some(seconds)
    }
}

/// The time from one sample to the next at a rate, slowed down; never more than 10 s.
pub(crate) fn period(hertz: u32, scale: f64) -> Duration {
    Duration::from_secs_f64((1.0 / (f64::from(hertz.max(1)) * scale.max(SLOWEST))).clamp(1e-4, 10.0))
}

/// CPU time of the calling thread, in nanoseconds.
pub(crate) fn thread_cpu() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let nanos = time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec);
    u64::try_from(nanos).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_period_has_one_time_anywhere_in_it() {
        let (mut strata, mut chance) = (Strata::new(Ts(0)), Chance::new(1));
        let period = Duration::from_micros(10);
        let mut quarters = [0u32; 4];
        for index in 0..4000i64 {
            let (due, missed) = strata.next(Ts(index * 10_000), period, &mut chance);
            assert_eq!(missed, 0);
            let offset = due.0 - index * 10_000;
            assert!((0..10_000).contains(&offset));
            quarters[usize::try_from(offset / 2500).unwrap()] += 1;
        }
        assert!(quarters.iter().all(|n| (800..1200).contains(n)), "{quarters:?}");
    }

    #[test]
    fn periods_slept_through_are_counted_and_left_out() {
        let (mut strata, mut chance) = (Strata::new(Ts(0)), Chance::new(1));
        let (due, missed) = strata.next(Ts(1_000), Duration::from_nanos(10), &mut chance);
        assert_eq!(missed, 99);
        assert!((990..1000).contains(&due.0));
    }

    #[test]
    fn a_sampler_over_its_budget_slows_down_and_recovers() {
        let mut pace = Pace::new(0.01, Ts(0), 0);
        let second = |n: i64| Ts(n * 1_000_000_000);
        assert_eq!(pace.adapt(Ts(1), 5), None);
        assert!(pace.adapt(second(1), 20_000_000).is_some());
        assert!((pace.scale() - 0.5).abs() < 1e-9);
        pace.adapt(second(2), 21_000_000);
        pace.adapt(second(3), 22_000_000);
        assert!(pace.scale() > 0.75);
        for n in 4..20 {
            pace.adapt(second(n), 22_000_000);
        }
        assert!((pace.scale() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn attaching_is_paid_for_little_by_little() {
        let mut pace = Pace::new(0.01, Ts(0), 0);
        pace.owe(60_000_000);
        pace.adapt(Ts(1_000_000_000), 60_000_000);
        assert!((pace.scale() - 1.0).abs() < 1e-9, "1 ms of the 60 ms falls into the first second");
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "nanoseconds of a test")]
    fn a_costly_attachment_leaves_half_of_the_rate_and_is_paid_for_in_the_end() {
        let mut pace = Pace::new(0.01, Ts(0), 0);
        pace.owe(800_000_000);
        assert!(pace.is_in_debt());
        // Each sample takes a thousandth of a second, of ten that are wanted.
        let mut cpu = 800_000_000;
        for second in 1..400_i64 {
            cpu += (10e6 * pace.scale()) as u64;
            pace.adapt(Ts(second * 1_000_000_000), cpu);
            assert!(pace.scale() > 0.3, "{} at {second} s", pace.scale());
        }
        assert!(!pace.is_in_debt() && pace.scale() > 0.95, "{}", pace.scale());
    }

    #[test]
    fn a_period_is_bounded() {
        assert_eq!(period(250, 1.0), Duration::from_millis(4));
        assert_eq!(period(0, 0.0), Duration::from_secs(10));
    }
}
