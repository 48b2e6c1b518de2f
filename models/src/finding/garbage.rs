//! Pauses of Python's garbage collector in the main thread; with several ranks, each pauses at a
//! time of its own and the others wait for it.

use super::scene::{GC, Scene};
use super::{Pattern, Seen, percent};

/// Share of time from which it matters.
const SHARE: f64 = 0.03;
/// Stacks in it that have to be seen.
const STACKS: f64 = 3.0;

#[derive(Debug)]
pub(super) struct GcPause;

impl Pattern for GcPause {
    fn kind(&self) -> &'static str {
        "gc_pause"
    }

    fn look(&mut self, scene: &Scene, out: &mut Vec<Seen>) {
        let ranks = scene.trainers().count();
        for (key, trainer) in scene.trainers() {
            // The time that was measured inside the process is exact; stacks are the next best.
            let exact: Vec<f64> = scene
                .regions
                .iter()
                .filter(|((process, _, region), _)| process == key && region.as_ref() == "gc")
                .filter_map(|(_, calls)| calls.time.share())
                .collect();
            let (share, evidence) = if exact.is_empty() {
                let Some((share, stacks)) = trainer.site(scene.now, GC) else { continue };
                if share * stacks < STACKS {
                    continue;
                }
                (share, format!("{:.0} of {stacks:.0} stacks of the last 10 s are in the collector", share * stacks))
            } else {
                let share: f64 = exact.iter().sum();
                (share, format!("{} of the last 10 s were measured inside the collector", percent(share)))
            };
            if share < SHARE {
                continue;
            }
            let others = if ranks > 1 { ", and the other ranks wait for it at the next collective" } else { "" };
            out.push(Seen {
                process: key.clone(),
                severity: Some(share),
                text: format!(
                    "Python's garbage collector stops its main thread {} of the time{others}.",
                    percent(share)
                ),
                advice: "Collect at a time of your choosing: `gc.disable()` or `gc.freeze()` after the start, and \
                         `gc.collect()` every few hundred steps, at the same step on every rank."
                    .to_owned(),
                evidence,
            });
        }
    }
}
