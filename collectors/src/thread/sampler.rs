//! The thread that looks at other threads.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use feedline_traces::{Clock, Symbol, Ts};

use super::object::{Objects, On};
use super::pace::{Chance, Pace, Strata, period, thread_cpu};
use super::probe::{Call, Look, Probe, ThreadId};
use super::running::Account;
use super::state::State;
use super::tally::{Episode, Place, Tally};
use crate::Host;

/// What a sampled thread does in its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Main thread of a trainer.
    Main,
    /// Copies batches to pinned memory in a trainer.
    Pin,
    /// Main thread of a worker.
    Worker,
    /// Python thread of a trainer that feeds it.
    Loader,
    /// Any other Python thread of a trainer.
    Other,
}

impl Part {
    /// The part as it stands in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Pin => "pin",
            Self::Worker => "worker",
            Self::Loader => "loader",
            Self::Other => "other",
        }
    }
}

/// A thread to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Watch {
    /// Which thread.
    pub(super) id: ThreadId,
    /// Key of its process.
    pub(super) process: Symbol,
    /// The kernel's name of it.
    pub(super) name: Symbol,
    /// What it does.
    pub(super) part: Part,
    /// Of a worker or a loader's thread, the pid of the trainer that it feeds.
    pub(super) trainer: Option<u32>,
    /// Samples a second wanted.
    pub(super) hertz: u32,
}

/// What was seen of one thread.
#[derive(Debug)]
pub(super) struct Seen {
    /// The thread.
    pub(super) watch: Watch,
    /// Counts since last drained.
    pub(super) tally: Tally,
    /// Waits of a trainer's main thread that ended.
    pub(super) waits: Vec<Episode>,
    /// Whether the kernel refuses to show its system call.
    pub(super) refused: bool,
    /// Of a worker, the file that it was last found reading or opening.
    pub(super) file: Option<Symbol>,
    gone: bool,
}

impl Seen {
    fn new(watch: Watch) -> Self {
        Self { watch, tally: Tally::default(), waits: Vec::new(), refused: false, file: None, gone: false }
    }
}

/// Waits shorter than this are not written: a sample or less.
const SHORTEST_WAIT: i64 = 2_000_000;
/// Most waits of one thread between two drains.
const MOST_WAITS: usize = 128;
/// Waking up costs more than a look, so samples that are due this soon are taken at once: those of
/// a trainer's main thread, whose waits are timed, and those of the others. A sample that is early
/// is at a random time all the same, because what woke the sampler was.
const TOGETHER: Duration = Duration::from_micros(200);
const TOGETHER_OTHERS: Duration = Duration::from_millis(4);
/// A look at a trainer this long ago is the same look as one at its worker now.
const SAME_LOOK: i64 = 2_000_000;
/// A thread that is in the same call, with the same arguments, this soon after is on the same kind of
/// file.
const SAME_CALL: i64 = 250_000_000;
/// Workers of one trainer that are looked at in one go: waking up costs more than a look, and which of
/// them are at work at the same moment is what tells a slow sample from a slow loader.
const CREW: usize = 8;
/// The longest nap, so that new threads are seen soon.
const NAP: Duration = Duration::from_millis(100);

/// What the sampling thread and the collector share.
#[derive(Debug, Default)]
pub(super) struct Board {
    seen: Mutex<Vec<Seen>>,
    /// Grows when the list of threads was changed by the collector.
    version: AtomicU64,
    /// What sampling costs and loses.
    pub(super) account: Account,
}

impl Board {
    /// The threads, with what was seen of them.
    pub(super) fn seen(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the threads to sample; counts of threads that stay are kept.
    pub(super) fn watch(&self, watches: Vec<Watch>) {
        let mut seen = self.seen();
        if seen.len() == watches.len() && seen.iter().zip(&watches).all(|(s, w)| s.watch == *w) {
            return;
        }
        let mut old = std::mem::take(&mut *seen);
        for watch in watches {
            let known = old.iter().position(|s| s.watch.id == watch.id);
            seen.push(match known.map(|index| old.swap_remove(index)) {
                Some(known) => Seen { watch, ..known },
                None => Seen::new(watch),
            });
        }
        self.version.fetch_add(1, Ordering::Release);
    }
}

/// Samples what is due, one round at a time.
pub(super) struct Sampler {
    board: Arc<Board>,
    host: Host,
    clock: Arc<dyn Clock>,
    pace: Pace,
    chance: Chance,
    version: u64,
    objects: Objects,
    lines: Vec<Line>,
    due: BinaryHeap<Reverse<(Ts, usize)>>,
    cpu: u64,
}

/// One thread's files and times; in the order of the board.
struct Line {
    id: ThreadId,
    probe: Probe,
    strata: Strata,
    /// Whether the times of its waits matter.
    timed: bool,
    /// Of a worker, where the main thread of its trainer is.
    trainer: Option<usize>,
    /// The lines that are looked at with this one.
    with: Vec<usize>,
    /// The last look that gave a state.
    last: Option<(Ts, State)>,
    /// The last call that was looked into, when, and what it is on.
    on: Option<(Ts, Call, On)>,
    /// The file that such a call was on.
    file: Option<Symbol>,
}

impl Line {
    fn new(watch: &Watch, now: Ts) -> Self {
        let timed = watch.part == Part::Main;
        let (probe, strata) = (Probe::new(watch.id), Strata::new(now));
        let with = Vec::new();
        Self { id: watch.id, probe, strata, timed, trainer: None, with, last: None, on: None, file: None }
    }

    /// Looks at the thread.
    fn look(&mut self, host: &Host, at: Ts) -> Look {
        let look = self.probe.look(host);
        self.last = if let Look::Seen(state) = look { Some((at, state)) } else { None };
        look
    }
}

impl Sampler {
    /// Nothing sampled yet; `share` of one core is what it may use.
    pub(super) fn new(board: Arc<Board>, host: Host, clock: Arc<dyn Clock>, share: f64) -> Self {
        let (now, cpu) = (clock.now(), thread_cpu());
        Self {
            board,
            objects: Objects::new(host.clone()),
            host,
            pace: Pace::new(share, now, cpu),
            chance: Chance::new(now.0.cast_unsigned() ^ u64::from(std::process::id())),
            clock,
            version: 0,
            lines: Vec::new(),
            due: BinaryHeap::new(),
            cpu,
        }
    }

    /// Takes the samples that are due, and says how long to sleep until the next.
    pub(super) fn round(&mut self) -> Duration {
        self.adopt();
        let now = self.clock.now();
        if self.due.peek().is_some_and(|Reverse((at, _))| *at <= now.plus(TOGETHER)) {
            self.sample_due(now);
        }
        self.account();
        let Some(Reverse((at, _))) = self.due.peek() else { return NAP };
        let left = u64::try_from(at.since(self.clock.now())).unwrap_or(0);
        Duration::from_nanos(left).clamp(Duration::from_micros(20), NAP)
    }

    /// Takes the samples due within their horizon. Each thread is looked at once at most, so that a
    /// round ends whatever the rates are.
    fn sample_due(&mut self, now: Ts) {
        let mut again = Vec::new();
        let mut left = self.lines.len();
        while left > 0 && self.due.peek().is_some_and(|Reverse((at, _))| *at <= now.plus(TOGETHER_OTHERS)) {
            let Some(Reverse((at, index))) = self.due.pop() else { break };
            left -= 1;
            let timed = self.lines.get(index).is_some_and(|line| line.timed);
            if timed && at > now.plus(TOGETHER) {
                again.push(Reverse((at, index)));
            } else {
                again.extend(self.sample_together(index).map(Reverse));
            }
        }
        self.due.extend(again);
    }

    /// Looks at a thread and at those that are looked at with it; gives when to look again and which of them
    /// is then the first, unless all are gone.
    fn sample_together(&mut self, index: usize) -> Option<(Ts, usize)> {
        let with = std::mem::take(&mut self.lines.get_mut(index)?.with);
        let all = std::iter::once(index).chain(with);
        let mut left: Vec<(Ts, usize)> = all.filter_map(|index| Some((self.sample(index)?, index))).collect();
        if left.is_empty() {
            return None;
        }
        let (due, first) = left.remove(0);
        self.lines.get_mut(first)?.with = left.into_iter().map(|(_, index)| index).collect();
        Some((due, first))
    }

    /// Takes over the list of threads if it was changed. Lines of threads that stay are kept.
    fn adopt(&mut self) {
        let version = self.board.version.load(Ordering::Acquire);
        if version == self.version {
            return;
        }
        let seen = self.board.seen();
        // The list may have changed again since the version was read; that only adopts it twice.
        self.version = version;
        let mut old = std::mem::take(&mut self.lines);
        self.due.clear();
        let now = self.clock.now();
        let mains = seen.iter().enumerate().filter(|(_, seen)| seen.watch.part == Part::Main);
        let mains: HashMap<u32, usize> = mains.map(|(index, seen)| (seen.watch.id.pid, index)).collect();
        let pids: HashSet<u32> = seen.iter().map(|seen| seen.watch.id.pid).collect();
        self.objects.keep(|pid| pids.contains(&pid));
        let mut crews: HashMap<(u32, u32), usize> = HashMap::new();
        for (index, seen) in seen.iter().enumerate() {
            let id = seen.watch.id;
            let known = old.iter().position(|line| line.id == id).map(|at| old.swap_remove(at));
            let mut line = known.unwrap_or_else(|| Line::new(&seen.watch, now));
            line.trainer = seen.watch.trainer.and_then(|pid| mains.get(&pid).copied());
            let every = period(seen.watch.hertz, self.pace.scale());
            let (due, _) = line.strata.next(now, every, &mut self.chance);
            line.with.clear();
            self.lines.push(line);
            if seen.gone || seen.watch.hertz == 0 {
                continue;
            }
            let crew = seen.watch.trainer.filter(|_| seen.watch.part == Part::Worker);
            let Some(crew) = crew.map(|trainer| (trainer, seen.watch.hertz)) else {
                self.due.push(Reverse((due, index)));
                continue;
            };
            let first = crews.get(&crew).and_then(|first| self.lines.get_mut(*first));
            if let Some(first) = first.filter(|first| first.with.len() + 1 < CREW) {
                first.with.push(index);
            } else {
                crews.insert(crew, index);
                self.due.push(Reverse((due, index)));
            }
        }
    }

    /// Looks at a thread; gives when to look again, unless it is gone.
    fn sample(&mut self, index: usize) -> Option<Ts> {
        let at = self.clock.now();
        let look = self.lines.get_mut(index)?.look(&self.host, at);
        let place = if let Look::Seen(state) = look { self.place(index, state, at) } else { None };
        let line = self.lines.get_mut(index)?;
        let mut seen = self.board.seen();
        // A board that was changed since is adopted in the next round.
        let seen = seen.get_mut(index).filter(|seen| seen.watch.id == line.id)?;
        let every = period(seen.watch.hertz, self.pace.scale());
        match look {
            Look::Seen(state) => {
                let gap = (every * 4).max(Duration::from_millis(100));
                if let Some(wait) = seen.tally.see(at, place.unwrap_or(state.into()), gap)
                    && seen.watch.part == Part::Main
                    && wait.to.since(wait.from) >= SHORTEST_WAIT
                {
                    if seen.waits.len() < MOST_WAITS {
                        seen.waits.push(wait);
                    } else {
                        self.board.account.drop_some(1);
                    }
                }
                seen.refused = line.probe.is_refused();
                if place.is_some_and(|place| matches!(place.on, On::File | On::Remote)) {
                    seen.file.clone_from(&line.file);
                }
            }
            Look::Failed => seen.tally.miss(),
            Look::Gone => {
                seen.gone = true;
                return None;
            }
        }
        let (due, missed) = line.strata.next(at, every, &mut self.chance);
        self.board.account.skip(missed);
        Some(due)
    }

    /// What is counted of a state that a thread was just found in.
    fn place(&mut self, index: usize, state: State, at: Ts) -> Option<Place> {
        let line = self.lines.get(index)?;
        let (pid, trainer) = (line.id.pid, line.trainer);
        let call = line.probe.call().filter(|_| is_on_something(state));
        let known = line.on.filter(|(seen, known, _)| call == Some(*known) && at.since(*seen) <= SAME_CALL);
        // The trainer first: what a call is on changes less quickly than a state.
        let beside = trainer.and_then(|index| self.beside(index, at));
        let on = match (known, call) {
            (Some((_, _, on)), _) => on,
            (None, Some(call)) => {
                let on = self.objects.of(pid, &call, at);
                let file = self.objects.file(pid).filter(|_| matches!(on, On::File | On::Remote));
                let line = self.lines.get_mut(index)?;
                line.on = Some((at, call, on));
                line.file = file.or(line.file.take());
                on
            }
            (None, None) => On::Unknown,
        };
        Some(Place { state, beside, on })
    }

    /// The state of a trainer's main thread at about this time. Such a look is no sample of the
    /// trainer's: its own come at times of their own.
    fn beside(&mut self, index: usize, at: Ts) -> Option<State> {
        let line = self.lines.get_mut(index)?;
        match line.last {
            Some((seen, state)) if at.since(seen) <= SAME_LOOK => Some(state),
            _ => match line.look(&self.host, at) {
                Look::Seen(state) => Some(state),
                Look::Failed | Look::Gone => None,
            },
        }
    }

    /// Adapts the rate once a second, and publishes the cost.
    fn account(&mut self) {
        let Some(seconds) = self.pace_after_a_second() else { return };
        let wanted: f64 = self.board.seen().iter().map(|s| f64::from(s.watch.hertz)).sum();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of samples, never negative"
        )]
        let skipped = (wanted * seconds * (1.0 - self.pace.scale())).max(0.0) as u64;
        self.board.account.skip(skipped);
    }

    fn pace_after_a_second(&mut self) -> Option<f64> {
        let now = self.clock.now();
        if !self.pace.is_due(now) {
            return None;
        }
        let cpu = thread_cpu();
        let seconds = self.pace.adapt(now, cpu)?;
        self.board.account.spend(cpu.saturating_sub(self.cpu));
        self.cpu = cpu;
        Some(seconds)
    }
}

/// States whose calls name a file.
fn is_on_something(state: State) -> bool {
    matches!(state, State::Read | State::Write | State::Poll | State::Disk)
}

#[cfg(test)]
mod tests;
