//! Patterns that users meet: what stands in a job's way and what to do about it, each seen in the
//! tables and said only while it holds.
//!
//! [`Find`] comes after [`Attribute`](crate::attribute::Attribute) in a chain and reads what both the
//! collectors and the attribution put into a tick. A pattern is one file here and one line in
//! `patterns`; it looks at a `Scene`, the last ten seconds of the job. What it sees
//! becomes a row once it has held for some seconds, and stays for some after it was last seen, so
//! that a value near a threshold does not flicker. `docs/findings.md` describes each.

pub(crate) mod bind;
mod meter;
mod scene;
mod take;

mod affinity;
mod cache;
mod checkpoint;
mod copy;
mod first;
mod garbage;
mod neighbour;
mod one_core;
mod quota;
mod remote;
mod respawn;
mod same;
mod shm;
mod storm;

use std::collections::BTreeMap;

use feedline_traces::unit::{Nanos, Ratio};
use feedline_traces::{Derive, Gauge, Key, Result, Row as _, Rows, Schema, Symbol, Table, Text, Tick, Ts, table};

use scene::Scene;
use take::Tables;

table! {
    /// A known pattern that holds right now, one row per finding per tick while it does, and what to
    /// do about it; `docs/findings.md` describes each.
    pub derived finding: FindingRow {
        /// The trainer it stands in the way of, `PID@START`; empty where it is of the whole job.
        process: Key,
        /// The pattern, such as `cpu_quota` or `shm_full`.
        kind: Key,
        /// For how long it has held.
        since: Gauge<Nanos>,
        /// Share of the trainer's wall time that it costs; null where that is not known.
        severity: Gauge<Ratio>,
        /// What is the matter, in one sentence.
        text: Text,
        /// What to do about it.
        advice: Text,
        /// The facts it rests on.
        evidence: Text,
    }
}

/// Findings followed at once; more are left out and counted.
const FINDINGS: usize = 512;
/// Seconds that a pattern may be out of sight before it holds, and its time starts anew.
const GAP: f64 = 2.5;

/// What a pattern has seen in a tick.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    /// The trainer, or empty for the whole job.
    process: Symbol,
    severity: Option<f64>,
    text: String,
    advice: String,
    evidence: String,
}

/// A pattern that users meet.
trait Pattern: Send + std::fmt::Debug {
    /// Its name, as it stands in `finding.kind`.
    fn kind(&self) -> &'static str;

    /// Seconds for which it has to be seen before it is said.
    fn hold(&self) -> f64 {
        5.0
    }

    /// Seconds for which it is still said after it was last seen.
    fn linger(&self) -> f64 {
        5.0
    }

    /// Appends what is to be seen now, one entry a process at most. Called once a tick.
    fn look(&mut self, scene: &Scene, out: &mut Vec<Seen>);
}

/// Every pattern.
fn patterns() -> Vec<Box<dyn Pattern>> {
    vec![
        Box::new(first::Starting::default()),
        Box::new(shm::ShmFull),
        Box::new(quota::CpuQuota),
        Box::new(affinity::NarrowAffinity),
        Box::new(storm::ThreadStorm),
        Box::new(neighbour::NoisyNeighbour),
        Box::new(respawn::WorkerRespawn::default()),
        Box::new(cache::CacheThrash),
        Box::new(cache::ColdCache),
        Box::new(remote::SmallRemoteReads),
        Box::new(one_core::OneCoreDecode),
        Box::new(copy::PageableCopy),
        Box::new(checkpoint::SyncCheckpoint::default()),
        Box::new(garbage::GcPause),
        Box::new(same::SameSamples::default()),
        Box::new(first::SlowFirstBatch::default()),
    ]
}

/// What is remembered of one finding.
#[derive(Debug)]
struct Held {
    since: Ts,
    last: Ts,
    said: bool,
    seen: Seen,
}

/// Adds `finding` rows to ticks.
#[derive(Debug)]
pub struct Find {
    tables: Tables,
    scene: Scene,
    patterns: Vec<Box<dyn Pattern>>,
    held: BTreeMap<(usize, Symbol), Held>,
    left_out: u64,
}

impl Find {
    /// Binds to the tables a source has; any of them may be missing, and the patterns that need it
    /// are then never seen.
    #[must_use]
    pub fn bind(schema: &Schema) -> Self {
        let (tables, scene) = (Tables::bind(schema), Scene::new());
        Self { tables, scene, patterns: patterns(), held: BTreeMap::new(), left_out: 0 }
    }

    /// Tells how many cores the machine has, which no table says.
    #[must_use]
    pub fn on_machine(mut self, cores: Option<u32>) -> Self {
        if let Some(cores) = cores.filter(|n| *n > 0) {
            self.scene.cores(f64::from(cores));
        }
        self
    }

    /// How often a finding, or a thing that one could be about, was left out because there were too
    /// many.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out + self.scene.left_out()
    }

    fn note(&mut self, pattern: usize, seen: Seen) {
        let key = (pattern, seen.process.clone());
        if !self.held.contains_key(&key) && self.held.len() >= FINDINGS {
            self.left_out += 1;
            return;
        }
        let now = self.scene.now;
        let held =
            self.held.entry(key).or_insert_with(|| Held { since: now, last: now, said: false, seen: seen.clone() });
        if !held.said && now.seconds_since(held.last) > GAP {
            held.since = now;
        }
        (held.last, held.seen) = (now, seen);
        held.said |= now.seconds_since(held.since) >= self.patterns[pattern].hold();
    }
}

impl Derive for Find {
    fn tables(&self) -> Vec<Table> {
        vec![FindingRow::table()]
    }

    fn derive(&mut self, tick: &Tick, out: &mut Rows<'_>) -> Result<()> {
        self.scene.begin(tick.at);
        self.tables.take(tick, &mut self.scene);
        self.scene.settle();
        let mut seen = Vec::new();
        for at in 0..self.patterns.len() {
            self.patterns[at].look(&self.scene, &mut seen);
            for seen in seen.drain(..) {
                self.note(at, seen);
            }
        }
        let (patterns, now) = (&self.patterns, self.scene.now);
        self.held.retain(|(pattern, _), held| {
            let unseen = now.seconds_since(held.last);
            unseen >= 0.0 && unseen <= if held.said { patterns[*pattern].linger() } else { GAP }
        });
        for ((pattern, process), held) in self.held.iter().filter(|(_, held)| held.said) {
            out.push(FindingRow {
                process: process.clone().into(),
                kind: patterns[*pattern].kind().into(),
                since: (now.seconds_since(held.since) * 1e9).into(),
                severity: held.seen.severity.map(|share| share.clamp(0.0, 1.0)).into(),
                text: held.seen.text.as_str().into(),
                advice: held.seen.advice.as_str().into(),
                evidence: held.seen.evidence.as_str().into(),
            });
        }
        Ok(())
    }
}

/// `41 %`.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `12 MiB`.
fn bytes(bytes: f64) -> String {
    feedline_traces::unit::Unit::Bytes.show(bytes)
}

#[cfg(test)]
mod tests;
