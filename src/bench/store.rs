//! Writing, size, querying and replaying of traces.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use feedline_traces::run::{Meta, Run, RunWriter};
use feedline_traces::unit::{Bytes, Nanos, Ratio};
use feedline_traces::{
    Clock, Counter, Error, Gauge, Key, Result, Row as _, Rows, Schema, Sink, Source, SystemClock, Text, Tick, Ts,
    drive, table,
};
use serde_json::{Value, json};

use super::{Jobs, Outcome, median};
use crate::chain;
use crate::config::Config;
use crate::stop;

table! {
    /// A row like those of a trace: a key, a label, counters and gauges.
    pub(crate) sample: SampleRow {
        /// One of 40.
        key: Key,
        /// One of 5, or missing.
        label: Text,
        /// Grows.
        bytes: Counter<Bytes>,
        /// Grows.
        busy: Counter<Nanos>,
        /// Changes.
        share: Gauge<Ratio>,
    }
}

/// Rows a tick of the writing bench.
const ROWS: u64 = 40;
/// Ticks of the writing bench: 4 million rows a round.
const TICKS: u64 = 100_000;
/// How long a real job with eight workers is recorded for its size.
const SPAN: Duration = Duration::from_secs(60);

/// Measures: rows written a second by one core, megabytes a minute of a trainer with eight workers,
/// seconds of a grouped aggregate over ten million rows, and whether a replay is what was recorded.
///
/// # Errors
/// When a run cannot be written or the job cannot be started.
pub fn run(jobs: &Jobs, out: &Path) -> Result<Outcome> {
    let dir = tempfile::tempdir().map_err(|cause| Error::io("temporary folder", &cause))?;
    let clock = SystemClock::anchored_now();
    let mut rows = Vec::new();
    let mut rates = Vec::new();
    for round in 0..3 {
        let rate = written_per_second(&clock, &dir.path().join(format!("rows{round}")))?;
        rows.push(json!({ "rows_per_cpu_s": rate }));
        rates.push(rate);
    }
    let (mb_per_min, same) = recorded(jobs, &dir.path().join("job"))?;
    rows.push(json!({ "job": "8 workers", "mb_per_min": mb_per_min, "replay_identical": same }));
    let query = query_seconds(&clock, &dir.path().join("sample"), &mut rows)?;
    let rate = median(&rates).unwrap_or(0.0);
    let pass = rate >= 500_000.0 && mb_per_min <= 1.0 && same && query.is_some_and(|seconds| seconds <= 1.0);
    let figures = json!({
        "rows_per_s": rate.round(),
        "mb_per_min": mb_per_min,
        "query_10m_s": query,
        "replay_identical": same,
    });
    Outcome::write("store", out, &rows, figures, pass)
}

/// Rows a second of CPU time, closing into Parquet included.
fn written_per_second(clock: &dyn Clock, dir: &Path) -> Result<f64> {
    let schema = Arc::new(Schema::new(vec![SampleRow::table()])?);
    let ticks: Vec<Tick> = (0..100).map(|n| tick(&schema, n)).collect();
    let mut writer = RunWriter::create(dir, Meta::of_this_machine(clock.now(), 1, "bench"), &schema)?;
    let before = feedline_collectors::health::process_cpu();
    let mut at = clock.now();
    for n in 0..TICKS {
        let mut tick = ticks[usize::try_from(n % 100).unwrap_or(0)].clone();
        at = at.plus(Duration::from_millis(10));
        tick.at = at;
        tick.batches.iter_mut().for_each(|batch| batch.at.fill(at));
        writer.accept(&schema, &tick)?;
    }
    writer.finish()?;
    let seconds = Duration::from_nanos(feedline_collectors::health::process_cpu() - before).as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "four million is exact")]
    let written = (TICKS * ROWS) as f64;
    std::fs::remove_dir_all(dir).map_err(|cause| Error::io(dir.display(), &cause))?;
    Ok(written / seconds)
}

#[expect(clippy::cast_precision_loss, reason = "made-up values")]
fn tick(schema: &Schema, n: u64) -> Tick {
    let mut rows = Rows::new(schema, Ts(0));
    for key in 0..ROWS {
        let mixed = (n * ROWS + key).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        rows.push(SampleRow {
            key: format!("device{key}").into(),
            label: (mixed % 6 < 5).then(|| format!("state{}", mixed % 5)).into(),
            bytes: (n * 4096 * key + mixed % 4096).into(),
            busy: (n * 1_000_000 + mixed % 100_000).into(),
            share: ((mixed % 10_000) as f64 / 1e4).into(),
        });
    }
    Tick { at: Ts(0), batches: rows.finish() }
}

/// What a sink keeps of the ticks it takes, to hold them against a replay.
struct Keep(Arc<Mutex<Vec<Tick>>>);

impl Sink for Keep {
    fn accept(&mut self, _: &Schema, tick: &Tick) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(tick.clone());
        Ok(())
    }
}

/// Records a real job with eight workers: megabytes a minute, and whether its replay is identical.
fn recorded(jobs: &Jobs, dir: &Path) -> Result<(f64, bool)> {
    let job = jobs.start(jobs.find("eight-workers")?)?;
    let config = Config::default();
    let attached = chain::attach(&job.pid.to_string(), &config)?;
    let kept = Arc::new(Mutex::new(Vec::new()));
    let runtime = crate::runtime::runtime()?;
    runtime.block_on(async {
        let (_stop, stopped) = stop::after(Some(SPAN));
        let mut source = chain::live(&attached, &config, stopped)?;
        let (_, trace) = chain::trace(&attached, source.as_ref(), &chain::Place::At(dir.to_path_buf()))?;
        drive(source.as_mut(), &mut [trace, Box::new(Keep(Arc::clone(&kept)))]).await
    })?;
    drop(job);
    let kept = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
    let run = Run::open(dir)?;
    let mut replay = run.replay()?;
    let mut same = true;
    let mut count = 0;
    while let Some(tick) = runtime.block_on(replay.next())? {
        same &= kept.get(count) == Some(&tick);
        count += 1;
    }
    same &= count == kept.len() && count > 0;
    let bytes = size(dir)?;
    #[expect(clippy::cast_precision_loss, reason = "a run of a minute is small")]
    let megabytes = bytes as f64 / 1e6;
    let minutes = run.extent()?.1.map_or(f64::NAN, |(_, last)| last.seconds_since(run.meta().started) / 60.0);
    Ok((megabytes / minutes, same))
}

fn size(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    let entries = std::fs::read_dir(dir).map_err(|cause| Error::io(dir.display(), &cause))?;
    for entry in entries.flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        bytes += if meta.is_dir() { size(&entry.path())? } else { meta.len() };
    }
    Ok(bytes)
}

#[cfg(feature = "query")]
fn query_seconds(clock: &dyn Clock, dir: &Path, rows: &mut Vec<Value>) -> Result<Option<f64>> {
    feedline_query::sample::write(dir, 10_000_000)?;
    let mut seconds = Vec::new();
    for _ in 0..5 {
        let began = clock.now();
        let sql = "SELECT key, count(*) AS n, avg(x) AS mean, max(x) AS most FROM sample GROUP BY key ORDER BY key";
        let answer = feedline_query::sql(dir, sql)?;
        let took = clock.now().seconds_since(began);
        rows.push(json!({ "query": sql, "groups": answer.rows.len(), "seconds": took }));
        seconds.push(took);
    }
    Ok(median(&seconds))
}

#[cfg(not(feature = "query"))]
fn query_seconds(_: &dyn Clock, _: &Path, rows: &mut Vec<Value>) -> Result<Option<f64>> {
    rows.push(json!({ "query": null, "reason": "this build has no SQL" }));
    Ok(None)
}
