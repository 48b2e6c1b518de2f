//! Facts from ticks: of a live job, or of a recorded one played again.

mod tables;
#[cfg(test)]
mod tests;
mod trainer;

use std::collections::{BTreeMap, BTreeSet};

use feedline_traces::{Schema, Symbol, Tick, Ts};

use self::tables::Tables;
use self::trainer::{Grown, Process, Trainer, cpu, is, mean, real};
use super::facts::{Crew, Facts, Machine, Pattern, Reads, Said, Setting, Share};
use crate::cells::is_main;
use crate::finding::bind::Line;

/// Observed tables that facts, and the causes and findings among them, are made of: of a recorded run
/// no others have to be read.
pub const TABLES: [&str; 22] = [
    "accelerator",
    "accelerator_process",
    "activity",
    "cgroup",
    "device_call",
    "disk",
    "file_io",
    "job",
    "memory",
    "mount",
    "nfs_operation",
    "off_cpu",
    "page_cache",
    "pressure",
    "process",
    "region",
    "socket",
    "stack",
    "thread",
    "training_loop",
    "vmstat",
    "wait",
];

/// Processes followed at once, and trainers and devices.
const MOST: usize = 16_384;
/// Bytes of a mean read below which pipes are what was read: a socket's bytes are not counted.
const SMALLEST: f64 = 1024.0;
/// Seconds that a process may be young before what it uses counts: it imports and starts.
const YOUNG: f64 = 5.0;

/// Gathers [`Facts`]: a tick after the other, in bounded memory.
#[derive(Debug)]
pub struct Gather {
    tables: Tables,
    machine_cores: Option<f64>,
    began: Option<Ts>,
    now: Ts,
    ticks: f64,
    trainers: BTreeMap<Symbol, Trainer>,
    processes: BTreeMap<Symbol, Process>,
    disks: BTreeMap<Symbol, Grown>,
    pressure: Grown,
    job_cpu: f64,
    machine: Machine,
    mounts: BTreeMap<Symbol, (String, f64)>,
    cache: BTreeMap<Symbol, (f64, f64)>,
    framework: Option<String>,
}

/// The shares of a worker, in the order of the columns that are read.
const PARTS: [&str; 9] = ["storage", "cache", "remote", "decode", "collate", "put", "idle", "queued", "other"];

impl Gather {
    /// Binds to the tables that a source has; any of them may be missing.
    #[must_use]
    pub fn bind(schema: &Schema, machine_cores: Option<u32>) -> Self {
        Self {
            tables: Tables::bind(schema),
            machine_cores: machine_cores.filter(|n| *n > 0).map(f64::from),
            began: None,
            now: Ts::default(),
            ticks: 0.0,
            trainers: BTreeMap::new(),
            processes: BTreeMap::new(),
            disks: BTreeMap::new(),
            pressure: Grown::default(),
            job_cpu: 0.0,
            machine: Machine::default(),
            mounts: BTreeMap::new(),
            cache: BTreeMap::new(),
            framework: None,
        }
    }

    /// Takes a tick in.
    pub fn accept(&mut self, tick: &Tick) {
        self.began.get_or_insert(tick.at);
        self.now = tick.at;
        self.ticks += 1.0;
        self.processes(tick);
        self.main_threads(tick);
        self.conclusions(tick);
        self.workers(tick);
        self.around(tick);
    }

    /// The facts of each trainer, the one that waits most for data first.
    #[must_use]
    pub fn facts(&self) -> Vec<Facts> {
        let mut all: Vec<Facts> = self.trainers.iter().map(|(key, trainer)| self.of(key, trainer)).collect();
        all.retain(|facts| facts.verdict.is_some());
        all.sort_by(|a, b| b.wait.share.total_cmp(&a.wait.share).then_with(|| a.trainer.cmp(&b.trainer)));
        all
    }

    fn trainer(&mut self, key: &Symbol) -> Option<&mut Trainer> {
        if !self.trainers.contains_key(key) && self.trainers.len() >= MOST {
            return None;
        }
        Some(self.trainers.entry(key.clone()).or_default())
    }

    fn processes(&mut self, tick: &Tick) {
        let Some(at) = self.tables.process.clone() else { return };
        let [key, pid, role, parent, age, user, system, read, calls, allowed, threads, rss, fds, written] = at.columns;
        for line in at.rows(tick) {
            let Some(name) = line.text(key) else { continue };
            if !self.processes.contains_key(name) && self.processes.len() >= MOST {
                continue;
            }
            let process = self.processes.entry(name.clone()).or_default();
            process.role = line.text(role).cloned();
            process.parent = line.text(parent).cloned();
            process.seen = tick.at;
            let young = line.number(age).is_some_and(|age| age < YOUNG * 1e9);
            for (meter, column) in process.cpu.iter_mut().zip([user, system]) {
                self.job_cpu += meter.read(line.at(), line.whole(column));
                if young {
                    *meter = Grown { last: meter.last, ..Grown::default() };
                }
            }
            process.read.read(line.at(), line.whole(read));
            process.calls.read(line.at(), line.whole(calls));
            process.allowed = line.number(allowed).filter(|n| *n >= 1.0).or(process.allowed);
            process.threads = line.number(threads).or(process.threads);
            process.rss = line.number(rss).or(process.rss);
            process.fds = line.number(fds).or(process.fds);
            if line.text(role).is_some_and(|role| role.as_ref() == "trainer") {
                let (pid, out, at) = (line.whole(pid), line.whole(written), line.at());
                if let Some(trainer) = self.trainer(name) {
                    trainer.pid = pid;
                    trainer.written.read(at, out);
                }
            }
        }
    }

    fn main_threads(&mut self, tick: &Tick) {
        if let Some(at) = self.tables.thread.clone() {
            let [process, thread, role, on_cpu] = at.columns;
            for line in at.rows(tick) {
                let (Some(key), Some(id)) = (line.text(process), line.text(thread)) else { continue };
                let Some(trainer) = self.trainers.get_mut(key) else { continue };
                trainer.pins |= line.text(role).is_some_and(|role| role.as_ref() == "pin");
                if is_main(key, id) {
                    trainer.on_cpu.read(line.at(), line.whole(on_cpu));
                }
            }
        }
        if let Some(at) = self.tables.activity.clone() {
            let [process, thread, state, samples] = at.columns;
            for line in at.rows(tick) {
                let Some((trainer, state)) = self.main(line, process, thread, state) else { continue };
                *trainer.states.entry(state).or_default() += line.number(samples).unwrap_or(0.0);
            }
        }
        if let Some(at) = self.tables.stack.clone() {
            let [process, thread, state, site, samples] = at.columns;
            let mut saving: BTreeSet<Symbol> = BTreeSet::new();
            let mut looked: BTreeSet<Symbol> = BTreeSet::new();
            for line in at.rows(tick) {
                let Some((trainer, state)) = self.main(line, process, thread, state) else { continue };
                let count = line.number(samples).unwrap_or(0.0);
                let site = line.text(site).map_or("", |site| site);
                let stacks = trainer.stacks.entry(state).or_default();
                stacks[0] += count;
                stacks[1] += if matches!(site, "loader" | "startup") { count } else { 0.0 };
                line.text(process).into_iter().for_each(|key| {
                    looked.insert(key.clone());
                    if site == "checkpoint" && count > 0.0 {
                        saving.insert(key.clone());
                    }
                });
            }
            for key in looked {
                let on = saving.contains(&key);
                if let Some(trainer) = self.trainers.get_mut(&key) {
                    trainer.saving.seen += if on && !trainer.saving.on { 1.0 } else { 0.0 };
                    trainer.saving.on = on;
                    trainer.saving.ticks[0] += 1.0;
                    trainer.saving.ticks[1] += f64::from(u8::from(on));
                }
            }
        }
        if let Some(at) = self.tables.region.clone() {
            let [process, thread, region, times] = at.columns;
            for line in at.rows(tick).filter(|line| line.text(region).is_some_and(|r| r.as_ref() == "checkpoint")) {
                let (Some(key), Some(id)) = (line.text(process), line.text(thread)) else { continue };
                if let Some(trainer) = self.trainers.get_mut(key).filter(|_| is_main(key, id)) {
                    trainer.saving.times.read(line.at(), line.whole(times));
                }
            }
        }
    }

    /// The trainer whose main thread a row is of, and the row's state.
    fn main(
        &mut self,
        line: Line<'_>,
        process: Option<usize>,
        thread: Option<usize>,
        state: Option<usize>,
    ) -> Option<(&mut Trainer, Symbol)> {
        let key = line.text(process)?;
        if !is_main(key, line.text(thread)?) {
            return None;
        }
        Some((self.trainers.get_mut(key)?, line.text(state)?.clone()))
    }

    fn conclusions(&mut self, tick: &Tick) {
        if let Some(at) = self.tables.cause.clone() {
            let [process, cause, run] = at.columns;
            for line in at.rows(tick) {
                let (Some(key), Some(cause), Some(share)) = (line.text(process), line.text(cause), line.number(run))
                else {
                    continue;
                };
                if let Some(trainer) = self.trainers.get_mut(key).filter(|t| t.causes.len() < 64) {
                    trainer.causes.insert(cause.to_string(), share);
                }
            }
        }
        if let Some(at) = self.tables.step.clone() {
            let [process, period, trust] = at.columns;
            for line in at.rows(tick) {
                let (Some(key), Some(period)) = (line.text(process), line.number(period)) else { continue };
                let trust = line.number(trust).unwrap_or(0.0).powi(2);
                if let Some(trainer) = self.trainers.get_mut(key).filter(|_| period > 0.0) {
                    trainer.period.0 += trust * period / 1e9;
                    trainer.period.1 += trust;
                }
            }
        }
        if let Some(at) = self.tables.verdict.clone() {
            let [process, cause, data, low, high, text, advice] = at.columns;
            for line in at.rows(tick) {
                let Some(key) = line.text(process) else { continue };
                let Some(trainer) = self.trainers.get_mut(key) else { continue };
                // Without a share, as when nothing of it could be seen, what was known last stays.
                if line.number(data).is_none() {
                    continue;
                }
                trainer.verdict = [data, low, high].map(|column| line.number(column));
                let said = |column| line.text(column).map_or_else(String::new, ToString::to_string);
                trainer.said = Said { cause: said(cause), text: said(text), advice: said(advice) };
            }
        }
        if let Some(at) = self.tables.finding.clone() {
            let [process, kind, severity, text, advice] = at.columns;
            let said = |line: Line<'_>, column| line.text(column).map_or_else(String::new, ToString::to_string);
            for line in at.rows(tick) {
                let (Some(key), Some(kind)) = (line.text(process), line.text(kind)) else { continue };
                // A pattern of the whole job is one of each of its trainers.
                let of = |trainer: &Symbol| key.is_empty() || trainer == key;
                for (_, trainer) in self.trainers.iter_mut().filter(|(trainer, _)| of(trainer)) {
                    let entry = trainer.findings.entry(kind.to_string()).or_default();
                    entry.0 += 1.0;
                    let (text, advice) = (said(line, text), said(line, advice));
                    entry.1 = Pattern { severity: line.number(severity), text, advice, held: 0.0 };
                }
            }
        }
    }

    fn workers(&mut self, tick: &Tick) {
        let Some(at) = self.tables.worker.clone() else { return };
        let [process, trainer, rate, parts @ ..] = at.columns;
        let mut there: BTreeSet<Symbol> = BTreeSet::new();
        for line in at.rows(tick) {
            let (Some(key), Some(owner)) = (line.text(process), line.text(trainer)) else { continue };
            let Some(found) = self.trainers.get_mut(owner) else { continue };
            let inside = key == owner;
            found.rows[usize::from(inside)] += 1.0;
            there.insert(owner.clone());
            for (name, column) in PARTS.into_iter().zip(parts) {
                *found.crew.entry(name).or_default() += line.number(column).unwrap_or(0.0);
            }
            if let Some(rate) = line.number(rate) {
                found.rate.0 += rate;
                found.rate.1 += 1.0;
            }
        }
        for owner in there {
            if let Some(found) = self.trainers.get_mut(&owner) {
                found.rows[2] += 1.0;
            }
        }
    }

    fn around(&mut self, tick: &Tick) {
        if let Some(at) = self.tables.cgroup.clone() {
            let [limit, memory, most] = at.columns;
            let lines: Vec<Line<'_>> = at.rows(tick).collect();
            if !lines.is_empty() {
                let least = |values: Vec<f64>| values.into_iter().reduce(f64::min);
                self.machine.quota =
                    least(lines.iter().filter_map(|line| line.number(limit)).filter(|x| *x > 0.0).collect());
                let left = |line: &Line<'_>| Some((line.number(most)? - line.number(memory)?).max(0.0));
                self.machine.memory_left = least(lines.iter().filter_map(left).collect());
            }
        }
        if let Some(at) = self.tables.memory.clone() {
            let [available, total, used] = at.columns;
            for line in at.rows(tick) {
                self.machine.available = line.number(available).or(self.machine.available);
                self.machine.shm = line.number(total).zip(line.number(used)).or(self.machine.shm);
            }
        }
        if let Some(at) = self.tables.pressure.clone() {
            let [scope, resource, some] = at.columns;
            let is = |line: &Line<'_>, column, name: &str| line.text(column).is_some_and(|text| text.as_ref() == name);
            for line in at.rows(tick).filter(|line| is(line, scope, "host") && is(line, resource, "cpu")) {
                self.pressure.read(line.at(), line.whole(some));
            }
        }
        if let Some(at) = self.tables.disk.clone() {
            let [device, busy] = at.columns;
            for line in at.rows(tick) {
                let Some(device) = line.text(device) else { continue };
                if self.disks.contains_key(device) || self.disks.len() < MOST {
                    self.disks.entry(device.clone()).or_default().read(line.at(), line.whole(busy));
                }
            }
        }
        self.files(tick);
    }

    fn files(&mut self, tick: &Tick) {
        if let Some(at) = self.tables.mount.clone() {
            let [mount, class, files] = at.columns;
            for line in at.rows(tick) {
                let (Some(mount), Some(class)) = (line.text(mount), line.text(class)) else { continue };
                if self.mounts.contains_key(mount) || self.mounts.len() < MOST {
                    let entry = self.mounts.entry(mount.clone()).or_default();
                    *entry = (class.to_string(), entry.1 + line.number(files).unwrap_or(0.0));
                }
            }
        }
        if let Some(at) = self.tables.page_cache.clone() {
            let [mount, size, total, resident] = at.columns;
            for line in at.rows(tick) {
                let (Some(mount), Some(size)) = (line.text(mount), line.number(size)) else { continue };
                let part = line.number(resident).zip(line.number(total).filter(|t| *t > 0.0)).map(|(r, t)| r / t);
                if self.cache.contains_key(mount) || self.cache.len() < MOST {
                    let entry = self.cache.entry(mount.clone()).or_default();
                    *entry = (entry.0.max(size), part.unwrap_or(f64::NAN));
                }
            }
        }
        if let Some(at) = self.tables.job.clone() {
            let [framework] = at.columns;
            for line in at.rows(tick) {
                self.framework = line.text(framework).map(ToString::to_string).or(self.framework.take());
            }
        }
    }

    fn of(&self, key: &Symbol, trainer: &Trainer) -> Facts {
        let seconds = self.began.map_or(0.0, |began| self.now.seconds_since(began));
        let mine: Vec<&Process> = self.processes.values().filter(|p| is(p, "worker") && self.feeds(p, key)).collect();
        let there: Vec<&&Process> = mine.iter().filter(|p| self.now.seconds_since(p.seen) < 3.0).collect();
        let own = self.processes.get(key);
        let (burnt, host) = trainer.split();
        let mean = |pick: &dyn Fn(&Process) -> Option<f64>| mean(there.iter().filter_map(|p| pick(p)));
        let crew = trainer.crew(Crew {
            cpu: cpu(&mine),
            os_threads: mean(&|p| p.threads),
            rss: mean(&|p| p.rss),
            ..Crew::default()
        });
        let workers = crew.processes.max(crew.threads);
        let rate = (trainer.rate.1 > 0.0).then(|| trainer.rate.0 / trainer.rate.1 * workers.max(1.0));
        let (read, calls) = mine.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.read.sum, sum.1 + p.calls.sum));
        let machine = Machine {
            cores: self.machine_cores,
            allowed: own.and_then(|p| p.allowed),
            workers_allowed: mean(&|p| p.allowed),
            used: (seconds > 0.0).then(|| self.job_cpu / 1e9 / seconds),
            pressure: self.pressure.rate().map(|nanos| (nanos / 1e9).clamp(0.0, 1.0)),
            ranks: real(self.trainers.len().max(1)),
            fds: own.and_then(|p| p.fds).map(|open| (open, f64::NAN)),
            disk_busy: self.disks.values().filter_map(Grown::rate).map(|ns| ns / 1e9).reduce(f64::max),
            ..self.machine.clone()
        };
        let machine = Machine { fds: machine.fds.filter(|(_, most)| most.is_finite()), ..machine };
        let [data, low, high] = trainer.verdict;
        let data = data.unwrap_or(0.0);
        Facts {
            trainer: key.to_string(),
            pid: trainer.pid,
            seconds,
            period: (trainer.period.1 > 0.0).then(|| trainer.period.0 / trainer.period.1),
            wait: Share { share: data, low: low.unwrap_or(0.0), high: high.unwrap_or(1.0) },
            causes: trainer.causes.clone(),
            burnt,
            host,
            crew,
            machine,
            reads: Reads {
                rate,
                bytes: (calls > 0.0).then(|| read / calls).filter(|bytes| *bytes >= SMALLEST),
                ..self.dataset()
            },
            setting: Setting { pins: trainer.pins, framework: self.framework.clone(), ..Setting::default() },
            saves: trainer.saves(seconds),
            findings: trainer.findings(self.ticks),
            // Without a share of waiting there is nothing to gain on, and no share is not a share of 0.
            verdict: trainer.verdict[0].is_some().then(|| trainer.said.clone()),
        }
    }

    /// The mount on which most files were open, and what is known of them.
    fn dataset(&self) -> Reads {
        let on = self.mounts.iter().max_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let cache = on.and_then(|(mount, _)| self.cache.get(mount));
        Reads {
            class: on.map(|(_, (class, _))| class.clone()),
            dataset: cache.map(|(size, _)| *size).filter(|size| *size > 0.0),
            resident: cache.map(|(_, part)| *part).filter(|part| part.is_finite()),
            ..Reads::default()
        }
    }

    /// Whether a worker feeds a trainer: the trainer is among its ancestors, or the only one.
    fn feeds(&self, worker: &Process, trainer: &Symbol) -> bool {
        let mut at = worker.parent.as_ref();
        for _ in 0..8 {
            let Some(parent) = at else { break };
            if self.trainers.contains_key(parent) {
                return parent == trainer;
            }
            at = self.processes.get(parent).and_then(|p| p.parent.as_ref());
        }
        self.trainers.len() == 1
    }
}
