//! The first batch: a job that has not got it yet, and one that waited for it far longer than for
//! those that followed.

use std::collections::{BTreeMap, VecDeque};

use feedline_traces::{Symbol, Ts};

use super::scene::{CHECKPOINT, GC, LOADER, OTHER, SITES, STARTUP, Scene};
use super::{Pattern, Seen, percent};

/// Trainers followed.
const TRAINERS: usize = 256;
/// Part of a tick's stacks in the loader for the tick to belong to a fetch.
const INSIDE: f64 = 0.9;
/// Stacks that a trainer has to have before anything is said.
const STACKS: f64 = 8.0;
/// Part of the stacks at the start of workers that makes a fetch a start.
const STARTING: f64 = 0.3;
/// Seconds of the first fetch from which it is slow, and how many times the usual wait it is.
const SLOW: f64 = 5.0;
const TIMES: f64 = 10.0;
/// Seconds after its end for which a slow first batch is said.
const SAID: f64 = 120.0;
/// Waits kept to know the usual one.
const WAITS: usize = 128;
/// Waits that have to be seen.
const FEW: usize = 5;

/// The first fetch of each trainer.
#[derive(Debug, Default)]
struct First {
    trainers: BTreeMap<Symbol, Fetch>,
}

#[derive(Debug, Default)]
struct Fetch {
    /// When the trainer's stacks were first seen, and when last.
    seen: Option<[Ts; 2]>,
    began: Option<Ts>,
    /// When the fetch ended: a tick with more than a few of its stacks elsewhere.
    ended: Option<Ts>,
    /// Workers at first, now, and at most.
    workers: [usize; 3],
    /// Whether the last tick was partly in the loader.
    mixed: bool,
    /// Whether it has trained already: what it waits for is not its first batch.
    trained: bool,
    stacks: f64,
    startup: f64,
    waits: VecDeque<f64>,
}

impl First {
    fn look(&mut self, scene: &Scene) {
        let now = scene.now;
        self.trainers.retain(|key, _| scene.trainers().any(|(trainer, _)| trainer == key));
        for (key, trainer) in scene.trainers() {
            if !self.trainers.contains_key(key) && self.trainers.len() >= TRAINERS {
                continue;
            }
            let fetch = self.trainers.entry(key.clone()).or_default();
            if fetch.trained {
                continue;
            }
            if fetch.ended.is_some() {
                fetch.waits.extend(&trainer.waits);
                while fetch.waits.len() > WAITS {
                    fetch.waits.pop_front();
                }
                continue;
            }
            if let Some(sites) = trainer.sites.tick(now) {
                fetch.look(now, &sites, scene.crew(key).len());
            }
        }
    }
}

impl Fetch {
    fn look(&mut self, now: Ts, sites: &[f64; SITES], workers: usize) {
        let loading = sites[LOADER] + sites[STARTUP];
        let all = loading + sites[OTHER] + sites[CHECKPOINT] + sites[GC];
        if all <= 0.0 {
            return;
        }
        let before = self.seen.map(|[_, last]| last);
        self.seen = Some([self.seen.map_or(now, |[first, _]| first), now]);
        if before.is_none() {
            self.workers = [workers; 3];
        }
        self.workers = [self.workers[0], workers, self.workers[2].max(workers)];
        // Workers that ended have had their epoch.
        self.trained |= workers < self.workers[2];
        if loading >= INSIDE * all {
            self.began.get_or_insert(before.unwrap_or(now));
            self.stacks += all;
            self.startup += sites[STARTUP];
        } else if self.began.is_some() {
            self.ended = Some(now);
            self.trained |= !self.is_first();
        } else {
            // A loop that goes in and out of the loader trains, and so does one whose workers are there
            // while its main thread is elsewhere.
            self.trained |= self.mixed || workers > 0;
            self.mixed = loading > 0.0;
        }
    }

    /// Whether what is waited for is the first batch, as far as that can be known. A starved loop
    /// hardly leaves the loader either: only that workers start tells them apart.
    fn is_first(&self) -> bool {
        let [at_first, now, _] = self.workers;
        !self.trained && self.stacks >= STACKS && (self.part() >= STARTING || at_first == 0 && now > 0)
    }

    /// Part of the stacks at the start of workers.
    fn part(&self) -> f64 {
        self.startup / self.stacks.max(1.0)
    }
}

#[derive(Debug, Default)]
pub(super) struct Starting(First);

impl Pattern for Starting {
    fn kind(&self) -> &'static str {
        "starting"
    }

    fn hold(&self) -> f64 {
        1.0
    }

    /// It ends with the first batch.
    fn linger(&self) -> f64 {
        0.0
    }

    fn look(&mut self, scene: &Scene, out: &mut Vec<Seen>) {
        self.0.look(scene);
        for (key, fetch) in &self.0.trainers {
            let (Some(began), None) = (fetch.began, fetch.ended) else { continue };
            if !fetch.is_first() {
                continue;
            }
            let seconds = scene.now.seconds_since(began);
            let workers = fetch.workers[1];
            out.push(Seen {
                process: key.clone(),
                severity: None,
                text: format!("Still starting: it has waited {seconds:.0} s for its first batch."),
                advice: "Wait: nothing is concluded before the first step. If it takes long, see what workers do at their \
                         start: imports, indexes of the data set, large objects handed to each of them."
                    .to_owned(),
                evidence: format!(
                    "all {:.0} stacks of its main thread are in the loader, {} of them at the start of workers; {workers} \
                     workers so far",
                    fetch.stacks,
                    percent(fetch.part())
                ),
            });
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct SlowFirstBatch(First);

impl Pattern for SlowFirstBatch {
    fn kind(&self) -> &'static str {
        "slow_first_batch"
    }

    fn hold(&self) -> f64 {
        0.0
    }

    fn look(&mut self, scene: &Scene, out: &mut Vec<Seen>) {
        self.0.look(scene);
        for (key, fetch) in &self.0.trainers {
            let (Some(began), Some(ended)) = (fetch.began, fetch.ended) else { continue };
            let (took, since) = (ended.seconds_since(began), scene.now.seconds_since(ended));
            if took < SLOW || since > SAID || fetch.waits.len() < FEW {
                continue;
            }
            let mut waits: Vec<f64> = fetch.waits.iter().copied().collect();
            waits.sort_by(f64::total_cmp);
            let usual = waits[waits.len() / 2];
            if took < TIMES * usual {
                continue;
            }
            let whole = fetch.seen.is_some_and(|[first, _]| first < began);
            let seen = if whole { "" } else { "at least " };
            out.push(Seen {
                process: key.clone(),
                severity: None,
                text: format!("Its first batch took {seen}{took:.0} s, later ones {:.0} ms.", usual * 1e3),
                advice: "See what happens once: workers that import and open the data set (share or cache the index, open \
                         files lazily), a cold page cache, a shuffle buffer that has to fill. Short runs and frequent \
                         restarts pay it each time."
                    .to_owned(),
                evidence: format!(
                    "{seen}{took:.0} s in the loader, {} of its stacks at the start of workers; the median of {} waits since \
                     is {:.0} ms",
                    percent(fetch.part()),
                    waits.len(),
                    usual * 1e3
                ),
            });
        }
    }
}
