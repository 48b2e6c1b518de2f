//! The page cache: a data set larger than memory, which is read from storage again and again, and a
//! first epoch, which is read from storage once.

use feedline_traces::Symbol;

use super::scene::Scene;
use super::{Pattern, Seen, bytes, percent};

/// Bytes of a page: refaults are counted in pages.
const PAGE: f64 = 4096.0;
/// Bytes a second from storage from which it matters.
const READS: f64 = 1024.0 * 1024.0;
/// Of what is read, the part that was in memory not long ago.
const AGAIN: f64 = 0.3;
const FRESH: f64 = 0.05;
/// Of what is read, the part by which the page cache grows while it fills.
const KEPT: f64 = 0.3;
/// Share of time waiting for data from which a trainer's first epoch is worth a word.
const WAITS: f64 = 0.05;
/// Share of their time that workers read from storage.
const READING: f64 = 0.1;

#[derive(Debug)]
pub(super) struct CacheThrash;

impl Pattern for CacheThrash {
    fn kind(&self) -> &'static str {
        "cache_thrash"
    }

    fn look(&mut self, scene: &Scene, out: &mut Vec<Seen>) {
        let (Some(read), Some(refaults)) = (scene.storage_read(), scene.memory.refaults.rate()) else { return };
        let again = refaults * PAGE;
        if read < READS || again < AGAIN * read {
            return;
        }
        let size: f64 = scene.files.iter().map(|(_, size)| size).sum();
        let set = if size > 0.0 { format!("; the files it has open hold {}", bytes(size)) } else { String::new() };
        let memory = scene.memory.total.map(|total| format!("; the machine has {}", bytes(total))).unwrap_or_default();
        out.push(Seen {
            process: scene.job(),
            severity: scene.worst("fetch.storage"),
            text: format!(
                "The data does not fit the page cache: {}/s are read from storage, {} of it dropped from memory not long \
                 ago.",
                bytes(read),
                percent((again / read).min(1.0))
            ),
            advice: "Make what is read smaller (compressed or smaller samples, shards read in order) or the memory \
                     larger; else a local SSD, or each rank its own part of the data. Shuffling over all of a data set \
                     larger than memory makes every read a miss; shuffling within shards does not."
                .to_owned(),
            evidence: format!("{refaults:.0} refaults/s of file pages, {}/s from storage{set}{memory}", bytes(read)),
        });
    }
}

#[derive(Debug)]
pub(super) struct ColdCache;

impl Pattern for ColdCache {
    fn kind(&self) -> &'static str {
        "cold_cache"
    }

    fn look(&mut self, scene: &Scene, out: &mut Vec<Seen>) {
        let facts = (scene.storage_read(), scene.memory.refaults.rate(), scene.cache_growth());
        let (Some(read), Some(refaults), Some(growth)) = facts else { return };
        if read < READS || refaults * PAGE > FRESH * read || growth < KEPT * read {
            return;
        }
        let waits = scene.trainers().filter_map(|(key, t)| Some((key, t, t.data?))).filter(|(.., data)| *data >= WAITS);
        let Some((key, trainer, _)) = waits.max_by(|a, b| a.2.total_cmp(&b.2)) else { return };
        let reading =
            |key: &Symbol| scene.crew(key).into_iter().filter_map(|(_, w)| w.reading(scene.now)).reduce(f64::max);
        let busy = reading(key).or_else(|| trainer.reading(scene.now)).filter(|share| *share >= READING);
        let (Some(busy), Some(available)) = (busy, scene.memory.available) else { return };
        out.push(Seen {
            process: scene.job(),
            severity: scene.worst("fetch.storage"),
            text: format!("The data is read from storage for the first time, {}/s, and stays in memory.", bytes(read)),
            advice: format!(
                "Nothing for a long run, if what is read fits the {} available: later epochs come from memory. For short \
                 runs, read the data set ahead (`vmtouch -t`, `cat … >/dev/null`) before the job starts.",
                bytes(available)
            ),
            evidence: format!(
                "{}/s from storage, the page cache grows by {}/s, {refaults:.0} refaults/s; workers read {} of their time",
                bytes(read),
                bytes(growth),
                percent(busy)
            ),
        });
    }
}
