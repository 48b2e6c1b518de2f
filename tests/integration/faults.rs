//! Things that go wrong around a recording.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Job, feedline, run, stderr, stdout};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_job_that_ends_ends_the_recording_well() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let mut job = Job::embedded(dir.path());
    let recorder = feedline(&["record", &job.pid(), "--for", "60s", "--out", &folder.to_string_lossy(), "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(4));
    job.child.kill().unwrap();
    job.child.wait().unwrap();
    let output = recorder.wait_with_output().unwrap();
    assert!(output.status.success());
    let _: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(run(&["report", &folder.to_string_lossy()]).status.success());
}

#[test]
fn a_recorder_that_is_killed_leaves_a_run_that_opens_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let job = Job::embedded(dir.path());
    for trial in 0..3 {
        let folder = dir.path().join(format!("run{trial}"));
        let mut recorder = feedline(&["record", &job.pid(), "--out", &folder.to_string_lossy()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(3300 + 370 * trial));
        recorder.kill().unwrap();
        assert_eq!(recorder.wait().unwrap().signal(), Some(9));
        let report = run(&["report", &folder.to_string_lossy(), "--json"]);
        assert!(report.status.success(), "{}", stderr(&report));
        let report: serde_json::Value = serde_json::from_str(&stdout(&report)).unwrap();
        let seconds = report["seconds"].as_f64().unwrap();
        assert!(seconds >= 1.0, "only {seconds} s were kept");
        let recovered = run(&["recover", &folder.to_string_lossy()]);
        assert!(recovered.status.success(), "{}", stderr(&recovered));
        assert!(folder.join("table=process").is_dir(), "the tail is not in Parquet");
    }
}

#[test]
fn a_full_disk_ends_with_a_clear_error_and_the_data_before_it_intact() {
    let dir = tempfile::tempdir().unwrap();
    let mount = dir.path().join("small");
    fs::create_dir(&mount).unwrap();
    let mounted = is_root()
        && Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=96k", "tmpfs"])
            .arg(&mount)
            .status()
            .is_ok_and(|s| s.success());
    if !mounted {
        eprintln!("skipped: mounting a small file system needs root");
        return;
    }
    let _unmount = Unmount(&mount);
    let job = Job::embedded(dir.path());
    let folder = mount.join("run");
    let output = run(&["record", &job.pid(), "--for", "100s", "--out", &folder.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let said = stderr(&output);
    assert!(said.contains("error:") && said.to_lowercase().contains("no space left"), "{said}");
    let report = run(&["report", &folder.to_string_lossy(), "--json"]);
    assert!(report.status.success(), "{}", stderr(&report));
}

struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_stranger_without_the_right_is_told_which_right_and_what_still_works() {
    if !is_root() {
        eprintln!("skipped: becoming another user needs root");
        return;
    }
    let dir =
        tempfile::Builder::new().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755)).tempdir().unwrap();
    let program = dir.path().join("feedline");
    fs::copy(env!("CARGO_BIN_EXE_feedline"), &program).unwrap();
    let job = Job::embedded(dir.path());
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(["record", &job.pid(), "--for", "2s", "--out", "/tmp/feedline-denied"])
        .output()
        .unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("CAP_SYS_PTRACE") && said.contains("--partial"), "{said}");
}

#[test]
fn a_run_folder_that_is_there_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let job = Job::embedded(dir.path());
    let folder = dir.path().join("run");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("run.json"), "{}").unwrap();
    let output = run(&["record", &job.pid(), "--for", "1s", "--out", &folder.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_to_string(folder.join("run.json")).unwrap(), "{}");
}

#[test]
fn recorders_that_start_in_the_same_second_each_get_a_folder_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let job = Job::embedded(dir.path());
    let start = || {
        let args = ["record", &job.pid(), "--for", "2s"];
        feedline(&args).current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let recorders: Vec<_> = (0..3).map(|_| start()).collect();
    for recorder in recorders {
        let output = recorder.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let runs: Vec<_> = fs::read_dir(dir.path().join("runs")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(runs.len(), 3, "{runs:?}");
    for folder in runs {
        assert!(run(&["report", &folder.to_string_lossy()]).status.success());
    }
}

#[test]
fn a_damaged_table_does_not_keep_the_rest_of_a_run_from_being_reported_and_exported() {
    let dir = tempfile::tempdir().unwrap();
    let job = Job::embedded(dir.path());
    let folder = dir.path().join("run");
    let path = folder.to_string_lossy();
    assert!(run(&["record", &job.pid(), "--for", "3s", "--out", &path]).status.success());
    drop(job);
    fs::write(folder.join("table=disk/part-000001.parquet"), "PAR1").unwrap();
    let report = run(&["report", &path]);
    assert!(report.status.success(), "{}", stderr(&report));
    assert!(stdout(&report).contains("table=disk/part-000001.parquet"), "the loss is not told: {}", stdout(&report));
    let out = dir.path().join("csv");
    let export = run(&["export", &path, "--out", &out.to_string_lossy()]);
    assert_eq!(export.status.code(), Some(1));
    assert!(stderr(&export).contains("table=disk"), "{}", stderr(&export));
    assert!(fs::metadata(out.join("process.csv")).unwrap().len() > 100, "the other tables were not written");
}
