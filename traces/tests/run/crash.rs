//! Kills, torn tails and damage that a crash can leave.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use feedline_traces::run::Run;
use feedline_traces::{Sink as _, Tick};

use crate::sample::{copy, every, replay, schema, tick, write, writer};

const CHILD: &str = "FEEDLINE_TEST_WRITES";

fn segment(folder: &Path) -> PathBuf {
    let names = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    names.filter(|p| p.extension().is_some_and(|e| e == "segment")).max().unwrap()
}

#[test]
fn a_run_cut_at_every_byte_of_its_open_segment_opens_with_every_whole_tick() {
    let home = tempfile::tempdir().unwrap();
    let (from, to) = (home.path().join("run"), home.path().join("cut"));
    let mut writer = writer(&from, every(1 << 20));
    let mut ends = Vec::new();
    for n in 0..12 {
        writer.accept(&schema(), &tick(n)).unwrap();
        ends.push(fs::metadata(segment(&from)).unwrap().len());
    }
    copy(&from, &to);
    drop(writer);
    let all: Vec<Tick> = (0..12).map(tick).collect();
    let bytes = fs::read(segment(&from)).unwrap();
    for cut in 0..=bytes.len() {
        fs::write(segment(&to), &bytes[..cut]).unwrap();
        let run = Run::open(&to).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut as u64).count();
        assert_eq!(replay(&run), all[..whole], "cut at byte {cut}");
        assert_eq!(run.recovery().ticks, whole as u64);
        let end = whole.checked_sub(1).map_or(if cut < 16 { 0 } else { 16 }, |last| ends[last]);
        assert_eq!(run.recovery().torn_bytes, cut as u64 - end);
    }
}

#[test]
fn a_recovery_closes_the_segment_and_says_what_was_lost() {
    let home = tempfile::tempdir().unwrap();
    drop(write(home.path(), 0..30, every(900)));
    let segment = segment(home.path());
    fs::OpenOptions::new().append(true).open(&segment).unwrap().write_all(&[9, 0, 0, 0, 1]).unwrap();
    let before = replay(&Run::open(home.path()).unwrap());
    let run = Run::recover(home.path()).unwrap();
    assert!(!segment.exists());
    assert_eq!(run.recovery().torn_bytes, 5);
    assert!(run.meta().notes[0].contains("the last 5 bytes were not a whole tick"), "{:?}", run.meta().notes);
    let again = Run::open(home.path()).unwrap();
    assert_eq!(again.meta().ended, Some(tick(29).at));
    assert_eq!((replay(&again), again.recovery().ticks), (before, 0));
    assert_eq!(Run::recover(home.path()).unwrap().meta().notes.len(), 1);
}

#[test]
fn parts_of_a_writer_killed_while_closing_count_once() {
    let home = tempfile::tempdir().unwrap();
    let (run, half) = (home.path().join("run"), home.path().join("half"));
    let mut writer = write(&run, 0..20, every(1 << 20));
    copy(&run, &half);
    writer.finish().unwrap();
    // As if it had died when one table was in place and the segment was not yet gone.
    copy(&run.join("table=disk"), &half.join("table=disk"));
    let run = Run::open(&half).unwrap();
    assert_eq!(replay(&run).len(), 20);
    assert!(run.files("disk").is_empty());
    let rows = |run: &Run| run.rows("disk").unwrap().map(|b| b.unwrap().num_rows()).sum::<usize>();
    let all = rows(&run);
    let recovered = Run::recover(&half).unwrap();
    assert_eq!((replay(&recovered).len(), rows(&recovered)), (20, all));
    assert_eq!(recovered.files("disk").len(), 1);
}

/// Not a test of its own: the process that the next test kills.
#[test]
fn child() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let mut writer = writer(Path::new(&folder), every(30_000));
    for n in 0.. {
        writer.accept(&schema(), &tick(n)).unwrap();
        println!("took {n}");
    }
}

#[test]
fn a_kill_at_any_time_loses_no_tick_that_was_taken() {
    let home = tempfile::tempdir().unwrap();
    let mut closed = 0;
    for trial in 0..60_u64 {
        let folder = home.path().join(format!("run-{trial}"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::child", "--nocapture"])
            .env(CHILD, &folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The kill comes from another thread, at a time that has nothing to do with what is written.
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(20_000 + trial * 7_919 % 150_000));
            child.kill().unwrap();
            child.wait().unwrap();
        });
        let took = lines.map_while(Result::ok).filter_map(|l| l.rsplit_once("took ")?.1.parse::<u64>().ok()).last();
        killer.join().unwrap();
        if !folder.join("run.json").exists() {
            assert_eq!(took, None);
            continue;
        }
        let run = Run::recover(&folder).unwrap();
        let found = replay(&run);
        let taken = took.map_or(0, |n| n + 1);
        assert!(found.len() as u64 >= taken, "trial {trial}: took {taken}, found {}", found.len());
        assert!(found.iter().zip(0..).all(|(found, n)| *found == tick(n)), "trial {trial}");
        closed += run.files("disk").len();
        fs::remove_dir_all(&folder).unwrap();
    }
    assert!(closed > 60, "parts were closed under fire: {closed}");
}
