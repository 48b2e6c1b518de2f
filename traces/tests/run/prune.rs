//! Retention.

use std::fs;
use std::time::Duration;

use feedline_traces::Sink as _;
use feedline_traces::run::{Retention, RunWriter, prune};

use crate::sample::{every, meta, schema, second, tick, write};

fn finished(folder: &std::path::Path, from: u64) {
    let mut meta = meta();
    meta.started = second(from);
    let mut writer = RunWriter::create(folder, meta, &schema()).unwrap();
    for n in from..from + 20 {
        writer.accept(&schema(), &tick(n)).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn old_and_large_runs_go_oldest_first_and_never_the_one_being_written() {
    let home = tempfile::tempdir().unwrap();
    let runs = home.path();
    let _live = write(&runs.join("a-live"), 0..5, every(1 << 20));
    for (name, from) in [("b", 1000), ("c", 2000), ("d", 3000)] {
        finished(&runs.join(name), from);
    }
    fs::create_dir(runs.join("notes")).unwrap();
    fs::write(runs.join("notes/run.json"), "not a run").unwrap();
    fs::write(runs.join("c/mine.txt"), "kept").unwrap();
    std::os::unix::fs::symlink(runs.join("d"), runs.join("link")).unwrap();

    let keep = Retention::default();
    assert!(prune(runs, &keep, second(9_000)).unwrap().is_empty());
    let old = Retention { max_age: Some(Duration::from_secs(3_000)), ..keep };
    assert_eq!(prune(runs, &old, second(4_500)).unwrap(), [runs.join("b")]);
    assert!(!runs.join("b").exists());
    let small = Retention { max_bytes: Some(1), ..keep };
    assert_eq!(prune(runs, &small, second(9_000)).unwrap(), [runs.join("c"), runs.join("d")]);
    assert!(!runs.join("d").exists() && runs.join("a-live/run.json").exists() && runs.join("notes/run.json").exists());
    assert_eq!(fs::read_dir(runs.join("c")).unwrap().count(), 1, "only the foreign file stays");
}
