//! `feedline sweep`: real loaders in many configurations and settings, to learn from.
//!
//! A plan is drawn from a seed ([`plan`]); each block of it runs in one Python process that makes a
//! fresh PyTorch `DataLoader` for each row; rows are kept as they come, so that a sweep that was cut
//! short goes on where it was. Everything that a sweep makes (files, mounts, control groups, links)
//! hangs on this process and is taken away with it. `docs/sweep.md` says what the figures mean.

mod keep;
mod limits;
pub mod plan;
pub mod setting;
mod trainer;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use feedline_traces::{Clock, Error, Result};
use serde::Serialize;
use serde_json::json;
use tempfile::TempDir;

use crate::cli::{output, progress};
use crate::demo::photos::{self, Photos};
use crate::demo::python::{self, PROGRAMS};
pub use keep::Near;
use keep::{Folder, Kept};
use limits::Limits;
use plan::{Plan, Row};
use setting::Setting;
use trainer::{Silent, Trainer};

/// Seconds for importing PyTorch and starting a server.
const START: Duration = Duration::from_secs(60);
/// Seconds for a row, its data set made first.
const ROW: Duration = Duration::from_secs(90);
/// Photographs that are made: their bytes, about, their width and height, and how many. They come
/// again and again in a data set.
const PHOTOS: [(u32, u16, u16, usize); 2] = [(110_000, 500, 375, 48), (400_000, 1000, 750, 12)];

/// Hears of a row as soon as it is over: what came of it, or why it failed.
type Tell<'a> = dyn FnMut(&Row, std::result::Result<serde_json::Value, String>) -> Result<()> + 'a;

/// What is wanted of a sweep.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder that the plan, the rows and the table go to.
    pub out: PathBuf,
    /// The folder on a disk in which data sets are made for the time of the sweep; `out` without it.
    pub scratch: Option<PathBuf>,
    /// Whether a sweep that is there goes on.
    pub resume: bool,
    /// Whether the step model's rows are put beside the measured ones, marked as such.
    pub simulated: bool,
}

/// What a sweep did.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Its set and seed.
    pub sweep: String,
    /// Rows of the plan.
    pub planned: usize,
    /// Rows that are known, those of earlier runs included.
    pub rows: usize,
    /// Rows that failed, and why.
    pub failed: Vec<String>,
    /// Settings that cannot be had here, and why.
    pub skipped: BTreeMap<String, String>,
    /// Rows known of each setting.
    pub settings: BTreeMap<String, usize>,
    /// Spread of repeats: median over configurations of the standard deviation of samples a second over
    /// their mean, in percent.
    pub noise_floor_pct: Option<f64>,
    /// How near the step model comes to the measured rows.
    pub step_model: Option<Near>,
    /// Seconds that it took.
    pub seconds: f64,
    /// Whether it was asked to end before it was through.
    pub stopped: bool,
    /// The table.
    pub table: PathBuf,
}

/// Settings of a plan that cannot be had here, and why.
#[must_use]
pub fn refused(plan: &Plan, folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for row in &plan.rows {
        if let Some(why) = Setting::find(&row.setting).and_then(|setting| setting.refused(folder)) {
            found.insert(row.setting.clone(), why);
        }
    }
    found
}

/// Runs a plan.
///
/// # Errors
/// When there is no Python with PyTorch, or the folder cannot be written. A row or a setting that fails
/// is told in the summary and stops nothing.
pub fn run(plan: &Plan, options: &Options, clock: &dyn Clock) -> Result<Summary> {
    let began = clock.now();
    let found = python::find(PROGRAMS).ok_or_else(|| {
        Error::new("no Python with PyTorch, NumPy and Pillow: tried python3 and /usr/bin/python3")
            .hint("apt-get install python3-torch python3-pil python3-numpy")
    })?;
    let mut folder = Folder::open(&options.out, plan, options.resume)?;
    let stop = stops()?;
    let missing: Vec<&Row> = plan.rows.iter().filter(|row| !folder.has(row.row)).collect();
    let mut sweep = Sweep::prepare(plan, &missing, options, found.program)?;
    let bar = progress::bar("sweep", plan.rows.len() as u64);
    bar.set_position(folder.rows.len() as u64);
    let mut failed = Vec::new();
    let mut tried = BTreeSet::new();
    for block in plan.rows.chunk_by(|a, b| a.block == b.block) {
        let name = block.first().map_or("", |row| row.setting.as_str());
        // A trainer that dies costs the row at hand; the next one goes on behind it.
        loop {
            let todo: Vec<&Row> = block.iter().filter(|r| !folder.has(r.row) && !tried.contains(&r.row)).collect();
            if todo.is_empty() || stop.load(Ordering::SeqCst) || sweep.skipped.contains_key(name) {
                break;
            }
            bar.set_message(name.to_owned());
            let outcome = sweep.block(&todo, &stop, &mut |row, answer| {
                bar.inc(1);
                tried.insert(row.row);
                let (seen, reason) = match answer {
                    Ok(seen) => (Some(seen), None),
                    Err(reason) => (None, Some(reason)),
                };
                if let Some(reason) = &reason {
                    failed.push(format!("row {} ({}): {reason}", row.row, row.setting));
                }
                let position = folder.rows.len() as u64;
                folder.keep(Kept { row: row.row, at: clock.now().0, position, seen, failed: reason })
            });
            if let Err(error) = outcome {
                sweep.skipped.insert(name.to_owned(), error.message);
            }
        }
    }
    bar.finish_and_clear();
    let skipped = std::mem::take(&mut sweep.skipped);
    drop(sweep);
    let (table, step_model) = folder.table(plan, &machine(), options.simulated)?;
    let mut settings = BTreeMap::new();
    for row in plan.rows.iter().filter(|row| folder.has(row.row)) {
        *settings.entry(row.setting.clone()).or_insert(0) += 1;
    }
    Ok(Summary {
        sweep: plan.name(),
        planned: plan.rows.len(),
        rows: folder.rows.len(),
        failed,
        skipped,
        settings,
        noise_floor_pct: keep::noise_floor(plan, &folder.rows),
        step_model,
        seconds: clock.now().seconds_since(began),
        stopped: stop.load(Ordering::SeqCst),
        table,
    })
}

/// A flag that ctrl-C, SIGTERM and SIGHUP raise.
fn stops() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|cause| Error::io("signals", &cause))?;
    }
    Ok(stop)
}

/// The places of a sweep; they go when it goes.
struct Sweep {
    python: PathBuf,
    disk: TempDir,
    memory: Option<TempDir>,
    skipped: BTreeMap<String, String>,
}

impl Sweep {
    fn prepare(plan: &Plan, missing: &[&Row], options: &Options, python: PathBuf) -> Result<Self> {
        let above = options.scratch.as_ref().unwrap_or(&options.out);
        let place = |cause: &std::io::Error| Error::io(above.display(), cause);
        let disk = tempfile::Builder::new().prefix("scratch-").tempdir_in(above).map_err(|cause| place(&cause))?;
        let disk_path = std::fs::canonicalize(disk.path()).map_err(|cause| place(&cause))?;
        let skipped = refused(plan, &disk_path);
        trainer::write_scripts(&disk_path)?;
        std::fs::create_dir(disk_path.join("data")).map_err(|cause| place(&cause))?;
        for (bytes, width, height, count) in PHOTOS {
            if missing.iter().any(|row| row.run.content == "photo" && row.run.bytes == bytes) {
                let few = Photos { count, width, height, ..Photos::default() };
                let folder = disk_path.join("photos").join(bytes.to_string());
                std::fs::create_dir_all(&folder).map_err(|cause| place(&cause))?;
                let bar = progress::bar("photographs", count as u64);
                photos::make(&folder, &few, &|made| bar.set_position(made as u64))?;
                bar.finish_and_clear();
            }
        }
        let in_memory = |row: &Row| Setting::find(&row.setting).is_some_and(Setting::in_memory);
        let wanted = missing.iter().any(|row| in_memory(row) && !skipped.contains_key(&row.setting));
        let memory = if wanted {
            let made = tempfile::Builder::new().prefix("feedline-sweep-").tempdir_in("/dev/shm");
            Some(made.map_err(|cause| Error::io("/dev/shm", &cause))?)
        } else {
            None
        };
        Ok(Self { python, disk, memory, skipped })
    }

    /// Runs rows of one setting in one process; `tell` gets each as soon as it is known.
    fn block(&self, rows: &[&Row], stop: &AtomicBool, tell: &mut Tell<'_>) -> Result<()> {
        let name = rows.first().map(|row| row.setting.as_str()).unwrap_or_default();
        let setting = Setting::find(name).ok_or_else(|| Error::new(format!("no setting `{name}`")))?;
        let disk = std::fs::canonicalize(self.disk.path()).map_err(|cause| Error::io(name, &cause))?;
        let data = match &self.memory {
            Some(memory) if setting.in_memory() => memory.path().to_path_buf(),
            _ => disk.join("data"),
        };
        let mount = disk.join("mount");
        let mut about = json!(setting);
        about["data"] = json!(data);
        about["photos"] = json!(disk.join("photos"));
        about["mount"] = json!(mount);
        // Before the trainer, so that it is taken away after it.
        let limits = Limits::of(setting, &disk)?;
        let mut trainer = Trainer::start(&self.python, &disk, &about, &mount)?;
        match trainer.answer(START, stop) {
            Ok(line) if line == "ready" => limits.hold(trainer.pid())?,
            Ok(line) => return Err(Error::new(format!("the trainer: expected `ready`, found `{line}`"))),
            Err(Silent::Stopped) => return Ok(()),
            Err(Silent::Dead(error)) => return Err(error),
        }
        for row in rows {
            let config = serde_json::to_string(&row.run).map_err(|cause| Error::new(format!("row: {cause}")))?;
            let answer = trainer.ask(&config).and_then(|()| trainer.answer(ROW, stop));
            let line = match answer {
                Ok(line) => line,
                Err(Silent::Stopped) => return Ok(()),
                Err(Silent::Dead(error)) => return tell(row, Err(error.message)),
            };
            tell(row, understood(&line))?;
        }
        Ok(())
    }
}

/// What the trainer says of a row.
fn understood(line: &str) -> std::result::Result<serde_json::Value, String> {
    let answer: serde_json::Value = serde_json::from_str(line).map_err(|cause| format!("{cause}: {line}"))?;
    match answer["failed"].as_str() {
        Some(reason) => Err(reason.to_owned()),
        None => Ok(answer),
    }
}

/// Processor, cores and memory. Names of hosts and users stay out.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        text.lines()
            .find_map(|l| l.strip_prefix(name))
            .map(|v| v.trim_start_matches([' ', '\t', ':']).trim().to_owned())
    };
    let model = field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let kib: f64 = field(&read("/proc/meminfo"), "MemTotal:")
        .and_then(|text| text.split(' ').next().and_then(|n| n.parse().ok()))
        .unwrap_or(f64::NAN);
    format!("{model}, {} cores, {:.0} GiB", setting::machine_cores(), kib / f64::from(1 << 20))
}

/// A summary for reading.
#[must_use]
pub fn show(summary: &Summary) -> String {
    let mut rows = vec![vec!["setting".to_owned(), "rows".to_owned()]];
    rows.extend(summary.settings.iter().map(|(name, count)| vec![name.clone(), count.to_string()]));
    let mut text = output::columns(&rows);
    for (name, why) in &summary.skipped {
        text.push_str(&format!("skipped {name}: {why}\n"));
    }
    for failure in &summary.failed {
        text.push_str(&format!("failed {failure}\n"));
    }
    let noise = summary.noise_floor_pct.map_or_else(|| "unknown, no repeats".to_owned(), |pct| format!("{pct:.1} %"));
    text.push_str(&format!(
        "\n{} of {} rows in {:.0} s; spread of repeats {noise}\ntable: {}\n",
        summary.rows,
        summary.planned,
        summary.seconds,
        summary.table.display()
    ));
    if let Some(near) = &summary.step_model {
        text.push_str(&format!(
            "the step model, from the probes alone: time of a step off by {:.0} % (median), stall by {:.0} points (mean)\n",
            near.period_pct, near.stall_points
        ));
    }
    if summary.rows < summary.planned {
        text.push_str("the rest: the same command with --resume, and as root where that is what is missing\n");
    }
    text
}
