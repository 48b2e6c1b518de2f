//! Attribution, first level: for each trainer and window the share of wall time that went into
//! waiting for data, other I/O, the device, own work, or nobody knows what.
//!
//! Two views of the main thread are fused. Thread states are cheap and come often, exact for time
//! on a CPU, but do not know why a thread waits; stacks know, but come rarely and can be missed. So
//! time is split by state first, and each state by what its stacks say.

mod bind;
pub(crate) mod cause;
pub(crate) mod crew;
mod evidence;
mod flow;
mod gather;
pub(crate) mod kind;
mod lately;
mod machine;
mod mix;
mod rules;
pub(crate) mod share;
mod site;
mod slice;
mod stages;
pub(crate) mod supply;
mod top;
mod trainer;
mod worker;

use std::collections::BTreeMap;

use feedline_traces::{Derive, Result, Rows, Schema, Symbol, Table, Tick, Ts};

use bind::{Cells, Tables};
use cause::Boot;
pub use cause::Cause;
pub use crew::CrewUse;
use crew::ThreadKey;
pub use evidence::Evidence;
use gather::Gathered;
pub use kind::{Group, State};
use machine::Machine;
pub use rules::{CAP_NATIVE, CAP_PROCESSES, Rules, Scene};
pub use share::{Estimate, estimate, estimate_sites};
pub use site::Site;
pub use supply::Supply;
use trainer::{Judged, Surroundings, Trainer};

use crate::cells::is_main;

/// Trainers followed at once; more are left out and counted.
const TRAINERS: usize = 256;
/// Processes and threads remembered at once.
const REMEMBERED: usize = 16_384;
/// Process batches without a trainer after which it is gone.
const ABSENCES: u32 = 3;
/// Seconds without any row after which a trainer is gone.
const SILENT: f64 = 60.0;

/// A worker younger than this, in seconds, may still be starting.
const YOUNG: f64 = 5.0;

/// Adds `stall`, `cause`, `worker`, `step`, `step_seen` and `verdict` rows to ticks.
#[derive(Debug)]
pub struct Attribute {
    tables: Tables,
    processes: BTreeMap<Symbol, Process>,
    roles: BTreeMap<ThreadKey, Symbol>,
    trainers: BTreeMap<Symbol, Trainer>,
    job_cpu: f64,
    supply: supply::Gauge,
    machine: Machine,
    boot: Boot,
    /// The first tick.
    origin: Option<Ts>,
    left_out: u64,
}

/// A process of the job.
#[derive(Debug, Clone, Default)]
struct Process {
    role: Option<Symbol>,
    parent: Option<Symbol>,
    cpu: Option<u64>,
    cores: Option<f64>,
    threads: f64,
    /// When it was first seen, how old it was then, and when it was first a worker.
    first: Ts,
    age: Option<f64>,
    worker: Option<Ts>,
    seen: Ts,
}

/// Where the rows of a thread belong.
enum Place {
    Main(Symbol),
    Worker(Symbol),
    /// A Python thread that feeds the trainer that it runs in.
    Loader(Symbol),
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
            machine: Machine::default(),
            boot: Boot::default(),
            origin: None,
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
            let new = !self.processes.contains_key(&key);
            let process = self.processes.entry(key.clone()).or_default();
            if new {
                let seen = tick.at.seconds_since(self.origin.unwrap_or(tick.at));
                process.first = tick.at;
                let lag = tick.at.seconds_since(cells.batch.at[cells.row]);
                let told = at.age.and_then(|c| cells.number(c)).map(|nanos| nanos / 1e9 + lag);
                let guessed = self.boot.age(&key, seen, self.origin.is_some_and(|origin| origin != tick.at));
                process.age = told.or(guessed);
            }
            process.role = cells.text(at.role).cloned();
            process.parent = at.parent.and_then(|c| cells.text(c)).cloned();
            process.seen = tick.at;
            if process.role.as_deref() == Some("worker") {
                process.worker.get_or_insert(tick.at);
            }
            let used: Vec<u64> = at.cpu.iter().filter_map(|c| cells.whole((*c)?)).collect();
            let used = (!used.is_empty()).then(|| used.iter().fold(0, |a: u64, b| a.saturating_add(*b)));
            if let (Some(before), Some(now)) = (process.cpu, used) {
                self.job_cpu += now.saturating_sub(before) as f64 / 1e9;
            }
            process.cpu = used;
            let cores = at.cores.and_then(|c| cells.number(c)).filter(|n| *n >= 1.0);
            cores.into_iter().for_each(|n| self.supply.cores(n));
            process.cores = cores;
            process.threads = at.threads.map_or(0.0, |c| cells.count(c));
            if process.role.as_deref() == Some("trainer") {
                let whole = |column: Option<usize>| column.and_then(|c| cells.whole(c));
                let (local, rank, world) = (whole(at.local_rank), whole(at.rank), whole(at.world));
                if let Some(trainer) = self.trainer(&key, tick.at) {
                    trainer.cores = cores.or(trainer.cores);
                    (trainer.local_rank, trainer.rank, trainer.world) = (local, rank.or(local), world);
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
        let main = is_main(process, thread);
        let role = self.roles.get(&(process.clone(), thread.clone())).map(AsRef::as_ref);
        if self.trainers.contains_key(process) {
            return match role {
                _ if main => Place::Main(process.clone()),
                Some("main") => Place::Main(process.clone()),
                Some("worker") => Place::Worker(process.clone()),
                Some("loader") => Place::Loader(process.clone()),
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

    /// What each trainer's device did: the one of its local rank, else the mean of all. The share of
    /// its multiprocessors at work is better than that of time with any kernel, where it is known.
    fn accelerators(&mut self, tick: &Tick) {
        let mut rows: Vec<(Option<u64>, [Option<f64>; 3])> = Vec::new();
        if let Some(at) = &self.tables.accelerator {
            for cells in Cells::all(tick.batch(at.table)) {
                let number = |column: Option<usize>| column.and_then(|c| cells.number(c));
                let spare = |column| number(column).map(|busy| 1.0 - busy.clamp(0.0, 1.0));
                let index = at.index.and_then(|c| cells.whole(c));
                rows.push((index, [spare(at.busy), spare(at.sm_active), number(at.pcie_read).filter(|x| *x >= 0.0)]));
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a handful of devices")]
        let mean = |i: usize| {
            let known: Vec<f64> = rows.iter().filter_map(|(_, values)| values[i]).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        let means: [Option<f64>; 3] = std::array::from_fn(mean);
        for (key, trainer) in &mut self.trainers {
            let own = trainer.local_rank.and_then(|rank| rows.iter().find(|(index, _)| *index == Some(rank)));
            let device = own.map_or(means, |(_, values)| *values);
            if let Some(idle) = device[1].or(device[0]) {
                trainer.accelerator(idle);
            }
            self.machine.measured(key, device, tick.at, &mut trainer.measures);
        }
    }

    /// Crews that came in this tick.
    fn arrivals(&mut self, tick: &Tick) {
        let came: Vec<(Symbol, f64)> = self
            .processes
            .iter()
            .filter(|(_, p)| p.worker == Some(tick.at) && self.origin != Some(p.first))
            .filter_map(|(key, p)| Some((key.clone(), p.age? + tick.at.seconds_since(p.first))))
            .collect();
        for (key, age) in came {
            let Some(owner) = self.owner(&key) else { continue };
            if let Some(trainer) = self.trainers.get_mut(&owner) {
                trainer.spawns.came(tick.at, age);
            }
        }
    }

    /// What a trainer's split is made among.
    fn surroundings(&self) -> Surroundings<'_> {
        let (mut worker_cores, mut threads) = (None, 0.0);
        for process in self.processes.values() {
            match process.role.as_deref() {
                Some("worker") => worker_cores = [worker_cores, process.cores].into_iter().flatten().reduce(f64::min),
                Some("trainer") => {}
                _ => continue,
            }
            threads += process.threads;
        }
        let (job_cpu, supply) = (self.job_cpu, self.supply.supply());
        Surroundings { job_cpu, supply, worker_cores, threads, origin: &self.machine.origin }
    }

    /// Judges every trainer that was seen, one beside the other, and writes their rows.
    fn judge(&mut self, tick: &Tick, gathered: &Gathered, out: &mut Rows<'_>) {
        let mut judged: Vec<(Symbol, Judged)> = Vec::new();
        for (key, pending) in &gathered.mains {
            let flow = self.machine.flows.get(key).copied().unwrap_or_default();
            let Some(trainer) = self.trainers.get_mut(key) else { continue };
            trainer.account(tick.at, pending, flow);
            if pending.seen {
                trainer.settle(key, tick.at);
                let around = self.surroundings();
                if let Some(trainer) = self.trainers.get(key) {
                    judged.push((key.clone(), trainer.judge(tick.at, &around)));
                }
            }
        }
        trainer::among_ranks(&self.trainers, &mut judged);
        let around = self.surroundings();
        for (key, judged) in &judged {
            if let Some(trainer) = self.trainers.get(key) {
                trainer.emit(key, tick.at, judged, &around, out);
            }
        }
    }
}

impl Derive for Attribute {
    fn tables(&self) -> Vec<Table> {
        crate::tables::all()
    }

    fn derive(&mut self, tick: &Tick, out: &mut Rows<'_>) -> Result<()> {
        self.origin.get_or_insert(tick.at);
        let mut gathered = Gathered::default();
        self.processes(tick);
        self.machine.account(&self.tables, tick);
        self.threads(tick, &mut gathered);
        self.activity(tick, &mut gathered);
        self.stacks(tick, &mut gathered);
        self.arrivals(tick);
        self.waits(tick);
        self.accelerators(tick);
        self.supply.account(&self.tables, tick);
        for (key, (owner, pending, tasks)) in &gathered.workers {
            let main = is_main(&key.0, &key.1);
            let flow = self.machine.flows.get(&key.0).filter(|_| main).copied().unwrap_or_default();
            let process = self.processes.get(&key.0).filter(|p| self.origin != Some(p.first));
            let young = process.is_some_and(|p| {
                p.age.is_some_and(|age| age + tick.at.seconds_since(p.first) < YOUNG && p.worker.is_some())
            });
            if let Some(trainer) = self.trainers.get_mut(owner) {
                trainer.crew.account(key, tick.at, (pending, tasks), (flow, young));
            }
        }
        for (key, (owner, pending, tasks)) in &gathered.threads {
            if let Some(trainer) = self.trainers.get_mut(owner) {
                trainer.stages.account(key, tick.at, pending, tasks);
            }
        }
        self.judge(tick, &gathered, out);
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
mod pool;
#[cfg(test)]
mod tests;
