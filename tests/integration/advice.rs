//! `feedline advise` and `feedline track` from outside.

use serde_json::{Value, json};

use crate::support::{feedline, refused, root, run, stderr, stdout};

#[test]
fn a_job_that_has_not_run_is_advised_from_its_file() {
    let file = root().join("tests/data/advise/job.toml");
    let file = file.to_string_lossy();
    let output = run(&["advise", "--config", &file]);
    let page = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(page.contains("DataLoader(..., num_workers=") && page.contains("80 % intervals"), "{page}");
    assert!(page.contains("nothing has run yet"), "{page}");
    let said: Value = serde_json::from_str(&stdout(&run(&["advise", "--config", &file, "--json"]))).unwrap();
    let first = &said["advised"]["plans"][0];
    assert_eq!((&first["steps"][0]["knob"], &first["steps"][0]["from"]), (&json!("num_workers"), &json!("2")));
    assert!(first["gain"]["low"].as_f64().unwrap() < first["gain"]["high"].as_f64().unwrap(), "{first}");
    assert_eq!(said["facts"]["crew"]["processes"], 2.0);
}

#[test]
fn what_cannot_be_advised_names_its_place_and_a_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = dir.path().join("wrong.toml");
    std::fs::write(&wrong, "[loader]\nworkers = 2\nbatches = 3\n").unwrap();
    let wrong = wrong.to_string_lossy().into_owned();
    let folder = dir.path().to_string_lossy().into_owned();
    let cases: [(&[&str], i32, &str, &str); 5] = [
        (&["advise", "999999999"], 1, "999999999", "feedline ps"),
        (&["advise", &folder], 1, &folder, "feedline record"),
        (&["advise", "--config", &wrong], 1, "batches", "docs/advice.md"),
        (&["advise", "1", "--validate"], 2, "--validate", "--after PID"),
        (&["advise", "1", "--seconds", "1"], 2, "--seconds", "--help"),
    ];
    for (args, code, place, next) in cases {
        refused(args, code, [place, next]);
    }
}

#[test]
fn the_track_record_of_a_user_is_shown_and_an_empty_one_says_how_to_begin() {
    let home = tempfile::tempdir().unwrap();
    let track = |args: &[&str]| {
        let mut command = feedline(args);
        command.env("XDG_DATA_HOME", home.path()).output().unwrap()
    };
    let empty = stdout(&track(&["track"]));
    assert!(empty.contains("no change is on record") && empty.contains("--validate --after PID"), "{empty}");
    let entry = json!({
        "at": 1, "job": "train.py", "knob": "num_workers", "from": "0", "to": "4", "stall_before": 0.5,
        "predicted": [0.05, 0.01, 0.1], "measured": 0.06, "gain": [0.9, 0.7, 1.0], "measured_gain": 0.85,
        "confidence": 0.8,
    });
    std::fs::create_dir(home.path().join("feedline")).unwrap();
    std::fs::write(home.path().join("feedline/track.jsonl"), format!("{entry}\n")).unwrap();
    let shown = stdout(&track(&["track"]));
    assert!(shown.contains("num_workers 0 → 4") && shown.contains("hit") && shown.contains("100.0 %"), "{shown}");
    let said: Value = serde_json::from_str(&stdout(&track(&["track", "--json"]))).unwrap();
    assert_eq!((&said["record"]["changes"], &said["record"]["interval_hits_pct"]), (&json!(1), &json!(100.0)));
}
