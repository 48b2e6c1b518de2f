//! The last ten seconds of something that adds up, and the run so far.

use std::collections::VecDeque;

use feedline_traces::Ts;

/// Length of the window, in nanoseconds.
pub(crate) const WINDOW: i64 = 10_000_000_000;
/// Ticks that a window holds at most.
const ENTRIES: usize = 64;

/// What adds up over time.
pub(crate) trait Sum: Default {
    /// Adds what came in another span.
    fn add(&mut self, other: &Self);
}

/// What came tick by tick, as the sum of the last ten seconds and as that of the run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lately<T> {
    recent: VecDeque<(Ts, T)>,
    pub(crate) run: T,
}

impl<T: Sum> Lately<T> {
    pub(crate) fn push(&mut self, at: Ts, value: T) {
        self.run.add(&value);
        self.recent.push_back((at, value));
        while self.recent.len() > ENTRIES || self.recent.front().is_some_and(|(t, _)| at.since(*t) >= WINDOW) {
            self.recent.pop_front();
        }
    }

    /// The sum of the last ten seconds.
    pub(crate) fn window(&self) -> T {
        let mut sum = T::default();
        self.recent.iter().for_each(|(_, value)| sum.add(value));
        sum
    }
}
