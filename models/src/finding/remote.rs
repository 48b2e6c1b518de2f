//! Many small reads or files on a network or FUSE mount: each costs a round trip.

use std::collections::BTreeMap;

use feedline_traces::Symbol;

use super::scene::{Process, Scene};
use super::{Pattern, Seen, bytes, percent};

/// Bytes a read or a file below which the round trip, not the bandwidth, is what it costs.
const SMALL: f64 = 128.0 * 1024.0;
/// Reads, opens or other calls a second from which it matters.
const OFTEN: f64 = 10.0;
/// Share of their time that workers wait for the mount.
const WAITING: f64 = 0.2;
/// Calls for each read, from which opening and asking cost more than reading.
const ASKING: f64 = 1.0;

#[derive(Debug)]
pub(super) struct SmallRemoteReads;

/// How often, and how many bytes each time.
struct Rate {
    what: &'static str,
    often: f64,
    size: f64,
}

impl Pattern for SmallRemoteReads {
    fn kind(&self) -> &'static str {
        "small_remote_reads"
    }

    fn look(&mut self, scene: &Scene, out: &mut Vec<Seen>) {
        for (key, trainer) in scene.trainers() {
            let crew = scene.crew(key);
            let readers: Vec<(&Symbol, &Process)> = if crew.is_empty() { vec![(key, trainer)] } else { crew };
            let waiting = readers.iter().filter_map(|(_, p)| p.remote(scene.now)).reduce(f64::max);
            let Some(waiting) = waiting.filter(|share| *share >= WAITING) else { continue };
            let Some(rate) = traced(scene, &readers).or_else(|| nfs(scene)).or_else(|| counted(scene, &readers)) else {
                continue;
            };
            if rate.often < OFTEN || rate.size >= SMALL {
                continue;
            }
            let place = place(scene, &readers);
            out.push(Seen {
                process: key.clone(),
                severity: trainer.cause("fetch.network").or_else(|| trainer.cause("fetch.storage")),
                text: format!(
                    "Small {} on {place}: {:.0} a second of {} each, and every one is a round trip.",
                    rate.what,
                    rate.often,
                    bytes(rate.size)
                ),
                advice:
                    "Pack the samples into large files read in order (WebDataset, Parquet, LMDB, MDS shards), copy \
                         the data set to a local disk, or overlap more round trips with more workers."
                        .to_owned(),
                evidence: format!(
                    "{:.0} {} a second, {} each; workers wait {} of their time for the mount",
                    rate.often,
                    rate.what,
                    bytes(rate.size),
                    percent(waiting)
                ),
            });
        }
    }
}

/// Opens and reads on remote files as the kernel traced them.
fn traced(scene: &Scene, readers: &[(&Symbol, &Process)]) -> Option<Rate> {
    let mut sums: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    for ((process, operation, on), calls) in scene.file_calls.iter() {
        if on.as_ref() != "remote" || !readers.iter().any(|(key, _)| *key == process) {
            continue;
        }
        let sum = sums.entry(operation.as_ref()).or_default();
        sum[0] += calls.calls.rate().unwrap_or(0.0);
        sum[1] += calls.bytes.rate().unwrap_or(0.0);
    }
    let [reads, read] = *sums.get("read")?;
    let opens = sums.get("open").map_or(0.0, |sum| sum[0]);
    // A file of several reads is one file: what it costs is told by the rarer of the two.
    if opens >= OFTEN && opens <= reads {
        return Some(Rate { what: "files", often: opens, size: read / opens });
    }
    (reads > 0.0).then(|| Rate { what: "reads", often: reads, size: read / reads })
}

/// Calls of NFS mounts: opening and asking for attributes more often than reading.
fn nfs(scene: &Scene) -> Option<Rate> {
    let mut asked = 0.0;
    let (mut reads, mut read) = (0.0, 0.0);
    for ((_, operation), calls) in scene.nfs.iter() {
        let rate = calls.calls.rate().unwrap_or(0.0);
        match operation.as_ref() {
            "READ" | "READ_PLUS" => {
                reads += rate;
                read += calls.bytes.rate().unwrap_or(0.0);
            }
            "OPEN" | "LOOKUP" | "GETATTR" | "ACCESS" | "OPEN_NOATTR" => asked += rate,
            _ => {}
        }
    }
    (reads > 0.0 && asked >= ASKING * reads).then(|| Rate { what: "files", often: reads, size: read / reads })
}

/// Read calls of the workers, pipes and all: small ones beside a wait for a remote mount. Where there is
/// none they wait for sockets, and their read calls are of something else.
fn counted(scene: &Scene, readers: &[(&Symbol, &Process)]) -> Option<Rate> {
    let far = scene.mounts.iter().any(|(_, m)| matches!(m.class.as_deref(), Some("network" | "fuse")));
    if !far && readers.iter().all(|(_, p)| p.worker.mount.is_none()) {
        return None;
    }
    let calls: f64 = readers.iter().filter_map(|(_, p)| p.read_calls.rate()).sum();
    let read: f64 = readers.iter().filter_map(|(_, p)| p.read.rate()).sum();
    (calls > 0.0).then(|| Rate { what: "reads", often: calls, size: read / calls })
}

/// The mount, as far as it is known which.
fn place(scene: &Scene, readers: &[(&Symbol, &Process)]) -> String {
    let named = readers.iter().find_map(|(_, p)| p.worker.mount.clone());
    let remote = scene.mounts.iter().filter(|(_, m)| matches!(m.class.as_deref(), Some("network" | "fuse")));
    let found = named.and_then(|name| scene.mounts.iter().find(|(mount, _)| **mount == name)).or_else(|| {
        let all: Vec<_> = remote.collect();
        if let [only] = all.as_slice() { Some(*only) } else { None }
    });
    match found {
        Some((mount, about)) => {
            let kind = about.kind.as_ref().map(|kind| format!(" ({kind})")).unwrap_or_default();
            format!("{mount}{kind}")
        }
        None => "a network mount".to_owned(),
    }
}
