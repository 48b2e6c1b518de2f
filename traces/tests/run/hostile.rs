//! Files that were not written by a friend.

use std::fs;
use std::path::{Path, PathBuf};

use feedline_traces::Sink as _;
use feedline_traces::run::Run;
use proptest::prelude::*;

use crate::sample::{copy, every, write};

/// A run with closed parts and an open segment.
fn run(folder: &Path) {
    drop(write(folder, 0..60, every(1500)));
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Everything that reads; errors are fine, panics are not.
fn read(folder: &Path) -> Result<(), feedline_traces::Error> {
    let lenient = Run::open(folder)?.leaving_out_damage();
    let _ = lenient.extent();
    let mut replay = lenient.replay()?;
    while replay.read()?.is_some() {}
    let run = Run::open(folder)?;
    let _ = run.extent();
    let mut replay = run.replay()?;
    while replay.read()?.is_some() {}
    for table in &run.schema().tables {
        for batch in run.rows(&table.name)? {
            batch?;
        }
    }
    Ok(())
}

#[test]
fn a_run_json_that_is_none_says_so() {
    let home = tempfile::tempdir().unwrap();
    assert!(Run::open(home.path()).unwrap_err().hint.unwrap().contains("run.json"));
    run(home.path());
    for (text, expected) in [
        ("", "EOF"),
        ("{\"format\": 1", "EOF"),
        ("[]", "run.json"),
        ("{\"format\": 2, \"feedline\": \"9.0\"}", "format 2, expected at most 1"),
        ("{\"format\": 1}", "missing field"),
    ] {
        fs::write(home.path().join("run.json"), text).unwrap();
        let error = Run::open(home.path()).unwrap_err();
        assert!(error.message.contains(expected), "{text}: {error}");
        assert!(error.message.contains("run.json"), "{text}: {error}");
    }
}

#[test]
fn a_part_of_other_columns_is_an_error_with_a_place() {
    let home = tempfile::tempdir().unwrap();
    run(home.path());
    let part = |table: &str| home.path().join(format!("table={table}/part-000001.parquet"));
    fs::copy(part("thread"), part("disk")).unwrap();
    let error = read(home.path()).unwrap_err();
    assert!(error.message.contains("table=disk/part-000001.parquet: no column `device`"), "{error}");
}

#[test]
fn a_part_that_lacks_rows_is_not_taken_for_a_whole_one() {
    let home = tempfile::tempdir().unwrap();
    run(home.path());
    fs::remove_file(home.path().join("table=disk/part-000001.parquet")).unwrap();
    let error = read(home.path()).unwrap_err();
    assert!(error.message.contains("rows, the parts of its tables hold"), "{error}");
}

#[test]
fn a_segment_of_another_run_is_refused() {
    let home = tempfile::tempdir().unwrap();
    run(home.path());
    let path = files(home.path()).into_iter().find(|p| p.extension().is_some_and(|e| e == "segment")).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[12] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(Run::open(home.path()).unwrap_err().message.contains("not of this run's tables"));
}

#[test]
fn a_folder_in_place_of_a_file_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), 0..5, every(1 << 20)).finish().unwrap();
    let part = home.path().join("table=tick/part-000001.parquet");
    fs::remove_file(&part).unwrap();
    fs::create_dir(&part).unwrap();
    assert!(read(home.path()).unwrap_err().message.contains("expected a file"));
}

#[test]
fn one_damaged_table_costs_its_own_rows_of_that_part_and_no_others() {
    let home = tempfile::tempdir().unwrap();
    run(home.path());
    let whole = Run::open(home.path()).unwrap();
    let (ticks, span) = whole.extent().unwrap();
    fs::write(home.path().join("table=disk/part-000001.parquet"), b"PAR1 this is none").unwrap();
    let run = Run::open(home.path()).unwrap().leaving_out_damage();
    assert_eq!(run.extent().unwrap(), (ticks, span));
    let mut replay = run.replay().unwrap();
    let (mut seen, mut rows) = (0, 0);
    while let Some(tick) = replay.read().unwrap() {
        seen += 1;
        rows += tick.rows();
    }
    assert_eq!(seen, ticks);
    assert!(rows > 0);
    let losses = run.losses();
    assert_eq!(losses.len(), 1, "{losses:?}");
    assert!(losses[0].contains("table=disk/part-000001.parquet"), "{losses:?}");
}

#[test]
fn a_part_without_its_ticks_is_left_out_and_the_rest_is_read() {
    let home = tempfile::tempdir().unwrap();
    run(home.path());
    let ticks = Run::open(home.path()).unwrap().extent().unwrap().0;
    fs::write(home.path().join("table=tick/part-000001.parquet"), b"nothing").unwrap();
    assert!(read(home.path()).is_err());
    let run = Run::open(home.path()).unwrap().leaving_out_damage();
    let left = run.extent().unwrap().0;
    assert!(0 < left && left < ticks);
    let mut replay = run.replay().unwrap();
    let mut seen = 0;
    while replay.read().unwrap().is_some() {
        seen += 1;
    }
    assert_eq!(seen, left);
    assert_eq!(run.losses().len(), 1, "{:?}", run.losses());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_changed_byte_panics(
        file in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        use std::sync::LazyLock;
        static RUN: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
            let home = tempfile::tempdir().unwrap();
            run(home.path());
            home
        });
        let home = tempfile::tempdir().unwrap();
        copy(RUN.path(), home.path());
        let files = files(home.path());
        let path = file.get(&files);
        let mut bytes = fs::read(path).unwrap();
        for (at, byte) in changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        fs::write(path, bytes).unwrap();
        let _ = read(home.path());
    }
}
