//! What was counted about one thread over one span: additive, so that a window, the history
//! before it and the whole run are sums of the same thing.

use std::collections::VecDeque;

use feedline_traces::{Symbol, Ts};

use super::kind::{GROUPS, STATES, State};
use super::lately::WINDOW;
use super::mix::Mix;
use super::site::{SITES, Site};

/// What was counted about one thread over one span. Times in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Evidence {
    /// Wall time.
    pub time: f64,
    /// Wall time between two readings of the exact counters.
    pub exact: f64,
    /// Of `exact`, time on a CPU.
    pub on_cpu: f64,
    /// Of `exact`, time runnable but waiting for a CPU.
    pub run_queue: f64,
    /// Wall time that no sample stands for.
    pub unseen: f64,
    /// Wall time by state, from the samples of each tick.
    pub sampled: [f64; STATES],
    /// Samples by state.
    pub samples: [f64; STATES],
    /// Runs of equal samples by state.
    pub episodes: [f64; STATES],
    /// Stacks by state and site.
    pub stacks: [[f64; SITES]; STATES],
    /// Stacks that could not be read, by state.
    pub missed: [f64; STATES],
    /// Times that it began to wait, and seconds over which they were counted.
    pub switches: f64,
    /// Those seconds.
    pub counted: f64,
}

impl Evidence {
    /// Adds what was counted over another span, weighted.
    pub fn add(&mut self, other: &Self, weight: f64) {
        self.time += weight * other.time;
        self.exact += weight * other.exact;
        self.on_cpu += weight * other.on_cpu;
        self.run_queue += weight * other.run_queue;
        self.unseen += weight * other.unseen;
        self.switches += weight * other.switches;
        self.counted += weight * other.counted;
        for s in 0..STATES {
            self.sampled[s] += weight * other.sampled[s];
            self.samples[s] += weight * other.samples[s];
            self.episodes[s] += weight * other.episodes[s];
            self.missed[s] += weight * other.missed[s];
            for c in 0..SITES {
                self.stacks[s][c] += weight * other.stacks[s][c];
            }
        }
    }

    /// Stacks read in a state.
    #[must_use]
    pub fn stacks_in(&self, state: usize) -> f64 {
        self.stacks[state].iter().sum()
    }

    /// Stacks read in any state.
    #[must_use]
    pub fn stacks_read(&self) -> f64 {
        (0..STATES).map(|s| self.stacks_in(s)).sum()
    }

    /// Stacks by state and group of sites.
    #[must_use]
    pub fn by_group(&self) -> [[f64; GROUPS]; STATES] {
        self.stacks.map(|row| {
            let mut sums = [0.0; GROUPS];
            row.iter().zip(Site::ALL).for_each(|(count, site)| sums[site.group() as usize] += count);
            sums
        })
    }

    /// Share of the sampled time in states that a predicate picks.
    #[must_use]
    pub fn share_in(&self, pick: impl Fn(State) -> bool) -> Option<f64> {
        let all: f64 = self.sampled.iter().sum();
        let picked: f64 = State::ALL.iter().filter(|s| pick(**s)).map(|s| self.sampled[*s as usize]).sum();
        (all > 0.0).then(|| picked / all)
    }
}

/// Time around a switch in which a look may take one state for the other, in seconds: it reads the
/// call and the state of a thread one after the other, and on waking up a thread is ready before it
/// runs. Measured on page faults of a mapped file: 16 to 52 µs.
const SWITCH: f64 = 50e-6;

/// Share of time that a thread runs or is ready to. The counters are exact but for time that the
/// machine took from a thread that runs: interrupts, and a hypervisor that runs somebody else, which
/// to the job is running all the same. So where samples find it running more often than the counters
/// say, by more than chance (`n` samples) and switches (`rate` a second, where known) explain, the
/// rest counts as well.
pub(crate) fn running(sampled: f64, n: f64, exact: f64, rate: Option<f64>) -> f64 {
    let Some(rate) = rate.filter(|_| n > 0.0) else { return exact };
    let chance = 2.0 * (sampled * (1.0 - sampled) / n).max(0.0).sqrt();
    let stolen = sampled - exact - chance - rate * SWITCH;
    (exact + stolen.max(0.0)).clamp(0.0, 1.0)
}

/// The exact counters of a thread at a time.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Ts,
    on_cpu: u64,
    run_queue: u64,
}

/// What a tick said about a thread, before it is turned into time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pending {
    /// The exact counters in nanoseconds, when they were read.
    pub(crate) counters: Option<(Ts, Option<u64>, Option<u64>)>,
    /// Samples and runs by state.
    pub(crate) samples: [f64; STATES],
    pub(crate) episodes: [f64; STATES],
    /// Stacks read and missed.
    pub(crate) stacks: [[f64; SITES]; STATES],
    pub(crate) missed: [f64; STATES],
    /// Samples by state, by what the call was on, and by the trainer's state beside it.
    pub(crate) mix: Mix,
    /// The file that it was last found at.
    pub(crate) file: Option<Symbol>,
    /// What it is called.
    pub(crate) name: Option<Symbol>,
    /// Whether the thread was there at all.
    pub(crate) seen: bool,
}

/// Turns the ticks of one thread into evidence: what lies between two of its rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    accounted: Option<Ts>,
    reading: Option<Reading>,
}

impl Meter {
    /// The evidence of a tick that ended at `now`.
    pub(crate) fn account(&mut self, now: Ts, pending: &Pending) -> Evidence {
        let mut out = Evidence { stacks: pending.stacks, missed: pending.missed, ..Evidence::default() };
        if !pending.seen {
            return out;
        }
        let at = pending.counters.map_or(now, |c| c.0);
        self.read(pending, &mut out);
        let span = self.accounted.map(|before| at.seconds_since(before));
        self.accounted = Some(at);
        let Some(span) = span.filter(|s| *s > 0.0) else { return out };
        out.time = span;
        let total: f64 = pending.samples.iter().sum();
        if total > 0.0 {
            out.samples = pending.samples;
            out.episodes = pending.episodes;
            for s in 0..STATES {
                out.sampled[s] = span * pending.samples[s] / total;
            }
        } else {
            let running = if out.exact > 0.0 { (out.on_cpu + out.run_queue) / out.exact } else { 0.0 };
            out.unseen = span * (1.0 - running.clamp(0.0, 1.0));
        }
        out
    }

    /// The exact time since the last reading. A counter that fell was reset, and one that outran
    /// the clock was not this thread's: both are missing.
    #[expect(clippy::cast_precision_loss, reason = "differences of one tick are far below 2^53 ns")]
    fn read(&mut self, pending: &Pending, out: &mut Evidence) {
        let Some((at, Some(on_cpu), queue)) = pending.counters else {
            return;
        };
        let now = Reading { at, on_cpu, run_queue: queue.unwrap_or(0) };
        let Some(before) = self.reading.replace(now) else { return };
        let span = at.seconds_since(before.at);
        let (Some(cpu), Some(queued)) =
            (on_cpu.checked_sub(before.on_cpu), now.run_queue.checked_sub(before.run_queue))
        else {
            return;
        };
        let (cpu, queued) = (cpu as f64 / 1e9, queued as f64 / 1e9);
        if span <= 0.0 || cpu + queued > 1.2 * span + 0.02 {
            return;
        }
        let fit = (span / (cpu + queued).max(f64::MIN_POSITIVE)).min(1.0);
        out.exact = span;
        out.on_cpu = cpu * fit;
        out.run_queue = queued * fit;
    }
}

/// Ticks that a window holds at most.
const ENTRIES: usize = 512;
/// Half-life of the history before the window, in seconds.
const HALF_LIFE: f64 = 60.0;

/// The evidence of one thread on its three horizons: the last ten seconds, the minutes before them
/// (forgotten by half each minute), and the whole run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Horizons {
    recent: VecDeque<(Ts, Evidence)>,
    /// What left the window.
    pub(crate) history: Evidence,
    /// Everything.
    pub(crate) run: Evidence,
}

impl Horizons {
    pub(crate) fn push(&mut self, at: Ts, evidence: Evidence) {
        self.run.add(&evidence, 1.0);
        self.recent.push_back((at, evidence));
        while self.recent.len() > ENTRIES || self.recent.front().is_some_and(|(t, _)| at.since(*t) >= WINDOW) {
            let Some((_, old)) = self.recent.pop_front() else { break };
            let mut kept = Evidence::default();
            kept.add(&self.history, 0.5_f64.powf(old.time.max(0.0) / HALF_LIFE));
            kept.add(&old, 1.0);
            self.history = kept;
        }
    }

    /// The evidence of the last ten seconds.
    pub(crate) fn window(&self) -> Evidence {
        let mut sum = Evidence::default();
        for (_, evidence) in &self.recent {
            sum.add(evidence, 1.0);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(s: i64) -> Ts {
        Ts(s * 1_000_000_000)
    }

    fn tick(meter: &mut Meter, second: i64, on_cpu: u64) -> Evidence {
        let mut pending = Pending { seen: true, ..Pending::default() };
        pending.counters = Some((seconds(second), Some(on_cpu * 1_000_000), Some(0)));
        pending.samples[State::Futex as usize] = 100.0;
        meter.account(seconds(second), &pending)
    }

    #[test]
    fn the_first_tick_is_a_baseline_and_takes_no_time() {
        let mut meter = Meter::default();
        assert_eq!(tick(&mut meter, 1, 500).time, 0.0);
        let second = tick(&mut meter, 2, 800);
        assert_eq!((second.time, second.exact), (1.0, 1.0));
        assert!((second.on_cpu - 0.3).abs() < 1e-12);
    }

    #[test]
    fn a_counter_that_falls_is_missing_there_and_good_again_after() {
        let mut meter = Meter::default();
        tick(&mut meter, 1, 500);
        assert_eq!(tick(&mut meter, 2, 100).exact, 0.0);
        assert!((tick(&mut meter, 3, 300).on_cpu - 0.2).abs() < 1e-12);
    }

    #[test]
    fn a_counter_that_outruns_the_clock_is_missing() {
        let mut meter = Meter::default();
        tick(&mut meter, 1, 0);
        assert_eq!(tick(&mut meter, 2, 9000).exact, 0.0);
    }

    #[test]
    fn time_without_a_sample_is_unseen_but_for_what_counters_know() {
        let mut meter = Meter::default();
        tick(&mut meter, 1, 0);
        let pending =
            Pending { seen: true, counters: Some((seconds(2), Some(400_000_000), None)), ..Pending::default() };
        let evidence = meter.account(seconds(2), &pending);
        assert!((evidence.unseen - 0.6).abs() < 1e-12);
    }

    #[test]
    fn a_window_forgets_and_the_run_does_not() {
        let mut horizons = Horizons::default();
        for second in 0..40 {
            horizons.push(seconds(second), Evidence { time: 1.0, ..Evidence::default() });
        }
        assert_eq!((horizons.window().time, horizons.run.time), (10.0, 40.0));
        assert!(horizons.history.time > 20.0 && horizons.history.time < 30.0);
    }

    #[test]
    fn the_counters_are_right_but_for_what_the_machine_takes() {
        let cases = [
            ("found less often: the sampler and the job share a core", 0.40, 0.5, Some(10.0), 0.5),
            ("by chance", 0.53, 0.5, Some(10.0), 0.5),
            ("a page fault every 150 µs", 0.61, 0.48, Some(6700.0), 0.48),
            ("another machine runs on the same cores", 0.97, 0.88, Some(10.0), 0.954),
            ("nobody counts switches", 0.97, 0.88, None, 0.88),
        ];
        for (name, sampled, exact, rate, expected) in cases {
            let got = running(sampled, 500.0, exact, rate);
            assert!((got - expected).abs() < 0.001, "{name}: {got}");
        }
        assert_eq!(running(1.0, 0.0, 0.2, Some(0.0)), 0.2);
    }
}
