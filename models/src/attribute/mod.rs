//! Attribution, first level: for each trainer and window the share of wall time that went into
//! waiting for data, other I/O, the device, own work, or nobody knows what.
//!
//! Two views of the main thread are fused. Thread states are cheap and come often, exact for time
//! on a CPU, but do not know why a thread waits; stacks know, but come rarely and can be missed. So
//! time is split by state first, and each state by what its stacks say.

mod bind;
mod crew;
mod evidence;
mod kind;
mod rules;
mod share;
mod supply;
mod top;
mod trainer;

use std::collections::BTreeMap;

use feedline_traces::{Derive, Result, Rows, Schema, Symbol, Table, Tick, Ts};

use bind::{Cells, Tables};
pub use crew::CrewUse;
use crew::ThreadKey;
pub use evidence::Evidence;
use evidence::Pending;
pub use kind::{Cause, State};
use kind::{Hold, Task, Tasks};
pub use rules::{CAP_NATIVE, CAP_PROCESSES, Rules, Scene};
pub use share::{Estimate, estimate};
pub use supply::Supply;
use trainer::Trainer;

/// Trainers followed at once; more are left out and counted.
const TRAINERS: usize = 256;
/// Processes and threads remembered at once.
const REMEMBERED: usize = 16_384;
/// Process batches without a trainer after which it is gone.
const ABSENCES: u32 = 3;
/// Seconds without any row after which a trainer is gone.
const SILENT: f64 = 60.0;

/// Adds `stall`, `step` and `verdict` rows to ticks.
#[derive(Debug)]
pub struct Attribute {
    tables: Tables,
    processes: BTreeMap<Symbol, Process>,
    roles: BTreeMap<ThreadKey, Symbol>,
    trainers: BTreeMap<Symbol, Trainer>,
    job_cpu: f64,
    supply: supply::Gauge,
    left_out: u64,
}

/// A process of the job.
#[derive(Debug, Clone, Default)]
struct Process {
    role: Option<Symbol>,
    parent: Option<Symbol>,
    cpu: Option<u64>,
    seen: Ts,
}

/// What one tick says, by thread.
#[derive(Debug, Default)]
struct Gathered {
    mains: BTreeMap<Symbol, Pending>,
    workers: BTreeMap<ThreadKey, (Symbol, Pending, Tasks)>,
}

/// Where the rows of a thread belong.
enum Place {
    Main(Symbol),
    Worker(Symbol),
    Elsewhere,
}

impl Attribute {
    /// Binds to the tables a source has; any of them may be missing, and then less is known.
    ///
    /// # Errors
    /// When there is none of `thread`, `activity` and `stack`, or one lacks a column that it cannot
    /// be read without.
    pub fn bind(schema: &Schema) -> Result<Self> {
        Ok(Self {
            tables: Tables::bind(schema)?,
            processes: BTreeMap::new(),
            roles: BTreeMap::new(),
            trainers: BTreeMap::new(),
            job_cpu: 0.0,
            supply: supply::Gauge::default(),
            left_out: 0,
        })
    }

    /// How often a trainer was left out because there were too many.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Tells how many cores the machine has, which no table says: a job confined to fewer is then
    /// told so.
    #[must_use]
    pub fn on_machine(mut self, cores: Option<u32>) -> Self {
        if let Some(cores) = cores.filter(|n| *n > 0) {
            self.supply.cores(f64::from(cores));
        }
        self
    }

    /// Roles, parents and CPU time of processes, and who is gone.
    #[expect(clippy::cast_precision_loss, reason = "differences of one tick")]
    fn processes(&mut self, tick: &Tick) {
        let Some(at) = self.tables.process.clone() else { return };
        let Some(batch) = tick.batch(at.table) else { return };
        for cells in Cells::all(Some(batch)) {
            let Some(key) = cells.text(at.process).cloned() else { continue };
            if !self.processes.contains_key(&key) && self.processes.len() >= REMEMBERED {
                continue;
            }
            let process = self.processes.entry(key.clone()).or_default();
            process.role = cells.text(at.role).cloned();
            process.parent = at.parent.and_then(|c| cells.text(c)).cloned();
            process.seen = tick.at;
            let used: Vec<u64> = at.cpu.iter().filter_map(|c| cells.whole((*c)?)).collect();
            let used = (!used.is_empty()).then(|| used.iter().fold(0, |a: u64, b| a.saturating_add(*b)));
            if let (Some(before), Some(now)) = (process.cpu, used) {
                self.job_cpu += now.saturating_sub(before) as f64 / 1e9;
            }
            process.cpu = used;
            let cores = at.cores.and_then(|c| cells.number(c)).filter(|n| *n >= 1.0);
            cores.into_iter().for_each(|n| self.supply.cores(n));
            if process.role.as_deref() == Some("trainer") {
                let rank = at.local_rank.and_then(|c| cells.whole(c));
                if let Some(trainer) = self.trainer(&key, tick.at) {
                    trainer.cores = cores.or(trainer.cores);
                    trainer.local_rank = rank;
                }
            } else {
                self.trainers.remove(&key);
            }
        }
        self.processes.retain(|_, process| tick.at.seconds_since(process.seen) < SILENT);
        for (key, trainer) in &mut self.trainers {
            let here = self.processes.get(key).is_some_and(|p| p.seen == tick.at);
            trainer.absences = if here { 0 } else { trainer.absences + 1 };
        }
    }

    fn trainer(&mut self, key: &Symbol, now: Ts) -> Option<&mut Trainer> {
        if !self.trainers.contains_key(key) {
            if self.trainers.len() >= TRAINERS {
                self.left_out += 1;
                return None;
            }
            self.trainers.insert(key.clone(), Trainer::born(now, self.job_cpu));
        }
        self.trainers.get_mut(key)
    }

    /// Where a thread belongs. The main thread's id is its process's id.
    fn place(&self, (process, thread): &ThreadKey) -> Place {
        let main = process.split('@').next() == Some(thread);
        let role = self.roles.get(&(process.clone(), thread.clone())).map(AsRef::as_ref);
        if self.trainers.contains_key(process) {
            return match role {
                _ if main => Place::Main(process.clone()),
                Some("main") => Place::Main(process.clone()),
                Some("worker") => Place::Worker(process.clone()),
                _ => Place::Elsewhere,
            };
        }
        let known = self.processes.get(process).and_then(|p| p.role.as_deref());
        if known == Some("worker") && (main || matches!(role, Some("main" | "worker"))) {
            return self.owner(process).map_or(Place::Elsewhere, Place::Worker);
        }
        Place::Elsewhere
    }

    /// The trainer a worker process feeds: the nearest among its ancestors, else the only one.
    fn owner(&self, worker: &Symbol) -> Option<Symbol> {
        let mut at = worker.clone();
        for _ in 0..8 {
            let Some(parent) = self.processes.get(&at).and_then(|p| p.parent.clone()) else { break };
            if self.trainers.contains_key(&parent) {
                return Some(parent);
            }
            at = parent;
        }
        (self.trainers.len() == 1).then(|| self.trainers.keys().next().cloned()).flatten()
    }

    /// Runs `with` on what is pending for a thread, if it is a main thread or a worker.
    fn pending(&self, gathered: &mut Gathered, key: ThreadKey, with: impl FnOnce(&mut Pending, Option<&mut Tasks>)) {
        match self.place(&key) {
            Place::Main(process) => with(gathered.mains.entry(process).or_default(), None),
            Place::Worker(owner) => {
                let entry = gathered.workers.entry(key).or_default();
                entry.0 = owner;
                with(&mut entry.1, Some(&mut entry.2));
            }
            Place::Elsewhere => {}
        }
    }

    fn threads(&mut self, tick: &Tick, gathered: &mut Gathered) {
        let Some(at) = self.tables.thread.clone() else { return };
        for cells in Cells::all(tick.batch(at.table)) {
            let (Some(process), Some(thread)) = (cells.text(at.process), cells.text(at.thread)) else { continue };
            let key = (process.clone(), thread.clone());
            if let Some(role) = at.role.and_then(|c| cells.text(c)) {
                if self.roles.len() < REMEMBERED || self.roles.contains_key(&key) {
                    self.roles.insert(key.clone(), role.clone());
                }
                if self.tables.process.is_none() && role.as_ref() == "main" {
                    let _ = self.trainer(process, tick.at);
                }
            }
            let on_cpu = at.on_cpu.and_then(|c| cells.whole(c));
            let queued = at.run_queue.and_then(|c| cells.whole(c));
            let when = cells.batch.at[cells.row];
            self.pending(gathered, key, |pending, _| {
                pending.seen = true;
                pending.counters = Some((when, on_cpu, queued));
            });
        }
    }

    fn activity(&self, tick: &Tick, gathered: &mut Gathered) {
        let Some(at) = &self.tables.activity else { return };
        for cells in Cells::all(tick.batch(at.table)) {
            let (Some(process), Some(thread)) = (cells.text(at.process), cells.text(at.thread)) else { continue };
            let state = State::named(cells.text(at.state).map_or("", |s| s)) as usize;
            self.pending(gathered, (process.clone(), thread.clone()), |pending, _| {
                pending.seen = true;
                pending.samples[state] += cells.count(at.samples);
                pending.episodes[state] += at.episodes.map_or(0.0, |c| cells.count(c));
            });
        }
    }

    /// Stacks by state and site. Without thread states they also stand in for those.
    fn stacks(&mut self, tick: &Tick, gathered: &mut Gathered) {
        let Some(at) = self.tables.stack.clone() else { return };
        let alone = self.tables.activity.is_none();
        for cells in Cells::all(tick.batch(at.table)) {
            let (Some(process), Some(thread)) = (cells.text(at.process), cells.text(at.thread)) else { continue };
            if alone && self.tables.process.is_none() && process.split('@').next() == Some(thread) {
                let _ = self.trainer(process, tick.at);
            }
            let state = State::named(cells.text(at.state).map_or("", |s| s));
            let site = cells.text(at.site).map_or("", |s| s);
            let (read, missed) = (cells.count(at.samples), at.missed.map_or(0.0, |c| cells.count(c)));
            let key = (process.clone(), thread.clone());
            let cause = Cause::of_site(site);
            if read > 0.0 {
                let text = |column: Option<usize>| column.and_then(|c| cells.text(c));
                self.places(&key, state, cause, [text(at.frame), text(at.leaf)], read);
            }
            self.pending(gathered, key, |pending, tasks| {
                if alone {
                    pending.seen = true;
                    pending.samples[state as usize] += read + missed;
                }
                pending.missed[state as usize] += missed;
                match (tasks, Task::of_site(site)) {
                    (Some(tasks), Some(task)) => tasks[Hold::of(state) as usize][task as usize] += read,
                    (Some(_), None) => {}
                    (None, _) => pending.stacks[state as usize][cause as usize] += read,
                }
            });
        }
    }

    /// Notes where in the program the stacks were.
    fn places(&mut self, key: &ThreadKey, state: State, cause: Cause, names: [Option<&Symbol>; 2], read: f64) {
        let [frame, leaf] = names;
        match self.place(key) {
            Place::Main(process) => {
                let Some(trainer) = self.trainers.get_mut(&process) else { return };
                frame.into_iter().for_each(|frame| trainer.frame(cause, frame, read));
                leaf.into_iter().for_each(|leaf| trainer.leaves[cause as usize].add(leaf, read));
            }
            Place::Worker(owner) if state == State::Sleep => {
                if let (Some(trainer), Some(leaf)) = (self.trainers.get_mut(&owner), leaf) {
                    trainer.crew.sleepers.add(leaf, read);
                }
            }
            Place::Worker(_) | Place::Elsewhere => {}
        }
    }

    fn waits(&mut self, tick: &Tick) {
        let Some(at) = self.tables.wait.clone() else { return };
        for cells in Cells::all(tick.batch(at.table)) {
            let (Some(process), Some(thread)) = (cells.text(at.process), cells.text(at.thread)) else { continue };
            let Place::Main(process) = self.place(&(process.clone(), thread.clone())) else { continue };
            let (Some(state), Some(nanos)) = (cells.text(at.state), cells.number(at.duration)) else { continue };
            if let Some(trainer) = self.trainers.get_mut(&process) {
                trainer.waits.push(cells.batch.at[cells.row], State::named(state), nanos);
            }
        }
    }

    /// Idle share of each trainer's device: the one of its local rank, else the mean of all.
    fn accelerators(&mut self, tick: &Tick) {
        let Some(at) = &self.tables.accelerator else { return };
        let mut idle: Vec<(Option<u64>, f64)> = Vec::new();
        for cells in Cells::all(tick.batch(at.table)) {
            let busy = at.sm_active.and_then(|c| cells.number(c)).or_else(|| at.busy.and_then(|c| cells.number(c)));
            if let Some(busy) = busy {
                idle.push((at.index.and_then(|c| cells.whole(c)), 1.0 - busy.clamp(0.0, 1.0)));
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a handful of devices")]
        let mean = idle.iter().map(|(_, x)| x).sum::<f64>() / idle.len() as f64;
        for trainer in self.trainers.values_mut() {
            let own = trainer.local_rank.and_then(|rank| idle.iter().find(|(index, _)| *index == Some(rank)));
            if let Some(share) = own.map(|(_, x)| *x).or((!idle.is_empty()).then_some(mean)) {
                trainer.accelerator(share);
            }
        }
    }
}

impl Derive for Attribute {
    fn tables(&self) -> Vec<Table> {
        crate::tables::all()
    }

    fn derive(&mut self, tick: &Tick, out: &mut Rows<'_>) -> Result<()> {
        let mut gathered = Gathered::default();
        self.processes(tick);
        self.threads(tick, &mut gathered);
        self.activity(tick, &mut gathered);
        self.stacks(tick, &mut gathered);
        self.waits(tick);
        self.accelerators(tick);
        self.supply.account(&self.tables, tick);
        for (key, (owner, pending, tasks)) in &gathered.workers {
            if let Some(trainer) = self.trainers.get_mut(owner) {
                trainer.crew.account(key, tick.at, pending, tasks);
            }
        }
        for (key, pending) in &gathered.mains {
            let Some(trainer) = self.trainers.get_mut(key) else { continue };
            trainer.account(tick.at, pending);
            if pending.seen {
                trainer.emit(key, tick.at, (self.job_cpu, self.supply.supply()), out);
            }
        }
        let gone = |t: &Trainer| t.absences >= ABSENCES || tick.at.seconds_since(t.seen) >= SILENT;
        self.trainers.retain(|_, trainer| !gone(trainer));
        let (trainers, processes) = (&self.trainers, &self.processes);
        self.roles.retain(|(process, _), _| trainers.contains_key(process) || processes.contains_key(process));
        Ok(())
    }
}

#[cfg(test)]
mod crowd;
#[cfg(test)]
mod nonsense;
#[cfg(test)]
mod tests;
