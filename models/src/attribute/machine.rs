//! What counters, mounts and devices say beside the threads: bytes and CPU time by process, where
//! files live, device calls, and times measured in the process.

use std::collections::BTreeMap;

use feedline_traces::{Symbol, Tick, Ts};

use super::bind::{Cells, Tables};
use super::cause::{Calls, Device, Exact, Flow, Origin};
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

/// A counter at its last reading.
#[derive(Debug, Clone, Copy)]
struct Last {
    at: Ts,
    values: [Option<u64>; 5],
}

/// The counters of a kind of row: differences between two readings.
#[derive(Debug, Clone, Default)]
struct Counters(BTreeMap<(Symbol, Symbol), Last>);

impl Counters {
    /// Seconds since the last reading, and what was counted; a counter that fell was reset: missing.
    #[expect(clippy::cast_precision_loss, reason = "differences of one tick")]
    fn step(&mut self, key: (Symbol, Symbol), at: Ts, values: [Option<u64>; 5]) -> Option<(f64, [Option<f64>; 5])> {
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

    /// Steps, and seconds from step to step, where steps were counted in the process, or batches.
    pub(super) fn step(&self) -> Option<(f64, f64)> {
        let counted = [(self.steps, self.regions[STEP].1), (self.batches, self.regions[DATA].1)];
        let (steps, span) = counted.into_iter().find(|(steps, span)| *steps >= 1.0 && *span > 0.0)?;
        Some((steps, span / steps))
    }
}

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
    regions: Counters,
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
        self.mounts(tables, tick);
        self.device_calls(tables, tick);
        self.regions(tables, tick);
        for counters in [&mut self.processes, &mut self.sockets, &mut self.calls, &mut self.regions] {
            counters.forget(tick.at);
        }
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
            let [read, storage, calls] = at.reads.map(whole);
            let [user, system] = at.cpu.map(whole);
            let key = (process.clone(), Symbol::from(""));
            let step = self.processes.step(key, cells.batch.at[cells.row], [read, storage, calls, user, system]);
            let Some((seconds, [read, storage, calls, user, system])) = step else { continue };
            let cpu = |nanos: Option<f64>| nanos.unwrap_or(0.0) / 1e9;
            let flow = Flow {
                seconds,
                read: read.unwrap_or(0.0),
                storage: storage.unwrap_or(0.0),
                calls: calls.unwrap_or(0.0),
                user: cpu(user),
                system: cpu(system),
                received: 0.0,
            };
            self.flows.insert(process.clone(), flow);
        }
    }

    fn received(&mut self, tables: &Tables, tick: &Tick) {
        let Some(at) = &tables.socket else { return };
        for cells in Cells::all(tick.batch(at.table)) {
            let Some(process) = cells.text(at.process) else { continue };
            let values = [cells.whole(at.received), None, None, None, None];
            let key = (process.clone(), Symbol::from(""));
            let Some((_, [Some(bytes), ..])) = self.sockets.step(key, cells.batch.at[cells.row], values) else {
                continue;
            };
            if let Some(flow) = self.flows.get_mut(process) {
                flow.received += bytes;
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
            let values = [cells.whole(at.time), bytes, None, None, None];
            let key = (process.clone(), call.clone());
            let Some((span, [time, bytes, ..])) = self.calls.step(key, cells.batch.at[cells.row], values) else {
                continue;
            };
            let measured = self.measured.entry(process.clone()).or_default();
            measured.copies.1 = measured.copies.1.max(span);
            if call.starts_with("copy_") {
                measured.copies.0 += time.unwrap_or(0.0) / 1e9;
                measured.copies.2 += bytes.unwrap_or(0.0);
            }
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
            let values = [cells.whole(at.time), times, None, None, None];
            let key = (process.clone(), name.clone());
            let Some((span, [Some(time), times, ..])) = self.regions.step(key, cells.batch.at[cells.row], values)
            else {
                continue;
            };
            let measured = self.measured.entry(process.clone()).or_default();
            measured.regions[i] = (time / 1e9, span);
            match i {
                STEP => measured.steps = times.unwrap_or(0.0),
                DATA => measured.batches = times.unwrap_or(0.0),
                _ => {}
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
