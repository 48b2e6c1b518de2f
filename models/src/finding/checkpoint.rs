//! Checkpoints written by the main thread while training stands still.

use std::collections::{BTreeMap, VecDeque};

use feedline_traces::{Symbol, Ts};

use super::meter::SPAN;
use super::scene::{CHECKPOINT, MISSED, Scene};
use super::{Pattern, Seen, percent};

/// Seconds that are looked back on: checkpoints are rare.
const BACK: f64 = 300.0;
/// Share of them from which it matters.
const SHARE: f64 = 0.02;
/// Stacks at the checkpoint that have to be seen: a second of them.
const STACKS: f64 = 8.0;
/// Trainers followed.
const TRAINERS: usize = 256;

/// Seconds and parts of them at the checkpoint, by tick.
#[derive(Debug, Default)]
pub(super) struct SyncCheckpoint {
    trainers: BTreeMap<Symbol, VecDeque<(Ts, f64, f64)>>,
}

impl Pattern for SyncCheckpoint {
    fn kind(&self) -> &'static str {
        "sync_checkpoint"
    }

    fn hold(&self) -> f64 {
        0.0
    }

    fn look(&mut self, scene: &Scene, out: &mut Vec<Seen>) {
        let now = scene.now;
        self.trainers.retain(|key, _| scene.trainers().any(|(trainer, _)| trainer == key));
        for (key, trainer) in scene.trainers() {
            if !self.trainers.contains_key(key) && self.trainers.len() >= TRAINERS {
                continue;
            }
            let kept = self.trainers.entry(key.clone()).or_default();
            if let Some(sites) = trainer.sites.tick(now) {
                kept.push_back((now, sites[CHECKPOINT], sites[..MISSED].iter().sum()));
            }
            while kept.len() > 512 || kept.front().is_some_and(|(at, ..)| now.seconds_since(*at) > BACK) {
                kept.pop_front();
            }
            let (saving, all) = kept.iter().fold((0.0, 0.0), |(a, b), (_, saving, all)| (a + saving, b + all));
            let seen = kept.front().map_or(0.0, |(at, ..)| now.seconds_since(*at));
            let share = if all > 0.0 { saving / all } else { 0.0 };
            if saving < STACKS || share < SHARE || seen < SPAN {
                continue;
            }
            let ticks = kept.iter().filter(|(_, saving, all)| *saving > 0.5 * all).count();
            out.push(Seen {
                process: key.clone(),
                severity: trainer.cause_run("checkpoint").or(Some(share)),
                text: format!("Its main thread writes or reads checkpoints {} of the time, and training waits.", percent(share)),
                advice: "Save asynchronously (`torch.distributed.checkpoint.async_save`, Orbax' `AsyncCheckpointer`, a copy \
                         to host memory written by another thread), less often, or from one rank only, to fast local \
                         storage."
                    .to_owned(),
                evidence: format!(
                    "{saving:.0} of {all:.0} stacks of the last {seen:.0} s are in a checkpoint; it took the larger part of \
                     {ticks} ticks"
                ),
            });
        }
    }
}
