//! A real job watched by the real program: record, report, replay, export, query.

use std::fs;

use crate::support::{Job, run, stderr, stdout};

fn json(args: &[&str]) -> serde_json::Value {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn a_job_recorded_by_pid_can_be_reported_exported_and_queried() {
    let dir = tempfile::tempdir().unwrap();
    let job = Job::embedded(dir.path());
    let folder = dir.path().join("run");
    let run_dir = folder.to_string_lossy();
    let recorded = json(&["record", &job.pid(), "--for", "8s", "--out", &run_dir, "--json"]);
    drop(job);
    let data = recorded["report"]["verdict"]["data"].as_f64().unwrap();
    assert!(data > 0.2, "a starved job reads {data}");

    let again = json(&["report", &run_dir, "--json"]);
    assert_eq!(again["verdict"], recorded["report"]["verdict"], "the replay judges otherwise than the recording");

    for format in ["csv", "jsonl", "parquet", "arrow"] {
        let out = dir.path().join(format);
        let files = json(&[
            "export",
            &run_dir,
            "--format",
            format,
            "--table",
            "stall",
            "--out",
            &out.to_string_lossy(),
            "--json",
        ]);
        let file = files["files"][0].as_str().unwrap();
        assert!(fs::metadata(file).unwrap().len() > 100, "{file} is empty");
    }
    assert!(stdout(&run(&["report", &run_dir])).contains("data"));
    assert!(stdout(&run(&["report", &run_dir, "--format", "markdown"])).starts_with('#'));

    if cfg!(feature = "query") {
        let answer =
            stdout(&run(&["query", "--run", &run_dir, "SELECT cause, avg(share) AS share FROM stall GROUP BY cause"]));
        assert!(answer.contains("data"), "{answer}");
        let wrong = run(&["query", "--run", &run_dir, "SELECT shaer FROM stall"]);
        assert_eq!(wrong.status.code(), Some(1));
        assert!(stderr(&wrong).contains("shaer") && stderr(&wrong).contains("share"), "{}", stderr(&wrong));
    }
}

#[test]
fn secrets_of_the_job_are_nowhere_in_its_run() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let secret = "hunter2-secret";
    let mut child = std::process::Command::new("python3")
        .args(["-c", "import time\nwhile True: time.sleep(0.01)", "--api-key", secret])
        .env("API_TOKEN", secret)
        .spawn()
        .unwrap();
    let output = run(&["record", &child.id().to_string(), "--for", "3s", "--out", &folder.to_string_lossy()]);
    let _ = child.kill();
    let _ = child.wait();
    assert!(output.status.success(), "{}", stderr(&output));
    let jsonl = dir.path().join("jsonl");
    run(&["export", &folder.to_string_lossy(), "--format", "jsonl", "--out", &jsonl.to_string_lossy()]);
    let mut read = 0;
    for entry in fs::read_dir(&jsonl)
        .unwrap()
        .chain(fs::read_dir(&folder).unwrap().filter(|e| e.as_ref().unwrap().path().is_file()))
    {
        let text = String::from_utf8_lossy(&fs::read(entry.unwrap().path()).unwrap()).into_owned();
        assert!(!text.contains(secret), "a secret was recorded");
        read += text.len();
    }
    assert!(read > 1000, "only {read} bytes were searched");
}
