//! The loader's workers around one trainer, processes or threads: what they do with their time.

use std::collections::BTreeMap;

use feedline_traces::{Symbol, Ts};

use super::cause::cells::at_work;
use super::evidence::{Evidence, Meter, Pending};
use super::flow::Flow;
use super::kind::{Hold, STATES, State};
use super::lately::Sum as _;
use super::mix::Mix;
use super::site::{TASKS, Task, Tasks};
use super::slice::{Slice, Slices};
use super::top::Top;

/// A thread: process key and thread id.
pub(crate) type ThreadKey = (Symbol, Symbol);

/// Workers followed at once, by trainer.
const WORKERS: usize = 1024;
/// Half-life of what is remembered of one worker, in seconds.
const HALF_LIFE: f64 = 30.0;
/// Seconds after which a worker that sends nothing is gone.
const GONE: f64 = 10.0;
/// Seconds within which a worker that sends nothing still counts.
const THERE: f64 = 2.5;
/// Workers that are compared with each other at most.
const COMPARED: usize = 64;
/// Share of its time at work from which one worker may hold up the others.
const BUSY: f64 = 0.6;
/// Fewer stacks than this say nothing about a crew.
const FEW_STACKS: f64 = 10.0;

#[derive(Debug, Clone)]
pub(super) struct Worker {
    meter: Meter,
    recent: Evidence,
    /// Stacks, forgotten by half in the half-life.
    pub(super) tasks: Tasks,
    pub(super) slices: Slices,
    seen: Ts,
    /// When it was last found at a file, and at which.
    file: Option<(Ts, Symbol)>,
}

impl Default for Worker {
    fn default() -> Self {
        let (meter, recent, slices) = (Meter::default(), Evidence::default(), Slices::default());
        Self { meter, recent, tasks: NO_TASKS, slices, seen: Ts::default(), file: None }
    }
}

impl Worker {
    /// The file that it was at, where that is not long ago.
    pub(super) fn file(&self) -> Option<&Symbol> {
        self.file.as_ref().filter(|(at, _)| self.seen.seconds_since(*at) < GONE).map(|(_, file)| file)
    }
}

const NO_TASKS: Tasks = [[0.0; TASKS]; STATES];

/// What the workers of a trainer do over a horizon, for the split of its wait.
#[derive(Debug, Clone)]
pub(super) struct CrewView {
    /// Workers at a time.
    pub(super) count: f64,
    /// Whether they are stages of a line, threads of a native loader, rather than alike.
    pub(super) staged: bool,
    /// Whether they are Python threads of the trainer, which share its interpreter's lock.
    pub(super) threads: bool,
    /// Seconds by kind and by what the trainer does beside.
    pub(super) mix: Mix,
    /// Stacks by state and task.
    pub(super) tasks: Tasks,
    /// Of their running time, the part in the run queue.
    pub(super) queued: f64,
    /// Of their running time, the part that the counters do not have: the machine took it.
    pub(super) stolen: f64,
    /// The one that is at work much more than the others, and the shares of both.
    pub(super) slow: Option<(Symbol, f64, f64)>,
    /// Of their time, the part of workers so young that they may still be starting.
    pub(super) young: f64,
    pub(super) flow: Flow,
}

/// All workers of one trainer, those that are gone included.
#[derive(Debug, Clone)]
pub(crate) struct Crew {
    pub(super) workers: BTreeMap<ThreadKey, Worker>,
    /// Evidence of all of them over the run: seconds are worker seconds.
    run: Evidence,
    /// What all of them did over the run.
    slices: Slice,
    /// Stacks by state and by task.
    pub(super) tasks: Tasks,
    /// Innermost frames of workers that sleep.
    pub(super) sleepers: Top,
    processes: usize,
    threads: usize,
    /// Most workers that are alike at a time.
    most: usize,
    /// Whether its threads are alike: Python threads of one stage.
    alike: bool,
}

/// What the workers do with their time: the mean of worker processes over the run so far, or the
/// busiest of a loader's threads of late. The shares of time do not overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CrewUse {
    /// Worker processes now.
    pub processes: usize,
    /// Loader threads within the trainer now.
    pub threads: usize,
    /// Whether those threads are alike, Python threads of one pool, and their mean is told.
    pub alike: bool,
    /// Share of their time on a CPU; `None` when it cannot be seen.
    pub on_cpu: Option<f64>,
    /// Share runnable but waiting for a CPU.
    pub queued: Option<f64>,
    /// Share waiting for storage: in disk or read, or polling within a fetch, as for a socket.
    pub storage: Option<f64>,
    /// Share waiting for work, for room or for each other.
    pub idle: Option<f64>,
    /// Share in a timed sleep: throttled, or trying again later.
    pub asleep: Option<f64>,
    /// Of what they run on the CPU, the part in decode and transforms, where stacks tell.
    pub decode: Option<f64>,
}

impl Default for Crew {
    fn default() -> Self {
        let (run, slices) = (Evidence::default(), Slice::default());
        Self {
            workers: BTreeMap::new(),
            run,
            slices,
            tasks: NO_TASKS,
            sleepers: Top::default(),
            processes: 0,
            threads: 0,
            most: 0,
            alike: false,
        }
    }
}

impl Crew {
    /// A crew of Python threads that are alike.
    pub(super) fn of_threads() -> Self {
        Self { alike: true, ..Self::default() }
    }

    /// Share of its time over the run in which it neither waits for work nor for room.
    pub(super) fn at_work(&self) -> f64 {
        let mix = self.slices.mix.calibrated(self.slices.running());
        let total = mix.total();
        if total > 0.0 { at_work(&mix.kinds(), &self.tasks) / total } else { 0.0 }
    }

    /// Takes what a tick said about one worker, what its process read, and whether it is so young that
    /// it may still be starting.
    pub(crate) fn account(
        &mut self,
        key: &ThreadKey,
        now: Ts,
        (pending, tasks): (&Pending, &Tasks),
        (flow, young): (Flow, bool),
    ) {
        if !self.workers.contains_key(key) && self.workers.len() >= WORKERS {
            return;
        }
        let worker = self.workers.entry(key.clone()).or_default();
        worker.seen = now;
        worker.file = pending.file.clone().map(|file| (now, file)).or(worker.file.take());
        let evidence = worker.meter.account(now, pending);
        let mut recent = Evidence::default();
        recent.add(&worker.recent, 0.5_f64.powf(evidence.time / HALF_LIFE));
        recent.add(&evidence, 1.0);
        worker.recent = recent;
        self.run.add(&evidence, 1.0);
        let mut slice = Slice::of(&pending.mix, &evidence, flow);
        slice.young = if young { slice.mix.total() } else { 0.0 };
        self.slices.add(&slice);
        worker.slices.push(now, slice);
        let fade = 0.5_f64.powf(evidence.time / HALF_LIFE);
        worker.tasks.iter_mut().flatten().for_each(|count| *count *= fade);
        for (mine, counts) in [&mut worker.tasks, &mut self.tasks].into_iter().flat_map(|sum| sum.iter_mut().zip(tasks))
        {
            mine.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }

    /// Whether the trainer has workers, or had some.
    pub(super) fn is_known(&self) -> bool {
        self.most > 0 || self.threads > 0
    }

    /// Lets go of workers that are gone, and counts those of `trainer` that are threads.
    pub(crate) fn settle(&mut self, trainer: &Symbol, now: Ts) {
        self.workers.retain(|_, worker| now.seconds_since(worker.seen) < GONE);
        let there = self.workers.iter().filter(|(_, worker)| now.seconds_since(worker.seen) < THERE);
        let (threads, processes): (Vec<_>, Vec<_>) = there.partition(|((process, _), _)| process == trainer);
        (self.threads, self.processes) = (threads.len(), processes.len());
        self.most = self.most.max(if self.alike { self.threads } else { self.processes });
    }

    /// The worker that is at work for the largest share of its time, and that share.
    fn busiest_worker(&self) -> Option<(f64, &Worker)> {
        self.workers
            .values()
            .filter(|w| w.recent.time >= 1.0)
            .filter_map(|w| Some((w.recent.share_in(State::at_work)?, w)))
            .max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Share of time that the busiest worker is at work.
    pub(crate) fn busiest(&self) -> Option<f64> {
        self.busiest_worker().map(|(share, _)| share)
    }

    /// What they did over the last ten seconds, or over the run. Threads of a native loader are
    /// stages of a line: the busiest is the bottleneck, and speaks for all.
    pub(super) fn view(&self, lately: bool) -> Option<CrewView> {
        // Between two crews there are none, but those before made what was waited for.
        let staged = self.staged();
        if self.processes + self.threads == 0 && (self.most == 0 || lately && self.workers.is_empty()) {
            return None;
        }
        let (slice, tasks) = match self.busiest_worker() {
            Some((_, worker)) if staged && lately => (worker.slices.window(), worker.tasks),
            Some((_, worker)) if staged => (worker.slices.run.clone(), worker.tasks),
            _ if lately => {
                let mut sum = (Slice::default(), NO_TASKS);
                for worker in self.workers.values() {
                    sum.0.add(&worker.slices.window());
                    sum.1.iter_mut().flatten().zip(worker.tasks.iter().flatten()).for_each(|(sum, n)| *sum += n);
                }
                sum
            }
            _ => (self.slices.clone(), self.tasks),
        };
        #[expect(clippy::cast_precision_loss, reason = "a thousand workers at most")]
        let count = match (staged, if self.alike { self.threads } else { self.processes }) {
            (true, _) => 1.0,
            (_, 0) => self.most as f64,
            (_, n) => n as f64,
        };
        let running = slice.running();
        let mix = slice.mix.calibrated(running);
        let total = slice.mix.total();
        let part = |(counted, running): (f64, f64)| if running > 0.0 { 1.0 - counted / running } else { 0.0 };
        let stolen = slice.counted().zip(running).map_or(0.0, part).clamp(0.0, 1.0);
        let young = if total > 0.0 { slice.young / total } else { 0.0 };
        let (threads, queued, flow) = (self.alike, slice.queued(), slice.flow);
        let slow = self.slow(lately).filter(|_| !staged);
        Some(CrewView { count, staged, threads, mix, tasks, queued, stolen, slow, young, flow })
    }

    /// The worker that is at work much more than the others: it holds them up, where they wait for it.
    fn slow(&self, lately: bool) -> Option<(Symbol, f64, f64)> {
        if self.workers.len() < 2 || self.workers.len() > COMPARED {
            return None;
        }
        let at_work = |worker: &Worker| {
            let slice = if lately { worker.slices.window() } else { worker.slices.run.clone() };
            let mix = slice.mix.calibrated(slice.running());
            let total = mix.total();
            (total > 0.0).then(|| at_work(&mix.kinds(), &worker.tasks) / total)
        };
        let all: Vec<(&ThreadKey, f64)> =
            self.workers.iter().filter_map(|(key, worker)| Some((key, at_work(worker)?))).collect();
        let (key, most) = all.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
        #[expect(clippy::cast_precision_loss, reason = "some dozens of workers")]
        let others = (all.iter().map(|x| x.1).sum::<f64>() - most) / (all.len() - 1).max(1) as f64;
        let name = if self.alike { key.1.clone() } else { key.0.split('@').next().unwrap_or_default().into() };
        (all.len() > 1 && most >= BUSY && others < 0.5 * most).then_some((name, most, others))
    }

    /// Whether its threads are the stages of a line.
    fn staged(&self) -> bool {
        !self.alike && self.processes == 0 && self.threads > 0
    }

    /// CPU time of the worker processes over that of their main threads.
    pub(super) fn spread(&self) -> Option<f64> {
        let run = &self.slices;
        let cpu = run.flow.user + run.flow.system;
        (self.processes > 0 && run.on_cpu > 0.0 && cpu > 0.0).then(|| cpu / run.on_cpu)
    }

    /// What they do with their time. Worker processes are alike, so their mean is told; the threads
    /// of a native loader are stages of a line, so the busiest is.
    pub(crate) fn usage(&self) -> CrewUse {
        let (processes, threads, alike) = (self.processes, self.threads, self.alike);
        let counts = CrewUse { processes, threads, alike, ..CrewUse::default() };
        match self.busiest_worker() {
            Some((_, worker)) if self.staged() => of(counts, &worker.recent, &worker.tasks),
            _ => of(counts, &self.run, &self.tasks),
        }
    }
}

/// Stacks at a task in the states that mean the same.
fn held(tasks: &Tasks, hold: Hold, task: Task) -> f64 {
    State::ALL.into_iter().filter(|s| Hold::of(*s) == hold).map(|s| tasks[s as usize][task as usize]).sum()
}

/// Splits the time into shares that do not overlap: exact on a CPU and in its queue, the blocked
/// rest as the states were sampled. Stacks tell a wait for work from one for storage.
fn of(counts: CrewUse, e: &Evidence, tasks: &Tasks) -> CrewUse {
    let exact = (e.exact > 0.0).then(|| (e.on_cpu / e.exact, e.run_queue / e.exact));
    let sampled = e.share_in(|s| s == State::Running);
    let running = exact.map(|(cpu, queued)| cpu + queued).or(sampled);
    // Where the counters say otherwise than the samples, what is blocked has to fit beside them.
    let fit = match (running, sampled) {
        (Some(exact), Some(sampled)) if sampled < 1.0 => {
            ((1.0 - exact) / (1.0 - sampled)).clamp(0.0, 1.0 / (1.0 - sampled))
        }
        _ => 0.0,
    };
    let blocked = |pick: &dyn Fn(State) -> bool| e.share_in(pick).map(|share| share * fit);
    let part = |hold: Hold, pick: [Task; 2]| {
        let sum = |task: Task| held(tasks, hold, task);
        let all: f64 = Task::ALL.into_iter().filter(|t| *t != Task::Other).map(sum).sum();
        (all >= FEW_STACKS).then(|| (sum(pick[0]) + sum(pick[1])) / all)
    };
    let idle_in = |hold| part(hold, [Task::Idle, Task::Put]);
    let in_storage = blocked(&|s| Hold::of(s) == Hold::Storage);
    let polls = blocked(&|s| s == State::Poll);
    let rest = blocked(&|s| matches!(s, State::Futex | State::Wait | State::Stopped | State::Other));
    let queue = idle_in(Hold::Storage).unwrap_or(0.0);
    let socket = part(Hold::Poll, [Task::Fetch, Task::Decode]).unwrap_or(0.0);
    let (sleep, lull) = (blocked(&|s| s == State::Sleep), idle_in(Hold::Sleep).unwrap_or(0.0));
    let running_stacks: f64 =
        Task::ALL.into_iter().filter(|t| *t != Task::Other).map(|task| held(tasks, Hold::Running, task)).sum();
    CrewUse {
        on_cpu: exact.map(|(cpu, _)| cpu).or(sampled),
        queued: exact.map(|(_, queued)| queued),
        storage: in_storage.zip(polls).map(|(storage, polls)| storage * (1.0 - queue) + polls * socket),
        idle: in_storage.zip(polls).zip(rest).map(|((storage, polls), rest)| {
            storage * queue
                + polls * (1.0 - socket)
                + rest * idle_in(Hold::Rest).unwrap_or(1.0)
                + sleep.unwrap_or(0.0) * lull
        }),
        asleep: sleep.map(|sleep| sleep * (1.0 - lull)),
        decode: (running_stacks >= FEW_STACKS).then(|| held(tasks, Hold::Running, Task::Decode) / running_stacks),
        ..counts
    }
}
