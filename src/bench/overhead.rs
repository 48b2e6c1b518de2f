//! What a watched job loses, and what Feedline uses.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use feedline_traces::{Clock, Error, Result, SystemClock, Ts};
use serde_json::{Value, json};

use super::{Jobs, Outcome, median};
use crate::cli::progress;
use crate::demo::start::Running;
use crate::demo::truth::Truth;

/// Time for a recorder to attach before its window begins, and to end after it.
const SETTLE: Duration = Duration::from_secs(4);

/// One window of the job.
struct Window {
    watched: bool,
    from: Ts,
    until: Ts,
}

/// Runs one CPU-bound job with two workers and compares its steps a second in windows with and
/// without Feedline, in pairs whose order alternates: A B, B A, A B …
///
/// # Errors
/// When the job or a recorder cannot be run.
pub fn run(jobs: &Jobs, pairs: usize, span: Duration, out: &Path) -> Result<Outcome> {
    let span = span.min(Duration::from_secs(20));
    let clock = SystemClock::anchored_now();
    let mut job = jobs.start(jobs.find("busy")?)?;
    let bar = progress::bar("pairs", pairs as u64);
    let mut windows = Vec::new();
    let mut own = Vec::new();
    let mut stops = 0;
    for pair in 0..pairs {
        for second in [false, true] {
            let watched = second != (pair % 2 == 1);
            windows.push(window(jobs, &job, &clock, span, watched, &mut own, &mut stops)?);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    job.stop();
    let truth = Truth::read(&job.truth)?;
    let rate = |window: &Window| {
        let told = truth.window(window.from, window.until)?;
        Some(1e9 / Duration::from_nanos(told.period_ns?.unsigned_abs()).as_nanos() as f64)
    };
    let mut rows: Vec<Value> = Vec::new();
    let mut slowdowns = Vec::new();
    for pair in windows.chunks(2) {
        let (Some(first), Some(second)) = (rate(&pair[0]), rate(&pair[1])) else {
            return Err(Error::new("the job logged too few steps").hint("try a longer --for"));
        };
        let (with, without) = if pair[0].watched { (first, second) } else { (second, first) };
        let slowdown = (1.0 - with / without) * 100.0;
        slowdowns.push(slowdown);
        rows.push(json!({ "steps_per_s_with": with, "steps_per_s_without": without, "slowdown_pct": slowdown }));
    }
    let cpu: Vec<f64> = own.iter().filter_map(|own: &Value| own["cpu"].as_f64()).map(|v| v * 100.0).collect();
    let rss = own.iter().filter_map(|own| own["rss_peak"].as_f64()).fold(f64::NAN, f64::max) / 1e6;
    rows.extend(own.iter().map(|own| json!({ "own": own })));
    let slowdown = median(&slowdowns).unwrap_or(f64::NAN);
    let own_cpu = median(&cpu).unwrap_or(f64::NAN);
    let spread = spread(&slowdowns);
    let pass = pairs >= 7 && slowdown <= 1.0 && own_cpu <= 3.0 && rss <= 100.0 && stops == 0;
    let figures = json!({
        "pairs": pairs,
        "slowdown_median_pct": slowdown,
        "slowdown_quartiles_pct": spread,
        "own_cpu_pct": own_cpu,
        "own_rss_mb": rss,
        "stops": stops,
        "seconds_each": span.as_secs(),
    });
    Outcome::write("overhead", out, &rows, figures, pass)
}

/// One window; a watched one begins when the recorder has settled. Both take the same time.
fn window(
    jobs: &Jobs,
    job: &Running,
    clock: &SystemClock,
    span: Duration,
    watched: bool,
    own: &mut Vec<Value>,
    stops: &mut u64,
) -> Result<Window> {
    let mut recorder = watched.then(|| start(jobs, job)).transpose()?;
    *stops += watch(job, clock, SETTLE)?;
    let from = clock.now();
    *stops += watch(job, clock, span)?;
    let until = clock.now();
    if let Some(recorder) = recorder.take() {
        let report = end(recorder)?;
        own.push(report["report"]["own"].clone());
    } else {
        *stops += watch(job, clock, Duration::from_secs(1))?;
    }
    Ok(Window { watched, from, until })
}

fn start(jobs: &Jobs, job: &Running) -> Result<Child> {
    let run = jobs.fresh("run")?.join("run");
    let spawned = jobs.recorder(job, None, &run).stdout(Stdio::piped()).spawn();
    spawned.map_err(|cause| Error::io("recorder", &cause))
}

/// Asks a recorder to end and gives its report.
fn end(recorder: Child) -> Result<Value> {
    if let Some(pid) = i32::try_from(recorder.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    }
    let output = recorder.wait_with_output().map_err(|cause| Error::io("recorder", &cause))?;
    if !output.status.success() {
        return Err(Error::new(format!("recorder: {}", String::from_utf8_lossy(&output.stderr).trim())));
    }
    serde_json::from_slice(&output.stdout).map_err(|cause| Error::new(format!("recorder: {cause}")))
}

/// Lets a span pass, and counts how often a thread of the job was found stopped or traced.
fn watch(job: &Running, clock: &SystemClock, span: Duration) -> Result<u64> {
    let until = clock.now().plus(span);
    let mut found = 0;
    while clock.now() < until {
        found += stopped(job.pid)?;
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(found)
}

/// Threads of the trainer and of its workers that are stopped or have a tracer. A trainer that
/// cannot be looked at is an error, not a job without stops; a worker may have ended meanwhile.
fn stopped(pid: u32) -> Result<u64> {
    let place = format!("/proc/{pid}/task");
    let children = fs::read_to_string(format!("{place}/{pid}/children")).map_err(|cause| Error::io(&place, &cause))?;
    let is_stopped = |status: &str| {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        field("TracerPid:").is_some_and(|tracer| tracer != "0")
            || field("State:").is_some_and(|state| state.starts_with(['t', 'T']))
    };
    let workers = children.split_whitespace().filter_map(|child| fs::read_dir(format!("/proc/{child}/task")).ok());
    let tasks = fs::read_dir(&place).map_err(|cause| Error::io(&place, &cause))?.chain(workers.flatten());
    let statuses = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    Ok(statuses.filter(|status| is_stopped(status)).count() as u64)
}

/// The first and third quartile.
fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: usize| sorted.get((sorted.len().checked_sub(1)? * share) / 4).copied();
    at(1).zip(at(3))
}
