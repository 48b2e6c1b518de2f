//! What a sweep keeps: its plan, each row as soon as it is known, and in the end the table.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use feedline_models::observation::{ObservationRow, REAL, simulated};
use feedline_models::step_model::Run as Simulation;
use feedline_traces::export::{Format, export};
use feedline_traces::run::{Meta, Run, RunWriter};
use feedline_traces::{Error, Gauge, Result, Row as _, Rows, Schema, Sink as _, Tick, Ts};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::{Plan, Row, VERSION};
use super::setting::Setting;

/// What came of a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Its number in the plan.
    pub(super) row: u64,
    /// When it was over, in nanoseconds.
    pub(super) at: i64,
    /// Its place in the order in which rows were run.
    pub(super) position: u64,
    /// What was seen; null where it failed.
    pub(super) seen: Option<Value>,
    /// Why it failed.
    pub(super) failed: Option<String>,
}

/// The folder of a sweep.
pub(super) struct Folder {
    path: PathBuf,
    log: File,
    /// Rows that are known already, the failed ones left out.
    pub(super) rows: Vec<Kept>,
}

impl Folder {
    /// A new sweep in a folder, or one that goes on where it was.
    ///
    /// # Errors
    /// When there is a sweep and `resume` is false, when it is another sweep, or the folder cannot be
    /// written.
    pub(super) fn open(path: &Path, plan: &Plan, resume: bool) -> Result<Self> {
        fs::create_dir_all(path).map_err(|cause| Error::io(path.display(), &cause))?;
        let (plans, log) = (path.join("plan.json"), path.join("rows.jsonl"));
        let mut rows = Vec::new();
        if plans.exists() {
            if !resume {
                let error = Error::new(format!("{}: there is a sweep already", path.display()));
                return Err(error.hint("--resume goes on with it, --out names another folder"));
            }
            let there = read_plan(&plans)?;
            if there != *plan {
                let error = Error::new(format!(
                    "{}: is of set {} with seed {}, or was made with other options",
                    plans.display(),
                    there.set.name(),
                    there.seed
                ));
                return Err(error.hint("give the same --set, --seed and --only, or another --out"));
            }
            rows = read_rows(&log);
        } else {
            let text = serde_json::to_string(plan).map_err(|cause| Error::new(format!("plan: {cause}")))?;
            fs::write(&plans, text).map_err(|cause| Error::io(plans.display(), &cause))?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let mut file = file.map_err(|cause| Error::io(log.display(), &cause))?;
        // What a kill has cut short must not run into what comes next.
        writeln!(file).map_err(|cause| Error::io(log.display(), &cause))?;
        Ok(Self { path: path.to_path_buf(), log: file, rows })
    }

    /// Whether a row is known.
    pub(super) fn has(&self, row: u64) -> bool {
        self.rows.iter().any(|kept| kept.row == row)
    }

    /// Keeps a row; it is in the file when this returns.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn keep(&mut self, kept: Kept) -> Result<()> {
        let line = serde_json::to_string(&kept).map_err(|cause| Error::new(format!("row: {cause}")))?;
        let place = self.path.join("rows.jsonl");
        writeln!(self.log, "{line}").map_err(|cause| Error::io(place.display(), &cause))?;
        if kept.failed.is_none() {
            self.rows.push(kept);
        }
        Ok(())
    }

    /// Writes all rows as one Parquet file, with those of the step model beside them if wanted, and
    /// gives its path and how near the step model comes.
    ///
    /// # Errors
    /// When a row is not what the job says, or the file cannot be written.
    pub(super) fn table(&self, plan: &Plan, machine: &str, with_simulated: bool) -> Result<(PathBuf, Option<Near>)> {
        let mut observations = Vec::new();
        let (mut periods, mut stalls) = (Vec::new(), Vec::new());
        let simulation = Simulation { seed: plan.seed, ..Simulation::default() };
        for kept in &self.rows {
            let Some(seen) = &kept.seen else { continue };
            let Some(row) = plan.rows.get(usize::try_from(kept.row).unwrap_or(usize::MAX)) else { continue };
            let found = observation(plan, row, kept, seen, machine)?;
            if let Ok(made) = simulated(&found, &simulation) {
                periods.push(100.0 * (made.period.0 / found.period.0 - 1.0).abs());
                stalls.push(100.0 * (made.stall.0 - found.stall.0).abs());
                observations.extend(with_simulated.then_some((kept.at, made)));
            }
            observations.push((kept.at, found));
        }
        let near = median(&mut periods).map(|period_pct| Near {
            rows: periods.len(),
            period_pct,
            stall_points: stalls.iter().sum::<f64>() / f64::from(u32::try_from(stalls.len()).unwrap_or(u32::MAX)),
        });
        Ok((write(&self.path, observations)?, near))
    }
}

/// How near the step model comes to what was measured, from configuration and probe alone, with
/// nothing fitted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Near {
    /// Rows compared.
    pub rows: usize,
    /// Median error of the time of a step, in percent.
    pub period_pct: f64,
    /// Mean error of the stall share, in points.
    pub stall_points: f64,
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn read_plan(path: &Path) -> Result<Plan> {
    let text = fs::read_to_string(path).map_err(|cause| Error::io(path.display(), &cause))?;
    let plan: Plan = serde_json::from_str(&text).map_err(|cause| Error::new(format!("{}: {cause}", path.display())))?;
    if plan.version != VERSION {
        return Err(Error::new(format!("{}: expected version {VERSION}, found {}", path.display(), plan.version)));
    }
    Ok(plan)
}

/// Rows of an earlier run that were measured; of two with one number the first.
fn read_rows(path: &Path) -> Vec<Kept> {
    let mut rows: Vec<Kept> = Vec::new();
    let text = fs::read_to_string(path).unwrap_or_default();
    for kept in text.lines().filter_map(|line| serde_json::from_str::<Kept>(line).ok()) {
        if kept.failed.is_none() && kept.seen.is_some() && !rows.iter().any(|other| other.row == kept.row) {
            rows.push(kept);
        }
    }
    rows
}

/// Through a run in a folder beside it, so that the file is written as every other Parquet file is.
fn write(folder: &Path, observations: Vec<(i64, ObservationRow)>) -> Result<PathBuf> {
    let path = folder.join("observation.parquet");
    let beside = tempfile::Builder::new().prefix("table-").tempdir_in(folder);
    let beside = beside.map_err(|cause| Error::io(folder.display(), &cause))?;
    let schema = Arc::new(Schema::new(vec![ObservationRow::table()])?);
    let at = observations.iter().map(|(at, _)| *at).max().unwrap_or(0);
    let run = beside.path().join("run");
    let mut writer = RunWriter::create(&run, Meta::of_this_machine(Ts(at), std::process::id(), "sweep"), &schema)?;
    let mut rows = Rows::new(&schema, Ts(at));
    observations.into_iter().for_each(|(at, row)| rows.push_at(Ts(at), row));
    writer.accept(&schema, &Tick { at: Ts(at), batches: rows.finish() })?;
    writer.finish()?;
    let (files, mut failures) = export(&Run::open(&run)?, Some("observation"), Format::Parquet, beside.path())?;
    if let Some(failure) = failures.pop() {
        return Err(failure);
    }
    let made = files.first().ok_or_else(|| Error::new("observation: no file was written"))?;
    fs::rename(made, &path).map_err(|cause| Error::io(path.display(), &cause))?;
    Ok(path)
}

/// A row of the table, from what the job says.
fn observation(plan: &Plan, row: &Row, kept: &Kept, seen: &Value, machine: &str) -> Result<ObservationRow> {
    let setting =
        Setting::find(&row.setting).ok_or_else(|| Error::new(format!("plan.json: no setting `{}`", row.setting)))?;
    let number = |name: &str| seen[name].as_f64().unwrap_or(f64::NAN);
    let nanos = |name: &str| Gauge::from(number(name) * 1e9);
    let run = &row.run;
    let (steps, span) = (number("steps"), number("span"));
    let samples_rate = f64::from(run.batch) * steps / span;
    let sample_bytes = number("dataset") / number("samples");
    // The span begins and ends before a request, so it holds exactly the measured steps.
    if !(samples_rate.is_finite() && sample_bytes > 0.0) {
        return Err(Error::new(format!("rows.jsonl: row {}: expected steps and a span, found {seen}", row.row)));
    }
    Ok(ObservationRow {
        origin: REAL.into(),
        sweep: plan.name().into(),
        machine: machine.into(),
        setting: setting.name.into(),
        storage: setting.storage.into(),
        format: run.format.as_str().into(),
        content: run.content.as_str().into(),
        access: run.access.as_str().into(),
        step_kind: run.step_kind.as_str().into(),
        row: row.row.into(),
        config: row.config.into(),
        repeat: row.repeat.into(),
        position: kept.position.into(),
        batch: u64::from(run.batch).into(),
        workers: u64::from(run.workers).into(),
        prefetch: u64::from(run.prefetch).into(),
        step: (run.step_ms * 1e6).into(),
        sample_bytes: sample_bytes.into(),
        samples: number("samples").into(),
        dataset: number("dataset").into(),
        cores: setting.cores(plan.cores).into(),
        available: number("available").into(),
        busy: number("busy").into(),
        resident: number("resident").into(),
        read_p10_1: nanos("read_p10_1"),
        read_p50_1: nanos("read_p50_1"),
        read_p90_1: nanos("read_p90_1"),
        read_p99_1: nanos("read_p99_1"),
        read_mean_1: nanos("read_mean_1"),
        read_p10_4: nanos("read_p10_4"),
        read_p50_4: nanos("read_p50_4"),
        read_p90_4: nanos("read_p90_4"),
        read_p99_4: nanos("read_p99_4"),
        read_mean_4: nanos("read_mean_4"),
        read_p10_16: nanos("read_p10_16"),
        read_p50_16: nanos("read_p50_16"),
        read_p90_16: nanos("read_p90_16"),
        read_p99_16: nanos("read_p99_16"),
        read_mean_16: nanos("read_mean_16"),
        rate_1: number("rate_1").into(),
        rate_4: number("rate_4").into(),
        rate_16: number("rate_16").into(),
        rate_in_order: number("rate_in_order").into(),
        read_cpu: nanos("read_cpu"),
        decode_cpu: nanos("decode_cpu"),
        collate_cpu: nanos("collate_cpu"),
        handover: nanos("handover"),
        handover_cpu: nanos("handover_cpu"),
        tensor_bytes: number("tensor_bytes").into(),
        samples_rate: samples_rate.into(),
        bytes_rate: (samples_rate * sample_bytes).into(),
        stall: (number("wait_mean") * steps / span).into(),
        period: (span / steps * 1e9).into(),
        wait_mean: nanos("wait_mean"),
        wait_p50: nanos("wait_p50"),
        wait_p90: nanos("wait_p90"),
        wait_p99: nanos("wait_p99"),
        wait_most: nanos("wait_most"),
        memory: number("memory").into(),
        steps: steps.into(),
        span: nanos("span"),
    })
}

/// Spread of repeats: of each configuration that was run more than once the standard deviation of its
/// samples a second over their mean, in percent; the median of those. `None` without repeats.
pub(super) fn noise_floor(plan: &Plan, rows: &[Kept]) -> Option<f64> {
    let mut groups: std::collections::BTreeMap<u64, Vec<f64>> = std::collections::BTreeMap::new();
    for kept in rows {
        let (Some(seen), Ok(number)) = (&kept.seen, usize::try_from(kept.row)) else { continue };
        let (Some(steps), Some(span)) = (seen["steps"].as_f64(), seen["span"].as_f64()) else { continue };
        let Some(row) = plan.rows.get(number) else { continue };
        groups.entry(row.config).or_default().push(steps / span);
    }
    let spread = |rates: &Vec<f64>| {
        let n = f64::from(u32::try_from(rates.len()).unwrap_or(u32::MAX));
        let mean = rates.iter().sum::<f64>() / n;
        let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (n - 1.0);
        100.0 * variance.sqrt() / mean
    };
    let mut spreads: Vec<f64> = groups.values().filter(|rates| rates.len() > 1).map(spread).collect();
    median(&mut spreads)
}

#[cfg(test)]
mod tests {
    use super::super::plan::Set;
    use super::*;
    use serde_json::json;

    fn plan() -> Plan {
        Plan::new(Set::Quick, 1, 2.0, "cache")
    }

    fn seen(period: f64) -> Value {
        json!({
            "steps": 10, "span": 10.0 * period, "wait_mean": 0.25 * period, "wait_p50": 0.2 * period,
            "dataset": 1000.0 * 4096.0, "samples": 1000, "resident": 1.0, "read_p50_1": 1e-5,
            "decode_cpu": 1e-4, "memory": null,
        })
    }

    fn kept(row: u64, period: f64) -> Kept {
        Kept { row, at: 5, position: row, seen: Some(seen(period)), failed: None }
    }

    #[test]
    fn a_row_is_what_the_job_says_in_the_units_of_the_table() {
        let plan = plan();
        let row = observation(&plan, &plan.rows[0], &kept(0, 0.1), &seen(0.1), "m").unwrap();
        let batch = f64::from(plan.rows[0].run.batch);
        assert!((row.samples_rate.0 - batch / 0.1).abs() < 1e-9 && (row.stall.0 - 0.25).abs() < 1e-12);
        assert!((row.period.0 - 1e8).abs() < 1e-3 && (row.bytes_rate.0 - batch / 0.1 * 4096.0).abs() < 1e-6);
        assert_eq!((row.decode_cpu.0, row.sample_bytes.0, row.cores.0), (1e5, 4096.0, 2.0));
        assert!(row.memory.0.is_nan() && row.read_p99_16.0.is_nan(), "what the job does not say is missing, not 0");
        assert_eq!((&*row.origin.0, &*row.setting.0, &*row.sweep.0), ("real", "cache", "quick-1"));
        let nothing = observation(&plan, &plan.rows[0], &kept(0, 0.1), &json!({ "steps": 3 }), "m").unwrap_err();
        assert!(nothing.message.contains("row 0"), "{nothing}");
    }

    #[test]
    fn the_noise_floor_is_the_spread_of_repeats_alone() {
        let plan = plan();
        let repeated = plan.rows.iter().find(|row| row.repeat == 1).unwrap();
        let twin = plan.rows.iter().find(|row| row.config == repeated.config && row.repeat == 0).unwrap();
        let other = plan.rows.iter().find(|row| row.config != repeated.config).unwrap();
        assert_eq!(noise_floor(&plan, &[kept(twin.row, 0.1), kept(other.row, 9.0)]), None);
        let floor = noise_floor(&plan, &[kept(twin.row, 0.1), kept(repeated.row, 0.125), kept(other.row, 9.0)]);
        // Rates 10 and 8: deviation 1.414 over a mean of 9.
        assert!((floor.unwrap() - 15.713).abs() < 0.01, "{floor:?}");
    }

    #[test]
    fn a_sweep_goes_on_only_where_asked_and_only_if_it_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan();
        let mut folder = Folder::open(dir.path(), &plan, false).unwrap();
        folder.keep(kept(1, 0.1)).unwrap();
        folder.keep(Kept { failed: Some("broken".to_owned()), seen: None, ..kept(2, 0.1) }).unwrap();
        drop(folder);
        // A kill in the middle of a line.
        let log = dir.path().join("rows.jsonl");
        let mut text = fs::read_to_string(&log).unwrap();
        text.push_str("{\"row\":3,\"at");
        fs::write(&log, text).unwrap();
        let again = Folder::open(dir.path(), &plan, true).unwrap();
        assert!(again.has(1) && !again.has(2) && !again.has(3), "failed and torn rows are run again");
        drop(again);
        let refused = |result: Result<Folder>| result.err().unwrap();
        assert!(refused(Folder::open(dir.path(), &plan, false)).hint.unwrap().contains("--resume"));
        let other = Plan::new(Set::Quick, 2, 2.0, "cache");
        assert!(refused(Folder::open(dir.path(), &other, true)).message.contains("seed 1"));
    }

    #[test]
    fn the_table_is_one_parquet_file_and_nothing_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan();
        let mut folder = Folder::open(dir.path(), &plan, false).unwrap();
        folder.keep(kept(0, 0.1)).unwrap();
        let (path, near) = folder.table(&plan, "machine", true).unwrap();
        assert_eq!(near, None, "a row without a whole probe is none that the step model can be held against");
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
        let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["observation.parquet", "plan.json", "rows.jsonl"]);
    }
}
