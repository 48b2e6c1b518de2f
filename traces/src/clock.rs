//! Time as a value: a timestamp, and clocks that give it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rustix::time::ClockId;
use serde::{Deserialize, Serialize};

/// Nanoseconds since the Unix epoch, on a clock that never goes back within a run.
///
/// The wall clock is read once, when the run starts; from then on time is monotonic, so that a
/// stepped wall clock moves no row. The `clock` column of `health` says how far the two are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ts(pub i64);

impl Ts {
    /// Nanoseconds from `earlier` to here; negative if it is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Seconds from `earlier` to here.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a span of less than 104 days is exact")]
    pub fn seconds_since(self, earlier: Self) -> f64 {
        self.since(earlier) as f64 / 1e9
    }

    /// This time and a span.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)))
    }
}

/// Whoever needs the time takes one of these.
pub trait Clock: Send + Sync {
    /// The time.
    fn now(&self) -> Ts;

    /// How far the wall clock has moved from this clock since it was anchored, in nanoseconds.
    fn drift(&self) -> i64 {
        0
    }
}

/// The machine's monotonic clock (it counts suspended time too), anchored to its wall clock once.
#[derive(Debug, Clone)]
pub struct SystemClock {
    anchor_wall: i64,
    anchor_monotonic: i64,
    read: fn(ClockId) -> i64,
}

impl SystemClock {
    /// A clock anchored now.
    #[must_use]
    pub fn anchored_now() -> Self {
        Self::reading(kernel)
    }

    fn reading(read: fn(ClockId) -> i64) -> Self {
        Self { anchor_wall: read(ClockId::Realtime), anchor_monotonic: read(ClockId::Boottime), read }
    }
}

fn kernel(id: ClockId) -> i64 {
    let time = rustix::time::clock_gettime(id);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

impl Clock for SystemClock {
    fn now(&self) -> Ts {
        Ts(self.anchor_wall + ((self.read)(ClockId::Boottime) - self.anchor_monotonic))
    }

    fn drift(&self) -> i64 {
        (self.read)(ClockId::Realtime) - self.now().0
    }
}

/// A clock that moves only when told to.
#[derive(Debug, Default)]
pub struct SimClock {
    now: AtomicI64,
}

impl SimClock {
    /// A clock that shows `at`.
    #[must_use]
    pub fn new(at: Ts) -> Self {
        Self { now: AtomicI64::new(at.0) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, span: Duration) {
        self.now.store(self.now().plus(span).0, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Ts {
        Ts(self.now.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_clock_moves_only_when_told() {
        let clock = SimClock::new(Ts(5));
        assert_eq!(clock.now(), Ts(5));
        clock.advance(Duration::from_nanos(3));
        assert_eq!(clock.now().since(Ts(5)), 3);
    }

    #[test]
    fn a_stepped_wall_clock_moves_no_row_and_shows_as_drift() {
        static WALL: AtomicI64 = AtomicI64::new(1_000);
        static MONOTONIC: AtomicI64 = AtomicI64::new(7);
        let clock = SystemClock::reading(|id| match id {
            ClockId::Realtime => WALL.load(Ordering::SeqCst),
            _ => MONOTONIC.load(Ordering::SeqCst),
        });
        assert_eq!((clock.now(), clock.drift()), (Ts(1_000), 0));
        WALL.store(400, Ordering::SeqCst);
        MONOTONIC.store(9, Ordering::SeqCst);
        assert_eq!((clock.now(), clock.drift()), (Ts(1_002), -602));
    }

    #[test]
    fn the_system_clock_never_goes_back() {
        let clock = SystemClock::anchored_now();
        let first = clock.now();
        assert!(clock.now() >= first);
    }
}
