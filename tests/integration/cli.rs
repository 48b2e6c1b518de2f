//! The command line: help, exit codes, errors with hints, JSON.

use crate::support::{feedline, refused, run, stderr, stdout};

const VERBS: [&str; 20] = [
    "ps",
    "attach",
    "record",
    "run",
    "replay",
    "report",
    "advise",
    "track",
    "query",
    "export",
    "prune",
    "recover",
    "doctor",
    "demo",
    "bench",
    "score",
    "train",
    "sweep",
    "completions",
    "man",
];

#[test]
fn without_a_verb_it_says_what_to_type() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("feedline demo"), "{}", stderr(&output));
}

#[test]
fn every_verb_has_a_help_and_a_manual_page() {
    let help = stdout(&run(&["--help"]));
    for verb in VERBS {
        assert!(help.contains(verb), "`{verb}` is not in the help");
        assert!(run(&[verb, "--help"]).status.success(), "{verb} --help");
        let page = run(&["man", verb]);
        assert!(page.status.success() && stdout(&page).starts_with(".ie"), "man {verb}");
    }
    assert!(!help.contains("demo-job"), "a verb for the demo alone is shown");
}

#[test]
fn completions_know_the_verbs() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert!(stdout(&output).contains("attach"), "{shell}");
    }
}

#[test]
fn wrong_usage_exits_2_and_failure_exits_1_each_with_a_next_step() {
    let cases: [(&[&str], i32, &str, &str); 9] = [
        (&["record", "999999999"], 1, "no process 999999999", "feedline ps"),
        (&["record", "no-such-job-by-this-name"], 1, "no-such-job-by-this-name", "feedline ps"),
        (&["record", "1", "--tick", "1us"], 2, "--tick", "default"),
        (&["record", "1", "--budget", "7"], 2, "--budget", "0.02"),
        (&["record", "1", "--for", "soon"], 2, "--for", "--help"),
        (&["report", "no/such/run"], 1, "no/such/run", "feedline record"),
        (&["train", "no/such/runs"], 1, "no/such/runs", "feedline record"),
        (&["prune", "."], 2, "neither", "--keep"),
        (&["man", "sing"], 1, "sing", "feedline --help"),
    ];
    for (args, code, place, next) in cases {
        refused(args, code, [place, next]);
    }
}

#[test]
fn errors_are_json_too_where_json_is_asked() {
    let output = run(&["record", "999999999", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&stderr(&output)).unwrap();
    assert_eq!(error["error"], "no process 999999999");
    assert!(error["hint"].as_str().unwrap().contains("feedline ps"));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = feedline(&["man"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn ps_and_doctor_answer_on_any_machine() {
    for verb in ["ps", "doctor"] {
        let output = run(&[verb, "--json"]);
        assert!(output.status.success(), "{verb}: {}", stderr(&output));
        let _: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert!(run(&[verb]).status.success());
    }
}

#[test]
fn a_folder_that_may_not_be_read_is_told_from_one_without_runs() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o0)).unwrap();
    let mut command = feedline(&["report", &folder.path().to_string_lossy()]);
    if std::fs::read_dir(folder.path()).is_ok() {
        // Root reads everything; nobody may not, where the program is in a place that all can reach.
        command.uid(65534).gid(65534);
    }
    let Ok(output) = command.output() else {
        eprintln!("skipped: another user cannot run the program here");
        return;
    };
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("ermission denied") && said.contains("as root"), "{said}");
}
