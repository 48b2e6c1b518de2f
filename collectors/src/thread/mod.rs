//! What the threads that matter are doing: the state of each trainer's and worker's main thread,
//! sampled from `/proc/PID/task/TID/{syscall,stat,wchan}` at random times, and the exact CPU and
//! run-queue time of each.
//!
//! Shares of samples are shares of time, with the noise of a sample: from `n` samples a share `p`
//! is off by about `sqrt(p (1 - p) / n)`. The times of `wait` lie between two samples, so each is
//! off by up to half the time between them (2 ms at 250 samples a second), a wait shorter than that
//! is often not seen, and two waits with less than that between them may be written as one.

mod classify;
mod object;
mod pace;
mod parse;
mod probe;
mod roster;
mod running;
mod sampler;
mod state;
mod syscalls;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use feedline_traces::unit::{Count, Nanos};
use feedline_traces::{Background, Collector, Counter, Gauge, Key, Result, Row as _, Rows, Symbol, Table, Text, table};

pub(crate) use object::On;
pub(crate) use pace::{Chance, Pace, Strata, period, thread_cpu};
pub(crate) use probe::{Look, Probe, ThreadId, refusal};
pub(crate) use roster::Known;
pub use roster::Roster;
pub(crate) use running::{Account, Running};
pub use state::State;
pub(crate) use syscalls::{Arch, state_of};

use crate::absent::{AbsentRow, Reasons};
use crate::job::LOOKS;
use crate::{Context, Process, Role};
use sampler::{Board, Part, Sampler, Seen, Watch};
use tally::{Episode, Tally};

table! {
    /// A sampled thread: the main threads of trainers and workers, threads that pin memory, and up to
    /// sixteen other Python threads of a trainer.
    pub thread: ThreadRow {
        /// Its process, as `PID@START`.
        process: Key,
        /// Its thread id.
        thread: Key,
        /// The program's name of it, where that is known, else the kernel's.
        name: Text,
        /// What it does: `main` or `pin` in a trainer, `worker` in a worker and in a native loader;
        /// of other Python threads of a trainer `loader` where it feeds the trainer, else `other`.
        role: Text,
        /// Time on a CPU, exact.
        on_cpu: Counter<Nanos>,
        /// Time ready to run but waiting for a CPU, exact.
        run_queue: Counter<Nanos>,
        /// Samples of its state in this tick.
        samples: Gauge<Count>,
        /// Samples in this tick that failed.
        missed: Gauge<Count>,
        /// The file that a worker was last found reading or opening in this tick; null where no look
        /// met one, as with files mapped into memory, and for trainers.
        file: Text,
    }
}

table! {
    /// What a thread was doing, one row for each state seen in the tick, split by what a worker's
    /// trainer did and by what the call was on; rows of one state are to be added. The share of a
    /// state is its samples divided by the thread's.
    pub activity: ActivityRow {
        /// Its process, as `PID@START`.
        process: Key,
        /// Its thread id.
        thread: Key,
        /// The state: `running` `disk` `futex` `poll` `read` `write` `sleep` `wait` `stopped` `other` `unreadable`.
        state: Key,
        /// Of a worker's thread, and of one that feeds the trainer that it runs in, the state of the main
        /// thread of its trainer in the same look (within 2 ms); empty for a trainer's other threads, and
        /// where it is not known.
        beside: Key,
        /// What a `read`, `write`, `poll` or `disk` is on: `pipe` `socket` `file` (on a file system of
        /// this machine) `remote` (network file systems and FUSE) `shm` (memory) `other`; empty where
        /// it is not known, and in other states.
        on: Key,
        /// Samples that found it so.
        samples: Gauge<Count>,
        /// Times it began, as far as samples can tell: runs of samples in the same state, counted
        /// in the row that they begin in.
        episodes: Gauge<Count>,
    }
}

table! {
    /// A time that a trainer's main thread was blocked in one state for 2 ms or more; the row's time
    /// is its end. Both ends lie between two samples.
    pub wait: WaitRow {
        /// Its process, as `PID@START`.
        process: Key,
        /// Its thread id.
        thread: Key,
        /// The state it was in.
        state: Text,
        /// How long, give or take the time between two samples.
        duration: Gauge<Nanos>,
    }
}

/// Share of Feedline's budget that sampling states may use.
const SHARE: f64 = 0.4;
/// Most threads sampled at a time.
const MOST_THREADS: usize = 1024;
/// Most waits written in a tick, of all trainers.
const MOST_WAITS: usize = 1024;
/// Threads beside the main one are looked for once in so many ticks.
const LOOK_TICKS: u64 = 10;
/// Most threads of one process whose names are read.
const MOST_NAMES: usize = 512;
/// The name that PyTorch gives the thread that copies batches to pinned memory.
const PIN: &str = "pt_data_pin";
/// What programs without an interpreter call the threads that load data, or a part of it.
const LOADERS: [&str; 6] = ["loader", "decode", "reader", "prefetch", "fetch", "worker"];
/// Most loader threads of one trainer that are sampled.
const MOST_LOADERS: usize = 64;
/// Most Python threads of one trainer beside its main one that are sampled.
const MOST_OTHERS: usize = 16;
/// Samples a second of one that does not feed the trainer, which nothing is concluded from, and of one
/// that does at least.
const OTHER_HZ: u32 = 2;
const LEAST_HZ: u32 = 5;
/// Those that feed it are alike as a rule: together they are sampled no more often than so many workers,
/// so that enough looks are left for the main thread.
const TOGETHER: u32 = 2;

/// Samples what the job's threads are doing.
pub struct Threads {
    context: Context,
    board: Arc<Board>,
    running: Option<Running>,
    reasons: Reasons,
    looks: u64,
    ticks: u64,
    plan: Vec<Watch>,
    beside: HashMap<Symbol, Vec<Beside>>,
}

impl Threads {
    /// A sampler of the context's job. Its thread starts at the first reading.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            board: Arc::new(Board::default()),
            running: None,
            reasons: Reasons::default(),
            looks: 0,
            ticks: 0,
            plan: Vec::new(),
            beside: HashMap::new(),
        }
    }

    /// The threads to sample now.
    fn plan(&mut self, processes: &[Process], due: bool) -> Vec<Watch> {
        self.look_beside(processes, due);
        let settings = &self.context.settings;
        let mut watches = Vec::new();
        for process in processes {
            let (part, hertz) = match process.role {
                Role::Trainer => (Part::Main, settings.thread_hz),
                Role::Worker => (Part::Worker, settings.worker_hz),
                Role::Forkserver | Role::Helper => continue,
            };
            let watch = |tid, name: Symbol, part, hertz| {
                let id = ThreadId { pid: process.pid, start: process.start, tid };
                // A loader thread feeds the process that it runs in.
                let own = (process.role == Role::Trainer).then_some(process.pid);
                let feeds = matches!(part, Part::Worker | Part::Loader);
                let trainer = if feeds { process.trainer.or(own) } else { None };
                Watch { id, process: process.key.clone(), name, part, trainer, hertz }
            };
            watches.push(watch(process.pid, process.name.clone(), part, hertz));
            for beside in self.beside.get(&process.key).into_iter().flatten() {
                watches.push(watch(beside.tid, beside.name.clone(), beside.part, settings.worker_hz));
            }
            for (beside, hertz) in self.others(process) {
                watches.push(watch(beside.tid, beside.name, beside.part, hertz));
            }
        }
        if watches.len() > MOST_THREADS {
            self.board.account.drop_some((watches.len() - MOST_THREADS) as u64);
            watches.truncate(MOST_THREADS);
        }
        watches
    }

    /// Looks for pin and loader threads at first sight of a trainer and then now and again: they
    /// come and go with each pass over the data.
    fn look_beside(&mut self, processes: &[Process], due: bool) {
        let again = due && self.ticks.is_multiple_of(LOOK_TICKS);
        self.beside.retain(|key, _| processes.iter().any(|p| p.key == *key));
        for process in processes.iter().filter(|p| p.role == Role::Trainer) {
            if !again && self.beside.contains_key(&process.key) {
                continue;
            }
            let folder = format!("proc/{}/task", process.pid);
            let tids = self.context.host.names(&folder).into_iter().take(MOST_NAMES).filter_map(|n| n.parse().ok());
            let found = tids.filter(|tid| *tid != process.pid).filter_map(|tid: u32| {
                let name = self.context.host.read(format!("{folder}/{tid}/comm")).ok()?;
                let part = part_of(name.trim_end(), process.python)?;
                Some(Beside { tid, name: name.trim_end().into(), part })
            });
            self.beside.insert(process.key.clone(), found.take(MOST_LOADERS).collect());
        }
    }

    /// Other Python threads of a trainer, as far as its stacks told of them, and how often to look at
    /// each.
    fn others(&self, process: &Process) -> Vec<(Beside, u32)> {
        if process.role != Role::Trainer {
            return Vec::new();
        }
        let mut known = self.context.roster.of(process.pid);
        let pins = self.beside.get(&process.key).map_or(&[][..], Vec::as_slice);
        known.retain(|known| pins.iter().all(|pin| pin.tid != known.tid));
        known.truncate(MOST_OTHERS);
        let most = self.context.settings.worker_hz;
        let feeding = u32::try_from(known.iter().filter(|known| known.feeds).count()).unwrap_or(u32::MAX);
        let of_each = (TOGETHER * most / feeding.max(1)).clamp(LEAST_HZ.min(most), most);
        let other = |Known { tid, name, feeds }: Known| {
            let called = || self.context.host.read(format!("proc/{}/task/{tid}/comm", process.pid)).ok();
            let name = name.or_else(|| called().map(|name| name.trim_end().into()))?;
            let (part, hertz) = if feeds { (Part::Loader, of_each) } else { (Part::Other, OTHER_HZ.min(most)) };
            Some((Beside { tid, name, part }, hertz))
        };
        known.into_iter().filter_map(other).collect()
    }

    fn write(&mut self, out: &mut Rows<'_>) {
        // Taken out first: the sampler must not wait for the files read below.
        let taken: Vec<Taken> = self.board.seen().iter_mut().map(Taken::of).collect();
        let mut waits = 0;
        for seen in taken {
            waits = self.write_thread(&seen, waits, out);
            if seen.watch.id.tid == seen.watch.id.pid {
                let reason = seen.refused.then(|| refusal(&self.context.host, seen.watch.id.pid));
                self.reasons.say(out, "activity.state", &seen.watch.process, reason.as_deref());
            }
        }
    }

    /// Writes the rows of one thread; gives the waits written so far.
    fn write_thread(&self, seen: &Taken, mut waits: usize, out: &mut Rows<'_>) -> usize {
        let (process, thread) = (Key(seen.watch.process.clone()), Key(seen.watch.id.tid.to_string().into()));
        let times =
            self.context.host.read(format!("proc/{}/task/{thread}/schedstat", seen.watch.id.pid, thread = thread.0));
        let times = times.and_then(|text| parse::schedstat(&text)).ok();
        out.push(ThreadRow {
            process: process.clone(),
            thread: thread.clone(),
            name: seen.watch.name.clone().into(),
            role: seen.watch.part.name().into(),
            on_cpu: times.map(|t| t.0).into(),
            run_queue: times.map(|t| t.1).into(),
            samples: seen.tally.samples().into(),
            missed: seen.tally.missed.into(),
            file: seen.file.clone().into(),
        });
        for (place, count) in &seen.tally.places {
            out.push(ActivityRow {
                process: process.clone(),
                thread: thread.clone(),
                state: place.state.name().into(),
                beside: place.beside.map_or("", State::name).into(),
                on: place.on.name().into(),
                samples: count.samples.into(),
                episodes: count.episodes.into(),
            });
        }
        for wait in &seen.waits {
            if waits == MOST_WAITS {
                self.board.account.drop_some(1);
                continue;
            }
            waits += 1;
            let duration = u64::try_from(wait.to.since(wait.from)).unwrap_or(0);
            let (process, thread) = (process.clone(), thread.clone());
            out.push_at(
                wait.to,
                WaitRow { process, thread, state: wait.state.name().into(), duration: duration.into() },
            );
        }
        waits
    }
}

/// A thread of a trainer beside its main one.
struct Beside {
    tid: u32,
    name: Symbol,
    part: Part,
}

/// What a thread beside the main one does, by its name. Of a Python trainer's other threads stacks
/// tell; a native one's loader is seen by its names alone.
fn part_of(name: &str, python: bool) -> Option<Part> {
    if name == PIN {
        return Some(Part::Pin);
    }
    let loads = !python && !name.starts_with("tokio") && LOADERS.iter().any(|known| name.contains(known));
    loads.then_some(Part::Worker)
}

/// What was seen of one thread, taken off the board.
struct Taken {
    watch: Watch,
    tally: Tally,
    waits: Vec<Episode>,
    refused: bool,
    file: Option<Symbol>,
}

impl Taken {
    fn nothing(watch: Watch) -> Self {
        Self { watch, tally: Tally::default(), waits: Vec::new(), refused: false, file: None }
    }

    fn of(seen: &mut Seen) -> Self {
        Self {
            watch: seen.watch.clone(),
            tally: seen.tally.drain(),
            waits: std::mem::take(&mut seen.waits),
            refused: seen.refused,
            file: seen.file.take().filter(|_| matches!(seen.watch.part, Part::Worker | Part::Loader)),
        }
    }
}

/// Feeds a text to the parsers of this folder, for [`crate::foreign`].
pub(crate) fn parse_all(text: &str) {
    let syscall = parse::syscall(text);
    for arch in [syscalls::Arch::X86_64, syscalls::Arch::Generic] {
        classify::classify(arch, parse::code(text), &syscall, Some(text));
    }
    // Their outcome is of no interest, only that they return.
    let _ = (parse::stat(text), parse::schedstat(text));
    object::parse_all(text);
}

impl Collector for Threads {
    fn name(&self) -> &'static str {
        "thread"
    }

    fn tables(&self) -> Vec<Table> {
        vec![ThreadRow::table(), ActivityRow::table(), WaitRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        let due = self.looks.is_multiple_of(u64::from(LOOKS));
        self.looks += 1;
        self.ticks += u64::from(due);
        let processes = self.context.target.processes();
        let plan = self.plan(&processes, due);
        // What was seen since the last tick goes out before the threads change.
        if due || plan != self.plan {
            self.write(out);
            self.board.watch(plan.clone());
            let old = std::mem::replace(&mut self.plan, plan);
            // A thread's time counts from its first row, so a new one gets it at once.
            for watch in self.plan.iter().filter(|watch| !old.iter().any(|known| known.id == watch.id)) {
                self.write_thread(&Taken::nothing(watch.clone()), 0, out);
            }
        }
        if self.running.is_none() {
            let Context { host, clock, settings, .. } = self.context.clone();
            let board = Arc::clone(&self.board);
            self.running = Some(Running::start("feedline-thread", move || {
                let mut sampler = Sampler::new(board, host, clock, settings.budget * SHARE);
                move || sampler.round()
            })?);
        }
        Ok(())
    }

    fn background(&mut self) -> Background {
        self.board.account.take()
    }
}
