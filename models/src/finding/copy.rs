//! Copies to the device from pageable memory: the driver copies them to pinned memory first, and the
//! call returns only when that is done.

use std::collections::BTreeMap;

use feedline_traces::Symbol;

use super::scene::Scene;
use super::{Pattern, Seen, bytes, percent};

/// Share of wall time inside the copy calls from which it matters.
const SHARE: f64 = 0.03;
/// Bytes a second below which copies come from pageable memory: pinned ones reach the bandwidth of
/// the bus, or return at once when they are asynchronous.
const SLOW: f64 = 8.0e9;

#[derive(Debug)]
pub(super) struct PageableCopy;

impl Pattern for PageableCopy {
    fn kind(&self) -> &'static str {
        "pageable_copy"
    }

    fn look(&mut self, scene: &Scene, out: &mut Vec<Seen>) {
        let mut sums: BTreeMap<&Symbol, [f64; 3]> = BTreeMap::new();
        for ((process, _, _), calls) in scene.device_calls.iter().filter(|((.., call), _)| call.as_ref() == "copy_h2d")
        {
            let (Some(count), Some(time)) = (calls.calls.rate(), calls.time.share()) else { continue };
            let sum = sums.entry(process).or_default();
            sum[0] += count;
            sum[1] += time;
            sum[2] += calls.bytes.rate().unwrap_or(0.0);
        }
        for (key, trainer) in scene.trainers() {
            let Some([count, share, moved]) = sums.get(key).copied() else { continue };
            let speed = moved / share;
            if share < SHARE || moved <= 0.0 || speed > SLOW || trainer.pins {
                continue;
            }
            out.push(Seen {
                process: key.clone(),
                severity: Some(share),
                text: format!("Copies to the device come from pageable memory, at {}/s.", bytes(speed)),
                advice: "Pin the batches: `DataLoader(pin_memory=True)` and `.to(device, non_blocking=True)`; the copy then \
                         runs beside the step, at the speed of the bus."
                    .to_owned(),
                evidence: format!(
                    "{count:.0} copies a second, {} of wall time inside them, {}/s moved; no thread pins memory",
                    percent(share),
                    bytes(moved)
                ),
            });
        }
    }
}
