//! What a trainer's last two minutes were like, and what recurs in them.

use std::collections::VecDeque;

use feedline_traces::Ts;

use super::season::Season;
use super::signals::{NOTHING, Signal, Values};
use super::{ON, WITHIN};

/// Seconds that are remembered.
pub(crate) const MEMORY: f64 = 128.0;
/// Entries kept at most; ticks are put together to seconds, so that there are fewer.
const ENTRIES: usize = 160;
/// Gaps of an event remembered.
const GAPS: usize = 8;
/// A stall that is on is over below this: a share near [`ON`] does not flicker.
const OFF: f64 = 0.07;
/// Seconds after which the same kind of event counts again.
const REFRACTORY: f64 = 2.5;

/// Something that happens again and again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Beat {
    last: Option<Ts>,
    gaps: VecDeque<f64>,
}

impl Beat {
    /// It happened.
    fn note(&mut self, now: Ts) {
        if let Some(last) = self.last {
            let gap = now.seconds_since(last);
            if gap < REFRACTORY {
                // Still the same event, such as several workers that come one after the other.
                self.last = Some(now);
                if let Some(held) = self.gaps.back_mut() {
                    *held += gap;
                }
                return;
            }
            self.gaps.push_back(gap);
            if self.gaps.len() > GAPS {
                self.gaps.pop_front();
            }
        }
        self.last = Some(now);
    }

    /// Seconds since it last happened.
    pub(crate) fn since(&self, now: Ts) -> f64 {
        self.last.map_or(f64::NAN, |last| now.seconds_since(last))
    }

    /// The usual gap in seconds.
    pub(crate) fn usual(&self) -> f64 {
        let mut gaps: Vec<f64> = self.gaps.iter().copied().collect();
        gaps.sort_by(f64::total_cmp);
        gaps.get(gaps.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// Seconds until it is due, by the usual gap; below 0 when it is late.
    pub(crate) fn due(&self, now: Ts) -> f64 {
        self.usual() - self.since(now)
    }

    /// How regular it is: 1 like clockwork, 0 not at all; missing below two gaps.
    pub(crate) fn regular(&self) -> f64 {
        if self.gaps.len() < 2 {
            return f64::NAN;
        }
        let usual = self.usual();
        let off = self.gaps.iter().map(|gap| (gap - usual).abs()).fold(0.0, f64::max);
        (1.0 - off / usual.max(1e-9)).clamp(0.0, 1.0)
    }
}

/// The last two minutes of one trainer.
#[derive(Debug, Clone)]
pub(crate) struct Past {
    seconds: VecDeque<(Ts, Values)>,
    /// Stalls that began, and those that ended.
    pub(crate) onset: Beat,
    pub(crate) relief: Beat,
    /// Checkpoints, and crews of workers that came.
    pub(crate) checkpoint: Beat,
    pub(crate) arrival: Beat,
    /// Whether a stall is on.
    pub(crate) on: bool,
    /// What recurs in the share.
    pub(crate) season: Option<Season>,
}

impl Default for Past {
    fn default() -> Self {
        let beat = Beat::default;
        let (onset, relief, checkpoint, arrival) = (beat(), beat(), beat(), beat());
        Self { seconds: VecDeque::new(), onset, relief, checkpoint, arrival, on: false, season: None }
    }
}

impl Past {
    /// Takes the next second.
    pub(crate) fn push(&mut self, at: Ts, values: Values) {
        if self.seconds.back().is_some_and(|(last, _)| at <= *last) {
            return;
        }
        self.seconds.push_back((at, values));
        while self.seconds.len() > ENTRIES
            || self.seconds.front().is_some_and(|(first, _)| at.seconds_since(*first) > MEMORY)
        {
            self.seconds.pop_front();
        }
        let level = self.mean(Signal::Share, WITHIN);
        if !self.on && level >= ON {
            self.on = true;
            self.onset.note(at);
        } else if self.on && level < OFF {
            self.on = false;
            self.relief.note(at);
        }
        let happened = |signal: Signal| values[signal as usize] > 0.0;
        if happened(Signal::Checkpoint) {
            self.checkpoint.note(at);
        }
        if happened(Signal::Arrived) {
            self.arrival.note(at);
        }
        self.season = Season::find(&self.shares());
    }

    /// The end of the last second.
    pub(crate) fn now(&self) -> Ts {
        self.seconds.back().map_or(Ts::default(), |(at, _)| *at)
    }

    /// Seconds that are remembered.
    pub(crate) fn len(&self) -> usize {
        self.seconds.len()
    }

    /// The value of the last second.
    pub(crate) fn last(&self, signal: Signal) -> f64 {
        self.seconds.back().map_or(NOTHING, |(_, values)| *values)[signal as usize]
    }

    /// The shares of the seconds, oldest first; one that is not known is as the one before.
    pub(crate) fn shares(&self) -> Vec<f64> {
        let mut held = f64::NAN;
        let mut shares = Vec::with_capacity(self.seconds.len());
        for (_, values) in &self.seconds {
            let share = values[Signal::Share as usize];
            held = if share.is_finite() { share } else { held };
            if held.is_finite() {
                shares.push(held);
            }
        }
        shares
    }

    /// The known values of a signal from `from` seconds ago up to `to` seconds ago, newest first.
    pub(crate) fn known(&self, signal: Signal, to: f64, from: f64) -> impl Iterator<Item = f64> + '_ {
        let now = self.now();
        let ages = self.seconds.iter().rev().map(move |(at, values)| (now.seconds_since(*at), values));
        // A second that ended `age` ago lies within, if its middle does.
        ages.skip_while(move |(age, _)| *age < to - 0.5)
            .take_while(move |(age, _)| *age < from - 0.5)
            .map(move |(_, values)| values[signal as usize])
            .filter(|value| value.is_finite())
    }

    /// The mean over the last seconds; missing where nothing is known.
    pub(crate) fn mean(&self, signal: Signal, seconds: f64) -> f64 {
        self.mean_of(signal, 0.0, seconds)
    }

    /// The mean from `from` up to `to` seconds ago.
    pub(crate) fn mean_of(&self, signal: Signal, to: f64, from: f64) -> f64 {
        let (sum, count) = self.known(signal, to, from).fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
        if count > 0.0 { sum / count } else { f64::NAN }
    }

    /// The greatest of the last seconds.
    pub(crate) fn most(&self, signal: Signal, seconds: f64) -> f64 {
        self.known(signal, 0.0, seconds).fold(f64::NAN, f64::max)
    }

    /// The standard deviation over the last seconds; missing below three.
    pub(crate) fn spread(&self, signal: Signal, seconds: f64) -> f64 {
        let values: Vec<f64> = self.known(signal, 0.0, seconds).collect();
        if values.len() < 3 {
            return f64::NAN;
        }
        let mean = self.mean(signal, seconds);
        let sum: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (sum / crate::learn::stats::count(values.len())).sqrt()
    }

    /// An exponentially weighted mean of the share, the newest second with weight `alpha`.
    pub(crate) fn smoothed(&self, alpha: f64) -> f64 {
        let (mut weight, mut sum, mut total) = (1.0, 0.0, 0.0);
        for share in self.known(Signal::Share, 0.0, MEMORY) {
            sum += weight * share;
            total += weight;
            weight *= 1.0 - alpha;
        }
        if total > 0.0 { sum / total } else { f64::NAN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(shares: &[f64]) -> Past {
        let mut past = Past::default();
        for (second, share) in (1..).zip(shares) {
            let mut values = NOTHING;
            values[Signal::Share as usize] = *share;
            past.push(Ts(second * 1_000_000_000), values);
        }
        past
    }

    #[test]
    fn windows_are_of_seconds_and_what_is_missing_is_left_out() {
        let past = past(&[0.1, 0.2, f64::NAN, 0.4]);
        assert_eq!(past.last(Signal::Share), 0.4);
        assert!((past.mean(Signal::Share, 2.0) - 0.4).abs() < 1e-12);
        assert!((past.mean_of(Signal::Share, 2.0, 4.0) - 0.15).abs() < 1e-12);
        assert_eq!(past.shares(), [0.1, 0.2, 0.2, 0.4]);
        assert!(past.mean(Signal::Rtt, 60.0).is_nan());
    }

    #[test]
    fn the_past_is_bounded() {
        let past = past(&vec![0.5; 1000]);
        assert!(past.len() <= 129, "{}", past.len());
    }

    #[test]
    fn stalls_that_recur_have_a_usual_gap_and_are_due() {
        let shares: Vec<f64> = (0..60).map(|second| if second % 10 < 3 { 0.5 } else { 0.0 }).collect();
        let past = past(&shares);
        assert!((past.onset.usual() - 10.0).abs() < 1e-9);
        assert!((past.onset.due(past.now()) - 1.0).abs() < 1e-9, "{}", past.onset.due(past.now()));
        assert_eq!(past.onset.regular(), 1.0);
        assert!(!past.on);
    }

    #[test]
    fn a_smoothed_share_forgets_by_its_weight() {
        let past = past(&[0.0, 0.0, 0.0, 1.0]);
        assert_eq!(past.smoothed(1.0), 1.0);
        let expected = 1.0 / (1.0 + 0.5 + 0.25 + 0.125);
        assert!((past.smoothed(0.5) - expected).abs() < 1e-12);
    }
}
