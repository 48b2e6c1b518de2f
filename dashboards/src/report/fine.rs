//! Causes of the second level, what workers did, and findings, over the run; bounded by limits.

use std::collections::BTreeMap;

use feedline_traces::{Schema, Tick, Ts};

use super::rows::{RowsOf, keep};
use super::stat::Stat;
use super::{CauseShare, Finding, Slow, Trainer, WorkerTime, utc};
use crate::slow::slowest;

/// Workers kept; those of many epochs are many.
const WORKERS: usize = 1024;
/// What shares of a worker's time are called in its table.
pub(crate) const SHARES: [&str; 9] =
    ["fetch_storage", "fetch_cache", "fetch_network", "decode", "collate", "put", "idle", "queued", "other"];

/// What is kept of the run so far.
#[derive(Debug, Default)]
pub(crate) struct Fine {
    causes: BTreeMap<(String, String), Share>,
    workers: BTreeMap<(String, String), Times>,
    findings: BTreeMap<(String, String), Found>,
    /// Workers that did not fit.
    pub(crate) workers_left: u64,
}

#[derive(Debug, Default)]
struct Share {
    /// `run`, `low`, `high`, `confidence`: the latest, which are over the run.
    latest: [Option<f64>; 4],
    window: Stat,
    evidence: Option<String>,
}

#[derive(Debug, Default)]
struct Times {
    trainer: Option<String>,
    shares: [Stat; SHARES.len()],
    read: Stat,
    file: Option<String>,
    mount: Option<String>,
}

#[derive(Debug, Default)]
struct Found {
    first: Option<Ts>,
    last: Option<Ts>,
    /// Seconds of the stretches that are over, and of the one that is not.
    seconds: f64,
    stretch: f64,
    times: u64,
    severity: Stat,
    text: String,
    advice: String,
    evidence: String,
}

impl Fine {
    pub(crate) fn accept(&mut self, schema: &Schema, tick: &Tick) {
        self.causes(schema, tick);
        self.workers(schema, tick);
        self.findings(schema, tick);
    }

    fn causes(&mut self, schema: &Schema, tick: &Tick) {
        let Some(rows) = RowsOf::of(schema, tick, "cause") else { return };
        for row in 0..rows.len() {
            let (Some(process), Some(cause)) = (rows.text(row, "process"), rows.text(row, "cause")) else { continue };
            keep(&mut self.causes, (process, cause), |share: &mut Share| {
                let latest = ["run", "low", "high", "confidence"].map(|column| rows.number(row, column));
                share.latest = latest;
                share.window.add(rows.number(row, "share").unwrap_or(f64::NAN), 1.0);
                share.evidence = rows.text(row, "evidence").or(share.evidence.take());
            });
        }
    }

    fn workers(&mut self, schema: &Schema, tick: &Tick) {
        let Some(rows) = RowsOf::of(schema, tick, "worker") else { return };
        for row in 0..rows.len() {
            let (Some(process), Some(thread)) = (rows.text(row, "process"), rows.text(row, "thread")) else { continue };
            let key = (process, thread);
            if self.workers.len() >= WORKERS && !self.workers.contains_key(&key) {
                self.workers_left += 1;
                continue;
            }
            let times = self.workers.entry(key).or_default();
            times.trainer = rows.text(row, "trainer").or(times.trainer.take());
            for (stat, column) in times.shares.iter_mut().zip(SHARES) {
                stat.add(rows.number(row, column).unwrap_or(f64::NAN), 1.0);
            }
            times.read.add(rows.number(row, "read_rate").unwrap_or(f64::NAN), 1.0);
            times.file = rows.text(row, "file").or(times.file.take());
            times.mount = rows.text(row, "mount").or(times.mount.take());
        }
    }

    fn findings(&mut self, schema: &Schema, tick: &Tick) {
        let Some(rows) = RowsOf::of(schema, tick, "finding") else { return };
        for row in 0..rows.len() {
            let Some(kind) = rows.text(row, "kind") else { continue };
            let process = rows.text(row, "process").unwrap_or_default();
            keep(&mut self.findings, (kind, process), |found: &mut Found| {
                let since = rows.number(row, "since").unwrap_or(0.0).max(0.0) / 1e9;
                if since < found.stretch || found.first.is_none() {
                    found.seconds += found.stretch;
                    found.times += 1;
                }
                found.stretch = since;
                found.first.get_or_insert(Ts(tick.at.0.saturating_sub(nanos(since))));
                found.last = Some(tick.at);
                found.severity.add(rows.number(row, "severity").unwrap_or(f64::NAN), 1.0);
                found.text = rows.text(row, "text").unwrap_or_default();
                found.advice = rows.text(row, "advice").unwrap_or_default();
                found.evidence = rows.text(row, "evidence").unwrap_or_default();
            });
        }
    }

    /// Trainers that have causes.
    pub(crate) fn trainers(&self) -> impl Iterator<Item = &String> {
        self.causes.keys().map(|(process, _)| process)
    }

    /// The trainer that the others wait for, and the most that another waits.
    pub(crate) fn slow(&self) -> Option<(&str, f64)> {
        let lost = self.causes.iter().filter(|((_, cause), _)| cause == "imbalance");
        let all: Vec<(&str, f64)> =
            lost.filter_map(|((process, _), share)| Some((process.as_str(), share.latest[0]?))).collect();
        slowest(&all)
    }

    /// The causes of a trainer, the largest share first.
    pub(crate) fn causes_of(&self, process: &str) -> Vec<CauseShare> {
        let mine = self.causes.iter().filter(|((of, _), _)| of == process);
        let mut causes: Vec<CauseShare> = mine
            .map(|((_, cause), share)| {
                let [run, low, high, confidence] = share.latest;
                let (window, evidence) = (share.window.mean(), share.evidence.clone());
                CauseShare { cause: cause.clone(), share: run, low, high, confidence, window, evidence }
            })
            .collect();
        causes.sort_by(|a, b| b.share.unwrap_or(-1.0).total_cmp(&a.share.unwrap_or(-1.0)));
        causes
    }

    /// What the workers of a trainer did; with one trainer those whose trainer is not known too.
    pub(crate) fn workers_of(&self, process: &str, only: bool) -> Vec<WorkerTime> {
        let mine = self.workers.iter().filter(|(_, times)| match &times.trainer {
            Some(trainer) => trainer == process,
            None => only,
        });
        mine.map(|((process, thread), times)| WorkerTime {
            process: process.clone(),
            thread: thread.clone(),
            shares: SHARES.iter().zip(&times.shares).map(|(name, stat)| ((*name).to_owned(), stat.mean())).collect(),
            read_rate: times.read.mean(),
            file: times.file.clone(),
            mount: times.mount.clone(),
        })
        .collect()
    }

    /// Every finding: those that hold at the end first, then those that cost most.
    pub(crate) fn found(&self, end: Ts) -> Vec<Finding> {
        let mut found: Vec<Finding> = self
            .findings
            .iter()
            .map(|((kind, process), found)| Finding {
                kind: kind.clone(),
                process: process.clone(),
                started: found.first.map(utc),
                seconds: found.seconds + found.stretch,
                times: found.times,
                holds: found.last == Some(end),
                severity: found.severity.mean(),
                text: found.text.clone(),
                advice: found.advice.clone(),
                evidence: found.evidence.clone(),
            })
            .collect();
        found.sort_by(|a, b| {
            let cost = |f: &Finding| f.severity.unwrap_or(-1.0);
            b.holds.cmp(&a.holds).then(cost(b).total_cmp(&cost(a))).then_with(|| a.kind.cmp(&b.kind))
        });
        found
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a huge span saturates")]
fn nanos(seconds: f64) -> i64 {
    (seconds * 1e9) as i64
}

/// The slow rank as the report has it.
pub(crate) fn slow_of(trainers: &[Trainer], process: &str, lost: f64) -> Slow {
    let mine = trainers.iter().find(|t| t.process == process);
    let own = |c: &&CauseShare| !crate::panels::AT_WORK.contains(&c.cause.as_str());
    Slow {
        process: process.to_owned(),
        rank: mine.and_then(|t| t.rank),
        lost,
        cause: mine.and_then(|t| t.causes_detail.iter().find(own)).map(|c| c.cause.clone()),
    }
}
