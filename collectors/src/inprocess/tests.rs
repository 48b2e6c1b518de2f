//! Channels in memory files of this very process.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use feedline_traces::SystemClock;
use rustix::fs::{MemfdFlags, memfd_create};

use super::*;
use crate::readings::Readings;

const SECOND: u64 = 1_000_000_000;

fn word(file: &File, at: u64, value: u64) {
    file.write_all_at(&value.to_le_bytes(), at).unwrap();
}

/// The captured channel as that of this process, with a listener's word of 0.
fn channel() -> File {
    let file = File::from(memfd_create("feedline", MemfdFlags::CLOEXEC).unwrap());
    file.write_all_at(include_bytes!("testdata/channel"), 0).unwrap();
    word(&file, 16, std::process::id().into());
    word(&file, LISTEN, 0);
    file
}

fn collector(context: &Context) -> InProcess {
    InProcess { now: || 100 * SECOND, ..InProcess::new(context) }
}

fn context(python: bool) -> Context {
    let context = Context::new(Host::this(), Arc::new(SystemClock::anchored_now()));
    let pid = std::process::id();
    context.target.replace(vec![Process { pid, key: "me".into(), python, ..Process::default() }]);
    context
}

fn listen(file: &File) -> u64 {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, LISTEN).unwrap();
    u64::from_le_bytes(word)
}

#[test]
fn a_channel_is_found_read_told_that_somebody_listens_and_read_once_more_after_its_process_ended() {
    let file = channel();
    let context = context(true);
    let mut collector = collector(&context);
    let mut readings = Readings::of(&mut collector);
    assert_eq!(readings.entities("region"), ["me 4243 Zürich", "me 4243 step"]);
    assert_eq!(readings.whole("region.time", &["me", "4243", "step"]), Some(2_000_000));
    assert_eq!(readings.whole("region.time", &["me", "4243", "Zürich"]), Some(100 * SECOND - 3_000_000), "it is open");
    assert_eq!(listen(&file), 105 * SECOND);
    assert_eq!(collector.background().drops, 2, "the overflow of the capture");
    assert!(readings.reason("region", "me").unwrap().contains("failed 1 times"));

    word(&file, 128 + 8, 17);
    context.target.end();
    readings.again(&mut collector);
    assert_eq!(readings.whole("region.times", &["me", "4243", "step"]), Some(17));
    assert!(collector.open.is_empty() && collector.background().drops == 0);
}

#[test]
fn what_a_hostile_job_writes_never_makes_a_counter_fall_or_a_time_longer_than_the_channel_is_old() {
    let file = channel();
    let context = context(true);
    let mut collector = collector(&context);
    let mut readings = Readings::of(&mut collector);
    word(&file, 128 + 8, 0);
    word(&file, 128 + 16, 1);
    word(&file, 256 + 16, i64::MAX as u64);
    readings.again(&mut collector);
    assert_eq!(readings.whole("region.times", &["me", "4243", "step"]), Some(1));
    assert_eq!(readings.whole("region.time", &["me", "4243", "step"]), Some(2_000_000));
    assert_eq!(readings.whole("region.time", &["me", "4243", "Zürich"]), Some(100 * SECOND - 1_000_000));
    word(&file, 8, 99);
    readings.again(&mut collector);
    assert!(readings.reason("region", "me").unwrap().contains("version 1, found 99"));
}

#[test]
fn a_job_without_marks_has_no_rows_and_a_reason() {
    let mine = context(true);
    let readings = Readings::of(&mut collector(&mine));
    assert!(readings.entities("region").is_empty());
    assert!(readings.reason("region", "").unwrap().contains("feedline run"));
    let native = context(false);
    assert!(Readings::of(&mut collector(&native)).reason("region", "").unwrap().contains("no process"));
}

#[test]
fn a_channel_of_another_process_is_not_taken_for_ones_own() {
    let file = channel();
    word(&file, 16, 1);
    assert!(Readings::of(&mut collector(&context(true))).entities("region").is_empty());
}
