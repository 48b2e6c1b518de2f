//! Several ranks that decode the same samples: the data is not split among them.
//!
//! Only what was seen is said: workers of two ranks that are at the same file at the same time, file
//! after file. Ranks with disjoint parts never are; ranks that share one large file always are, so
//! one file, or a few, say nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use feedline_traces::{Symbol, Ts};

use super::scene::Scene;
use super::{Pattern, Seen, percent};

/// Seconds within which two ranks are at a file at the same time.
const TOGETHER: f64 = 3.0;
/// Looks remembered, and the part of them in which another rank was at the same file.
const LOOKS: usize = 256;
const OFTEN: f64 = 0.5;
/// Different files that have to be met.
const FILES: usize = 12;

#[derive(Debug, Default)]
pub(super) struct SameSamples {
    /// Where each rank's workers were lately.
    seen: VecDeque<(Ts, Symbol, Symbol)>,
    /// Looks at a new file: which, and whether another rank was there too.
    looks: VecDeque<(Symbol, bool)>,
    last: BTreeMap<Symbol, Symbol>,
}

impl Pattern for SameSamples {
    fn kind(&self) -> &'static str {
        "same_samples"
    }

    fn look(&mut self, scene: &Scene, out: &mut Vec<Seen>) {
        let now = scene.now;
        self.seen.retain(|(at, ..)| now.seconds_since(*at) <= TOGETHER);
        let workers: Vec<(&Symbol, &Symbol, &Symbol)> = scene
            .processes
            .iter()
            .filter_map(|(key, worker)| Some((key, worker.owner.as_ref()?, worker.worker.file.as_ref()?)))
            .collect();
        self.last.retain(|key, _| workers.iter().any(|(worker, ..)| *worker == key));
        // A worker that is still at its file says nothing new.
        let fresh: Vec<_> = workers.into_iter().filter(|(key, _, file)| self.last.get(*key) != Some(file)).collect();
        for (_, rank, file) in &fresh {
            self.seen.push_back((now, (*rank).clone(), (*file).clone()));
        }
        for (key, rank, file) in fresh {
            self.last.insert(key.clone(), file.clone());
            let shared = self.seen.iter().any(|(_, other, its)| other != rank && its == file);
            self.looks.push_back((file.clone(), shared));
        }
        while self.looks.len() > LOOKS {
            self.looks.pop_front();
        }
        while self.seen.len() > LOOKS {
            self.seen.pop_front();
        }
        let ranks = scene.trainers().count();
        if ranks < 2 {
            self.looks.clear();
            return;
        }
        let shared: BTreeSet<&Symbol> = self.looks.iter().filter(|(_, shared)| *shared).map(|(file, _)| file).collect();
        let met = self.looks.iter().filter(|(_, shared)| *shared).count();
        #[expect(clippy::cast_precision_loss, reason = "a few hundred looks")]
        let share = if self.looks.is_empty() { 0.0 } else { met as f64 / self.looks.len() as f64 };
        if shared.len() < FILES || share < OFTEN {
            return;
        }
        out.push(Seen {
            process: Symbol::from(""),
            severity: None,
            text: format!("The {ranks} ranks decode the same samples at the same time."),
            advice: "Split the data among the ranks: `DistributedSampler`, `split_by_node`, `shard(num_shards, index)`; \
                     check that the sampler is passed to the loader and that RANK and WORLD_SIZE reach it."
                .to_owned(),
            evidence: format!(
                "in {} of {} looks at a worker's file a worker of another rank was at the same one within {TOGETHER:.0} s; \
                 {} different files",
                percent(share),
                self.looks.len(),
                shared.len()
            ),
        });
    }
}
