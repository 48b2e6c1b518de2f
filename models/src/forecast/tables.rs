//! The tables that are read, bound by name; each of them, and each column, may be missing.

use feedline_traces::{Schema, Symbol, Tick};

use super::signals::Signal;
use super::watch::Job;
use crate::cells::is_main;
use crate::finding::bind::At;

/// Positions of tables and columns.
#[derive(Debug, Default)]
pub(super) struct Tables {
    process: Option<At<8>>,
    thread: Option<At<4>>,
    activity: Option<At<5>>,
    stack: Option<At<5>>,
    region: Option<At<4>>,
    rounds: Option<At<3>>,
    stall: Option<At<3>>,
    cause: Option<At<3>>,
    worker: Option<At<9>>,
    disk: Option<At<7>>,
    nfs: Option<At<4>>,
    memory: Option<At<5>>,
    vmstat: Option<At<1>>,
    page_cache: Option<At<2>>,
    interface: Option<At<2>>,
    socket: Option<At<4>>,
    pressure: Option<At<3>>,
    cgroup: Option<At<3>>,
    accelerator: Option<At<2>>,
}

impl Tables {
    pub(super) fn bind(schema: &Schema) -> Self {
        let process = ["process", "role", "read", "storage_read", "cpu_user", "cpu_system", "major_faults", "parent"];
        let worker =
            ["process", "trainer", "fetch_storage", "fetch_cache", "fetch_network", "decode", "put", "idle", "queued"];
        Self {
            process: At::bind(schema, "process", process),
            thread: At::bind(schema, "thread", ["process", "thread", "on_cpu", "run_queue"]),
            activity: At::bind(schema, "activity", ["process", "thread", "state", "samples", "on"]),
            stack: At::bind(schema, "stack", ["process", "thread", "state", "site", "samples"]),
            region: At::bind(schema, "region", ["process", "thread", "region", "time"]),
            rounds: At::bind(schema, "training_loop", ["process", "variable", "rounds"]),
            stall: At::bind(schema, "stall", ["process", "cause", "share"]),
            cause: At::bind(schema, "cause", ["process", "cause", "share"]),
            worker: At::bind(schema, "worker", worker),
            disk: At::bind(
                schema,
                "disk",
                ["device", "kind", "read_bytes", "write_bytes", "reads", "read_time", "busy"],
            ),
            nfs: At::bind(schema, "nfs_operation", ["mount", "operation", "operations", "response_time"]),
            memory: At::bind(schema, "memory", ["total", "available", "cached", "dirty", "shm_used"]),
            vmstat: At::bind(schema, "vmstat", ["refaults_file"]),
            page_cache: At::bind(schema, "page_cache", ["resident", "total"]),
            interface: At::bind(schema, "interface", ["interface", "received_bytes"]),
            socket: At::bind(schema, "socket", ["process", "received_bytes", "rtt", "retransmits"]),
            pressure: At::bind(schema, "pressure", ["scope", "resource", "some"]),
            cgroup: At::bind(schema, "cgroup", ["cgroup", "periods", "throttled_periods"]),
            accelerator: At::bind(schema, "accelerator", ["busy", "sm_active"]),
        }
    }

    /// Takes the rows of a tick; `settled` says that processes not seen before are new.
    pub(super) fn take(&self, tick: &Tick, job: &mut Job, settled: bool) {
        self.processes(tick, job, settled);
        self.threads(tick, job);
        self.exact(tick, job);
        self.conclusions(tick, job);
        self.storage(tick, job);
        self.network(tick, job);
        self.machine(tick, job);
    }

    fn processes(&self, tick: &Tick, job: &mut Job, settled: bool) {
        let Some(at) = &self.process else { return };
        let [process, role, read, storage, user, system, faults, parent] = at.columns;
        let mut arrived = Vec::new();
        for line in at.rows(tick) {
            let Some(key) = line.text(process) else { continue };
            match line.text(role).map_or("", |role| role) {
                "trainer" => {
                    job.trainer(key, tick.at);
                }
                "worker" => {
                    if let Some((worker, new)) = job.worker(key, tick.at) {
                        if worker.trainer.is_none() {
                            worker.trainer = line.text(parent).cloned();
                        }
                        if new && settled {
                            arrived.push(key.clone());
                        }
                    }
                }
                _ => {}
            }
            let sums = [
                ("read", read, Signal::JobRead, 1.0),
                ("storage", storage, Signal::JobStorage, 1.0),
                ("user", user, Signal::JobCpu, 1e-9),
                ("system", system, Signal::JobCpu, 1e-9),
                ("faults", faults, Signal::JobFaults, 1.0),
            ];
            for (what, column, signal, unit) in sums {
                if let Some(grown) = job.grown((what, key, None), line.at(), line.whole(column)) {
                    job.machine.add(signal, grown * unit);
                }
            }
        }
        job.trainers.values_mut().for_each(|trainer| trainer.gather.add(Signal::Arrived, 0.0));
        for key in arrived {
            let owner = job.workers.get(&key).and_then(|worker| job.owner(worker));
            if let Some(trainer) = owner.and_then(|owner| job.trainers.get_mut(&owner)) {
                trainer.gather.add(Signal::Arrived, 1.0);
            }
        }
    }

    /// Main threads of trainers and workers.
    fn threads(&self, tick: &Tick, job: &mut Job) {
        if let Some(at) = &self.thread {
            let [process, thread, on_cpu, queue] = at.columns;
            for line in at.rows(tick) {
                let Some((key, thread)) = line.text(process).zip(line.text(thread)) else { continue };
                if !is_main(key, thread) || !job.trainers.contains_key(key) {
                    continue;
                }
                for (what, column, signal) in [("on_cpu", on_cpu, Signal::OnCpu), ("queue", queue, Signal::Queued)] {
                    let grown = job.grown((what, key, Some(thread)), line.at(), line.whole(column));
                    if let (Some(grown), Some(trainer)) = (grown, job.trainers.get_mut(key)) {
                        trainer.gather.add(signal, grown / 1e9);
                    }
                }
            }
        }
        if let Some(at) = &self.activity {
            let [process, thread, state, samples, on] = at.columns;
            for line in at.rows(tick) {
                let (Some(key), Some(thread), Some(state)) = (line.text(process), line.text(thread), line.text(state))
                else {
                    continue;
                };
                let count = line.number(samples).unwrap_or(0.0).clamp(0.0, 1e6);
                if !is_main(key, thread) {
                    continue;
                }
                if let Some(trainer) = job.trainers.get_mut(key) {
                    trainer.sampled.state(state, count);
                } else if let Some(worker) = job.workers.get_mut(key) {
                    worker.samples[3] += count;
                    if let Some(kind) = at_work(state, line.text(on).map_or("", |on| on)) {
                        worker.samples[kind] += count;
                    }
                }
            }
        }
        if let Some(at) = &self.stack {
            let [process, thread, state, site, samples] = at.columns;
            for line in at.rows(tick) {
                let (Some(key), Some(thread), Some(state)) = (line.text(process), line.text(thread), line.text(state))
                else {
                    continue;
                };
                let site = line.text(site).map_or("unknown", |site| site);
                let Some(trainer) = job.trainers.get_mut(key).filter(|_| is_main(key, thread) && site != "unknown")
                else {
                    continue;
                };
                let count = line.number(samples).unwrap_or(0.0).clamp(0.0, 1e6);
                trainer.sampled.stack(state, matches!(site, "loader" | "startup"), count);
                trainer.gather.most(Signal::Checkpoint, if site == "checkpoint" && count > 0.0 { 1.0 } else { 0.0 });
            }
        }
    }

    /// What the job itself counts and times.
    fn exact(&self, tick: &Tick, job: &mut Job) {
        if let Some(at) = &self.region {
            let [process, thread, region, time] = at.columns;
            for line in at.rows(tick) {
                let (Some(key), Some(thread), Some(region)) =
                    (line.text(process), line.text(thread), line.text(region))
                else {
                    continue;
                };
                if !is_main(key, thread) || !matches!(region.as_ref(), "data" | "startup") {
                    continue;
                }
                let grown = job.grown(("region", key, Some(region)), line.at(), line.whole(time));
                if let (Some(grown), Some(trainer)) = (grown, job.trainers.get_mut(key)) {
                    *trainer.marked.get_or_insert(0.0) += grown / 1e9;
                }
            }
        }
        if let Some(at) = &self.rounds {
            let [process, variable, rounds] = at.columns;
            for line in at.rows(tick) {
                let Some((key, variable)) = line.text(process).zip(line.text(variable)) else { continue };
                let rate = job.rate(("rounds", key, Some(variable)), line.at(), line.whole(rounds));
                if let (Some(rate), Some(trainer)) = (rate, job.trainers.get_mut(key)) {
                    trainer.gather.most(Signal::Steps, rate);
                }
            }
        }
    }

    /// What attribution says of the last ten seconds.
    fn conclusions(&self, tick: &Tick, job: &mut Job) {
        for (at, names) in [(&self.stall, &STALLS[..]), (&self.cause, &CAUSES[..])] {
            let Some(at) = at else { continue };
            let [process, cause, share] = at.columns;
            let mut fetch = std::collections::BTreeMap::<&Symbol, f64>::new();
            for line in at.rows(tick) {
                let Some((key, cause)) = line.text(process).zip(line.text(cause)) else { continue };
                let Some(trainer) = job.trainers.get_mut(key) else { continue };
                let share = line.number(share).map(|share| share.clamp(0.0, 1.0));
                if let Some((_, signal)) = names.iter().find(|(name, _)| *name == cause.as_ref()) {
                    trainer.gather.set(*signal, share);
                }
                if let Some(share) = share.filter(|_| cause.starts_with("fetch.")) {
                    *fetch.entry(key).or_default() += share;
                }
            }
            for (key, share) in fetch {
                if let Some(trainer) = job.trainers.get_mut(key) {
                    trainer.gather.set(Signal::Fetch, Some(share));
                }
            }
        }
        self.workers(tick, job);
    }

    fn workers(&self, tick: &Tick, job: &mut Job) {
        let Some(at) = &self.worker else { return };
        let [process, trainer, storage, cache, network, decode, put, idle, queued] = at.columns;
        let mut sums: std::collections::BTreeMap<Symbol, [f64; 6]> = std::collections::BTreeMap::new();
        for line in at.rows(tick) {
            let Some(owner) = line.text(trainer).filter(|owner| job.trainers.contains_key(*owner)) else { continue };
            if let Some(worker) = line.text(process).and_then(|key| job.workers.get_mut(key)) {
                worker.trainer = Some(owner.clone());
            }
            let number = |column| line.number(column).unwrap_or(0.0);
            let fetch = number(storage) + number(cache) + number(network);
            let sum = sums.entry(owner.clone()).or_default();
            let parts = [fetch, number(decode), number(put), number(idle), number(queued), 1.0];
            sum.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
        let signals =
            [Signal::WorkerFetch, Signal::WorkerDecode, Signal::WorkerPut, Signal::WorkerIdle, Signal::WorkerQueued];
        for (key, sum) in sums {
            let Some(trainer) = job.trainers.get_mut(&key) else { continue };
            for (signal, part) in signals.into_iter().zip(sum) {
                trainer.gather.set(signal, Some(part / sum[5]));
            }
        }
    }

    fn storage(&self, tick: &Tick, job: &mut Job) {
        if let Some(at) = &self.disk {
            let [device, kind, read, written, reads, time, busy] = at.columns;
            for line in at.rows(tick) {
                // A mapped or RAID device is counted again at the disks beneath it.
                let counted = matches!(line.text(kind).map_or("disk", |kind| kind), "disk" | "loop");
                let Some(key) = line.text(device).filter(|_| counted) else { continue };
                let sums = [
                    ("disk.read", read, Signal::DiskRead, 1.0),
                    ("disk.written", written, Signal::DiskWrite, 1.0),
                    ("disk.reads", reads, Signal::DiskReads, 1.0),
                    ("disk.time", time, Signal::DiskTime, 1e-9),
                ];
                for (what, column, signal, unit) in sums {
                    if let Some(grown) = job.grown((what, key, None), line.at(), line.whole(column)) {
                        job.machine.add(signal, grown * unit);
                    }
                }
                if let Some(grown) = job.grown(("disk.busy", key, None), line.at(), line.whole(busy)) {
                    job.machine.most(Signal::DiskBusy, grown / 1e9);
                }
            }
        }
        self.remote(tick, job);
    }

    fn remote(&self, tick: &Tick, job: &mut Job) {
        if let Some(at) = &self.nfs {
            let [mount, operation, calls, time] = at.columns;
            for line in at.rows(tick) {
                let Some((mount, operation)) = line.text(mount).zip(line.text(operation)) else { continue };
                if let Some(grown) = job.grown(("nfs.calls", mount, Some(operation)), line.at(), line.whole(calls)) {
                    job.machine.add(Signal::RemoteCalls, grown);
                }
                if let Some(grown) = job.grown(("nfs.time", mount, Some(operation)), line.at(), line.whole(time)) {
                    job.machine.add(Signal::RemoteTime, grown / 1e9);
                }
            }
        }
        if let Some(at) = &self.page_cache {
            let sums = at.rows(tick).fold([0.0, 0.0], |sum, line| {
                let [resident, total] = at.columns.map(|column| line.number(column).unwrap_or(0.0));
                [sum[0] + resident, sum[1] + total]
            });
            job.machine.set(Signal::Resident, (sums[1] > 0.0).then(|| sums[0] / sums[1]));
        }
    }

    fn network(&self, tick: &Tick, job: &mut Job) {
        if let Some(at) = &self.interface {
            let [interface, received] = at.columns;
            for line in at.rows(tick) {
                let Some(key) = line.text(interface) else { continue };
                if let Some(grown) = job.grown(("net", key, None), line.at(), line.whole(received)) {
                    job.machine.add(Signal::NetReceived, grown);
                }
            }
        }
        if let Some(at) = &self.socket {
            let [process, received, rtt, again] = at.columns;
            let mut trips = Vec::new();
            for line in at.rows(tick) {
                let Some(key) = line.text(process) else { continue };
                let busy = job.grown(("socket", key, None), line.at(), line.whole(received)).is_some_and(|n| n > 0.0);
                trips.extend(line.number(rtt).filter(|_| busy).map(|nanos| nanos / 1e9));
                if let Some(grown) = job.grown(("again", key, None), line.at(), line.whole(again)) {
                    job.machine.add(Signal::Retransmits, grown);
                }
            }
            job.machine.set(Signal::Rtt, trips.into_iter().reduce(f64::max));
        }
    }

    fn machine(&self, tick: &Tick, job: &mut Job) {
        if let Some(at) = &self.memory {
            for line in at.rows(tick) {
                let [total, available, cached, dirty, shm] = at.columns.map(|column| line.number(column));
                let of_all = |part: Option<f64>| part.zip(total.filter(|t| *t > 0.0)).map(|(part, total)| part / total);
                job.machine.set(Signal::Available, of_all(available));
                job.machine.set(Signal::Cached, of_all(cached));
                job.machine.set(Signal::Dirty, of_all(dirty));
                job.machine.set(Signal::Shm, shm);
            }
        }
        let host = Symbol::from("host");
        if let Some(at) = &self.vmstat {
            for line in at.rows(tick) {
                if let Some(grown) = job.grown(("refaults", &host, None), line.at(), line.whole(at.columns[0])) {
                    job.machine.add(Signal::Refaults, grown);
                }
            }
        }
        if let Some(at) = &self.pressure {
            let [scope, resource, some] = at.columns;
            for line in at.rows(tick).filter(|l| l.text(scope).is_some_and(|scope| *scope == host)) {
                let Some(resource) = line.text(resource) else { continue };
                let signal = match resource.as_ref() {
                    "cpu" => Signal::CpuPressure,
                    "io" => Signal::IoPressure,
                    "memory" => Signal::MemoryPressure,
                    _ => continue,
                };
                if let Some(grown) = job.grown(("pressure", resource, None), line.at(), line.whole(some)) {
                    job.machine.add(signal, grown / 1e9);
                }
            }
        }
        if let Some(at) = &self.cgroup {
            let [group, periods, held] = at.columns;
            for line in at.rows(tick) {
                let Some(key) = line.text(group) else { continue };
                for (what, column, signal) in [("periods", periods, Signal::Periods), ("held", held, Signal::Held)] {
                    if let Some(grown) = job.grown((what, key, None), line.at(), line.whole(column)) {
                        job.machine.add(signal, grown);
                    }
                }
            }
        }
        if let Some(at) = &self.accelerator {
            let busy = at.rows(tick).filter_map(|line| {
                let [busy, active] = at.columns.map(|column| line.number(column));
                active.or(busy)
            });
            job.machine.set(Signal::Accelerator, busy.reduce(f64::max));
        }
    }
}

/// Causes of the first level that are signals.
const STALLS: [(&str, Signal); 3] = [("data", Signal::Share10), ("io", Signal::Io), ("device", Signal::Device)];
/// Causes of the second level that are.
const CAUSES: [(&str, Signal); 5] = [
    ("decode", Signal::Decode),
    ("handoff", Signal::Handoff),
    ("startup", Signal::Startup),
    ("contention", Signal::Contention),
    ("unknown", Signal::Unknown),
];

/// What a worker in a state does: 0 works on a CPU, 1 reads, 2 rests; none where it may be either.
fn at_work(state: &str, on: &str) -> Option<usize> {
    match (state, on) {
        ("running", _) => Some(0),
        // Indices come and batches go through pipes and locks.
        ("read" | "poll" | "write", "pipe") | ("futex", _) | ("poll", "") => Some(2),
        ("disk", _) | ("read" | "poll", "file" | "remote" | "socket") => Some(1),
        _ => None,
    }
}
