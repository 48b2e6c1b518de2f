//! Workers that come while a trainer runs: the first wait of the main thread after that is what
//! making them costs, whatever the workers do in it.

use std::collections::VecDeque;

use feedline_traces::Ts;

use super::super::kind::State;

/// Waits and arrivals remembered.
const KEPT: usize = 512;
/// Seconds after an arrival in which a wait counts as the first.
const SOON: f64 = 2.0;
/// Waits that may turn out to have followed a crew.
const OPEN: usize = 512;
/// Waits shorter than this are locks and pipes.
const SHORT: f64 = 0.005;
/// First waits from which their usual length is known.
const FEW: usize = 3;
/// Clock ticks a second in a process key.
const HERTZ: f64 = 100.0;
/// Arrivals closer together than this are one crew.
const ONE_CREW: f64 = 0.3;

/// Arrivals of workers and the waits after them.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Spawns {
    /// When crews came, in seconds on the trace's clock.
    crews: VecDeque<f64>,
    /// Waits that followed no crew known yet: a worker is often seen after the wait for it.
    open: VecDeque<(Ts, f64)>,
    /// Waits that count: their end, and their length in seconds.
    first: VecDeque<(Ts, f64)>,
    /// Length of all of them.
    seconds: f64,
    /// Crews whose first wait is known.
    served: VecDeque<f64>,
    origin: Option<Ts>,
}

/// The clock of process keys, told from when processes are first seen: none is seen before it
/// starts, so the least of all differences is the nearest.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Boot {
    offset: Option<f64>,
}

impl Boot {
    /// When a process that is first seen at `seen` started, in seconds before that; `None` while
    /// unknown. `new` says that it came since the last tick.
    pub(in super::super) fn age(&mut self, key: &str, seen: f64, new: bool) -> Option<f64> {
        let ticks: f64 = key.split('@').nth(1)?.parse().ok()?;
        let started = ticks / HERTZ;
        if new {
            let lead = seen - started;
            self.offset = Some(self.offset.map_or(lead, |least: f64| least.min(lead)));
        }
        self.offset.map(|offset| (seen - (started + offset)).max(0.0)).filter(|age| age.is_finite())
    }
}

impl Spawns {
    fn seconds_of(&mut self, at: Ts) -> f64 {
        at.seconds_since(*self.origin.get_or_insert(at))
    }

    /// A worker came `age` seconds before `now`.
    pub(in super::super) fn came(&mut self, now: Ts, age: f64) {
        let at = self.seconds_of(now) - age;
        if self.crews.iter().chain(&self.served).any(|known| (at - known).abs() < ONE_CREW) {
            return;
        }
        let origin = self.origin.unwrap_or(now);
        let follows = |(end, length): &(Ts, f64)| follows(at, end.seconds_since(origin), *length).is_some();
        if let Some(i) = self.open.iter().position(follows)
            && let Some((end, length)) = self.open.remove(i)
        {
            self.count(at, end, length);
            return;
        }
        self.crews.push_back(at);
        if self.crews.len() > KEPT {
            self.crews.pop_front();
        }
    }

    /// A wait of the main thread, `length` seconds long, that ended at `end` in a state in which it
    /// may wait for data. The first after a crew came is taken.
    pub(in super::super) fn waited(&mut self, end: Ts, length: f64, state: State) {
        if !matches!(state, State::Futex | State::Poll | State::Read) || !length.is_finite() {
            return;
        }
        let at = self.seconds_of(end);
        let Some(i) = self.crews.iter().position(|crew| follows(*crew, at, length).is_some()) else {
            if length >= SHORT {
                self.open.push_back((end, length));
            }
            if self.open.len() > OPEN {
                self.open.pop_front();
            }
            return;
        };
        if let Some(crew) = self.crews.remove(i) {
            self.count(crew, end, length);
        }
    }

    fn count(&mut self, crew: f64, end: Ts, length: f64) {
        let Some(part) = follows(crew, self.seconds_of(end), length) else { return };
        self.seconds += part;
        self.first.push_back((end, part));
        self.served.push_back(crew);
        if self.first.len() > KEPT {
            self.first.pop_front();
            self.served.pop_front();
        }
    }

    /// Seconds of first waits that ended within `window` nanoseconds before `now`. Where crews follow
    /// each other within seconds (`always`), some come and go unseen: then waits about as long as
    /// the first waits of known crews count as well.
    pub(in super::super) fn lately(&self, now: Ts, window: i64, always: bool) -> f64 {
        self.sum(always, |end| now.since(end) < window)
    }

    /// The same over the run, as far back as waits are remembered.
    pub(in super::super) fn in_all(&self, always: bool) -> f64 {
        let forgotten = self.seconds - self.first.iter().map(|x| x.1).sum::<f64>();
        forgotten + self.sum(always, |_| true)
    }

    fn sum(&self, always: bool, pick: impl Fn(Ts) -> bool) -> f64 {
        let mut lengths: Vec<f64> = self.first.iter().map(|x| x.1).collect();
        lengths.sort_by(f64::total_cmp);
        let usual = lengths.get(lengths.len() / 2).copied().filter(|_| always && lengths.len() >= FEW);
        let alike = |wait: &&(Ts, f64)| usual.is_some_and(|usual| wait.1 >= 0.5 * usual && wait.1 <= 2.0 * usual);
        let waits = self.first.iter().chain(self.open.iter().filter(alike));
        waits.filter(|(end, _)| pick(*end)).map(|x| x.1).sum()
    }
}

/// The part of a wait, which ended at `end`, that lies after a crew came, if it can be the first.
fn follows(crew: f64, end: f64, length: f64) -> Option<f64> {
    let part = length.min(end - crew);
    (end - length < crew + SOON && part >= SHORT).then_some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Ts {
        #[expect(clippy::cast_possible_truncation, reason = "test times are small")]
        Ts((seconds * 1e9) as i64)
    }

    #[test]
    fn the_first_wait_after_a_crew_came_counts_and_no_other() {
        let mut spawns = Spawns::default();
        spawns.waited(at(1.0), 0.3, State::Poll);
        for key in 0..3 {
            spawns.came(at(3.0), 1.0 - 0.01 * f64::from(key));
        }
        spawns.waited(at(2.9), 1.2, State::Poll);
        spawns.waited(at(3.4), 0.4, State::Poll);
        assert!((spawns.seconds - 0.9).abs() < 1e-6, "{}", spawns.seconds);
        assert!((spawns.lately(at(4.0), 10_000_000_000, false) - 0.9).abs() < 1e-6);
        assert_eq!(spawns.lately(at(40.0), 10_000_000_000, false), 0.0);
    }

    #[test]
    fn a_crew_that_is_seen_late_finds_the_wait_for_it() {
        let mut spawns = Spawns::default();
        spawns.waited(at(2.9), 0.8, State::Poll);
        spawns.waited(at(3.5), 0.001, State::Poll);
        spawns.came(at(5.0), 3.0);
        assert!((spawns.seconds - 0.8).abs() < 1e-6, "{}", spawns.seconds);
    }

    #[test]
    fn where_crews_come_and_go_some_are_not_seen_and_waits_like_theirs_count() {
        let mut spawns = Spawns::default();
        for crew in 0..8 {
            let start = 2.0 * f64::from(crew);
            spawns.waited(at(start + 0.9), 0.8, State::Poll);
            spawns.waited(at(start + 1.2), 0.05, State::Poll);
            if crew % 2 == 0 {
                spawns.came(at(start + 1.5), 1.4);
            }
        }
        assert!((spawns.in_all(false) - 3.2).abs() < 1e-6, "{}", spawns.in_all(false));
        assert!((spawns.in_all(true) - 6.4).abs() < 1e-6, "{}", spawns.in_all(true));
    }

    #[test]
    fn the_clock_of_keys_is_told_from_those_that_are_new() {
        let mut boot = Boot::default();
        assert_eq!(boot.age("5@100", 50.0, false), None);
        boot.age("6@1000", 60.7, true);
        boot.age("7@1200", 62.1, true);
        assert!((boot.age("8@1250", 63.0, false).unwrap() - 0.4).abs() < 1e-9);
        assert_eq!(boot.age("nonsense", 63.0, true), None);
    }
}
