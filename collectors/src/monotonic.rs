//! The clock that the kernel's programs and Python's `time.monotonic_ns` count by: not the run's own,
//! but the one in which others give their times.

/// Nanoseconds of CLOCK_MONOTONIC.
pub(crate) fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000) + u64::try_from(time.tv_nsec).unwrap_or(0)
}
