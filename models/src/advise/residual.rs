//! How far the step model is off when it says what another setting would do, measured on the
//! observations of `feedline sweep`.
//!
//! Advice never rests on the model's absolute figures, because the model is fitted to the job first;
//! it rests on the ratio of two settings. So that is what is held against the measured ratio: pairs of
//! configurations of the same samples on the same storage and cores, that differ in workers, prefetch,
//! batch and step. They differ in more than what a change of one knob does, so that intervals made of
//! them are rather too wide than too narrow.

use std::collections::BTreeMap;

use feedline_traces::Result;

use super::FED;
use crate::learn::declare::{Table, column};
use crate::observation::{ObservationRow, SIMULATED, rows};
use crate::step_model::{Dist, Job, estimate};

/// Pairs that begin with one configuration at most: a group that was swept finely does not outweigh the
/// others.
const PAIRS: usize = 4;

/// A configuration, the mean over its repeats.
#[derive(Debug)]
struct Seen {
    job: Job,
    /// Measured seconds of a step, their sum and number.
    period: (f64, f64),
    stall: f64,
}

/// For pairs of configurations of one group, the logarithm of the measured over the predicted time of a
/// step of the second. The model is scaled to the first of each pair, as it is to a job; one that waits
/// for nothing says nothing about its loader, and none is scaled to it.
///
/// # Errors
/// When the table of observations lacks a column.
pub fn residuals(table: &Table) -> Result<Vec<f64>> {
    let texts = |name: &str| -> Result<Vec<String>> { Ok(column(table, name)?.texts()) };
    let names = ["setting", "format", "content", "access"].map(texts).into_iter().collect::<Result<Vec<_>>>()?;
    let origin = texts("origin")?;
    let numbers = |name: &str| -> Result<Vec<f64>> { Ok(column(table, name)?.numbers()) };
    let (configs, periods, stalls) = (texts("config")?, numbers("period")?, numbers("stall")?);
    let mut groups: BTreeMap<String, BTreeMap<String, Seen>> = BTreeMap::new();
    for (i, row) in rows(table)?.iter().enumerate() {
        let (period, stall) = (periods[i] / 1e9, stalls[i]);
        let known = period > 0.0 && period.is_finite() && stall.is_finite() && origin[i] != SIMULATED;
        let Some(job) = row.job().ok().filter(|_| known) else { continue };
        let group =
            names.iter().map(|texts| texts[i].as_str()).chain([alike(row).as_str()]).collect::<Vec<_>>().join(" ");
        let seen = Seen { job, period: (0.0, 0.0), stall: 0.0 };
        let seen = groups.entry(group).or_default().entry(configs[i].clone()).or_insert(seen);
        seen.period = (seen.period.0 + period, seen.period.1 + 1.0);
        seen.stall += (stall - seen.stall) / seen.period.1;
    }
    Ok(groups.values().flat_map(pairs).collect())
}

/// What samples are like: their size, and what decoding one takes, to a third.
fn alike(row: &ObservationRow) -> String {
    let decode = (row.decode_cpu.0.max(1e4).ln() / 1.3_f64.ln()).round();
    format!("{:.0} {decode:.0}", row.sample_bytes.0)
}

fn pairs(group: &BTreeMap<String, Seen>) -> Vec<f64> {
    let all: Vec<&Seen> = group.values().collect();
    let mut found = Vec::new();
    for (i, first) in all.iter().enumerate().filter(|(_, first)| first.stall >= FED && first.job.workers > 0) {
        let Some(scale) = scale(first) else { continue };
        // Those after it in the list, so that which they are depends on nothing.
        let others = (1..all.len()).map(|k| all[(i + k) % all.len()]);
        found.extend(others.take(PAIRS).filter_map(|other| residual(scale, other)));
    }
    found
}

/// The factor on the measured work at which the model's step is the measured one.
fn scale(seen: &Seen) -> Option<f64> {
    let period = seen.period.0 / seen.period.1;
    let (mut low, mut high) = (0.1_f64, 10.0_f64);
    for _ in 0..24 {
        let middle = (low * high).sqrt();
        if estimate(&scaled(&seen.job, middle)).ok()?.period < period { low = middle } else { high = middle }
    }
    Some((low * high).sqrt())
}

fn residual(scale: f64, other: &Seen) -> Option<f64> {
    let predicted = estimate(&scaled(&other.job, scale)).ok()?.period;
    let off = (other.period.0 / other.period.1 / predicted).ln();
    off.is_finite().then_some(off)
}

fn scaled(job: &Job, factor: f64) -> Job {
    let mut job = job.clone();
    let times = |dist: &Dist| super::model::times(dist, factor);
    (job.decode, job.collate) = (times(&job.decode), times(&job.collate));
    (job.storage.latency, job.storage.cpu) = (times(&job.storage.latency), times(&job.storage.cpu));
    job
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::declare::Raw;

    /// Rows of 16 samples that take 10 ms to read and 5 ms to decode: workers, step in seconds, and by
    /// how much the measured period is longer than the model's of all work scaled by 1.2.
    fn table(rows: &[(f64, f64, f64)]) -> Table {
        let text = |value: &str| Raw::Texts(vec![value.to_owned(); rows.len()]);
        let same = |value: f64| Raw::Numbers(vec![value; rows.len()]);
        let mut table: Table = [
            ("origin", text("real")),
            ("setting", text("fuse")),
            ("format", text("files")),
            ("content", text("bytes")),
            ("access", text("shuffled")),
            ("step_kind", text("sleep")),
            ("config", Raw::Numbers((0..rows.len()).map(|i| i as f64).collect())),
            ("batch", same(16.0)),
            ("workers", Raw::Numbers(rows.iter().map(|r| r.0).collect())),
            ("step", Raw::Numbers(rows.iter().map(|r| r.1 * 1e9).collect())),
            ("stall", same(0.5)),
        ]
        .map(|(name, values)| (name.to_owned(), values))
        .into();
        for (name, value) in [
            ("prefetch", 2.0),
            ("sample_bytes", 1e5),
            ("cores", 16.0),
            ("read_p10_1", 10e6),
            ("read_p50_1", 10e6),
            ("read_p90_1", 10e6),
            ("read_p99_1", 10e6),
            ("read_mean_1", 10e6),
            ("read_mean_4", 10e6),
            ("read_mean_16", 11e6),
            ("rate_1", 10e6),
            ("rate_4", 40e6),
            ("rate_16", 150e6),
            ("rate_in_order", 10e6),
            ("read_cpu", 1e5),
            ("decode_cpu", 5e6),
            ("collate_cpu", 1e6),
            ("handover", f64::NAN),
            ("handover_cpu", f64::NAN),
            ("tensor_bytes", 1e5),
        ] {
            table.insert(name.to_owned(), same(value));
        }
        table.insert("period".to_owned(), same(1.0));
        let jobs: Vec<Job> = crate::observation::rows(&table).unwrap().iter().map(|row| row.job().unwrap()).collect();
        let period = |(job, row): (&Job, &(f64, f64, f64))| estimate(&scaled(job, 1.2)).unwrap().period * row.2 * 1e9;
        table.insert("period".to_owned(), Raw::Numbers(jobs.iter().zip(rows).map(period).collect()));
        table
    }

    #[test]
    fn what_is_off_is_off_from_the_model_as_it_was_scaled() {
        let exact = residuals(&table(&[(1.0, 0.03, 1.0), (2.0, 0.03, 1.0), (4.0, 0.02, 1.0)])).unwrap();
        assert_eq!(exact.len(), 6, "each of three is a start, with the two others");
        assert!(exact.iter().all(|off| off.abs() < 1e-3), "{exact:?}");
        let slower = residuals(&table(&[(1.0, 0.03, 1.0), (2.0, 0.03, 1.1)])).unwrap();
        assert!((slower[0] - 1.1_f64.ln()).abs() < 1e-3, "{slower:?}");
    }

    #[test]
    fn simulated_rows_and_those_that_wait_for_nothing_teach_nothing() {
        let mut all = table(&[(1.0, 0.03, 1.0), (2.0, 0.03, 1.0)]);
        all.insert("stall".to_owned(), Raw::Numbers(vec![0.01, 0.02]));
        assert!(residuals(&all).unwrap().is_empty());
        all.insert("stall".to_owned(), Raw::Numbers(vec![0.5, 0.5]));
        all.insert("origin".to_owned(), Raw::Texts(vec!["real".to_owned(), SIMULATED.to_owned()]));
        assert!(residuals(&all).unwrap().is_empty());
        all.remove("period");
        assert!(residuals(&all).unwrap_err().message.contains("period"));
    }
}
