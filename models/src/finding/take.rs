//! From the rows of a tick to the scene.

use feedline_traces::{Schema, Symbol, Tick};

use super::bind::At;
use super::meter::SPAN;
use super::scene::{ALL, Book, CHECKPOINT, Calls, GC, LOADER, MISSED, OTHER, REMOTE, STARTUP, STORAGE, Scene};
use crate::cells::is_main;

/// Blocked times of a trainer kept from one tick.
const WAITS: usize = 256;
/// Causes kept of a trainer.
const CAUSES: usize = 64;

/// The tables that are read, as far as the source has them.
#[derive(Debug, Default)]
pub(super) struct Tables {
    process: Option<At<11>>,
    thread: Option<At<5>>,
    activity: Option<At<5>>,
    stack: Option<At<5>>,
    wait: Option<At<3>>,
    stall: Option<At<3>>,
    cause: Option<At<4>>,
    worker: Option<At<5>>,
    device_call: Option<At<6>>,
    file_io: Option<At<6>>,
    region: Option<At<5>>,
    nfs: Option<At<5>>,
    cgroup: Option<At<4>>,
    disk: Option<At<4>>,
    mount: Option<At<4>>,
    page_cache: Option<At<2>>,
    memory: Option<At<5>>,
    vmstat: Option<At<1>>,
    pressure: Option<At<3>>,
}

impl Tables {
    pub(super) fn bind(schema: &Schema) -> Self {
        let of_process = [
            "process",
            "role",
            "parent",
            "cores_allowed",
            "allowed",
            "threads",
            "cpu_user",
            "cpu_system",
            "storage_read",
            "read",
            "read_calls",
        ];
        Self {
            process: At::bind(schema, "process", of_process),
            thread: At::bind(schema, "thread", ["process", "thread", "role", "on_cpu", "run_queue"]),
            activity: At::bind(schema, "activity", ["process", "thread", "state", "samples", "on"]),
            stack: At::bind(schema, "stack", ["process", "thread", "site", "samples", "missed"]),
            wait: At::bind(schema, "wait", ["process", "thread", "duration"]),
            stall: At::bind(schema, "stall", ["process", "cause", "share"]),
            cause: At::bind(schema, "cause", ["process", "cause", "share", "run"]),
            worker: At::bind(schema, "worker", ["process", "fetch_storage", "fetch_network", "file", "mount"]),
            device_call: At::bind(schema, "device_call", ["process", "thread", "call", "calls", "time", "bytes"]),
            file_io: At::bind(schema, "file_io", ["process", "operation", "on", "calls", "time", "bytes"]),
            region: At::bind(schema, "region", ["process", "thread", "region", "times", "time"]),
            nfs: At::bind(
                schema,
                "nfs_operation",
                ["mount", "operation", "operations", "response_time", "received_bytes"],
            ),
            cgroup: At::bind(schema, "cgroup", ["cgroup", "cpu_limit", "periods", "throttled_periods"]),
            disk: At::bind(schema, "disk", ["device", "read_bytes", "write_bytes", "busy"]),
            mount: At::bind(schema, "mount", ["mount", "class", "kind", "device"]),
            page_cache: At::bind(schema, "page_cache", ["mount", "size"]),
            memory: At::bind(schema, "memory", ["total", "available", "cached", "shm_total", "shm_used"]),
            vmstat: At::bind(schema, "vmstat", ["refaults_file"]),
            pressure: At::bind(schema, "pressure", ["scope", "resource", "some"]),
        }
    }

    pub(super) fn take(&self, tick: &Tick, scene: &mut Scene) {
        self.processes(tick, scene);
        self.threads(tick, scene);
        self.places(tick, scene);
        self.conclusions(tick, scene);
        self.calls(tick, scene);
        self.machine(tick, scene);
        self.storage(tick, scene);
    }

    fn processes(&self, tick: &Tick, scene: &mut Scene) {
        let Some(at) = &self.process else { return };
        let [key, role, parent, cores, allowed, threads, user, system, storage, read, calls] = at.columns;
        for line in at.rows(tick) {
            let Some(name) = line.text(key) else { continue };
            let count = line.number(cores).filter(|n| *n >= 1.0);
            count.into_iter().for_each(|n| scene.cores(n));
            let Some(process) = scene.processes.entry(name.clone(), tick.at) else { continue };
            process.born.get_or_insert(tick.at);
            process.role = line.text(role).cloned();
            process.parent = line.text(parent).cloned();
            process.cores = count;
            process.allowed = line.text(allowed).cloned();
            process.threads = line.number(threads);
            process.cpu[0].read(line.at(), line.whole(user));
            process.cpu[1].read(line.at(), line.whole(system));
            process.storage_read.read(line.at(), line.whole(storage));
            process.read.read(line.at(), line.whole(read));
            process.read_calls.read(line.at(), line.whole(calls));
            process.waits.clear();
        }
    }

    /// The main threads of processes, and whether there is one that pins memory.
    fn threads(&self, tick: &Tick, scene: &mut Scene) {
        if let Some(at) = &self.thread {
            let [process, thread, role, on_cpu, run_queue] = at.columns;
            for line in at.rows(tick) {
                let (Some(key), Some(thread)) = (line.text(process), line.text(thread)) else { continue };
                let Some(found) = scene.processes.get_mut(key) else { continue };
                found.pins |= line.text(role).is_some_and(|role| role.as_ref() == "pin");
                if is_main(key, thread) {
                    found.on_cpu.read(line.at(), line.whole(on_cpu));
                    found.run_queue.read(line.at(), line.whole(run_queue));
                }
            }
        }
        if let Some(at) = &self.activity {
            let [process, thread, state, samples, on] = at.columns;
            for line in at.rows(tick) {
                let (Some(key), Some(thread)) = (line.text(process), line.text(thread)) else { continue };
                let Some(found) = scene.processes.get_mut(key).filter(|_| is_main(key, thread)) else { continue };
                let (count, on) = (line.number(samples).unwrap_or(0.0), line.text(on).map_or("", |on| on));
                let state = line.text(state).map_or("", |state| state);
                found.states.add(tick.at, ALL, count);
                // A read from a pipe or a socket is a wait for another process, not for storage.
                if state == "disk" || state == "read" && !matches!(on, "pipe" | "socket" | "shm" | "other") {
                    found.states.add(tick.at, STORAGE, count);
                }
                if on == "remote" {
                    found.states.add(tick.at, REMOTE, count);
                }
            }
        }
        if let Some(at) = &self.wait {
            let [process, thread, duration] = at.columns;
            for line in at.rows(tick) {
                let (Some(key), Some(thread)) = (line.text(process), line.text(thread)) else { continue };
                let Some(found) = scene.processes.get_mut(key).filter(|_| is_main(key, thread)) else { continue };
                if let Some(nanos) = line.number(duration).filter(|_| found.waits.len() < WAITS) {
                    found.waits.push(nanos / 1e9);
                }
            }
        }
    }

    /// Where main threads of trainers are.
    fn places(&self, tick: &Tick, scene: &mut Scene) {
        let Some(at) = &self.stack else { return };
        let [process, thread, site, samples, missed] = at.columns;
        for line in at.rows(tick) {
            let (Some(key), Some(thread)) = (line.text(process), line.text(thread)) else { continue };
            let Some(found) = scene.processes.get_mut(key).filter(|_| is_main(key, thread)) else { continue };
            let place = match line.text(site).map_or("", |site| site) {
                "loader" => LOADER,
                "startup" => STARTUP,
                "checkpoint" => CHECKPOINT,
                "gc" => GC,
                "unknown" => MISSED,
                _ => OTHER,
            };
            found.sites.add(tick.at, place, line.number(samples).unwrap_or(0.0));
            found.sites.add(tick.at, MISSED, line.number(missed).unwrap_or(0.0));
        }
    }

    /// What was concluded of trainers and workers before.
    fn conclusions(&self, tick: &Tick, scene: &mut Scene) {
        if let Some(at) = &self.stall {
            let [process, cause, share] = at.columns;
            for line in at.rows(tick).filter(|l| l.text(cause).is_some_and(|cause| cause.as_ref() == "data")) {
                if let Some(found) = line.text(process).and_then(|key| scene.processes.get_mut(key)) {
                    found.data = line.number(share);
                }
            }
        }
        if let Some(at) = &self.cause {
            let [process, cause, share, run] = at.columns;
            for line in at.rows(tick) {
                let (Some(key), Some(cause)) = (line.text(process), line.text(cause)) else { continue };
                let Some(found) = scene.processes.get_mut(key) else { continue };
                if found.causes.len() < CAUSES || found.causes.contains_key(cause) {
                    found.causes.insert(cause.clone(), [line.number(share), line.number(run)]);
                }
            }
        }
        if let Some(at) = &self.worker {
            let [process, storage, network, file, mount] = at.columns;
            for line in at.rows(tick) {
                let Some(found) = line.text(process).and_then(|key| scene.processes.get_mut(key)) else { continue };
                found.worker.storage = line.number(storage);
                found.worker.network = line.number(network);
                found.worker.file = line.text(file).cloned();
                found.worker.mount = line.text(mount).cloned();
            }
        }
    }

    /// Counted calls of processes.
    fn calls(&self, tick: &Tick, scene: &mut Scene) {
        let three = |at: &At<6>, book: &mut Book<(Symbol, Symbol, Symbol), Calls>| {
            let [process, second, third, calls, time, bytes] = at.columns;
            for line in at.rows(tick) {
                let keys = (line.text(process), line.text(second), line.text(third));
                let (Some(a), Some(b), Some(c)) = keys else { continue };
                let Some(found) = book.entry((a.clone(), b.clone(), c.clone()), tick.at) else { continue };
                found.calls.read(line.at(), line.whole(calls));
                found.time.read(line.at(), line.whole(time));
                found.bytes.read(line.at(), line.whole(bytes));
            }
        };
        if let Some(at) = &self.device_call {
            three(at, &mut scene.device_calls);
        }
        if let Some(at) = &self.file_io {
            three(at, &mut scene.file_calls);
        }
        if let Some(at) = &self.region {
            let [process, thread, region, times, time] = at.columns;
            for line in at.rows(tick) {
                let keys = (line.text(process), line.text(thread), line.text(region));
                let (Some(a), Some(b), Some(c)) = keys else { continue };
                let Some(found) = scene.regions.entry((a.clone(), b.clone(), c.clone()), tick.at) else {
                    continue;
                };
                found.calls.read(line.at(), line.whole(times));
                found.time.read(line.at(), line.whole(time));
            }
        }
    }

    fn machine(&self, tick: &Tick, scene: &mut Scene) {
        if let Some(at) = &self.memory {
            let [total, available, cached, shm_total, shm_used] = at.columns;
            for line in at.rows(tick) {
                scene.memory.total = line.number(total);
                scene.memory.available = line.number(available);
                scene.memory.shm = [line.number(shm_used), line.number(shm_total)];
                if let Some(now) = line.number(cached) {
                    let kept = &mut scene.memory.cached;
                    kept.push_back((line.at(), now));
                    while kept.len() > 64 || kept.front().is_some_and(|(t, _)| line.at().seconds_since(*t) > SPAN) {
                        kept.pop_front();
                    }
                }
            }
        }
        if let Some(at) = &self.vmstat {
            for line in at.rows(tick) {
                scene.memory.refaults.read(line.at(), line.whole(at.columns[0]));
            }
        }
        if let Some(at) = &self.pressure {
            let [scope, resource, some] = at.columns;
            let is = |text: Option<&Symbol>, name: &str| text.is_some_and(|text| text.as_ref() == name);
            for line in at.rows(tick).filter(|l| is(l.text(scope), "host") && is(l.text(resource), "cpu")) {
                scene.memory.pressure.read(line.at(), line.whole(some));
            }
        }
        if let Some(at) = &self.cgroup {
            let [group, limit, periods, held] = at.columns;
            for line in at.rows(tick) {
                let Some(found) = line.text(group).and_then(|key| scene.groups.entry(key.clone(), tick.at)) else {
                    continue;
                };
                found.limit = line.number(limit).filter(|limit| *limit > 0.0);
                found.periods.read(line.at(), line.whole(periods));
                found.held.read(line.at(), line.whole(held));
            }
        }
    }

    fn storage(&self, tick: &Tick, scene: &mut Scene) {
        if let Some(at) = &self.disk {
            let [device, read, written, busy] = at.columns;
            for line in at.rows(tick) {
                let Some(found) = line.text(device).and_then(|key| scene.disks.entry(key.clone(), tick.at)) else {
                    continue;
                };
                found.read.read(line.at(), line.whole(read));
                found.written.read(line.at(), line.whole(written));
                found.busy.read(line.at(), line.whole(busy));
            }
        }
        if let Some(at) = &self.mount {
            let [mount, class, kind, device] = at.columns;
            for line in at.rows(tick) {
                let Some(found) = line.text(mount).and_then(|key| scene.mounts.entry(key.clone(), tick.at)) else {
                    continue;
                };
                found.class = line.text(class).cloned();
                found.kind = line.text(kind).cloned();
                found.device = line.text(device).cloned();
            }
        }
        if let Some(at) = &self.page_cache {
            let [mount, size] = at.columns;
            for line in at.rows(tick) {
                let found = line.text(mount).and_then(|key| scene.files.entry(key.clone(), tick.at));
                if let (Some(found), Some(size)) = (found, line.number(size)) {
                    *found = size;
                }
            }
        }
        if let Some(at) = &self.nfs {
            let [mount, operation, operations, time, bytes] = at.columns;
            for line in at.rows(tick) {
                let (Some(mount), Some(operation)) = (line.text(mount), line.text(operation)) else { continue };
                let Some(found) = scene.nfs.entry((mount.clone(), operation.clone()), tick.at) else { continue };
                found.calls.read(line.at(), line.whole(operations));
                found.time.read(line.at(), line.whole(time));
                found.bytes.read(line.at(), line.whole(bytes));
            }
        }
    }
}
