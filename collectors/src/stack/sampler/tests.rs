use std::fs;
use std::sync::atomic::AtomicBool;

use feedline_traces::SimClock;

use super::super::rules::{Frame, Site};
use super::super::spy::Other;
use super::*;

/// Gives the same stack while `whole`, and refuses to attach while `refuses`.
#[derive(Clone)]
struct Fake {
    whole: Arc<AtomicBool>,
    refuses: Arc<AtomicBool>,
    tries: Arc<AtomicU64>,
    /// Threads beside the main one.
    others: Arc<AtomicU64>,
}

impl Attach for Fake {
    fn attach(&self, pid: u32, _: Option<u32>) -> Result<Box<dyn Unwind>, String> {
        self.tries.fetch_add(1, Ordering::SeqCst);
        if self.refuses.load(Ordering::SeqCst) { Err(format!("no right to {pid}")) } else { Ok(Box::new(self.clone())) }
    }
}

impl Unwind for Fake {
    fn read(&mut self, wanted: Wanted) -> Option<Reading> {
        let frame = |file: &str, function: &str| Frame { file: file.into(), function: function.into() };
        let main = vec![frame("/job/t.py", "<module>"), frame("/usr/lib/python3.11/queue.py", "Queue.get")];
        let decodes =
            || vec![frame("/usr/lib/python3.11/threading.py", "Thread._bootstrap"), frame("/x/PIL/Image.py", "open")];
        let name = |id: u32| wanted.names.then(|| format!("loader-{id}"));
        let other = |id: u32| Other { id, name: name(id), frames: decodes() };
        let count = u32::try_from(self.others.load(Ordering::SeqCst)).unwrap();
        let others = (OTHERS..OTHERS + count).map(other);
        let others = others.filter(|_| wanted.threads).collect();
        self.whole.load(Ordering::SeqCst).then_some(Reading { main, numbers: Vec::new(), others })
    }
}

/// The id of the first thread beside the main one.
const OTHERS: u32 = 1000;

struct Bench {
    _root: tempfile::TempDir,
    host: Host,
    clock: Arc<SimClock>,
    board: Arc<Board>,
    fake: Fake,
    roster: Roster,
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
    let flag = |value| Arc::new(AtomicBool::new(value));
    let fake = Fake { whole: flag(true), refuses: flag(false), tries: Arc::default(), others: Arc::default() };
    let (clock, board) = (Arc::new(SimClock::new(Ts(1_000))), Arc::new(Board::default()));
    board.watch(pids.iter().map(|pid| watch(*pid)).collect());
    let (attach, rules) = (Box::new(fake.clone()), Rules::load(None).unwrap());
    let theirs = Arc::clone(&clock) as Arc<dyn Clock>;
    let roster = Roster::default();
    let sampler = Sampler::new(Arc::clone(&board), host.clone(), theirs, attach, rules, (roster.clone(), 1e9));
    Bench { _root: root, host, clock, board, fake, roster, sampler }
}

fn watch(pid: u32) -> Watch {
    let id = ThreadId { pid, start: 5, tid: pid };
    Watch { id, process: crate::key(pid, 5), inner: None, role: Role::Trainer, hertz: 20 }
}

impl Bench {
    fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.clock.advance(Duration::from_millis(1));
            self.sampler.round();
        }
    }

    fn drain(&self, index: usize) -> Tally {
        self.board.seen()[index].tally.drain()
    }
}

#[test]
fn state_and_site_are_one_observation() {
    let mut bench = bench(&[7]);
    bench.pass(1_000);
    let tally = bench.drain(0);
    let (place, count) = tally.places.iter().next().unwrap();
    assert_eq!((place.state, place.site, tally.places.len()), (State::Running, Site::Loader, 1));
    assert_eq!(place.leaf.as_deref(), Some("queue.py:get"));
    assert!((17..=20).contains(&count.samples), "{}", count.samples);
}

#[test]
fn a_stack_that_cannot_be_read_is_missed_in_the_state_the_thread_was_in() {
    let mut bench = bench(&[7]);
    bench.pass(200);
    bench.drain(0);
    bench.fake.whole.store(false, Ordering::SeqCst);
    bench.pass(1_000);
    let tally = bench.drain(0);
    assert!(tally.places.is_empty());
    assert!((18..=22).contains(&tally.missed[State::Running.index()]), "{:?}", tally.missed);
}

#[test]
fn after_many_failures_in_a_row_it_attaches_anew() {
    let mut bench = bench(&[7]);
    bench.pass(200);
    bench.fake.whole.store(false, Ordering::SeqCst);
    bench.pass(6_000);
    bench.fake.whole.store(true, Ordering::SeqCst);
    bench.drain(0);
    bench.pass(2_000);
    assert!(bench.fake.tries.load(Ordering::SeqCst) >= 2);
    assert!(!bench.drain(0).places.is_empty());
}

#[test]
fn a_refused_attachment_says_why_and_is_tried_less_and_less_often() {
    let mut bench = bench(&[7]);
    bench.fake.refuses.store(true, Ordering::SeqCst);
    bench.pass(20_000);
    assert_eq!(bench.board.seen()[0].reason.as_deref(), Some("no right to 7"));
    let tries = bench.fake.tries.load(Ordering::SeqCst);
    assert!((4..=5).contains(&tries), "at 0, 1, 3, 7 and 15 seconds, not {tries} times");
    bench.fake.refuses.store(false, Ordering::SeqCst);
    bench.pass(60_000);
    assert_eq!(bench.board.seen()[0].reason, None);
}

#[test]
fn many_new_processes_are_attached_one_after_another() {
    let mut bench = bench(&[1, 2, 3, 4, 5]);
    bench.pass(150);
    assert!(bench.fake.tries.load(Ordering::SeqCst) <= 2);
    bench.pass(1_000);
    assert_eq!(bench.fake.tries.load(Ordering::SeqCst), 5);
}

#[test]
fn a_process_that_ends_is_let_go_and_the_others_go_on() {
    let mut bench = bench(&[7, 8]);
    bench.pass(500);
    fs::remove_dir_all(bench.host.path("proc/7")).unwrap();
    bench.board.watch(vec![watch(8), watch(9)]);
    bench.drain(0);
    bench.pass(500);
    assert!(!bench.drain(0).places.is_empty());
    assert!(bench.drain(1).places.is_empty());
}

impl Bench {
    /// Gives the process so many threads beside its main one.
    fn beside(&self, pid: u32, count: u32) {
        for tid in OTHERS..OTHERS + count {
            let task = self.host.path(format!("proc/{pid}/task/{tid}"));
            fs::create_dir_all(&task).unwrap();
            fs::copy(self.host.path(format!("proc/{pid}/stat")), task.join("stat")).unwrap();
            fs::write(task.join("syscall"), "running").unwrap();
        }
        self.fake.others.store(u64::from(count), Ordering::SeqCst);
    }

    fn others(&self) -> Vec<u64> {
        let of = |tally: &Tally| tally.places.values().map(|count| count.samples).sum();
        self.board.seen()[0].others.values().map(of).collect()
    }
}

#[test]
fn other_threads_of_a_trainer_are_sampled_at_a_third_of_the_rate_and_told_by_name() {
    let mut bench = bench(&[7]);
    bench.beside(7, 2);
    bench.pass(30_000);
    let samples = bench.others();
    assert!(samples.len() == 2 && samples.iter().all(|n| (180..=200).contains(n)), "{samples:?}");
    let place = bench.board.seen()[0].others[&OTHERS].places.keys().next().cloned().unwrap();
    assert_eq!((place.state, place.site), (State::Running, Site::WorkerDecode));
    let known = bench.roster.of(7);
    assert!(known.len() == 2 && known.iter().all(|known| known.feeds), "{known:?}");
    assert_eq!(known[0].name.as_deref(), Some("loader-1000"));
    bench.board.watch(vec![watch(8)]);
    bench.pass(500);
    assert!(bench.roster.of(7).is_empty(), "a process that is gone has no threads");
}

#[test]
fn of_many_threads_each_has_its_turn_and_no_more_than_some_are_followed() {
    let mut bench = bench(&[7]);
    bench.beside(7, 40);
    bench.pass(60_000);
    let samples = bench.others();
    // Sixteen of forty in each of 400 readings.
    assert!(samples.len() == 40 && samples.iter().all(|n| (140..=170).contains(n)), "{samples:?}");
    bench.beside(7, 200);
    bench.pass(10_000);
    assert_eq!((bench.others().len(), bench.roster.of(7).len()), (MOST, MOST));
}
