//! Recorded runs as what the forecast learns from, and where the trained one is kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use feedline_models::forecast::{Forecaster, LIMIT, Lived, Point, Points, estimated};
use feedline_traces::run::Run;
use feedline_traces::{Error, Result, Symbol, Ts};

use crate::chain;
use crate::demo::truth::Truth;
use crate::runtime::runtime;

/// The job's own log beside its run, where it has one: what came is then what the job says.
pub const TRUTH: &str = "truth.jsonl";
/// Seconds below which a trainer teaches nothing.
const FEWEST: usize = 15;
/// The part of a window that the job's log must cover.
const COVERED: f64 = 0.99;

/// Where a forecast that was trained here is kept: `feedline/forecast.json` in the user's data folder.
#[must_use]
pub fn place() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local/share")))?;
    Some(data.join("feedline/forecast.json"))
}

/// The forecast that was trained here, else the one that comes with the program. One that cannot be
/// read, such as that of a program with other inputs, is as none.
#[must_use]
pub fn forecaster() -> Arc<Forecaster> {
    static HELD: OnceLock<Arc<Forecaster>> = OnceLock::new();
    let own = || {
        let file = place()?;
        let small = fs::metadata(&file).is_ok_and(|about| about.len() <= LIMIT as u64);
        Forecaster::load(&fs::read_to_string(&file).ok().filter(|_| small)?).ok().map(Arc::new)
    };
    Arc::clone(HELD.get_or_init(|| own().unwrap_or_else(Forecaster::bundled)))
}

/// The trainers of a recorded run, second by second, as a live run would have seen them.
///
/// # Errors
/// When the run or the log beside it cannot be read.
pub fn lived(folder: &Path) -> Result<Vec<Lived>> {
    let run = Run::open(folder)?.leaving_out_damage();
    let mut seconds: BTreeMap<Symbol, Vec<Point>> = BTreeMap::new();
    runtime()?.block_on(async {
        let mut source = chain::replay(&run)?;
        let mut points = Points::bind(source.schema());
        while let Some(tick) = source.next().await? {
            for (trainer, point) in points.account(&tick) {
                seconds.entry(trainer).or_default().push(point);
            }
        }
        Ok::<(), Error>(())
    })?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // Runs of one kind differ by what stands behind the last dash: a seed, or a time.
    let kind = name.rsplit_once('-').map_or(name.as_str(), |(kind, _)| kind);
    let log = folder.join(TRUTH);
    if log.is_file() {
        let truth = Truth::read(&log)?;
        let of_log = |trainer: &Symbol| truth.head.pid.is_some_and(|pid| trainer.starts_with(&format!("{pid}@")));
        let share = |from: Ts, to: Ts| truth.window(from, to).filter(|told| told.covered >= COVERED).map(|t| t.share);
        let (_, points) = seconds.into_iter().find(|(trainer, _)| of_log(trainer)).ok_or_else(|| {
            Error::new(format!("{}: the run has no trainer with the pid that its log names", folder.display()))
        })?;
        return Ok(vec![Lived::of(&name, kind, points, &share)]);
    }
    let enough = seconds.into_values().filter(|points| points.len() >= FEWEST);
    let of_run = |points: Vec<Point>| {
        let seen = estimated(&points);
        Lived::of(&name, kind, points, &seen)
    };
    Ok(enough.map(of_run).collect())
}
