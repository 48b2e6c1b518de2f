//! What a watched job loses, and what Feedline uses.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use feedline_traces::{Clock, Error, Result, SystemClock, Ts};
use serde_json::{Value, json};

use super::burden::{self, Programs, Timing};
use super::{Jobs, Outcome, median};
use crate::cli::progress;
use crate::demo::start::Running;
use crate::demo::truth::Truth;

/// Time for a recorder to attach before its window begins, and to end after it.
const SETTLE: Duration = Duration::from_secs(3);

/// How the bench is run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Pairs with and without Feedline.
    pub pairs: usize,
    /// The length of a window.
    pub span: Duration,
    /// Whether the recorder runs as root with the programs in the kernel, rather than as the job's
    /// user.
    pub kernel: bool,
}

/// One window of the job.
struct Window {
    watched: bool,
    from: Ts,
    until: Ts,
    /// CPU time that the job used in it, in nanoseconds.
    job: Option<u64>,
    /// What the programs in the kernel did in it.
    programs: Option<Programs>,
}

/// What a window came to.
#[derive(Debug, Clone, Copy)]
struct Rate {
    watched: bool,
    steps_per_s: f64,
    /// CPU time of the job for a step, in seconds.
    cpu: Option<f64>,
}

/// Runs one CPU-bound job with two workers and compares its steps a second in windows with and
/// without Feedline, in pairs whose order alternates: A B, B A, A B …
///
/// Machines drift, by more than what is looked for, so windows are short and pairs many: what is
/// told is the median over the pairs with its 95 % interval (of order statistics, so it rests on no
/// distribution). As the order alternates, the last window of a pair and the first of the next are
/// of one kind, and what they differ by is the noise.
///
/// Beside it stand two figures that steal by a hypervisor and waiting for a core do not blur: the
/// CPU time that the job needs for a step, and for how long the programs in the kernel ran.
///
/// # Errors
/// When the job or a recorder cannot be run.
pub fn run(jobs: &Jobs, plan: &Plan, out: &Path) -> Result<Outcome> {
    let Plan { pairs, span, kernel } = *plan;
    let clock = SystemClock::anchored_now();
    let timing = kernel.then(Timing::on).transpose()?;
    let mut job = jobs.start(jobs.find("busy")?)?;
    let bar = progress::bar("pairs", pairs as u64);
    let mut windows = Vec::new();
    let mut own = Vec::new();
    let mut stops = 0;
    for pair in 0..pairs {
        for second in [false, true] {
            let watched = second != (pair % 2 == 1);
            windows.push(window((jobs, plan), &job, &clock, watched, &mut own, &mut stops)?);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    job.stop();
    drop(timing);
    let rates = rates(&Truth::read(&job.truth)?, &windows)?;
    let (slowdowns, noise, dearer) = (slowdowns(&rates), noise(&rates), dearer(&rates));
    let ran = ran(&windows);
    let mut rows: Vec<Value> = rates.chunks_exact(2).zip(&slowdowns).map(|(pair, lost)| row(pair, *lost)).collect();
    let cpu: Vec<f64> = own.iter().filter_map(|own: &Value| own["cpu"].as_f64()).map(|v| v * 100.0).collect();
    let rss = own.iter().filter_map(|own| own["rss_peak"].as_f64()).fold(f64::NAN, f64::max) / 1e6;
    rows.extend(own.iter().map(|own| json!({ "own": own })));
    let slowdown = median(&slowdowns).unwrap_or(f64::NAN);
    let own_cpu = median(&cpu).unwrap_or(f64::NAN);
    // Programs in the kernel are asked for by name, and may cost more.
    let most = if kernel { 3.0 } else { 1.0 };
    let pass = pairs >= 7 && slowdown <= most && own_cpu <= 3.0 && rss <= 100.0 && stops == 0;
    let figures = json!({
        "pairs": pairs,
        "slowdown_median_pct": slowdown,
        "slowdown_interval_pct": interval(&slowdowns),
        "slowdown_quartiles_pct": quartiles(&slowdowns),
        "noise_median_pct": median(&noise),
        "noise_quartiles_pct": quartiles(&noise),
        "cpu_per_step_median_pct": median(&dearer),
        "cpu_per_step_interval_pct": interval(&dearer),
        "programs_of_job_cpu_pct": ran.map(|ran| ran.0),
        "programs_runs_per_s": ran.map(|ran| ran.1),
        "own_cpu_pct": own_cpu,
        "own_rss_mb": rss,
        "stops": stops,
        "seconds_each": span.as_secs(),
        "kernel": kernel,
    });
    Outcome::write(if kernel { "overhead-kernel" } else { "overhead" }, out, &rows, figures, pass)
}

/// What the windows came to.
fn rates(truth: &Truth, windows: &[Window]) -> Result<Vec<Rate>> {
    let rate = |window: &Window| {
        let period = Duration::from_nanos(truth.window(window.from, window.until)?.period_ns?.unsigned_abs());
        let share = window.job.map(|job| Duration::from_nanos(job).as_secs_f64() / seconds(window));
        let steps_per_s = 1.0 / period.as_secs_f64();
        Some(Rate { watched: window.watched, steps_per_s, cpu: share.map(|share| share * period.as_secs_f64()) })
    };
    let all: Option<Vec<Rate>> = windows.iter().map(rate).collect();
    all.ok_or_else(|| Error::new("the job logged too few steps").hint("try a longer --for"))
}

fn seconds(window: &Window) -> f64 {
    Duration::from_nanos(window.until.since(window.from).unsigned_abs()).as_secs_f64()
}

/// The windows of a pair, the watched first.
fn with_and_without(pair: &[Rate]) -> (Rate, Rate) {
    if pair[0].watched { (pair[0], pair[1]) } else { (pair[1], pair[0]) }
}

fn row(pair: &[Rate], slowdown: f64) -> Value {
    let (with, without) = with_and_without(pair);
    json!({
        "steps_per_s_with": with.steps_per_s,
        "steps_per_s_without": without.steps_per_s,
        "slowdown_pct": slowdown,
        "cpu_s_per_step_with": with.cpu,
        "cpu_s_per_step_without": without.cpu,
    })
}

/// What each pair lost when watched, in per cent.
fn slowdowns(rates: &[Rate]) -> Vec<f64> {
    let pairs = rates.chunks_exact(2).map(with_and_without);
    pairs.map(|(with, without)| (1.0 - with.steps_per_s / without.steps_per_s) * 100.0).collect()
}

/// How much more CPU the job needed for a step when watched, in per cent, of each pair.
fn dearer(rates: &[Rate]) -> Vec<f64> {
    let pairs = rates.chunks_exact(2).map(with_and_without);
    pairs.filter_map(|(with, without)| Some((with.cpu? / without.cpu? - 1.0) * 100.0)).collect()
}

/// What neighbours of one kind differ by, in per cent: how far windows are apart that should not be.
fn noise(rates: &[Rate]) -> Vec<f64> {
    let neighbours = rates.windows(2).filter(|two| two[0].watched == two[1].watched);
    neighbours.map(|two| (1.0 - two[1].steps_per_s / two[0].steps_per_s) * 100.0).collect()
}

/// Of windows with programs in the kernel: their time in per cent of the job's CPU time, whoever's
/// time it was, and how often a second they ran.
#[expect(clippy::cast_precision_loss, reason = "a figure in per cent")]
fn ran(windows: &[Window]) -> Option<(f64, f64)> {
    let with: Vec<(&Window, Programs)> = windows.iter().filter_map(|w| Some((w, w.programs?))).collect();
    let job: u64 = with.iter().filter_map(|(window, _)| window.job).sum();
    let ns: u64 = with.iter().map(|(_, programs)| programs.ns).sum();
    let runs: u64 = with.iter().map(|(_, programs)| programs.runs).sum();
    let span: f64 = with.iter().map(|(window, _)| seconds(window)).sum();
    (job > 0).then(|| (ns as f64 / job as f64 * 100.0, runs as f64 / span))
}

/// One window; a watched one begins when the recorder has settled. Both take the same time.
fn window(
    (jobs, plan): (&Jobs, &Plan),
    job: &Running,
    clock: &SystemClock,
    watched: bool,
    own: &mut Vec<Value>,
    stops: &mut u64,
) -> Result<Window> {
    let mut recorder = watched.then(|| start(jobs, job, plan.kernel)).transpose()?;
    *stops += watch(job, clock, SETTLE)?;
    let programs = || recorder.as_ref().filter(|_| plan.kernel).map(|r| burden::programs(r.id())).transpose();
    let before = (burden::job(job.pid), programs()?);
    let from = clock.now();
    *stops += watch(job, clock, plan.span)?;
    let until = clock.now();
    let after = (burden::job(job.pid), programs()?);
    let used = after.0.zip(before.0).and_then(|(after, before)| after.checked_sub(before));
    let ran = after.1.zip(before.1).map(|(after, before)| after.since(before));
    if let Some(recorder) = recorder.take() {
        let report = end(recorder)?;
        own.push(report["report"]["own"].clone());
    } else {
        *stops += watch(job, clock, Duration::from_secs(1))?;
    }
    Ok(Window { watched, from, until, job: used, programs: ran })
}

fn start(jobs: &Jobs, job: &Running, kernel: bool) -> Result<Child> {
    let run = jobs.fresh("run")?.join("run");
    let mut recorder =
        if kernel { jobs.recorder_as_root(job, &run, "--kernel") } else { jobs.recorder(job, None, &run) };
    let spawned = recorder.stdout(Stdio::piped()).spawn();
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
fn quartiles(values: &[f64]) -> Option<(f64, f64)> {
    let last = values.len().checked_sub(1)?;
    between(values, last / 4, last - last / 4)
}

/// The 95 % interval of the median, from order statistics (David and Nagaraja, Order Statistics,
/// 2003, §7.1, in the normal approximation); `None` of fewer than six values, which have none.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "few values")]
fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len();
    if n < 6 {
        return None;
    }
    let rank = ((n as f64 - 1.96 * (n as f64).sqrt()) / 2.0).floor().max(1.0) as usize;
    between(values, rank - 1, n - rank)
}

/// The values at two ranks, from zero.
fn between(values: &[f64], low: usize, high: usize) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(low).copied().zip(sorted.get(high).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_loss_is_found_in_whatever_order_the_windows_came() {
        let rates = [(false, 10.0), (true, 9.0), (true, 18.0), (false, 20.0), (false, 30.0), (true, 27.0)]
            .map(|(watched, steps_per_s)| Rate { watched, steps_per_s, cpu: Some(if watched { 0.102 } else { 0.1 }) });
        assert!(dearer(&rates).iter().all(|more| (more - 2.0).abs() < 1e-9));
        assert!(slowdowns(&rates).iter().all(|lost| (lost - 10.0).abs() < 1e-9));
        // Neighbours of one kind: 9 and 18, 20 and 30.
        assert_eq!(noise(&rates), [-100.0, -50.0]);
    }

    #[test]
    fn the_interval_of_a_median_narrows_with_the_pairs_and_holds_it() {
        let values = |n: u32| (0..n).map(f64::from).collect::<Vec<_>>();
        assert_eq!(interval(&values(5)), None);
        assert_eq!(interval(&values(6)), Some((0.0, 5.0)));
        // Exact tables say ranks 6 and 15 of 20, and 40 and 61 of 100: it errs to the wide side.
        assert_eq!(interval(&values(20)), Some((4.0, 15.0)));
        assert_eq!(interval(&values(100)), Some((39.0, 60.0)));
        assert_eq!(quartiles(&values(9)), Some((2.0, 6.0)));
        assert_eq!(quartiles(&[]), None);
    }
}
