//! Workers that come while a trainer runs: the first wait of the main thread after that is what
//! making them costs, whatever the workers do in it.

use std::collections::VecDeque;

use feedline_traces::Ts;

use super::super::kind::State;

/// Waits and arrivals remembered.
const KEPT: usize = 512;
/// Seconds after an arrival in which a wait counts as the first.
const SOON: f64 = 2.0;
/// Clock ticks a second in a process key.
const HERTZ: f64 = 100.0;
/// Arrivals closer together than this are one crew.
const ONE_CREW: f64 = 0.3;

/// Arrivals of workers and the waits after them.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Spawns {
    /// When crews came, in seconds on the trace's clock.
    crews: VecDeque<f64>,
    /// Waits that count: their end, and their length in seconds.
    first: VecDeque<(Ts, f64)>,
    /// Length of all of them.
    pub(in super::super) seconds: f64,
    /// Crews in all.
    pub(in super::super) times: f64,
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
        if self.crews.back().is_some_and(|last| (at - last).abs() < ONE_CREW) {
            return;
        }
        self.times += 1.0;
        self.crews.push_back(at);
        if self.crews.len() > KEPT {
            self.crews.pop_front();
        }
    }

    /// A wait of the main thread, `length` seconds long, that ended at `end` in a state in which it
    /// mostly waits for data. The first after a crew came is taken.
    pub(in super::super) fn waited(&mut self, end: Ts, length: f64, state: State) {
        if !matches!(state, State::Futex | State::Poll | State::Read) || !length.is_finite() {
            return;
        }
        let at = self.seconds_of(end);
        let Some(i) = self.crews.iter().position(|crew| at > *crew && at - length < crew + SOON) else { return };
        let crew = self.crews[i];
        // What lies before the crew came is the end of another wait.
        let part = length.min(at - crew);
        if part < 0.002 {
            return;
        }
        self.crews.remove(i);
        self.first.push_back((end, part));
        self.seconds += part;
        if self.first.len() > KEPT {
            self.first.pop_front();
        }
    }

    /// Seconds of first waits that ended within `window` nanoseconds before `now`.
    pub(in super::super) fn lately(&self, now: Ts, window: i64) -> f64 {
        self.first.iter().filter(|(end, _)| now.since(*end) < window).map(|x| x.1).sum()
    }
}
