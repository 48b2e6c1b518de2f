//! What counters, mounts and devices say beside the threads: bytes and CPU time by process, where
//! files live, device calls, and times measured in the process.

use std::collections::BTreeMap;

use feedline_traces::{Symbol, Tick, Ts};

use super::bind::{Cells, Tables};
use super::cause::{Calls, Device, Exact, Origin};
use super::flow::Flow;
use super::lately::{Lately, Sum};
use crate::cells::is_main;

/// Counters remembered at once.
const REMEMBERED: usize = 16_384;
/// Remote mounts named at most.
const MOUNTS: usize = 4;
/// Number of regions with a meaning, in the order of [`REGIONS`].
const KNOWN: usize = 9;
/// Regions whose times take the place of estimates, and the step, which gives its period.
const REGIONS: [&str; KNOWN] =
    ["data", "startup", "checkpoint", "collective", "copy", "gc", "pipeline", "device", "step"];
const DATA: usize = 0;
const STEP: usize = 8;

/// Seconds after which nothing of a process comes late.
const LATE: f64 = 2.5;

/// Most counters of one row.
const COUNTED: usize = 7;

/// A counter at its last reading.
#[derive(Debug, Clone, Copy)]
struct Last {
    at: Ts,
    values: [Option<u64>; COUNTED],
}

/// These counters, and none in the places after them.
fn with(values: &[Option<u64>]) -> [Option<u64>; COUNTED] {
    std::array::from_fn(|i| values.get(i).copied().flatten())
}

/// What a counter that began within the last `span` seconds has counted, if that is possible.
#[expect(clippy::cast_precision_loss, reason = "what was counted while it was watched")]
fn from_nothing(span: f64, values: [Option<u64>; COUNTED]) -> Option<(f64, [Option<f64>; COUNTED])> {
    let nanos = values[0]? as f64;
    (nanos <= 1e9 * span).then(|| (span, values.map(|value| Some(value? as f64))))
}

/// The counters of a kind of row: differences between two readings.
#[derive(Debug, Clone, Default)]
struct Counters(BTreeMap<(Symbol, Symbol), Last>);

impl Counters {
    /// Seconds since the last reading, and what was counted; a counter that fell was reset: missing.
    #[expect(clippy::cast_precision_loss, reason = "differences of one tick")]
    fn step(
        &mut self,
        key: (Symbol, Symbol),
        at: Ts,
        values: [Option<u64>; COUNTED],
    ) -> Option<(f64, [Option<f64>; COUNTED])> {
        if self.0.len() >= REMEMBERED && !self.0.contains_key(&key) {
            return None;
        }
        let before = self.0.insert(key, Last { at, values })?;
        let span = at.seconds_since(before.at);
        let step = |i: usize| Some(values[i]?.checked_sub(before.values[i]?)? as f64);
        (span > 0.0).then(|| (span, std::array::from_fn(step)))
    }

    fn forget(&mut self, now: Ts) {
        self.0.retain(|_, last| now.seconds_since(last.at) < 60.0);
    }
}

/// What was measured of a trainer over one span: additive.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Measured {
    /// Seconds in each region, and over which its counter ran.
    regions: [(f64, f64); KNOWN],
    /// Steps that ended, and batches that came.
    steps: f64,
    batches: f64,
    /// Rounds of the loop, and the seconds over which they were counted.
    rounds: (f64, f64),
    /// Seconds in copies of the main thread, the seconds over which they were timed, and bytes.
    copies: (f64, f64, f64),
    /// Sums over readings of the accelerator, and how many.
    idle: (f64, f64),
    empty: (f64, f64),
    received: (f64, f64),
}

impl Sum for Measured {
    fn add(&mut self, other: &Self) {
        let both = |a: &mut (f64, f64), b: (f64, f64)| *a = (a.0 + b.0, a.1 + b.1);
        self.regions.iter_mut().zip(other.regions).for_each(|(a, b)| both(a, b));
        self.steps += other.steps;
        self.batches += other.batches;
        both(&mut self.rounds, other.rounds);
        let (a, b) = (&mut self.copies, other.copies);
        *a = (a.0 + b.0, a.1 + b.1, a.2 + b.2);
        both(&mut self.idle, other.idle);
        both(&mut self.empty, other.empty);
        both(&mut self.received, other.received);
    }
}

impl Measured {
    pub(super) fn exact(&self) -> Exact {
        let share = |i: usize| mean(self.regions[i]);
        Exact {
            data: share(0),
            startup: share(1),
            checkpoint: share(2),
            collective: share(3),
            copy: share(4),
            gc: share(5),
            pipeline: share(6),
            device: share(7),
        }
    }

    pub(super) fn calls(&self) -> Calls {
        let (time, span, bytes) = self.copies;
        Calls { copies: mean((time, span)), bytes: if span > 0.0 { bytes / span } else { 0.0 } }
    }

    pub(super) fn device(&self) -> Device {
        Device { idle: mean(self.idle), empty: mean(self.empty), received: mean(self.received) }
    }

    /// Steps, seconds from step to step, and how far they can be trusted: where steps were counted
    /// in the process, or batches, or rounds by a variable of its own that was taken for a counter.
    pub(super) fn step(&self) -> Option<(f64, f64, f64)> {
        let counted = [
            (self.steps, self.regions[STEP].1, 1.0),
            (self.batches, self.regions[DATA].1, 1.0),
            (self.rounds.0, self.rounds.1, COUNTER),
        ];
        let (steps, span, trust) = counted.into_iter().find(|(steps, span, _)| *steps >= 1.0 && *span > 0.0)?;
        Some((steps, span / steps, trust))
    }
}

/// How far a variable that counts is trusted to count steps.
const COUNTER: f64 = 0.9;

fn mean((sum, count): (f64, f64)) -> Option<f64> {
    (count > 0.0).then(|| sum / count)
}

/// The last ten seconds of what was measured, and the run.
pub(super) type Measures = Lately<Measured>;

/// The machine's side of a job.
#[derive(Debug, Clone, Default)]
pub(super) struct Machine {
    processes: Counters,
    sockets: Counters,
    calls: Counters,
    files: Counters,
    loops: Counters,
    regions: Counters,
    /// When each process was first seen, and when it first told of a region.
    first: BTreeMap<Symbol, (Ts, Option<Ts>)>,
    pub(super) origin: Origin,
    /// What each process did in this tick.
    pub(super) flows: BTreeMap<Symbol, Flow>,
    /// What was measured in each process in this tick.
    measured: BTreeMap<Symbol, Measured>,
    /// Processes that use an accelerator; `None` while no source tells.
    using: Option<Vec<Symbol>>,
}

impl Machine {
    pub(super) fn account(&mut self, tables: &Tables, tick: &Tick) {
        self.flows.clear();
        self.measured.clear();
        self.bytes(tables, tick);
        self.received(tables, tick);
        self.timed_reads(tables, tick);
        self.mounts(tables, tick);
        self.device_calls(tables, tick);
        self.regions(tables, tick);
        self.loops(tables, tick);
        let counters = [
            &mut self.processes,
            &mut self.sockets,
            &mut self.calls,
            &mut self.files,
            &mut self.loops,
            &mut self.regions,
        ];
        counters.into_iter().for_each(|counters| counters.forget(tick.at));
        let known = &self.processes.0;
        self.first.retain(|process, _| known.contains_key(&(process.clone(), Symbol::from(""))));
        let Some(at) = &tables.using else { return };
        if let Some(batch) = tick.batch(at.table) {
            let users = Cells::all(Some(batch)).filter_map(|cells| cells.text(at.process).cloned());
            self.using = Some(users.take(REMEMBERED).collect());
        }
    }

    fn bytes(&mut self, tables: &Tables, tick: &Tick) {
        let Some(at) = &tables.process else { return };
        for cells in Cells::all(tick.batch(at.table)) {
            let Some(process) = cells.text(at.process) else { continue };
            let whole = |column: Option<usize>| column.and_then(|c| cells.whole(c));
            let [read, storage, calls, faults, switches] = at.reads.map(whole);
            let [user, system] = at.cpu.map(whole);
            let key = (process.clone(), Symbol::from(""));
            let values = [read, storage, calls, user, system, faults, switches];
            if self.first.len() < REMEMBERED {
                self.first.entry(process.clone()).or_insert((tick.at, None));
            }
            let step = self.processes.step(key, cells.batch.at[cells.row], values);
            let Some((seconds, [read, storage, calls, user, system, faults, switches])) = step else { continue };
            let cpu = |nanos: Option<f64>| nanos.unwrap_or(0.0) / 1e9;
            let flow = Flow {
                seconds,
                read: read.unwrap_or(0.0),
                storage: storage.unwrap_or(0.0),
                calls: calls.unwrap_or(0.0),
                faults: faults.unwrap_or(0.0),
                switches: switches.unwrap_or(0.0),
                counted: switches.map_or(0.0, |_| seconds),
                user: cpu(user),
                system: cpu(system),
                ..Flow::default()
            };
            // A tick may bring two readings, one that was late and its own.
            self.flows.entry(process.clone()).or_default().add(&flow, 1.0);
        }
    }

    fn received(&mut self, tables: &Tables, tick: &Tick) {
        let Some(at) = &tables.socket else { return };
        for cells in Cells::all(tick.batch(at.table)) {
            let Some(process) = cells.text(at.process) else { continue };
            let values = with(&[cells.whole(at.received)]);
            let key = (process.clone(), Symbol::from(""));
            let Some((_, [Some(bytes), ..])) = self.sockets.step(key, cells.batch.at[cells.row], values) else {
                continue;
            };
            if let Some(flow) = self.flows.get_mut(process) {
                flow.received += bytes;
            }
        }
    }

    /// Reads of files that the kernel's programs timed, of whatever they are on but pipes and sockets.
    fn timed_reads(&mut self, tables: &Tables, tick: &Tick) {
        let Some(at) = &tables.file_io else { return };
        for cells in Cells::all(tick.batch(at.table)) {
            let (Some(process), Some(operation), Some(on)) =
                (cells.text(at.process), cells.text(at.operation), cells.text(at.on))
            else {
                continue;
            };
            if operation.as_ref() != "read" || !matches!(on.as_ref(), "file" | "remote" | "shm") {
                continue;
            }
            let values = with(&[cells.whole(at.calls), cells.whole(at.time)]);
            let key = (process.clone(), on.clone());
            let step = self.files.step(key, cells.batch.at[cells.row], values);
            if let (Some((_, [Some(calls), Some(time), ..])), Some(flow)) = (step, self.flows.get_mut(process)) {
                flow.timed.0 += calls;
                flow.timed.1 += time / 1e9;
            }
        }
    }

    fn mounts(&mut self, tables: &Tables, tick: &Tick) {
        if let Some((at, batch)) = tables.mount.as_ref().and_then(|at| Some((at, tick.batch(at.table)?))) {
            self.origin.remote.clear();
            for cells in Cells::all(Some(batch)) {
                let far = matches!(cells.text(at.class).map(AsRef::as_ref), Some("network" | "fuse"));
                let Some(mount) = cells.text(at.mount).filter(|_| far && self.origin.remote.len() < MOUNTS) else {
                    continue;
                };
                let kind = at.kind.and_then(|c| cells.text(c)).map_or("", |kind| kind);
                self.origin.remote.push(format!("{mount} ({kind})"));
            }
        }
        let Some((at, batch)) = tables.page_cache.as_ref().and_then(|at| Some((at, tick.batch(at.table)?))) else {
            return;
        };
        let rows = || Cells::all(Some(batch));
        let total: f64 = rows().filter_map(|cells| cells.number(at.total)).filter(|x| *x > 0.0).sum();
        let resident: f64 = rows().filter_map(|cells| cells.number(at.resident)).filter(|x| *x > 0.0).sum();
        self.origin.resident = (total > 0.0).then(|| (resident / total).clamp(0.0, 1.0));
    }

    /// Copies of main threads.
    fn device_calls(&mut self, tables: &Tables, tick: &Tick) {
        let Some(at) = &tables.device_call else { return };
        // All calls of a reading were counted over the same time.
        let mut spans: BTreeMap<(Symbol, Ts), f64> = BTreeMap::new();
        for cells in Cells::all(tick.batch(at.table)) {
            let (Some(process), Some(thread), Some(call)) =
                (cells.text(at.process), cells.text(at.thread), cells.text(at.call))
            else {
                continue;
            };
            if !is_main(process, thread) {
                continue;
            }
            let bytes = at.bytes.and_then(|c| cells.whole(c));
            let values = with(&[cells.whole(at.time), bytes]);
            let key = (process.clone(), call.clone());
            let Some((span, [time, bytes, ..])) = self.calls.step(key, cells.batch.at[cells.row], values) else {
                continue;
            };
            let of_reading = spans.entry((process.clone(), cells.batch.at[cells.row])).or_default();
            *of_reading = of_reading.max(span);
            let measured = self.measured.entry(process.clone()).or_default();
            if call.starts_with("copy_") {
                measured.copies.0 += time.unwrap_or(0.0) / 1e9;
                measured.copies.2 += bytes.unwrap_or(0.0);
            }
        }
        for ((process, _), span) in spans {
            self.measured.entry(process).or_default().copies.1 += span;
        }
    }

    fn regions(&mut self, tables: &Tables, tick: &Tick) {
        let Some(at) = &tables.region else { return };
        for cells in Cells::all(tick.batch(at.table)) {
            let (Some(process), Some(thread), Some(name)) =
                (cells.text(at.process), cells.text(at.thread), cells.text(at.region))
            else {
                continue;
            };
            let Some(i) = REGIONS.iter().position(|known| *known == name.as_ref()) else { continue };
            if !is_main(process, thread) {
                continue;
            }
            let times = at.times.and_then(|c| cells.whole(c));
            let values = with(&[cells.whole(at.time), times]);
            let key = (process.clone(), name.clone());
            let before = self.before_it(process, tick.at).filter(|_| !self.regions.0.contains_key(&key));
            let counted = self.regions.step(key, cells.batch.at[cells.row], values);
            let at_first = || from_nothing(before?, values);
            let Some((span, [Some(time), times, ..])) = counted.or_else(at_first) else { continue };
            let measured = self.measured.entry(process.clone()).or_default();
            let (seconds, over) = &mut measured.regions[i];
            (*seconds, *over) = (*seconds + time / 1e9, *over + span);
            match i {
                STEP => measured.steps += times.unwrap_or(0.0),
                DATA => measured.batches += times.unwrap_or(0.0),
                _ => {}
            }
        }
    }

    /// Seconds for which a process has been watched without a region that it tells of at `now`; `None` where
    /// it may have begun earlier.
    fn before_it(&mut self, process: &Symbol, now: Ts) -> Option<f64> {
        let (seen, told) = self.first.get_mut(process)?;
        let span = now.seconds_since(*seen);
        let earlier = told.get_or_insert(now);
        // Rows of a process that ran before may come a tick or two late.
        (*earlier < now || span >= LATE).then_some(span).filter(|span| *span > 0.0)
    }

    /// Rounds of trainers' loops.
    fn loops(&mut self, tables: &Tables, tick: &Tick) {
        let Some(at) = &tables.training_loop else { return };
        for cells in Cells::all(tick.batch(at.table)) {
            let (Some(process), Some(variable)) = (cells.text(at.process), cells.text(at.variable)) else { continue };
            let values = with(&[cells.whole(at.rounds)]);
            let key = (process.clone(), variable.clone());
            if let Some((span, [Some(rounds), ..])) = self.loops.step(key, cells.batch.at[cells.row], values) {
                let counted = &mut self.measured.entry(process.clone()).or_default().rounds;
                *counted = (counted.0 + rounds, counted.1 + span);
            }
        }
    }

    /// Hands a trainer what was measured of it in this tick. `device` is what its accelerator did:
    /// idle, empty, and bytes a second received.
    pub(super) fn measured(&self, process: &Symbol, device: [Option<f64>; 3], now: Ts, into: &mut Measures) {
        let mut measured = self.measured.get(process).copied().unwrap_or_default();
        let uses = self.using.as_ref().is_none_or(|users| users.contains(process));
        let one = |value: Option<f64>| value.filter(|_| uses).map_or((0.0, 0.0), |x| (x, 1.0));
        [measured.idle, measured.empty, measured.received] = device.map(one);
        into.push(now, measured);
    }
}
