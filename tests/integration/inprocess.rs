//! Exact times from inside the job: `feedline run`, and marks found by `feedline record`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use feedline::demo::photos::{self, Photos};
use feedline::demo::truth::Truth;
use feedline_traces::run::Run;
use feedline_traces::{Source as _, Ts};

use crate::support::{feedline, root, run, stderr, stdout};

const PYTHON: &str = "/usr/bin/python3";

/// What was counted of a thread's region: when, how often, and nanoseconds.
type Counted = Vec<(Ts, u64, u64)>;

/// The rows of `region`, by process, thread and region.
fn regions(dir: &Path) -> BTreeMap<(String, String, String), Counted> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut found = BTreeMap::<_, Counted>::new();
    let mut replay = Run::open(dir).unwrap().replay().unwrap();
    let schema = replay.schema().clone();
    let table = schema.find_table("region").unwrap();
    let column = |name: &str| schema.find(&format!("region.{name}")).unwrap().column;
    runtime.block_on(async {
        while let Some(tick) = replay.next().await.unwrap() {
            for batch in tick.batches.iter().filter(|batch| batch.table == table) {
                for row in 0..batch.len() {
                    let text = |name: &str| batch.columns[column(name)].text(row).unwrap().to_string();
                    let whole = |name: &str| batch.columns[column(name)].whole(row).unwrap();
                    let key = (text("process"), text("thread"), text("region"));
                    found.entry(key).or_default().push((batch.at[row], whole("times"), whole("time")));
                }
            }
        }
    });
    found
}

/// The rows of a region in the only thread that has it.
fn only(all: &BTreeMap<(String, String, String), Counted>, region: &str) -> Counted {
    let mut found = all.iter().filter(|((_, _, name), _)| name == region);
    let first = found.next().unwrap_or_else(|| panic!("no `{region}` among {:?}", all.keys()));
    assert!(found.next().is_none(), "`{region}` in two threads: {:?}", all.keys());
    first.1.clone()
}

fn has_torch() -> bool {
    let asked = Command::new(PYTHON).args(["-c", "import torch, numpy, PIL"]).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// A job of its own that marks what it does: 30 ms of `data` and 20 ms of step, 50 times.
const MARKED: &str = "
import sys, time, feedline
print('ready', flush=True)
for _ in range(int(sys.argv[1])):
    feedline.step()
    with feedline.region('data'):
        time.sleep(0.03)
    time.sleep(0.02)
";

#[test]
fn a_command_runs_as_ever_and_its_regions_are_counted_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let out = folder.to_string_lossy();
    let script = format!(
        "import os, sys, builtins{MARKED}
assert os.environ['KEPT'] == 'as it was' and sys.path[-1]
print('fed', sys.stdin.read(), flush=True)
sys.exit(3)"
    );
    let mut child = feedline(&["run", "--out", &out, "--", PYTHON, "-c", &script, "60"])
        .env("KEPT", "as it was")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"by hand").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(stdout(&output), "ready\nfed by hand\n");
    assert!(stderr(&output).contains("run: "), "{}", stderr(&output));
    let all = regions(&folder);
    let (data, step) = (only(&all, "data"), only(&all, "step"));
    let ((first, n0, t0), (last, n1, t1)) = (*data.first().unwrap(), *data.last().unwrap());
    assert!(n1 > n0 + 20, "{n0} to {n1} in {} readings", data.len());
    // What the clock of the job says: at least 30 ms each, and never more than there was time.
    assert!(t1 - t0 >= (n1 - n0 - 1) * 30_000_000, "{n1} took {t1}");
    let (s0, s1) = (step.first().unwrap(), step.last().unwrap());
    let span = u64::try_from(last.since(first)).unwrap();
    assert!(s1.2 - s0.2 + t1 - t0 <= span + 5_000_000, "data and step overlap");
    assert!(s1.2 - s0.2 + t1 - t0 >= span - 50_000_000, "time between them was lost");
    let hooked = only(&all, "gc");
    assert!(hooked.last().unwrap().1 > 0, "the hooks are not in");
}

#[test]
fn a_command_that_a_signal_ends_says_so_and_gets_the_signals_sent_to_feedline() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let script = "import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: print('told', flush=True))
print('ready', flush=True)
while True: time.sleep(0.05)";
    let mut child = feedline(&["run", "--out", &out.to_string_lossy(), "--", PYTHON, "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let send = |name: &str| Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    // Until the program listens itself, the signal would end it.
    while !out.join("run.json").exists() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(send("-USR1").success());
    assert_eq!(lines.next().unwrap().unwrap(), "told");
    assert!(send("-TERM").success());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    assert!(Run::open(&out).is_ok());
}

#[test]
fn a_command_that_is_not_there_or_ends_at_once_is_no_riddle() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run").to_string_lossy().into_owned();
    let missing = run(&["run", "--out", &out, "--", "no-such-program-here"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("no-such-program-here"), "{}", stderr(&missing));
    let brief = run(&["run", "--out", &out, "--", "sh", "-c", "exit 5"]);
    assert_eq!((brief.status.code(), brief.status.signal()), (Some(5), None), "{}", stderr(&brief));
    assert_eq!(run(&["run"]).status.code(), Some(2));
}

#[test]
fn marks_in_a_job_that_runs_are_found_and_counted_from_then_on() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let mut job = Command::new(PYTHON)
        .args(["-B", "-c", MARKED, "100000"])
        .env("PYTHONPATH", root().join("python"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(job.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let pid = job.id().to_string();
    let doctor = stdout(&run(&["doctor", &pid]));
    assert!(doctor.contains("the job carries them"), "{doctor}");
    let output = run(&["record", &pid, "--for", "4s", "--out", &folder.to_string_lossy()]);
    job.kill().unwrap();
    job.wait().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let data = only(&regions(&folder), "data");
    let (first, last) = (data.first().unwrap(), data.last().unwrap());
    assert!(last.1 > first.1 + 10, "{} batches", last.1 - first.1);
}

#[test]
fn a_pytorch_job_waits_for_data_as_long_as_it_says_itself() {
    if !has_torch() {
        eprintln!("skipped: {PYTHON} has no PyTorch");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    photos::make(&photos, &Photos { count: 96, ..Photos::default() }, &|_| ()).unwrap();
    for workers in ["0", "2"] {
        let (folder, truth) = (dir.path().join(format!("run{workers}")), dir.path().join("truth.jsonl"));
        let job = root().join("tests/jobs/job.py");
        let output = feedline(&["run", "--out", &folder.to_string_lossy(), "--", PYTHON, "-B"])
            .arg(job)
            .args(["--kind", "dataloader", "--workers", workers, "--batch", "8", "--seconds", "8"])
            .arg("--data")
            .arg(&photos)
            .arg("--truth")
            .arg(&truth)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let all = regions(&folder);
        let data = only(&all, "data");
        let trainer = all.keys().find(|(_, _, region)| region == "data").unwrap().clone();
        let startup = &all[&(trainer.0.clone(), trainer.1.clone(), "startup".to_owned())];
        // Between two readings in the middle of the loop: the job's start and its end are no steps.
        let begin = data.iter().position(|row| row.1 > 5).unwrap();
        let most = data.last().unwrap().1;
        let end = data.iter().rposition(|row| row.1 < most).unwrap();
        let ((from, _, t0), (to, _, t1)) = (data[begin], data[end]);
        let at = |when: Ts| startup.iter().rfind(|row| row.0 <= when).map_or(0, |row| row.2);
        let waited = (t1 - t0 + at(to) - at(from)) as f64;
        let share = waited / to.since(from) as f64;
        let told = Truth::read(&truth).unwrap().window(from, to).unwrap();
        let error = (share - told.share) * 100.0;
        eprintln!("{workers} workers: data {share:.4}, the job says {:.4}: {error:+.2} points", told.share);
        assert!(told.covered > 0.9 && error.abs() <= 1.0, "{error:+.2} points over {told:?}");
        let fetchers: Vec<_> = all.keys().filter(|(_, _, region)| region == "worker.fetch").collect();
        assert_eq!(fetchers.len().to_string(), if workers == "0" { "1" } else { workers }, "{:?}", all.keys());
        let batches: u64 = fetchers.iter().map(|key| all[*key].last().unwrap().1).sum();
        assert!(batches >= data.last().unwrap().1, "{batches} batches were made");
    }
}
