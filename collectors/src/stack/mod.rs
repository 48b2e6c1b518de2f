//! Where in the program the threads that matter are: Python stacks of each trainer's and worker's
//! main thread, read from memory without stopping it, a few a second at random times; and at a third
//! of that rate those of a trainer's other Python threads, sixteen at a time in turn.
//!
//! Each stack is read between two looks at the thread's kernel state, so that `state` and `site`
//! are one observation. A stack that changes while it is read is often lost, and that happens more
//! to a thread that runs than to one that waits: `missed` says how many, by the state read just
//! before, so that an estimate can correct for it.

mod others;
mod purpose;
mod rounds;
mod rules;
mod sampler;
mod spy;
mod tally;

use std::sync::Arc;

use feedline_traces::unit::Count;
use feedline_traces::{Background, Collector, Counter, Gauge, Key, Result, Row as _, Rows, Symbol, Table, Text, table};

pub use rules::{Frame, Rules, Site, Verdict};

use crate::absent::{AbsentRow, Reasons};
use crate::thread::{Running, State, ThreadId, refusal};
use crate::{Context, Process, Role};
use sampler::{Board, Sampler, Watch};
use spy::PySpy;
use tally::Tally;

table! {
    /// Where a thread was and what it did there, one row for each state and place seen in the tick;
    /// rows that differ in `frame` or `leaf` only are to be added. The share of a place is its
    /// samples divided by the thread's.
    pub stack: StackRow {
        /// Its process, as `PID@START`.
        process: Key,
        /// Its thread id.
        thread: Key,
        /// The kernel's state of it, read just before the stack; one of those of `activity`.
        state: Key,
        /// Where it was: `loader` `startup` `device` `collective` `pipeline` `embedding` `copy` `offload`
        /// `io` `checkpoint` `host` `gc` in a trainer; `worker.fetch` `worker.decode` `worker.collate`
        /// `worker.put` `worker.idle` in a worker, and in threads of a trainer beside its main one;
        /// `unknown` in the row that counts what was missed in a state.
        site: Key,
        /// What a trainer in the `loader` does there, by the rules for workers: `fetch` `decode`
        /// `collate` `put` (taking a batch over) `idle` (waiting for workers); empty where no rule says,
        /// and at other sites.
        task: Key,
        /// The frame that decided, as `file.py:function`; null when none did.
        frame: Text,
        /// The innermost frame; null when there are none, or too many different ones.
        leaf: Text,
        /// The framework whose rule decided.
        framework: Text,
        /// Stacks.
        samples: Gauge<Count>,
        /// Stacks that could not be read while the thread was in this state.
        missed: Gauge<Count>,
        /// Stacks around which the state changed: it was another one just after.
        moved: Gauge<Count>,
        /// Times it came to the site, as far as stacks can tell: runs of stacks at it, counted in the row
        /// that they begin in.
        runs: Gauge<Count>,
    }
}

table! {
    /// How often a trainer's loop went round, where a whole number among its local variables counts
    /// it: in a function that calls the loader, going up by one. Values of variables are not recorded. A
    /// row a look, at its time: about every second and a half.
    pub training_loop: LoopRow {
        /// Its process, as `PID@START`.
        process: Key,
        /// The variable, as `file.py:function:name`.
        variable: Key,
        /// Rounds since the variable was first seen; a step, or a batch of several that make one.
        rounds: Counter<Count>,
    }
}

/// Share of Feedline's budget that reading stacks may use.
const SHARE: f64 = 0.45;
/// Most processes attached to at a time.
const MOST_PROCESSES: usize = 256;

/// Reads the Python stacks of the job.
pub struct Stacks {
    context: Context,
    board: Arc<Board>,
    running: Option<Running>,
    reasons: Reasons,
}

impl Stacks {
    /// A reader of the context's job. Its thread starts at the first reading.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self { context: context.clone(), board: Arc::new(Board::default()), running: None, reasons: Reasons::default() }
    }

    /// The processes to read now, trainers first.
    fn plan(&mut self, processes: &[Process], out: &mut Rows<'_>) -> Vec<Watch> {
        let settings = &self.context.settings;
        let mut watches = Vec::new();
        for (role, hertz) in [(Role::Trainer, settings.stack_hz), (Role::Worker, settings.worker_stack_hz)] {
            for process in processes.iter().filter(|p| p.role == role && hertz > 0) {
                if process.python {
                    let id = ThreadId { pid: process.pid, start: process.start, tid: process.pid };
                    watches.push(Watch { id, process: process.key.clone(), inner: process.inner, role, hertz });
                } else {
                    // Without the right to see its program, nothing says that it is Python either.
                    let reason = match self.context.host.link(format!("proc/{}/exe", process.pid)) {
                        Ok(_) => format!("PID {} is not a Python interpreter", process.pid),
                        Err(_) => refusal(&self.context.host, process.pid),
                    };
                    self.reasons.say(out, "stack.site", &process.key, Some(&reason));
                }
            }
        }
        if watches.len() > MOST_PROCESSES {
            self.board.account.drop_some((watches.len() - MOST_PROCESSES) as u64);
            watches.truncate(MOST_PROCESSES);
        }
        watches
    }

    /// The user's rules and Feedline's; where the user's cannot be read, Feedline's alone.
    fn rules(&mut self, out: &mut Rows<'_>) -> Result<Rules> {
        let folder = self.context.settings.rules.clone();
        let loaded = Rules::load(folder.as_deref());
        let reason = loaded.as_ref().err().map(|error| error.message.clone());
        self.reasons.say(out, "stack.rules", "", reason.as_deref());
        loaded.or_else(|_| Rules::load(None))
    }

    fn write(&mut self, out: &mut Rows<'_>) {
        // Taken out first, so that the sampler does not wait.
        let mut taken = Vec::new();
        for seen in self.board.seen().iter_mut() {
            let others = std::mem::take(&mut seen.others);
            taken.push((seen.watch.clone(), seen.tally.drain(), others, seen.reason.clone(), seen.rounds.take()));
        }
        for (watch, tally, others, reason, rounds) in taken {
            if let Some((variable, rounds, at)) = rounds {
                let process = watch.process.clone().into();
                // A second more or less would be a tenth of a rate over ten.
                out.push_at(at, LoopRow { process, variable: variable.into(), rounds: rounds.into() });
            }
            self.reasons.say(out, "stack.site", &watch.process, reason.as_deref());
            for (thread, tally) in std::iter::once((watch.id.tid, tally)).chain(others) {
                self.board.account.drop_some(tally.blurred);
                write_thread(&watch.process, thread, tally, out);
            }
        }
    }
}

fn write_thread(process: &Symbol, thread: u32, tally: Tally, out: &mut Rows<'_>) {
    let (process, thread) = (Key(process.clone()), Key(Symbol::from(thread.to_string())));
    let mut places: Vec<_> = tally.places.into_iter().collect();
    places.sort_by(|(a, _), (b, _)| {
        (a.state, a.site, a.task, &a.frame, &a.leaf).cmp(&(b.state, b.site, b.task, &b.frame, &b.leaf))
    });
    for (place, count) in places {
        out.push(StackRow {
            process: process.clone(),
            thread: thread.clone(),
            state: place.state.name().into(),
            site: place.site.name().into(),
            task: place.task.and_then(Site::task).unwrap_or_default().into(),
            frame: place.frame.into(),
            leaf: place.leaf.into(),
            framework: place.framework.into(),
            samples: count.samples.into(),
            missed: 0u64.into(),
            moved: count.moved.into(),
            runs: count.runs.into(),
        });
    }
    for state in State::ALL.into_iter().filter(|s| tally.missed[s.index()] > 0) {
        out.push(StackRow {
            process: process.clone(),
            thread: thread.clone(),
            state: state.name().into(),
            site: "unknown".into(),
            task: "".into(),
            samples: 0u64.into(),
            missed: tally.missed[state.index()].into(),
            moved: 0u64.into(),
            runs: 0u64.into(),
            ..StackRow::default()
        });
    }
}

impl Collector for Stacks {
    fn name(&self) -> &'static str {
        "stack"
    }

    fn tables(&self) -> Vec<Table> {
        vec![StackRow::table(), LoopRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        let processes = self.context.target.processes();
        // What was seen since the last tick goes out before the processes change.
        self.write(out);
        let plan = self.plan(&processes, out);
        self.board.watch(plan);
        if self.running.is_none() {
            let rules = self.rules(out)?;
            let Context { host, clock, settings, roster, .. } = self.context.clone();
            let board = Arc::clone(&self.board);
            self.running = Some(Running::start("feedline-stack", move || {
                let attach = Box::new(PySpy { host: host.clone() });
                let limits = (roster, settings.budget * SHARE);
                let mut sampler = Sampler::new(board, host, clock, attach, rules, limits);
                move || sampler.round()
            })?);
        }
        Ok(())
    }

    fn background(&mut self) -> Background {
        self.board.account.take()
    }
}
