//! `feedline sweep`: real loaders, ended in the middle and gone on with.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use feedline::demo::python::{self, PROGRAMS};

use crate::support::{feedline, run, stderr, stdout};

/// Lines of a sweep's log that are rows.
fn rows(folder: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(folder.join("rows.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// What a sweep of this process may have left in memory.
fn in_memory() -> Vec<String> {
    let names = std::fs::read_dir("/dev/shm").unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("feedline-sweep-")).collect()
}

#[test]
fn a_sweep_that_is_cut_short_leaves_nothing_behind_and_goes_on_where_it_was() {
    if python::find(PROGRAMS).is_none() {
        eprintln!("skipped: no Python with PyTorch");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("sweep");
    let there = out.to_string_lossy().into_owned();
    let arguments = ["sweep", "--set", "quick", "--only", "tmpfs", "--json", "--out", &there];
    let before = in_memory();
    let mut first = feedline(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    for _ in 0..600 {
        if !rows(&out).is_empty() || matches!(first.try_wait(), Ok(Some(_))) {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(first.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = first.wait_with_output().unwrap();
    let said: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(output.status.success() && said["stopped"] == true, "{said}");
    let kept = rows(&out);
    assert!(!kept.is_empty() && said["rows"] == kept.len(), "{said}");
    assert_eq!(in_memory(), before, "data sets stayed in memory");
    let scratch = |e: std::fs::DirEntry| e.file_name().to_string_lossy().starts_with("scratch-");
    assert!(!std::fs::read_dir(&out).unwrap().any(|e| scratch(e.unwrap())), "the scratch folder stayed");
    assert!(stderr(&run(&arguments)).contains("--resume"), "a sweep that is there is not written over");
    let again = run(&[&arguments[..], &["--resume", "--simulated"]].concat());
    let said: serde_json::Value = serde_json::from_str(&stdout(&again)).unwrap();
    assert_eq!(said["rows"], said["planned"], "{said}");
    assert!(said["failed"].as_array().unwrap().is_empty() && said["noise_floor_pct"].as_f64().is_some(), "{said}");
    assert_eq!(rows(&out)[0], kept[0], "the first row was not kept");
    for row in rows(&out) {
        let seen = |name: &str| row["seen"][name].as_f64().unwrap_or(f64::NAN);
        let share = seen("wait_mean") * seen("steps") / seen("span");
        assert!((0.0..=1.0).contains(&share) && seen("resident") == 1.0 && seen("decode_cpu") > 0.0, "{row}");
        assert!(seen("read_p50_1") <= seen("read_p99_1") && seen("memory") > 1e7, "{row}");
    }
    let table = std::fs::read(out.join("observation.parquet")).unwrap();
    assert!(table.starts_with(b"PAR1"));
}

#[test]
fn a_dry_run_says_what_would_be_run_and_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("sweep");
    let there = out.to_string_lossy().into_owned();
    let output = run(&["sweep", "--set", "full", "--dry-run", "--out", &there]);
    assert!(output.status.success() && !out.exists());
    for name in ["cache", "tmpfs", "direct", "disk-20mb", "fuse-25ms", "objects-link-200mbit", "cache-quota-1.5"] {
        assert!(stdout(&output).lines().any(|line| line.starts_with(name)), "{name}: {}", stdout(&output));
    }
    let wrong = run(&["sweep", "--only", "no-such-setting", "--out", &there]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("no-such-setting") && stderr(&wrong).contains("fuse-25ms"), "{}", stderr(&wrong));
}
