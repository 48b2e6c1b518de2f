//! What the programs cost the machine: the kernel can measure it, but that costs nearly as much as a
//! short program itself, so it does for one second in twenty.

use std::os::fd::OwnedFd;

use aya::sys::{Stats, enable_stats};

use super::programs::Programs;

/// Readings from one measurement to the next.
const EVERY: u64 = 20;

/// Measures now and then, and takes the time between to be like it.
#[derive(Default)]
pub(super) struct Meter {
    reading: u64,
    last: Option<u64>,
    /// The kernel measures as long as this is open; the time and the programs' time when it began.
    open: Option<(OwnedFd, u64, u64)>,
    /// Share of one CPU that the programs took when last measured.
    share: f64,
    /// Whether the kernel refused to measure.
    refused: bool,
}

impl Meter {
    /// Whether the kernel measures its programs; where not, their cost is in nobody's sum.
    pub(super) fn measures(&self) -> bool {
        !self.refused
    }

    /// CPU time of the programs since the last call, in nanoseconds, by the share last measured.
    pub(super) fn spent(&mut self, programs: &Programs, now: u64) -> u64 {
        if let Some((_, began, before)) = self.open.take() {
            self.share = share(programs.run_time().saturating_sub(before), now.saturating_sub(began));
        }
        if self.reading.is_multiple_of(EVERY) {
            let open = enable_stats(Stats::RunTime).ok();
            self.refused = open.is_none();
            self.open = open.map(|open| (open, now, programs.run_time()));
        }
        self.reading += 1;
        let since = self.last.replace(now).map_or(0, |last| now.saturating_sub(last));
        spent(self.share, since)
    }
}

#[expect(clippy::cast_precision_loss, reason = "spans of less than 104 days are exact")]
fn share(took: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { took as f64 / of as f64 }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a span, which is neither negative nor large"
)]
fn spent(share: f64, of: u64) -> u64 {
    (share * of as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_a_second_is_that_much_of_any_span() {
        assert_eq!(spent(share(20_000_000, 1_000_000_000), 500_000_000), 10_000_000);
        assert_eq!(spent(share(7, 0), 1_000), 0);
    }
}
