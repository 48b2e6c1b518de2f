//! What perf's rings tell where programs are refused: how long main threads were off their CPU,
//! and whether they had to leave it. Not what for, and nothing of requests, files or calls.

use std::collections::BTreeMap;

use feedline_traces::{Key, Rows, Symbol};
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};

use super::{OffCpuRow, has_threads};
use crate::Process;

/// Bytes of a thread's ring: some 2,700 switches.
const RING: usize = 64 << 10;
/// Threads watched at most; each holds a descriptor and a ring.
const MOST: usize = 64;

/// A main thread's switches.
struct Switches {
    process: Symbol,
    sampler: Sampler,
    tally: Tally,
}

/// Time off the CPU, from the records of a ring.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    /// When it left, and whether it was made to.
    left: Option<(u64, bool)>,
    blocked: [u64; 2],
    queue: [u64; 2],
    lost: u64,
}

impl Tally {
    fn leaves(&mut self, at: u64, preempted: bool) {
        self.left = Some((at, preempted));
    }

    fn comes(&mut self, at: u64) {
        let Some((since, preempted)) = self.left.take() else { return };
        let sum = if preempted { &mut self.queue } else { &mut self.blocked };
        *sum = [sum[0] + at.saturating_sub(since), sum[1] + 1];
    }

    /// What is not known is not counted: the wait in which records were lost has no length.
    fn lose(&mut self, records: u64) {
        self.left = None;
        self.lost += records;
    }
}

/// The main threads of trainers and workers, by perf.
pub(super) struct Ring {
    refused: String,
    failed: Option<String>,
    threads: BTreeMap<u32, Switches>,
    /// Lost in rings of threads that are gone.
    lost: u64,
    left_out: usize,
}

impl Ring {
    pub(super) fn new(refused: String) -> Self {
        Self { refused, failed: None, threads: BTreeMap::new(), lost: 0, left_out: 0 }
    }

    /// Why the programs are not there.
    pub(super) fn refused(&self) -> &str {
        &self.refused
    }

    /// What is missing of the time off the CPU, or why all of it.
    pub(super) fn degraded(&self) -> String {
        match &self.failed {
            Some(failed) if self.threads.is_empty() => format!("{}; and perf: {failed}", self.refused),
            _ if self.left_out > 0 => {
                format!(
                    "degraded: from perf's rings, without reasons, and {} threads have none: {}",
                    self.left_out, self.refused
                )
            }
            _ => format!("degraded: from perf's rings, main threads only, without reasons: {}", self.refused),
        }
    }

    /// Reads the rings of the processes, and gives what they lost.
    pub(super) fn read(&mut self, processes: &[Process], out: &mut Rows<'_>) -> Vec<(&'static str, u64)> {
        let wanted = |pid: &u32, key: &Symbol| processes.iter().any(|p| p.pid == *pid && p.key == *key);
        let gone: u64 =
            self.threads.iter().filter(|(pid, one)| !wanted(pid, &one.process)).map(|(_, one)| one.tally.lost).sum();
        self.lost += gone;
        self.threads.retain(|pid, one| wanted(pid, &one.process));
        self.left_out = 0;
        for process in processes.iter().filter(|process| has_threads(process)) {
            if self.threads.contains_key(&process.pid) {
                continue;
            }
            if self.threads.len() >= MOST {
                self.left_out += 1;
                continue;
            }
            match open(process.pid) {
                Ok(sampler) => {
                    let one = Switches { process: process.key.clone(), sampler, tally: Tally::default() };
                    self.threads.insert(process.pid, one);
                }
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => self.failed = Some(error.to_string()),
            }
        }
        for (pid, one) in &mut self.threads {
            one.drain();
            for (reason, [time, times]) in [("blocked", one.tally.blocked), ("queue", one.tally.queue)] {
                out.push(OffCpuRow {
                    process: Key(one.process.clone()),
                    thread: pid.to_string().into(),
                    reason: reason.into(),
                    time: time.into(),
                    times: times.into(),
                });
            }
        }
        let lost = self.lost + self.threads.values().map(|one| one.tally.lost).sum::<u64>();
        vec![("switches in perf's rings", lost)]
    }
}

fn open(thread: u32) -> std::io::Result<Sampler> {
    let thread = i32::try_from(thread).map_err(|_| std::io::Error::from_raw_os_error(libc::ESRCH))?;
    let mut builder = Builder::new(Software::DUMMY);
    builder
        .observe_pid(thread)
        .any_cpu()
        .context_switch(true)
        .sample_id_all(true)
        .sample(SampleFlag::TIME)
        .enabled(true);
    builder.build()?.sampled(RING)
}

impl Switches {
    fn drain(&mut self) {
        // A ring holds no more than this many; what comes meanwhile is for the next reading.
        for _ in 0..RING / 8 {
            let Some(record) = self.sampler.next_record() else { break };
            match event(record.ty(), record.misc(), &record.to_vec()) {
                Some(Event::Leaves { at, preempted }) => self.tally.leaves(at, preempted),
                Some(Event::Comes { at }) => self.tally.comes(at),
                Some(Event::Lost { records }) => self.tally.lose(records),
                None => {}
            }
        }
    }
}

/// A record of a ring, as far as it is of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Leaves { at: u64, preempted: bool },
    Comes { at: u64 },
    Lost { records: u64 },
}

/// Reads a record after its header, by `perf_event_open(2)`: its time is all that was asked to be
/// added, and ends it. (The library's own reader takes such records for too short.)
fn event(kind: u32, misc: u16, record: &[u8]) -> Option<Event> {
    const LOST: u32 = 2;
    const SWITCH: u32 = 14;
    const SWITCH_OUT: u16 = 1 << 13;
    const PREEMPTED: u16 = 1 << 14;
    let number = |bytes: Option<&[u8; 8]>| bytes.map(|bytes| u64::from_ne_bytes(*bytes));
    match kind {
        SWITCH => {
            let at = number(record.last_chunk())?;
            let leaves = Event::Leaves { at, preempted: misc & PREEMPTED != 0 };
            Some(if misc & SWITCH_OUT != 0 { leaves } else { Event::Comes { at } })
        }
        // The id of the ring, then how many.
        LOST => Some(Event::Lost { records: number(record.get(8..)?.first_chunk())? }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_what_lies_between_leaving_and_coming() {
        let mut tally = Tally::default();
        tally.comes(50);
        tally.leaves(100, false);
        tally.comes(400);
        tally.leaves(500, true);
        tally.comes(510);
        assert_eq!(tally, Tally { left: None, blocked: [300, 1], queue: [10, 1], lost: 0 });
    }

    #[test]
    fn a_wait_in_which_records_were_lost_is_not_counted() {
        let mut tally = Tally::default();
        tally.leaves(100, false);
        tally.lose(7);
        tally.comes(900);
        assert_eq!(tally, Tally { left: None, blocked: [0, 0], queue: [0, 0], lost: 7 });
    }

    #[test]
    fn the_waits_of_a_shell_for_its_children_are_seen_by_perf_alone() {
        let script = "read x; for i in 1 2 3 4 5; do sleep 0.02; done; read x";
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let me = Process { pid: child.id(), key: "shell".into(), role: crate::Role::Trainer, ..Process::default() };
        let schema = feedline_traces::Schema::new(vec![<OffCpuRow as feedline_traces::Row>::table()]).unwrap();
        let mut ring = Ring::new("refused".into());
        let mut rows = Rows::new(&schema, feedline_traces::Ts(1));
        ring.read(std::slice::from_ref(&me), &mut rows);
        if let Some(failed) = &ring.failed {
            eprintln!("skipped: {failed}");
        } else {
            use std::io::Write as _;
            child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
            // As long as it takes: the shell waits for each of five children.
            for _ in 0..200 {
                std::thread::sleep(std::time::Duration::from_millis(20));
                ring.read(std::slice::from_ref(&me), &mut rows);
                if ring.threads[&me.pid].tally.blocked[0] >= 90_000_000 {
                    break;
                }
            }
            let tally = &ring.threads[&me.pid].tally;
            assert!(tally.blocked[1] >= 5 && tally.blocked[0] >= 90_000_000, "{tally:?}");
            assert!(ring.degraded().starts_with("degraded") && tally.lost == 0);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn records_are_read_by_their_type_and_end_with_their_time() {
        let time = 42_u64.to_ne_bytes();
        assert_eq!(event(14, 0, &time), Some(Event::Comes { at: 42 }));
        assert_eq!(event(14, 0x2000, &time), Some(Event::Leaves { at: 42, preempted: false }));
        assert_eq!(event(14, 0x6000, &time), Some(Event::Leaves { at: 42, preempted: true }));
        let lost = [9_u64.to_ne_bytes(), 7_u64.to_ne_bytes(), time].concat();
        assert_eq!(event(2, 0, &lost), Some(Event::Lost { records: 7 }));
        assert_eq!((event(14, 0, &[1, 2]), event(2, 0, &time), event(9, 0, &time)), (None, None, None));
    }
}
