use std::fs;

use feedline_traces::SimClock;

use super::super::syscalls::Arch;
use super::*;

const FUTEX: &str = if matches!(Arch::THIS, Arch::X86_64) { "202 0x1 0x0" } else { "98 0x1 0x0" };

struct Bench {
    _root: tempfile::TempDir,
    host: Host,
    clock: Arc<SimClock>,
    board: Arc<Board>,
    sampler: Sampler,
}

fn bench(pids: &[u32]) -> Bench {
    let root = tempfile::tempdir().unwrap();
    let host = Host::at(root.path());
    for pid in pids {
        let task = host.path(format!("proc/{pid}/task/{pid}"));
        fs::create_dir_all(&task).unwrap();
        let stat = format!("{pid} (python3) S 1 7 7 0 -1 4194304 1 0 0 0 7 3 0 0 20 0 1 0 5 1 1 1\n");
        fs::write(host.path(format!("proc/{pid}/stat")), &stat).unwrap();
        fs::write(task.join("stat"), &stat).unwrap();
        fs::write(task.join("syscall"), "running").unwrap();
    }
    let (clock, board) = (Arc::new(SimClock::new(Ts(1_000))), Arc::new(Board::default()));
    board.watch(pids.iter().map(|pid| watch(*pid)).collect());
    let sampler = Sampler::new(Arc::clone(&board), host.clone(), Arc::clone(&clock) as Arc<dyn Clock>, 1e9);
    Bench { _root: root, host, clock, board, sampler }
}

fn watch(pid: u32) -> Watch {
    let id = ThreadId { pid, start: 5, tid: pid };
    Watch { id, process: crate::key(pid, 5), name: "python3".into(), part: Part::Main, trainer: None, hertz: 100 }
}

impl Bench {
    fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.clock.advance(Duration::from_millis(1));
            self.sampler.round();
        }
    }
}

#[test]
fn a_second_of_a_machine_is_counted_and_its_waits_are_kept() {
    let mut bench = bench(&[7]);
    for _ in 0..5 {
        bench.pass(100);
        fs::write(bench.host.path("proc/7/task/7/syscall"), FUTEX).unwrap();
        bench.pass(100);
        fs::write(bench.host.path("proc/7/task/7/syscall"), "running").unwrap();
    }
    bench.pass(20);
    let mut seen = bench.board.seen();
    let tally = seen[0].tally.drain();
    let (running, futex) = (tally.of(State::Running).samples, tally.of(State::Futex).samples);
    assert!((95..=105).contains(&(running + futex)), "{running} + {futex}");
    assert!((45..=55).contains(&futex), "{futex}");
    assert_eq!(seen[0].waits.len(), 5);
    for wait in &seen[0].waits {
        let length = wait.to.since(wait.from) / 1_000_000;
        assert!(wait.state == State::Futex && (70..=130).contains(&length), "{length} ms");
    }
}

#[test]
fn a_worker_is_seen_beside_its_trainer_and_with_what_it_reads() {
    let mut bench = bench(&[7, 8]);
    let worker = Watch { part: Part::Worker, trainer: Some(7), hertz: 20, ..watch(8) };
    // A trainer that is itself sampled seldom is looked at for its worker.
    bench.board.watch(vec![worker, Watch { hertz: 1, ..watch(7) }]);
    let read = if matches!(Arch::THIS, Arch::X86_64) { "0 0x5 0x0" } else { "63 0x5 0x0" };
    fs::write(bench.host.path("proc/8/task/8/syscall"), read).unwrap();
    fs::create_dir_all(bench.host.path("proc/8/fd")).unwrap();
    std::os::unix::fs::symlink("pipe:[3]", bench.host.path("proc/8/fd/5")).unwrap();
    bench.pass(500);
    fs::write(bench.host.path("proc/7/task/7/syscall"), FUTEX).unwrap();
    bench.pass(500);
    let mut seen = bench.board.seen();
    let worker = seen[0].tally.drain();
    let of = |beside| {
        let place = Place { state: State::Read, beside: Some(beside), on: On::Pipe };
        worker.places.get(&place).map_or(0, |count| count.samples)
    };
    assert!((8..=12).contains(&of(State::Running)) && (8..=12).contains(&of(State::Futex)), "{worker:?}");
    assert_eq!(of(State::Running) + of(State::Futex), worker.samples());
    let trainer = seen[1].tally.drain();
    assert!(trainer.samples() <= 2, "looks for a worker are no samples of the trainer");
    assert!(trainer.places.keys().all(|place| place.beside.is_none()));
}

#[test]
fn the_file_that_a_worker_reads_is_kept_and_what_is_no_file_is_none() {
    let mut bench = bench(&[8]);
    bench.board.watch(vec![Watch { part: Part::Worker, trainer: None, ..watch(8) }]);
    let read = if matches!(Arch::THIS, Arch::X86_64) { "0 0x5 0x0" } else { "63 0x5 0x0" };
    fs::write(bench.host.path("proc/8/task/8/syscall"), read).unwrap();
    fs::write(bench.host.path("proc/8/mountinfo"), "22 1 254:0 / / rw - ext4 /dev/vda rw\n").unwrap();
    fs::create_dir_all(bench.host.path("proc/8/fd")).unwrap();
    let link = bench.host.path("proc/8/fd/5");
    let file = |bench: &mut Bench, target: &str| {
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(target, &link).unwrap();
        // Past the time for which a call is taken for the one before.
        bench.clock.advance(Duration::from_millis(300));
        bench.pass(100);
        bench.board.seen()[0].file.take()
    };
    assert_eq!(file(&mut bench, "/data/a.jpg").as_deref(), Some("/data/a.jpg"));
    assert_eq!(file(&mut bench, "/data/b.jpg").as_deref(), Some("/data/b.jpg"));
    assert_eq!(file(&mut bench, "socket:[7]"), None);
}

#[test]
fn a_process_that_ends_is_dropped_quietly_and_the_others_go_on() {
    let mut bench = bench(&[7, 8]);
    bench.pass(100);
    fs::remove_dir_all(bench.host.path("proc/7")).unwrap();
    bench.board.watch(vec![watch(8), watch(9), watch(7)]);
    bench.pass(100);
    let seen = bench.board.seen();
    let count = |index: usize| seen[index].tally.samples();
    assert!(count(0) >= 15, "{}", count(0));
    assert_eq!((count(1), seen[1].tally.missed), (0, 0));
}

#[test]
fn samples_left_out_are_counted() {
    let mut bench = bench(&[7]);
    bench.pass(20);
    bench.clock.advance(Duration::from_secs(2));
    bench.sampler.round();
    assert!(bench.board.account.take().skipped >= 190);
}

#[test]
fn a_crew_is_looked_at_in_one_go_and_goes_on_without_its_first() {
    let mut bench = bench(&[7, 8, 9, 10]);
    let worker = |pid| Watch { part: Part::Worker, trainer: Some(7), hertz: 20, ..watch(pid) };
    bench.board.watch(vec![watch(7), worker(8), worker(9), worker(10)]);
    let mut at_work = 8;
    fs::write(bench.host.path("proc/9/task/9/syscall"), FUTEX).unwrap();
    for turn in 0..200_u32 {
        // One of two is at work, never both and never none.
        let idle = if turn % 2 == 0 { 9 } else { 8 };
        fs::write(bench.host.path(format!("proc/{at_work}/task/{at_work}/syscall")), FUTEX).unwrap();
        at_work = 17 - idle;
        fs::write(bench.host.path(format!("proc/{at_work}/task/{at_work}/syscall")), "running").unwrap();
        bench.pass(7);
    }
    let counts = |bench: &Bench, index: usize| {
        let tally = bench.board.seen()[index].tally.drain();
        (tally.of(State::Running).samples, tally.samples())
    };
    let (one, other) = (counts(&bench, 1), counts(&bench, 2));
    assert!((26..=30).contains(&one.1) && one.1 == other.1, "{one:?} {other:?}");
    assert_eq!(one.0 + other.0, one.1, "at every look one of them runs");
    counts(&bench, 3);
    fs::write(bench.host.path("proc/8/task/8/syscall"), "").unwrap();
    fs::write(bench.host.path("proc/8/task/8/stat"), "8 (python3) Z 1 7 7 0 -1 4194304 1 0 0 0\n").unwrap();
    bench.pass(1000);
    let (gone, left) = (counts(&bench, 1), counts(&bench, 3));
    assert!(gone.1 <= 1 && (18..=22).contains(&left.1), "{gone:?} {left:?}");
}
