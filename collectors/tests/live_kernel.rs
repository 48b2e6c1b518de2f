//! The programs in the kernel against processes that know themselves what they did. All of it needs
//! the right to load programs, and says so where that is missing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use feedline_collectors::kernel::KernelEvents;
use feedline_collectors::{Context, Host, Process, Role, Scheduled, key, schema};
use feedline_traces::{Clock as _, Collector as _, Rows, Schema, SystemClock};

type Cells = HashMap<(String, String), u64>;

/// The collector at work, and what it wrote last.
struct Watch {
    events: KernelEvents,
    schema: Schema,
    clock: Arc<SystemClock>,
    cells: Cells,
    reasons: HashMap<String, String>,
}

impl Watch {
    /// Watches a process; `None`, and says why, where the kernel does not let it.
    fn of(pid: u32) -> Option<Self> {
        let clock = Arc::new(SystemClock::anchored_now());
        let mut context = Context::new(Host::this(), Arc::clone(&clock) as _);
        context.settings.kernel = true;
        let role = Role::Trainer;
        context.target.replace(vec![Process { pid, start: 1, key: key(pid, 1), role, ..Process::default() }]);
        let scheduled = [Scheduled::every(Duration::from_secs(1), KernelEvents::new(&context))];
        let schema = schema(&scheduled).unwrap();
        let (cells, reasons) = (HashMap::new(), HashMap::new());
        let mut watch = Self { events: KernelEvents::new(&context), schema, clock, cells, reasons };
        watch.read();
        for what in ["block_latency", "off_cpu", "file_io"] {
            if let Some(reason) = watch.reasons.get(what) {
                eprintln!("skipped: {what}: {reason}");
                return None;
            }
        }
        Some(watch)
    }

    /// Reads once more: the counters of every row, by its table and keys, and column.
    fn read(&mut self) -> &Cells {
        let mut rows = Rows::new(&self.schema, self.clock.now());
        self.events.collect(&mut rows).unwrap();
        for batch in rows.finish() {
            let table = self.schema.table(batch.table);
            for row in 0..batch.len() {
                let texts = |at: usize| batch.columns[at].text(row).map(ToString::to_string).unwrap_or_default();
                let keys: Vec<String> = table.keys().map(texts).collect();
                if table.name == "absent" {
                    let reason = texts(2);
                    self.reasons.insert(keys.join(" ").trim_end().to_owned(), reason);
                }
                for (at, column) in table.columns.iter().enumerate() {
                    if let Some(value) = batch.columns[at].whole(row) {
                        let place = format!("{} {}", table.name, keys.join(" "));
                        self.cells.insert((place, column.name.to_string()), value);
                    }
                }
            }
        }
        &self.cells
    }

    /// The sum of a column over the rows whose table and keys these words name.
    fn sum(&self, words: &[&str], column: &str) -> u64 {
        let named = |place: &str| words.iter().all(|word| place.split(' ').any(|key| key == *word));
        self.cells.iter().filter(|((place, c), _)| c == column && named(place)).map(|(_, value)| value).sum()
    }
}

/// Reads, opens, waits and writes through, in this process.
fn work(folder: &Path) {
    let path = folder.join("data");
    let mut options = File::options();
    let mut file = options.create(true).truncate(true).write(true).custom_flags(libc_o_sync()).open(&path).unwrap();
    for _ in 0..8 {
        file.write_all(&[7; 4096]).unwrap();
    }
    file.write_all(&vec![7; (1 << 20) - 8 * 4096]).unwrap();
    for _ in 0..20 {
        let mut file = File::open(&path).unwrap();
        let mut block = [0; 4096];
        while file.read(&mut block).unwrap() > 0 {}
        std::thread::sleep(Duration::from_millis(5));
    }
    for n in 0..50 {
        assert!(File::open(folder.join(format!("missing-{n}"))).is_err());
    }
}

/// `O_SYNC`, which the standard library does not name: the same on every architecture with the
/// generic table, x86 included.
fn libc_o_sync() -> i32 {
    0o4_010_000
}

#[test]
fn what_a_process_reads_opens_and_waits_for_is_counted() {
    let Some(mut watch) = Watch::of(std::process::id()) else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let me = key(std::process::id(), 1).to_string();
    let before: Vec<u64> =
        [("read", "calls"), ("read", "bytes")].map(|(op, c)| watch.sum(&["file_io", &me, op, "file"], c)).into();
    let written = watch.sum(&["block_latency", "write"], "requests");
    work(folder.path());
    watch.read();
    let reads = watch.sum(&["file_io", &me, "read", "file"], "calls") - before[0];
    let bytes = watch.sum(&["file_io", &me, "read", "file"], "bytes") - before[1];
    // 256 blocks and the end, twenty times; other tests of this process may read too.
    assert!((20 * 257..20 * 257 + 200).contains(&reads), "{reads} reads");
    assert!((20 << 20..(20 << 20) + (4 << 20)).contains(&bytes), "{bytes} bytes");
    assert!(watch.sum(&["file_io", &me, "open", "file"], "calls") >= 20);
    assert!(watch.sum(&["file_io", &me, "open", ""], "calls") >= 50, "{:?}", watch.cells);
    // Twenty sleeps of 5 ms. On a busy machine a thread can lose its CPU on the way into one.
    let [slept, queued] = ["sleep", "queue"].map(|reason| watch.sum(&["off_cpu", &me, reason], "time"));
    let times = watch.sum(&["off_cpu", &me, "sleep"], "times");
    assert!((10..=40).contains(&times) && slept + queued >= 90_000_000, "{slept} {queued}: {:?}", watch.cells);
    if Path::new("/sys/class/block").read_dir().is_ok_and(|mut devices| devices.next().is_some()) {
        let requests = watch.sum(&["block_latency", "write"], "requests") - written;
        assert!(requests >= 8, "{requests} written through: {:?}", watch.cells);
    }
    assert_eq!(watch.sum(&["kernel_loss"], "lost"), 0);
}

#[test]
fn in_a_pid_namespace_of_its_own_a_process_is_known_by_the_pid_it_has_there() {
    const AGAIN: &str = "FEEDLINE_TEST_IN_NAMESPACE";
    if std::env::var_os(AGAIN).is_some() || Watch::of(std::process::id()).is_none() {
        return;
    }
    let exe = std::env::current_exe().unwrap();
    let test = "what_a_process_reads_opens_and_waits_for_is_counted";
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc"]).arg(exe).args([test, "--exact", "--nocapture"]).env(AGAIN, "1");
    let Ok(output) = command.output() else {
        eprintln!("skipped: no unshare here");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("unshare failed") {
        eprintln!("skipped: {said}");
        return;
    }
    assert!(output.status.success() && !said.contains("skipped"), "{said}");
}

/// A child that is killed when the test is over.
struct Job(Child);

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds a C file of this folder; `None` without a compiler.
fn build(file: &str, out: &Path, flags: &[&str]) -> Option<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
    let status = Command::new("cc").args(["-O2", "-o"]).arg(out).arg(source).args(flags).status();
    status.is_ok_and(|status| status.success()).then_some(())
}

/// A program that has opened a stub of the driver library; `None`, and says so, without a compiler.
fn start(folder: &Path) -> Option<(Job, BufReader<ChildStdout>)> {
    let (library, program) = (folder.join("libcuda.so.1"), folder.join("calls"));
    // Its functions begin with endbr64 where the compiler knows it, and then push, as the driver's do.
    let protected: &[&str] = if cfg!(target_arch = "x86_64") { &["-fcf-protection=full"] } else { &[] };
    let shared = [protected, &["-O0", "-shared", "-fPIC"]].concat();
    if build("kernel_driver.c", &library, &shared).is_none() || build("kernel_calls.c", &program, &["-ldl"]).is_none() {
        eprintln!("skipped: no C compiler here");
        return None;
    }
    let mut command = Command::new(&program);
    let mut job = Job(command.arg(&library).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut output = BufReader::new(job.0.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    (line == "ready\n").then_some((job, output))
}

#[test]
fn calls_into_the_driver_library_of_a_running_process_are_counted_timed_and_sized() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some((mut job, mut output)) = start(folder.path()) else { return };
    let mut line = String::new();
    let Some(mut watch) = Watch::of(job.0.id()) else { return };
    if let Some(reason) = watch.reasons.get("device_call") {
        eprintln!("skipped: device_call: {reason}");
        return;
    }
    job.0.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    line.clear();
    output.read_line(&mut line).unwrap();
    let truth: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    watch.read();
    let of = |call: &str| ["calls", "time", "bytes"].map(|column| watch.sum(&["device_call", call], column));
    let [copy, sync, launch, back] = ["copy_h2d", "sync", "launch", "copy_d2h"].map(of);
    assert_eq!((copy[0], copy[2]), (20, 20 * 65536), "{:?} {:?}", watch.cells, watch.reasons);
    assert_eq!((sync[0], launch[0]), (10, 300));
    assert_eq!((back[0], back[2]), (5, 5 * 4096), "a call within a call is part of it");
    for (what, seen, truth) in [("copy", copy[1], truth[0]), ("sync", sync[1], truth[1]), ("back", back[1], truth[3])] {
        assert!(seen <= truth && seen * 10 >= truth * 9, "{what}: {seen} of {truth} ns");
    }
    assert!(launch[1] <= truth[2], "{launch:?} of {}", truth[2]);
}

#[test]
fn calls_that_come_too_often_lose_their_probes_and_the_reason_says_how_often() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some((mut job, mut output)) = start(folder.path()) else { return };
    let Some(mut watch) = Watch::of(job.0.id()) else { return };
    let mut line = String::new();
    // Three readings in a row, each with more launches than a hundredth of a second would cover.
    for _ in 0..6 {
        for _ in 0..15 {
            job.0.stdin.as_mut().unwrap().write_all(b"launch\n").unwrap();
            line.clear();
            output.read_line(&mut line).unwrap();
        }
        watch.read();
    }
    let reason = watch.reasons.iter().find(|(what, _)| what.starts_with("device_call")).map(|(_, reason)| reason);
    assert!(reason.is_some_and(|reason| reason.contains("launch came 4500 times a second")), "{reason:?}");
    // What was counted before stands still now.
    let calls = watch.sum(&["device_call", "launch"], "calls");
    assert!((3 * 4500..6 * 4500).contains(&calls), "{calls}");
}
