//! The thread that reads stacks. It alone holds what is attached: py-spy's handles may not move
//! between threads.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use feedline_traces::{Clock, Symbol, Ts};

use super::others::{Looked, MOST, Others};
use super::purpose::Purposes;
use super::rounds::Rounds;
use super::rules::Rules;
use super::spy::{Attach, Reading, Unwind, Wanted};
use super::tally::Tally;
use crate::thread::{Account, Chance, Look, Pace, Probe, Roster, State, Strata, ThreadId, period, thread_cpu};
use crate::{Host, Role};

/// A process whose main thread's stack is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Watch {
    /// Its main thread.
    pub(super) id: ThreadId,
    /// Its key.
    pub(super) process: Symbol,
    /// Its pid within its own namespace, where that is another.
    pub(super) inner: Option<u32>,
    /// What it does.
    pub(super) role: Role,
    /// Stacks a second wanted.
    pub(super) hertz: u32,
}

/// What was seen of one process.
#[derive(Debug)]
pub(super) struct Seen {
    /// The process.
    pub(super) watch: Watch,
    /// Counts since last drained.
    pub(super) tally: Tally,
    /// The same of other threads of a trainer, by their ids.
    pub(super) others: BTreeMap<u32, Tally>,
    /// Why there are no stacks; `None` while there are, or before the first try.
    pub(super) reason: Option<String>,
    /// The variable that counts the rounds of its training loop, and how many it had counted when it was
    /// looked at last.
    pub(super) rounds: Option<(Symbol, u64, Ts)>,
    gone: bool,
}

impl Seen {
    fn new(watch: Watch) -> Self {
        Self { watch, tally: Tally::default(), others: BTreeMap::new(), reason: None, rounds: None, gone: false }
    }

    /// The counts of another thread, unless it is one too many.
    fn other(&mut self, thread: u32) -> Option<&mut Tally> {
        let room = self.others.len() < MOST || self.others.contains_key(&thread);
        room.then(|| self.others.entry(thread).or_default())
    }
}

/// The longest nap, so that new processes are seen soon.
const NAP: Duration = Duration::from_millis(200);
/// Between two attachments, so that a burst of new workers does not take a core.
const BETWEEN_ATTACHMENTS: Duration = Duration::from_millis(100);
/// Workers that are attached to whatever it costs; the rest as the budget allows.
const AT_ONCE: usize = 2;
/// After a failed attachment, doubled each time up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Between two looks at a trainer's variables, which cost as much as eight stacks: until one is known to
/// count its steps, and from then on.
const COUNT_EVERY: Duration = Duration::from_millis(400);
const COUNT_ON_EVERY: Duration = Duration::from_millis(1500);
/// Where a look at the variables takes long, so much less often that it takes a hundredth of a core; but
/// once in the ten seconds over which steps are counted.
const COUNT_SHARE: u32 = 100;
const COUNT_AT_LEAST: Duration = Duration::from_secs(8);
/// So many failures in a row mean that the interpreter is not the one attached to: a new program
/// was started in the process.
const FAILURES: u32 = 50;

/// What the sampling thread and the collector share.
#[derive(Debug, Default)]
pub(super) struct Board {
    seen: Mutex<Vec<Seen>>,
    /// Grows when the list of processes was changed by the collector.
    version: AtomicU64,
    /// What sampling costs and loses.
    pub(super) account: Account,
}

impl Board {
    /// The processes, with what was seen of them.
    pub(super) fn seen(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the processes to sample; counts of those that stay are kept.
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

/// Reads the stacks that are due, one round at a time.
pub(super) struct Sampler {
    board: Arc<Board>,
    host: Host,
    clock: Arc<dyn Clock>,
    attach: Box<dyn Attach>,
    rules: Rules,
    pace: Pace,
    chance: Chance,
    version: u64,
    lines: Vec<Line>,
    due: BinaryHeap<Reverse<(Ts, usize)>>,
    attached_at: Ts,
    cpu: u64,
    roster: Roster,
}

/// One process: what is open on it, and when it is next due; in the order of the board.
struct Line {
    watch: Watch,
    probe: Probe,
    unwind: Option<Box<dyn Unwind>>,
    strata: Strata,
    retry_at: Ts,
    wait: Duration,
    failures: u32,
    purposes: Purposes,
    rounds: Rounds,
    /// When its variables may be looked at again.
    count_at: Ts,
    others: Others,
}

impl Line {
    fn new(watch: Watch, now: Ts) -> Self {
        let (probe, others) = (Probe::new(watch.id), Others::new(watch.id, watch.inner, now));
        Self {
            others,
            watch,
            probe,
            unwind: None,
            strata: Strata::new(now),
            retry_at: now,
            wait: FIRST_WAIT,
            failures: 0,
            purposes: Purposes::default(),
            rounds: Rounds::default(),
            count_at: now,
        }
    }

    /// Lets go, to attach again later.
    fn back_off(&mut self, now: Ts) {
        self.unwind = None;
        self.retry_at = now.plus(self.wait);
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        self.failures = 0;
    }
}

/// What one sample of a process came to.
enum Outcome {
    Read { before: State, after: State, reading: Reading, wanted: Wanted, others: Vec<Looked> },
    Torn(State),
    Unattached(String),
    NotYet,
    Gone,
}

impl Sampler {
    /// Nothing read yet; `share` of one core is what it may use. What it finds of the threads of
    /// trainers it tells to `roster`.
    pub(super) fn new(
        board: Arc<Board>,
        host: Host,
        clock: Arc<dyn Clock>,
        attach: Box<dyn Attach>,
        rules: Rules,
        (roster, share): (Roster, f64),
    ) -> Self {
        let (now, cpu) = (clock.now(), thread_cpu());
        Self {
            board,
            host,
            attach,
            rules,
            pace: Pace::new(share, now, cpu),
            chance: Chance::new(now.0.cast_unsigned().rotate_left(17) ^ u64::from(std::process::id())),
            clock,
            version: 0,
            lines: Vec::new(),
            due: BinaryHeap::new(),
            attached_at: Ts(i64::MIN / 2),
            cpu,
            roster,
        }
    }

    /// Reads the stacks that are due, and says how long to sleep until the next.
    pub(super) fn round(&mut self) -> Duration {
        self.adopt();
        let now = self.clock.now();
        let mut left = self.lines.len().saturating_mul(2).saturating_add(1);
        while left > 0 && self.due.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            left -= 1;
            if let Some(Reverse((_, index))) = self.due.pop() {
                self.sample(index);
            }
        }
        self.keep_account();
        let Some(Reverse((at, _))) = self.due.peek() else { return NAP };
        let left = u64::try_from(at.since(self.clock.now())).unwrap_or(0);
        Duration::from_nanos(left).clamp(Duration::from_micros(20), NAP)
    }

    /// Takes over the list of processes if it was changed. What is attached stays attached.
    fn adopt(&mut self) {
        let version = self.board.version.load(Ordering::Acquire);
        if version == self.version {
            return;
        }
        self.version = version;
        let watches: Vec<(Watch, bool)> = self.board.seen().iter().map(|s| (s.watch.clone(), s.gone)).collect();
        self.roster.keep(|pid| watches.iter().any(|(watch, _)| watch.id.pid == pid));
        let mut old = std::mem::take(&mut self.lines);
        self.due.clear();
        let now = self.clock.now();
        for (index, (watch, gone)) in watches.into_iter().enumerate() {
            let known = old.iter().position(|line| line.watch.id == watch.id).map(|at| old.swap_remove(at));
            let mut line = match known {
                Some(line) => Line { watch, ..line },
                None => Line::new(watch, now),
            };
            if !gone && line.watch.hertz > 0 {
                let every = period(line.watch.hertz, self.pace.scale());
                let (due, _) = line.strata.next(now, every, &mut self.chance);
                self.due.push(Reverse((due, index)));
            }
            self.lines.push(line);
        }
    }

    fn sample(&mut self, index: usize) {
        let outcome = self.read(index);
        let Some(line) = self.lines.get_mut(index) else { return };
        let mut board = self.board.seen();
        // A board that was changed since is adopted in the next round.
        let Some(seen) = board.get_mut(index).filter(|seen| seen.watch.id == line.watch.id) else { return };
        let sampled = matches!(outcome, Outcome::Read { .. } | Outcome::Torn(_));
        match outcome {
            Outcome::Read { before, after, reading, wanted, others } => {
                let Reading { main: frames, numbers, others: threads } = reading;
                let mut verdict = self.rules.decide(line.watch.role, before, &frames);
                if line.watch.role == Role::Trainer {
                    line.rounds.pass(&frames, &verdict);
                    line.others.main(&frames, &verdict);
                    if wanted.numbers {
                        line.rounds.see(&frames, &numbers);
                        let now = self.clock.now();
                        seen.rounds = line.rounds.told().map(|(variable, rounds)| (variable, rounds, now));
                    }
                    verdict = line.purposes.judge(&frames, verdict);
                }
                if wanted.threads {
                    let now = self.clock.now();
                    for sighting in line.others.judge(&self.host, &mut self.rules, now, &others, threads) {
                        if let Some(tally) = seen.other(sighting.thread) {
                            sighting.count(tally);
                        }
                    }
                    self.roster.tell(line.watch.id.pid, line.others.known());
                }
                seen.tally.see(before, after, &frames, &verdict);
                seen.reason = None;
            }
            Outcome::Torn(before) => seen.tally.miss(before),
            Outcome::Unattached(reason) => seen.reason = Some(reason),
            Outcome::NotYet => {}
            Outcome::Gone => {
                seen.gone = true;
                line.unwind = None;
                return;
            }
        }
        let every = period(line.watch.hertz, self.pace.scale());
        let (due, missed) = line.strata.next(self.clock.now(), every, &mut self.chance);
        self.board.account.skip(if sampled { missed } else { 0 });
        // While nothing is attached there is nothing to read before the next try.
        let due = if line.unwind.is_none() { due.max(line.retry_at) } else { due };
        self.due.push(Reverse((due, index)));
    }

    /// Reads one stack, between two looks at the thread, and now and again those of its process's other
    /// threads, which are looked at around that.
    fn read(&mut self, index: usize) -> Outcome {
        let now = self.clock.now();
        let Some(line) = self.lines.get_mut(index) else { return Outcome::NotYet };
        let trains = line.watch.role == Role::Trainer && line.unwind.is_some();
        let every = if line.rounds.is_sure() { COUNT_ON_EVERY } else { COUNT_EVERY };
        let mut wanted = Wanted { numbers: trains && now >= line.count_at, ..Wanted::default() };
        if trains {
            (wanted.threads, wanted.names) = line.others.wanted(now);
        }
        let mut others = if wanted.threads { line.others.before(&self.host) } else { Vec::new() };
        let before = match line.probe.look(&self.host) {
            Look::Seen(state) => state,
            Look::Failed => return Outcome::NotYet,
            Look::Gone => return Outcome::Gone,
        };
        let Some(unwind) = &mut line.unwind else { return self.attach(index, now) };
        let cpu = thread_cpu();
        let reading = unwind.read(wanted);
        let cost = Duration::from_nanos(thread_cpu().saturating_sub(cpu));
        if wanted.names {
            self.pace.owe(u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX));
            line.others.named(now, cost);
        }
        if wanted.numbers {
            let cost = if wanted.names { Duration::ZERO } else { cost };
            line.count_at = now.plus(cost.saturating_mul(COUNT_SHARE).clamp(every, COUNT_AT_LEAST));
        }
        let after = line.probe.look(&self.host);
        line.others.after(&self.host, &mut others);
        match (reading, after) {
            (_, Look::Gone) => Outcome::Gone,
            (Some(reading), after) => {
                (line.failures, line.wait) = (0, FIRST_WAIT);
                let after = if let Look::Seen(state) = after { state } else { before };
                Outcome::Read { before, after, reading, wanted, others }
            }
            (None, _) => {
                line.failures += 1;
                if line.failures >= FAILURES {
                    line.back_off(now);
                }
                Outcome::Torn(before)
            }
        }
    }

    /// Attaches, unless that was just done for another process or failed a moment ago.
    fn attach(&mut self, index: usize, now: Ts) -> Outcome {
        let open = self.lines.iter().filter(|line| line.watch.role == Role::Worker && line.unwind.is_some()).count();
        let Some(line) = self.lines.get_mut(index) else { return Outcome::NotYet };
        line.retry_at = line.retry_at.max(self.attached_at.plus(BETWEEN_ATTACHMENTS));
        if now < line.retry_at {
            return Outcome::NotYet;
        }
        if line.watch.role == Role::Worker && open >= AT_ONCE && self.pace.is_in_debt() {
            line.retry_at = now.plus(FIRST_WAIT);
            return Outcome::Unattached(
                "attaching to it waits, to keep to the budget of CPU time (--budget)".to_owned(),
            );
        }
        let cpu = thread_cpu();
        let attached = self.attach.attach(line.watch.id.pid, line.watch.inner);
        self.pace.owe(thread_cpu().saturating_sub(cpu));
        self.attached_at = self.clock.now();
        match attached {
            Ok(unwind) => {
                line.unwind = Some(unwind);
                Outcome::NotYet
            }
            Err(reason) => {
                line.back_off(now);
                Outcome::Unattached(reason)
            }
        }
    }

    /// Adapts the rate once a second, and publishes the cost.
    fn keep_account(&mut self) {
        let now = self.clock.now();
        if !self.pace.is_due(now) {
            return;
        }
        let cpu = thread_cpu();
        let Some(seconds) = self.pace.adapt(now, cpu) else { return };
        self.board.account.spend(cpu.saturating_sub(self.cpu));
        self.cpu = cpu;
        let wanted: f64 = self.lines.iter().filter(|l| l.unwind.is_some()).map(|l| f64::from(l.watch.hertz)).sum();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of samples, never negative"
        )]
        let skipped = (wanted * seconds * (1.0 - self.pace.scale())).max(0.0) as u64;
        self.board.account.skip(skipped);
    }
}

#[cfg(test)]
mod tests;
