//! The job's control groups: what they may use, what they use, and how often they were held back.

pub mod parse;

use std::collections::HashSet;
use std::path::{Component, Path};

use feedline_traces::unit::{Bytes, Count, Nanos};
use feedline_traces::{Collector, Counter, Gauge, Key, Result, Row as _, Rows, Symbol, Table, Text, table};

use crate::absent::{AbsentRow, Reasons};
use crate::{Context, Host, Role, Target};
use parse::{Membership, Mount};

table! {
    /// A control group that processes of the job are in, one row per group per tick. Limits are
    /// the tightest on the way from the group up to the root. In version 1 each controller can
    /// have the process in another group: each column speaks of its controller's.
    pub cgroup: CgroupRow {
        /// Path of the group; with both versions mounted, in the one that is in use.
        cgroup: Key,
        /// Version of the hierarchy that limits CPU: `v1` or `v2`.
        version: Text,
        /// CPU cores' worth of time it may use; missing where no quota is set.
        cpu_limit: Gauge<Count>,
        /// CPU cores it may run on.
        cores: Gauge<Count>,
        /// CPU time used.
        cpu: Counter<Nanos>,
        /// Quota periods in which it ran, at the level that sets the quota.
        periods: Counter<Count>,
        /// Quota periods in which it was held back.
        throttled_periods: Counter<Count>,
        /// Time for which its tasks were held back by the quota.
        throttled: Counter<Nanos>,
        /// Memory in use, with page cache, at the level that sets the limit.
        memory: Gauge<Bytes>,
        /// Memory it may use; missing where no limit is set.
        memory_limit: Gauge<Bytes>,
        /// Page cache charged to it.
        cache: Gauge<Bytes>,
        /// Times that it ran into the memory limit.
        limit_hits: Counter<Count>,
        /// Processes killed for want of memory.
        oom_kills: Counter<Count>,
        /// Bytes read from block devices, over all devices.
        read: Counter<Bytes>,
        /// Bytes written to block devices, over all devices.
        written: Counter<Bytes>,
        /// Reads from block devices.
        reads: Counter<Count>,
        /// Writes to block devices.
        writes: Counter<Count>,
        /// Time in which some task waited for a CPU; version 2 only.
        cpu_stalled: Counter<Nanos>,
        /// Time in which some task waited for memory; version 2 only.
        memory_stalled: Counter<Nanos>,
        /// Time in which some task waited for block devices; version 2 only.
        io_stalled: Counter<Nanos>,
    }
}

/// The most groups that are read in one tick.
const GROUPS: usize = 16;

/// Reads the control groups of the job's trainers and workers.
pub struct Cgroups {
    host: Host,
    target: Target,
    mounts: Vec<Mount>,
    reasons: Reasons,
}

impl Cgroups {
    /// Reads the groups of the context's job.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        let mounts = context.host.read("proc/self/mountinfo").unwrap_or_default();
        Self {
            host: context.host.clone(),
            target: context.target.clone(),
            mounts: parse::mounts(&mounts),
            reasons: Reasons::default(),
        }
    }

    /// The groups that trainers and workers are in.
    fn groups(&self) -> Vec<(Symbol, Membership)> {
        let mut met = HashSet::new();
        let mut out = Vec::new();
        for process in self.target.processes().iter().filter(|p| matches!(p.role, Role::Trainer | Role::Worker)) {
            let Ok(text) = self.host.read(format!("proc/{}/cgroup", process.pid)) else { continue };
            let membership = parse::membership(&text);
            if met.len() < GROUPS && met.insert(membership.name()) {
                out.push((membership.name(), membership));
            }
        }
        out
    }

    fn row(&mut self, out: &mut Rows<'_>, name: &Symbol, group: &Membership) -> Result<CgroupRow> {
        let mut row = CgroupRow { cgroup: name.clone().into(), ..CgroupRow::default() };
        let cpu = Levels::find(&self.mounts, group, "cpu");
        let memory = Levels::find(&self.mounts, group, "memory");
        let quota = self.cpu(&mut row, cpu.as_ref(), Levels::find(&self.mounts, group, "cpuacct").as_ref())?;
        let limit = self.memory(&mut row, memory.as_ref())?;
        self.io(&mut row, Levels::find(&self.mounts, group, "blkio").as_ref());
        if let Some(cpuset) = Levels::find(&self.mounts, group, "cpuset") {
            // A group that may use all of its parent's cores has an empty list of its own.
            let lists = ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"];
            let read = |level: &String| lists.iter().find_map(|l| crate::process::parse::cores(&self.file(level, l)?));
            row.cores = cpuset.paths.iter().find_map(read).into();
        }
        let unreachable = "the group is outside what is mounted here; run Feedline where the job's groups are visible";
        let why = |levels: Option<&Levels>, limited: bool, unlimited: &'static str| match levels {
            None => Some(unreachable),
            Some(_) if !limited => Some(unlimited),
            Some(_) => None,
        };
        self.reasons.say(out, "cgroup.cpu_limit", name, why(cpu.as_ref(), quota, "no CPU quota is set"));
        self.reasons.say(out, "cgroup.memory_limit", name, why(memory.as_ref(), limit, "no memory limit is set"));
        Ok(row)
    }

    /// Whether there is a quota.
    fn cpu(&self, row: &mut CgroupRow, cpu: Option<&Levels>, account: Option<&Levels>) -> Result<bool> {
        let Some(cpu) = cpu else { return Ok(false) };
        row.version = cpu.version().into();
        let mut tightest: Option<(f64, &String)> = None;
        for level in &cpu.paths {
            let cores = if cpu.unified {
                self.file(level, "cpu.max")
                    .map(|text| parse::cpu_max(&text).map_err(|e| e.at(format!("{level}/cpu.max"))))
            } else {
                let (quota, period) = (self.file(level, "cpu.cfs_quota_us"), self.file(level, "cpu.cfs_period_us"));
                let place = || format!("{level}/cpu.cfs_quota_us");
                quota.zip(period).map(|(q, p)| parse::cfs_quota(&q, &p).map_err(|e| e.at(place())))
            };
            if let Some(cores) = cores.transpose()?.flatten()
                && tightest.is_none_or(|(least, _)| cores < least)
            {
                tightest = Some((cores, level));
            }
        }
        row.cpu_limit = tightest.map(|(cores, _)| cores).into();
        let held = tightest.map_or(&cpu.paths[0], |(_, level)| level);
        let stat = self.file(held, "cpu.stat").unwrap_or_default();
        row.periods = parse::value(&stat, "nr_periods").into();
        row.throttled_periods = parse::value(&stat, "nr_throttled").into();
        let micros = |text: &str, name: &str| parse::value(text, name).map(|us| us.saturating_mul(1000));
        row.throttled = micros(&stat, "throttled_usec").or_else(|| parse::value(&stat, "throttled_time")).into();
        let own = &cpu.paths[0];
        row.cpu = if cpu.unified {
            micros(&self.file(own, "cpu.stat").unwrap_or_default(), "usage_usec")
        } else {
            account.and_then(|a| self.file(&a.paths[0], "cpuacct.usage")?.trim().parse().ok())
        }
        .into();
        if cpu.unified {
            row.cpu_stalled = self.file(own, "cpu.pressure").and_then(|text| parse::stalled(&text)).into();
        }
        Ok(tightest.is_some())
    }

    /// Whether there is a limit.
    fn memory(&self, row: &mut CgroupRow, memory: Option<&Levels>) -> Result<bool> {
        let Some(memory) = memory else { return Ok(false) };
        let (limit_file, used_file, cache_name) = if memory.unified {
            ("memory.max", "memory.current", "file")
        } else {
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache")
        };
        let mut tightest: Option<(u64, &String)> = None;
        for level in &memory.paths {
            let Some(text) = self.file(level, limit_file) else { continue };
            let limit = parse::memory_limit(&text).map_err(|e| e.at(format!("{level}/{limit_file}")))?;
            if let Some(limit) = limit
                && tightest.is_none_or(|(least, _)| limit < least)
            {
                tightest = Some((limit, level));
            }
        }
        row.memory_limit = tightest.map(|(limit, _)| limit).into();
        let held = tightest.map_or(&memory.paths[0], |(_, level)| level);
        let number = |name: &str| self.file(held, name)?.trim().parse::<u64>().ok();
        row.memory = number(used_file).into();
        let stat = self.file(&memory.paths[0], "memory.stat").unwrap_or_default();
        row.cache = parse::value(&stat, cache_name).into();
        if memory.unified {
            let events = self.file(held, "memory.events").unwrap_or_default();
            row.limit_hits = parse::value(&events, "max").into();
            row.oom_kills = parse::value(&events, "oom_kill").into();
            let own = &memory.paths[0];
            row.memory_stalled = self.file(own, "memory.pressure").and_then(|text| parse::stalled(&text)).into();
        } else {
            row.limit_hits = number("memory.failcnt").into();
            row.oom_kills = parse::value(&self.file(held, "memory.oom_control").unwrap_or_default(), "oom_kill").into();
        }
        Ok(tightest.is_some())
    }

    fn io(&self, row: &mut CgroupRow, io: Option<&Levels>) {
        let Some(io) = io else { return };
        let own = &io.paths[0];
        let (bytes, operations) = if io.unified {
            row.io_stalled = self.file(own, "io.pressure").and_then(|text| parse::stalled(&text)).into();
            let both = self.file(own, "io.stat").map(|text| parse::io_stat(&text));
            (both.map(|b| b.0), both.map(|b| b.1))
        } else {
            let read = |name: &str| self.file(own, name).map(|text| parse::blkio(&text));
            (read("blkio.throttle.io_service_bytes"), read("blkio.throttle.io_serviced"))
        };
        row.read = bytes.map(|b| b.read).into();
        row.written = bytes.map(|b| b.written).into();
        row.reads = operations.map(|o| o.read).into();
        row.writes = operations.map(|o| o.written).into();
    }

    fn file(&self, level: &str, name: &str) -> Option<String> {
        self.host.read(format!("{level}/{name}")).ok()
    }
}

/// The folders of a group in one hierarchy, from the group itself up to the mount point; at
/// least one, relative to the host's root.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Levels {
    unified: bool,
    paths: Vec<String>,
}

impl Levels {
    /// Where a controller keeps a group. `None` when it is mounted nowhere, or the group is
    /// outside of what is.
    fn find(mounts: &[Mount], group: &Membership, controller: &str) -> Option<Self> {
        let old = mounts.iter().find(|m| m.controllers.iter().any(|c| c == controller));
        let (mount, path) = match old {
            Some(mount) => (mount, group.controllers.get(controller)?),
            None => (mounts.iter().find(|m| m.controllers.is_empty())?, group.unified.as_ref()?),
        };
        // Inside a container the mount shows the container's group as its root, while a path may
        // be given from the machine's root.
        let below = if mount.root == "/" { Some(path.as_str()) } else { path.strip_prefix(mount.root.as_str()) };
        let below = Path::new(below?);
        if below.components().any(|c| c == Component::ParentDir) {
            return None;
        }
        let point = mount.point.trim_matches('/');
        let level =
            |p: &Path| format!("{point}/{}", p.to_string_lossy().trim_matches('/')).trim_end_matches('/').to_owned();
        let mut paths: Vec<String> = below.ancestors().map(level).collect();
        paths.dedup();
        Some(Self { unified: old.is_none(), paths })
    }

    fn version(&self) -> &'static str {
        if self.unified { "v2" } else { "v1" }
    }
}

impl Collector for Cgroups {
    fn name(&self) -> &'static str {
        "cgroup"
    }

    fn tables(&self) -> Vec<Table> {
        vec![CgroupRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        for (name, group) in self.groups() {
            let row = self.row(out, &name, &group)?;
            out.push(row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
