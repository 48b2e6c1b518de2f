//! The training step, seen from outside: waits that recur.
//!
//! A loader that is always ahead leaves no wait long enough to be sampled, and then there is no
//! period: it is refused, not guessed. With several workers that finish together a wait can recur
//! only every few steps; nothing in the waits tells, so trust is limited there.

use std::collections::VecDeque;
use std::time::Duration;

use feedline_traces::Ts;

use crate::attribute::kind::State;

/// One wait of a main thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Episode {
    /// In which state it waited.
    pub state: State,
    /// Start, in seconds on the trace's clock.
    pub start: f64,
    /// Length in seconds.
    pub duration: f64,
}

/// A period that recurs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Period {
    /// Seconds from start to start.
    pub period: f64,
    /// Steps it was seen over.
    pub steps: f64,
    /// From 0 to 1.
    pub confidence: f64,
}

/// A step as its waits show it, or several between which no batch was waited for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// When the next one began to wait.
    pub end: Ts,
    /// Seconds from the start of its wait to that.
    pub duration: f64,
    /// Of them, seconds in waits that began with it.
    pub wait: f64,
    /// How many steps of the usual length that makes.
    pub steps: f64,
}

/// Episodes kept at most.
const KEPT: usize = 2048;
/// Seconds they are kept.
const KEPT_SECONDS: f64 = 60.0;
/// Fewer intervals than this are no period.
const FEW: usize = 8;
/// How far an interval may be from a multiple of the period, as a part of it.
const TOLERANCE: f64 = 0.25;
/// Below this a period is refused.
const REFUSED: f64 = 0.6;
/// Steps told of in one tick at most.
const AT_ONCE: usize = 512;
/// Shortest period that samples 4 ms apart can show, in seconds.
const SHORTEST: f64 = 0.02;

/// The waits of the last minute.
#[derive(Debug, Clone, Default)]
pub struct Waits {
    origin: Option<Ts>,
    episodes: VecDeque<Episode>,
    /// The last so many came since the last tick, and in it: rows may come a tick late.
    coming: usize,
    fresh: usize,
}

impl Waits {
    /// Adds a wait that ended at `end`; one without a length is none.
    pub fn push(&mut self, end: Ts, state: State, nanos: f64) {
        if !nanos.is_finite() || nanos <= 0.0 {
            return;
        }
        let origin = *self.origin.get_or_insert(end);
        let end = end.seconds_since(origin);
        let duration = nanos / 1e9;
        self.episodes.push_back(Episode { state, start: end - duration, duration });
        self.coming += 1;
        while self.episodes.len() > KEPT || self.episodes.front().is_some_and(|e| end - e.start > KEPT_SECONDS) {
            self.episodes.pop_front();
        }
    }

    /// A tick ends: lets go what is older than a minute.
    pub fn forget(&mut self, now: Ts) {
        self.fresh = std::mem::take(&mut self.coming);
        let Some(origin) = self.origin else { return };
        let now = now.seconds_since(origin);
        self.episodes.retain(|e| now - e.start <= KEPT_SECONDS);
    }

    /// The period of the waits in one state.
    #[must_use]
    pub fn period(&self, state: State) -> Option<Period> {
        let mut waits: Vec<Episode> = self.episodes.iter().filter(|e| e.state == state).copied().collect();
        waits.sort_by(|a, b| a.start.total_cmp(&b.start));
        period(&waits)
    }

    /// The steps that waits in one state tell of, as far as they became known in the last tick, in
    /// order: each from the start of a wait to the start of the next. `period` is the usual time of a
    /// step in seconds; waits much nearer together belong to one step.
    #[must_use]
    pub fn steps(&self, state: State, period: f64) -> Vec<Step> {
        let Some(origin) = self.origin else { return Vec::new() };
        if !period.is_finite() || period < SHORTEST {
            return Vec::new();
        }
        let old = self.episodes.len().saturating_sub(self.fresh);
        let all = self.episodes.iter().enumerate().filter(|(_, e)| e.state == state);
        let mut waits: Vec<(Episode, bool)> = all.map(|(i, e)| (*e, i >= old)).collect();
        let mut lengths: Vec<f64> = waits.iter().map(|(wait, _)| wait.duration).collect();
        lengths.sort_by(f64::total_cmp);
        let long = lengths.get(lengths.len() * 3 / 4).copied().unwrap_or(0.0);
        // Short ones beside long ones are locks and pipes.
        waits.retain(|(wait, _)| wait.duration >= 0.25 * long);
        waits.sort_by(|(a, _), (b, _)| a.start.total_cmp(&b.start));
        let mut steps = Vec::new();
        let mut waits = waits.into_iter();
        let Some((mut current, _)) = waits.next() else { return steps };
        for (next, is_fresh) in waits {
            let duration = next.start - current.start;
            if duration < (1.0 - TOLERANCE) * period {
                current.duration += next.duration;
                continue;
            }
            if is_fresh && next.start >= 0.0 && steps.len() < AT_ONCE {
                let end = origin.plus(Duration::from_secs_f64(next.start));
                steps.push(Step { end, duration, wait: current.duration.min(duration), steps: duration / period });
            }
            current = next;
        }
        steps
    }
}

/// The period of waits in order of their start. Short ones beside long ones are locks and pipes,
/// not steps, so the waits are also tried without them.
#[must_use]
pub fn period(waits: &[Episode]) -> Option<Period> {
    let mut lengths: Vec<f64> = waits.iter().map(|w| w.duration).collect();
    lengths.sort_by(f64::total_cmp);
    let long = *lengths.get(lengths.len() * 3 / 4)?;
    [0.0, 0.25, 0.5]
        .into_iter()
        .filter_map(|part| {
            let starts: Vec<f64> = waits.iter().filter(|w| w.duration >= part * long).map(|w| w.start).collect();
            recurrence(&starts)
        })
        .reduce(|best, next| if next.confidence > best.confidence + 0.05 { next } else { best })
        .filter(|found| found.confidence >= REFUSED && found.period >= SHORTEST)
}

/// The median interval, if most intervals are near it or near a small multiple of it (a step whose
/// batch was ready leaves no wait), and if so are the intervals from each start to the next but one:
/// the second peak of the autocorrelation, which chance arrivals do not have.
fn recurrence(starts: &[f64]) -> Option<Period> {
    let intervals: Vec<f64> = starts.windows(2).map(|w| w[1] - w[0]).collect();
    if intervals.len() < FEW {
        return None;
    }
    let base = median(&intervals).filter(|b| *b > 0.0)?;
    let multiple = |x: f64| (x / base).round().max(1.0);
    let near = |x: f64| (x - multiple(x) * base).abs() <= TOLERANCE * base && multiple(x) <= 4.0;
    let single = part(&intervals, |x| near(x) && multiple(x) < 1.5);
    if single < 0.5 {
        return None;
    }
    let fitting: Vec<f64> = intervals.iter().filter(|x| near(**x)).map(|x| x / multiple(*x)).collect();
    let steps: f64 = intervals.iter().filter(|x| near(**x)).map(|x| multiple(*x)).sum();
    let seconds: Vec<f64> = starts.windows(3).map(|w| w[2] - w[0]).collect();
    let second = part(&seconds, |x| (x - multiple(x) * base).abs() <= 1.4 * TOLERANCE * base && multiple(x) >= 2.0);
    let enough = (steps / 20.0).min(1.0);
    let confidence = part(&intervals, near).min(second) * (0.7 + 0.3 * enough);
    Some(Period { period: median(&fitting)?, steps, confidence })
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand waits")]
fn part(values: &[f64], pick: impl Fn(f64) -> bool) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.iter().filter(|x| pick(**x)).count() as f64 / values.len() as f64
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Dice;

    fn waits(starts: impl IntoIterator<Item = (f64, f64)>) -> Vec<Episode> {
        starts.into_iter().map(|(start, duration)| Episode { state: State::Futex, start, duration }).collect()
    }

    #[test]
    fn a_wait_each_step_gives_the_step() {
        let mut dice = Dice::new(3);
        let found = period(&waits((0..100).map(|i| (f64::from(i) * 0.12 + 0.01 * dice.unit(), 0.05)))).unwrap();
        assert!((found.period - 0.12).abs() < 0.005, "{found:?}");
        assert!(found.confidence > 0.9);
    }

    #[test]
    fn steps_whose_batch_was_ready_are_skipped_over() {
        let steps = (0..100).filter(|i| i % 5 != 2).map(|i| (f64::from(i) * 0.12, 0.05));
        let found = period(&waits(steps)).unwrap();
        assert!((found.period - 0.12).abs() < 0.002, "{found:?}");
        assert!((found.steps - 99.0).abs() < 1.5);
    }

    #[test]
    fn short_lock_waits_between_do_not_count() {
        let mut dice = Dice::new(5);
        let mut all: Vec<_> = (0..80).map(|i| (f64::from(i) * 0.2, 0.1)).collect();
        all.extend((0..200).map(|_| (16.0 * dice.unit(), 0.004)));
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let found = period(&waits(all)).unwrap();
        assert!((found.period - 0.2).abs() < 0.004, "{found:?}");
    }

    #[test]
    fn waits_by_chance_are_refused() {
        for seed in 0..200 {
            let mut dice = Dice::new(seed);
            let mut at = 0.0;
            let random = (0..100).map(|_| {
                at += -0.1 * (1.0 - dice.unit()).ln();
                (at, 0.01)
            });
            assert_eq!(period(&waits(random.collect::<Vec<_>>())), None, "seed {seed}");
        }
    }

    #[test]
    fn a_few_waits_or_waits_of_no_length_are_no_step() {
        assert_eq!(period(&[]), None);
        assert_eq!(period(&waits([(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)])), None);
        let mut kept = Waits::default();
        kept.push(Ts(5), State::Futex, f64::NAN);
        kept.push(Ts(5), State::Futex, 0.0);
        assert_eq!(kept.period(State::Futex), None);
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "seconds of a test")]
    fn each_step_is_told_once_with_its_length_and_its_wait() {
        let mut kept = Waits::default();
        let mut told = Vec::new();
        // Steps of 100 ms that wait for 40, a lock of 1 ms in each; the one at 2.5 s takes twice as long, and the
        // batch of the one at 3.1 s was ready.
        let mut at = 0.0;
        let time = |seconds: f64| Ts((seconds * 1e9) as i64);
        for tick in 1..=5 {
            while at < f64::from(tick) {
                if !(3.05..3.15).contains(&at) {
                    kept.push(time(at + 0.04), State::Futex, 40e6);
                }
                kept.push(time(at + 0.07), State::Futex, 1e6);
                at += if (2.45..2.55).contains(&at) { 0.2 } else { 0.1 };
            }
            // The rows of a tick may come with the next.
            kept.forget(time(f64::from(tick) + 1.05));
            told.extend(kept.steps(State::Futex, 0.1));
        }
        // 50, less one that took the time of two, one without a wait, and the last; tenths do not add up to the end.
        assert!((47..=48).contains(&told.len()), "{}", told.len());
        assert!(told.windows(2).all(|pair| pair[0].end < pair[1].end), "none twice");
        assert!(told.iter().all(|step| (step.wait - 0.04).abs() < 1e-6));
        let long: Vec<f64> = told.iter().filter(|step| step.duration > 0.15).map(|step| step.steps.round()).collect();
        assert_eq!(long, [2.0, 2.0], "a slow step counts as two here, as does one after a batch that was ready");
        assert!(kept.steps(State::Poll, 0.1).is_empty() && kept.steps(State::Futex, f64::NAN).is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut kept = Waits::default();
        for i in 0..10_000 {
            kept.push(Ts(i * 1_000_000), State::Poll, 5e5);
        }
        assert!(kept.episodes.len() <= KEPT);
        kept.forget(Ts(200_000_000_000));
        assert!(kept.episodes.is_empty());
    }
}
