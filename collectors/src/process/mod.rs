//! What each process of the job uses: CPU, input and output, memory, threads.

pub mod parse;

use std::collections::HashMap;

use feedline_traces::unit::{Bytes, Count, Nanos};
use feedline_traces::{Collector, Counter, Gauge, Id, Key, Result, Row as _, Rows, Symbol, Table, Text, Ts, table};

use crate::absent::{AbsentRow, Reasons};
use crate::{Context, Host, Process, Role, Target, cgroup};

table! {
    /// What each process of the job uses, one row per process per tick.
    pub process: ProcessRow {
        /// The process, as `PID@START`: its start time tells it from another with the same pid.
        process: Key,
        /// Process id, as Feedline sees it.
        pid: Id,
        /// Process id inside its own container, where that is another.
        inner_pid: Id,
        /// The parent, as `PID@START`; missing for the root of the job.
        parent: Text,
        /// What it does: `trainer`, `worker`, `forkserver` or `helper`.
        role: Text,
        /// The kernel's name of its main thread.
        name: Text,
        /// Interpreter and script, or the program: file names only.
        command: Text,
        /// Number in the whole job, as the launcher says.
        rank: Id,
        /// Number among the ranks of this machine.
        local_rank: Id,
        /// Number of ranks in the whole job.
        world: Id,
        /// Number among its trainer's loader workers, from 0, in order of start.
        worker: Id,
        /// Time since it started.
        age: Gauge<Nanos>,
        /// Run state of the main thread as the kernel's letter: `R`, `S`, `D`, `T`.
        state: Text,
        /// CPU time in user space, of all threads.
        cpu_user: Counter<Nanos>,
        /// CPU time in the kernel, of all threads.
        cpu_system: Counter<Nanos>,
        /// Bytes that its reads brought in from storage.
        storage_read: Counter<Bytes>,
        /// Bytes that its read calls returned, from cache, storage, pipes and sockets alike.
        read: Counter<Bytes>,
        /// Bytes that it made to be written to storage.
        storage_written: Counter<Bytes>,
        /// Bytes that it gave to write calls.
        written: Counter<Bytes>,
        /// Number of read calls.
        read_calls: Counter<Count>,
        /// Page faults that needed no reading.
        minor_faults: Counter<Count>,
        /// Page faults that waited for storage.
        major_faults: Counter<Count>,
        /// Context switches of the main thread by waiting.
        switches_voluntary: Counter<Count>,
        /// Context switches of the main thread by force.
        switches_involuntary: Counter<Count>,
        /// Resident memory, with all that is shared.
        rss: Gauge<Bytes>,
        /// Resident memory with its part of what is shared; trainers only, every 30 s.
        pss: Gauge<Bytes>,
        /// Number of threads.
        threads: Gauge<Count>,
        /// Number of open files; every 10 s.
        fds: Gauge<Count>,
        /// CPU cores it may run on.
        cores_allowed: Gauge<Count>,
        /// Which CPU cores those are, as the kernel lists them, such as `0-3,8`.
        allowed: Text,
        /// Control group.
        cgroup: Text,
    }
}

/// Seconds between two counts of a process's open files.
const FILES_EVERY: f64 = 10.0;
/// Seconds between two readings of a trainer's proportional memory, which walks its page tables.
const PSS_EVERY: f64 = 30.0;

/// Reads what each process of the job uses.
pub struct Processes {
    host: Host,
    target: Target,
    /// Nanoseconds in a clock tick.
    tick: u64,
    slow: HashMap<Symbol, Slow>,
    reasons: Reasons,
}

/// What is read rarely, and when that was.
#[derive(Debug, Default)]
struct Slow {
    files_at: Option<Ts>,
    pss_at: Option<Ts>,
    cgroup: Option<Symbol>,
}

impl Processes {
    /// Reads the processes of the context's job.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self {
            host: context.host.clone(),
            target: context.target.clone(),
            tick: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1),
            slow: HashMap::new(),
            reasons: Reasons::default(),
        }
    }

    /// One process; `None` when it is gone or its pid names another by now.
    fn row(
        &mut self,
        (at, up): (Ts, Option<u64>),
        process: &Process,
        parents: &HashMap<u32, Symbol>,
    ) -> Option<ProcessRow> {
        let pid = process.pid;
        let read = |name: &str| self.host.read(format!("proc/{pid}/{name}"));
        let stat = parse::stat(&read("stat").ok()?).ok()?;
        if stat.start != process.start || stat.is_dead() {
            return None;
        }
        let status = parse::status(&read("status").unwrap_or_default());
        let io = read("io").map(|text| parse::io(&text)).unwrap_or_default();
        let slow = self.slow.entry(process.key.clone()).or_default();
        let due = |last: Option<Ts>, every: f64| last.is_none_or(|last| at.seconds_since(last) >= every);
        let mut files = None;
        if due(slow.files_at, FILES_EVERY) {
            slow.files_at = Some(at);
            slow.cgroup = read("cgroup").ok().map(|text| cgroup::parse::membership(&text).name());
            files = count_files(&self.host, pid);
        }
        let mut pss = None;
        if process.role == Role::Trainer && due(slow.pss_at, PSS_EVERY) {
            slow.pss_at = Some(at);
            pss = read("smaps_rollup").ok().and_then(|text| parse::pss(&text));
        }
        let nanos = |ticks: u64| ticks.saturating_mul(self.tick);
        Some(ProcessRow {
            process: process.key.clone().into(),
            pid: pid.into(),
            inner_pid: process.inner.into(),
            parent: parents.get(&process.parent).cloned().into(),
            role: process.role.name().into(),
            name: stat.comm.into(),
            command: process.command.clone().into(),
            rank: process.ranks.rank.into(),
            local_rank: process.ranks.local.into(),
            world: process.ranks.world.into(),
            worker: process.worker.into(),
            age: up.map(|up| up.saturating_sub(nanos(stat.start))).into(),
            state: String::from(stat.state).into(),
            cpu_user: nanos(stat.user).into(),
            cpu_system: nanos(stat.system).into(),
            storage_read: io.storage_read.into(),
            read: io.read.into(),
            storage_written: io.storage_written.into(),
            written: io.written.into(),
            read_calls: io.read_calls.into(),
            minor_faults: stat.minor_faults.into(),
            major_faults: stat.major_faults.into(),
            switches_voluntary: status.switches_voluntary.into(),
            switches_involuntary: status.switches_involuntary.into(),
            rss: status.rss.into(),
            pss: pss.into(),
            threads: stat.threads.into(),
            fds: files.into(),
            cores_allowed: status.cores_allowed.into(),
            allowed: status.allowed.into(),
            cgroup: slow.cgroup.clone().into(),
        })
    }

    /// Says why a trainer's columns are missing, where its first row lacks them. The rest of the
    /// job has the same owner, so that one reason stands for all.
    fn explain(&mut self, out: &mut Rows<'_>, pid: u32, row: &ProcessRow) {
        let needs = |why: String| format!("{why}; it needs the same user as the job, or CAP_SYS_PTRACE");
        let why = |name: &str| self.host.read(format!("proc/{pid}/{name}")).err().map(|error| needs(error.message));
        let io = if row.read.0.is_none() { why("io") } else { None };
        let pss = if row.pss.0.is_nan() { why("smaps_rollup") } else { None };
        let files = format!("proc/{pid}/fd");
        let fds = std::fs::read_dir(self.host.path(&files)).err().map(|error| needs(format!("{files}: {error}")));
        for column in ["storage_read", "read", "storage_written", "written", "read_calls"] {
            self.reasons.say(out, &format!("process.{column}"), "", io.as_deref());
        }
        self.reasons.say(out, "process.pss", "", pss.as_deref());
        self.reasons.say(out, "process.fds", "", fds.as_deref());
    }
}

fn count_files(host: &Host, pid: u32) -> Option<u64> {
    let folder = std::fs::read_dir(host.path(format!("proc/{pid}/fd"))).ok()?;
    Some(folder.count() as u64)
}

impl Collector for Processes {
    fn name(&self) -> &'static str {
        "process"
    }

    fn tables(&self) -> Vec<Table> {
        vec![ProcessRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        let processes = self.target.processes();
        let parents: HashMap<u32, Symbol> = processes.iter().map(|p| (p.pid, p.key.clone())).collect();
        self.slow.retain(|key, _| processes.iter().any(|p| p.key == *key));
        let at = out.at();
        // Starts are told on the clock that runs since the machine was booted.
        let up = self.host.read("proc/uptime").ok().and_then(|text| parse::uptime(&text));
        for process in processes.iter() {
            let first = !self.slow.contains_key(&process.key);
            let Some(row) = self.row((at, up), process, &parents) else { continue };
            if first && process.role == Role::Trainer {
                self.explain(out, process.pid, &row);
            }
            out.push(row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
