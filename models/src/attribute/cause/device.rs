//! The device's side: copies that were timed, what an idle accelerator says of the main thread, and
//! what a busy one says of waits that cost nothing.

use super::super::site::Site;
use super::names::{CAUSES, Cause};
use super::split::Split;
use super::view::View;

/// An accelerator that is idle nearly always is not this job's.
const UNUSED: f64 = 0.98;
/// Idle time that sampling does not tell from none.
const SLACK: f64 = 0.03;
/// Bytes a second from which PCIe is worth naming as what a device waits for.
const COPIES: f64 = 2e9;

/// The time of timed copies is taken out of where the stacks saw it: most have no frame of their own.
pub(super) fn calls(view: &View<'_>, split: &mut Split) {
    let Some(copies) = view.calls.copies.filter(|share| share.is_finite() && *share > 0.0) else { return };
    let mut missing = copies - split.of_cause(Cause::Copy);
    for site in [Site::Device, Site::Host, Site::Gc, Site::Unknown] {
        let from = Cause::of_site(site);
        missing -= split.shift(site, from, Cause::Copy, missing.max(0.0));
    }
    let rate = view.calls.bytes / 1e9;
    split.note(Cause::Copy, format!("copies timed in the driver: {:.1} % of the time, {rate:.2} GB/s", copies * 100.0));
}

/// Idle time of the accelerator that nothing explains is the host's, as far as the main thread is
/// busy with its own work; and no more time is lost than the accelerator has room for.
pub(super) fn exposed(view: &View<'_>, split: &mut Split) {
    let used = |share: &f64| share.is_finite() && *share < UNUSED;
    if let Some(idle) = view.device.idle.or(view.device.empty).filter(used) {
        let explained: f64 = lost(split);
        let mut open = Some(idle - explained).filter(|open| *open > SLACK).unwrap_or(0.0);
        let moved = split.shift(Site::Host, Cause::Compute, Cause::Host, open);
        open -= moved;
        if moved >= 0.005 {
            split.note(Cause::Host, format!("its accelerator is idle {:.0} % of the time", idle * 100.0));
        }
        if view.device.received.is_some_and(|rate| rate >= COPIES) {
            let moved = split.shift(Site::Device, Cause::Compute, Cause::Copy, open);
            if moved >= 0.005 {
                split.note(Cause::Copy, "it waits for an idle accelerator while PCIe is busy");
            }
        }
    }
    if let Some(room) = view.device.empty.filter(used).map(|share| share + SLACK) {
        let lost = lost(split);
        if lost > room {
            hide(split, room / lost);
            let text = format!("the accelerator works on through {:.0} % of the waits", (1.0 - room / lost) * 100.0);
            split.note(Cause::Compute, text);
        }
    }
}

/// Share of time that goes into stalls.
fn lost(split: &Split) -> f64 {
    Cause::ALL.into_iter().filter(|cause| cause.stalls()).map(|cause| split.of_cause(cause)).sum()
}

/// Keeps a part of every stall; the rest cost nothing.
fn hide(split: &mut Split, kept: f64) {
    for row in &mut split.joint {
        for c in 0..CAUSES {
            if Cause::ALL[c].stalls() {
                row[Cause::Compute as usize] += row[c] * (1.0 - kept);
                row[c] *= kept;
            }
        }
    }
}
