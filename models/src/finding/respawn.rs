//! Workers that are started anew each epoch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use feedline_traces::{Symbol, Ts};

use super::scene::{STARTUP, Scene};
use super::{Pattern, Seen, percent};

/// Seconds that are looked back on.
const BACK: f64 = 600.0;
/// Births within this many seconds are of one start.
const TOGETHER: f64 = 5.0;
/// Starts that make a pattern: the second may be a validation loader's first.
const STARTS: usize = 2;
/// Times the usual interval after which no other start is expected.
const LATE: f64 = 2.5;
/// Trainers followed.
const TRAINERS: usize = 256;
/// Starts kept.
const KEPT: usize = 64;

#[derive(Debug, Default)]
pub(super) struct WorkerRespawn {
    trainers: BTreeMap<Symbol, Crew>,
}

/// The workers of one trainer.
#[derive(Debug, Default)]
struct Crew {
    alive: BTreeSet<Symbol>,
    /// Deaths that no birth has made up for.
    gone: usize,
    /// Whether workers were seen at all: the first are no restart.
    begun: bool,
    starts: VecDeque<Start>,
}

#[derive(Debug, Clone, Copy)]
struct Start {
    at: Ts,
    born: usize,
    /// How many of them took the place of one that had gone.
    instead: usize,
}

impl Crew {
    fn look(&mut self, now: Ts, alive: BTreeSet<Symbol>) {
        let born = alive.difference(&self.alive).count();
        self.gone += self.alive.difference(&alive).count();
        self.alive = alive;
        if born == 0 {
            return;
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.gone = 0;
            self.starts.push_back(Start { at: now, born, instead: 0 });
            return;
        }
        let instead = born.min(self.gone);
        self.gone -= instead;
        match self.starts.back_mut() {
            Some(last) if now.seconds_since(last.at) < TOGETHER && instead == 0 => last.born += born,
            _ => self.starts.push_back(Start { at: now, born, instead }),
        }
        while self.starts.len() > KEPT {
            self.starts.pop_front();
        }
    }

    /// Starts of most of a crew in the place of one that had gone: when, and how many at once.
    fn restarts(&self, now: Ts) -> Vec<Start> {
        let most = self.starts.iter().map(|start| start.born).max().unwrap_or(0);
        let recent = self.starts.iter().filter(|start| now.seconds_since(start.at) <= BACK);
        recent.filter(|start| start.instead > 0 && 2 * start.born >= most).copied().collect()
    }
}

impl Pattern for WorkerRespawn {
    fn kind(&self) -> &'static str {
        "worker_respawn"
    }

    /// What is seen has lasted for two epochs.
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
            let alive = scene.crew(key).into_iter().map(|(worker, _)| worker.clone()).collect();
            let crew = self.trainers.entry(key.clone()).or_default();
            crew.look(now, alive);
            let restarts = crew.restarts(now);
            let (Some(first), Some(last)) = (restarts.first(), restarts.last()) else { continue };
            if restarts.len() < STARTS {
                continue;
            }
            #[expect(clippy::cast_precision_loss, reason = "a number of epochs")]
            let every = last.at.seconds_since(first.at) / (restarts.len() - 1) as f64;
            if now.seconds_since(last.at) > (LATE * every).max(TOGETHER) {
                continue;
            }
            let startup = trainer.cause_run("startup").or_else(|| {
                let all: f64 = trainer.sites.run.iter().sum();
                let at_it = trainer.sites.run[STARTUP];
                (all > 0.0 && at_it > 0.0).then(|| at_it / all)
            });
            let cost = startup.map(|share| format!("; starting them took {} of the run", percent(share)));
            out.push(Seen {
                process: key.clone(),
                severity: startup,
                text: format!("Its {} workers are started anew every {every:.0} s.", last.born),
                advice: "Keep them: `DataLoader(persistent_workers=True)`, one loader for all epochs, or longer epochs (a \
                         sampler that goes over the data several times). What a worker opens or imports at its start is \
                         paid for each time."
                    .to_owned(),
                evidence: format!(
                    "{} times in the last {:.0} s most of its workers ended and others came{}",
                    restarts.len(),
                    now.seconds_since(first.at).max(1.0),
                    cost.unwrap_or_default()
                ),
            });
        }
    }
}
