//! Pressure stall information: how long tasks stood still for want of CPU, I/O or memory.

use std::collections::{BTreeSet, HashMap};

use feedline_traces::unit::{Nanos, Ratio};
use feedline_traces::{Collector, Counter, Error, Gauge, Key, Result, Row as _, Rows, Symbol, Table, table};

use crate::absent::{AbsentRow, Reasons};
use crate::{Context, Host, Target};

pub mod parse;

use parse::{Pressure as Lines, Stall};

const RESOURCES: [&str; 4] = ["cpu", "io", "memory", "irq"];
/// Control groups shown beside the host: the job has one, or one a rank.
const GROUPS: usize = 4;

table! {
    /// Pressure stall information, one row per scope and resource per tick.
    pub pressure: PressureRow {
        /// `host`, or the path of a control group of the job.
        scope: Key,
        /// `cpu`, `io`, `memory` or `irq`.
        resource: Key,
        /// Time in which at least one task stood still for want of the resource.
        some: Counter<Nanos>,
        /// Time in which all tasks that were not idle did; undefined for the CPU of the host.
        full: Counter<Nanos>,
        /// Share of the last 10 s in which at least one task did, as the kernel averages it.
        some_10: Gauge<Ratio>,
        /// Share of the last 10 s in which all did, as the kernel averages it.
        full_10: Gauge<Ratio>,
    }
}

/// Reads `/proc/pressure` and the pressure files of the job's control groups.
pub struct Pressure {
    host: Host,
    target: Target,
    reasons: Reasons,
    /// Where the version 2 hierarchy is mounted; looked for once.
    hierarchy: Option<Option<String>>,
    /// The group of each process; a process rarely moves, so it is asked once.
    groups: HashMap<Symbol, Option<String>>,
}

impl Pressure {
    /// The pressure on a machine and on its job.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self {
            host: context.host.clone(),
            target: context.target.clone(),
            reasons: Reasons::default(),
            hierarchy: None,
            groups: HashMap::new(),
        }
    }

    fn scope(&mut self, out: &mut Rows<'_>, scope: &str, file: impl Fn(&str) -> String) -> Result<()> {
        for resource in RESOURCES {
            let file = file(resource);
            let Ok(text) = self.host.read(&file) else {
                // Interrupt time is accounted by few kernels: its absence is no news.
                if resource != "irq" {
                    let entity = format!("{scope} {resource}");
                    self.reasons.say(out, "pressure", &entity, Some(OFF));
                }
                continue;
            };
            let lines = parse::pressure(&text).map_err(|error| Error::new(format!("{file}:{}", error.message)))?;
            let undefined = scope == "host" && resource == "cpu";
            out.push(row(scope, resource, lines, undefined));
            if undefined {
                let reason = "the kernel defines no full CPU pressure for a whole machine and reports 0";
                self.reasons.say(out, "pressure.full", "host cpu", Some(reason));
            }
        }
        Ok(())
    }

    /// The groups of the job other than the root, which is the host.
    fn groups(&mut self) -> BTreeSet<String> {
        let processes = self.target.processes();
        self.groups.retain(|key, _| processes.iter().any(|process| process.key == *key));
        for process in processes.iter() {
            self.groups.entry(process.key.clone()).or_insert_with(|| {
                let text = self.host.read(format!("proc/{}/cgroup", process.pid)).ok()?;
                // A path with `..` lies outside what Feedline's own namespace can name.
                parse::unified(&text).filter(|path| *path != "/" && !path.contains("..")).map(str::to_owned)
            });
        }
        self.groups.values().flatten().cloned().collect()
    }

    fn hierarchy(&mut self) -> Option<String> {
        let find = || {
            let text = self.host.read("proc/self/mountinfo").ok()?;
            let mounts = crate::mount::parse::mountinfo(&text);
            let mount = mounts.into_iter().find(|mount| mount.kind == "cgroup2")?;
            Some(mount.point.trim_start_matches('/').to_owned())
        };
        self.hierarchy.get_or_insert_with(find).clone()
    }
}

const OFF: &str = "this kernel keeps no pressure stall information here; boot with `psi=1`";

impl Collector for Pressure {
    fn name(&self) -> &'static str {
        "pressure"
    }

    fn tables(&self) -> Vec<Table> {
        vec![PressureRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        self.scope(out, "host", |resource| format!("proc/pressure/{resource}"))?;
        let Some(hierarchy) = self.hierarchy() else { return Ok(()) };
        for group in self.groups().into_iter().take(GROUPS) {
            self.scope(out, &group, |resource| format!("{hierarchy}{group}/{resource}.pressure"))?;
        }
        Ok(())
    }
}

fn row(scope: &str, resource: &str, lines: Lines, full_is_undefined: bool) -> PressureRow {
    let full = lines.full.filter(|_| !full_is_undefined);
    let total = |stall: Option<Stall>| stall.and_then(|s| s.total.checked_mul(1_000));
    let share = |stall: Option<Stall>| stall.map(|s| s.average_10 / 100.0);
    PressureRow {
        scope: scope.into(),
        resource: resource.into(),
        some: total(lines.some).into(),
        full: total(full).into(),
        some_10: share(lines.some).into(),
        full_10: share(full).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Process;
    use crate::readings::{Readings, captured};
    use std::path::Path;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "proc/pressure/cpu", include_str!("testdata/cpu"));
        write(root.path(), "proc/pressure/io", include_str!("testdata/io"));
        write(root.path(), "proc/pressure/memory", include_str!("testdata/memory"));
        write(root.path(), "proc/pressure/irq", include_str!("testdata/irq"));
        root
    }

    #[test]
    fn a_captured_machine_reads_as_node_exporter_reads_it() {
        let root = machine();
        let readings = Readings::of(&mut Pressure::new(&captured(root.path())));
        let total = |column: &str, resource: &str| readings.whole(&format!("pressure.{column}"), &["host", resource]);
        assert_eq!(total("some", "cpu"), Some(14_036_781_000));
        assert_eq!(total("some", "io"), Some(159_886_802_000));
        assert_eq!(total("full", "io"), Some(159_229_614_000));
        assert_eq!((total("some", "memory"), total("full", "memory")), (Some(0), Some(0)));
        assert_eq!((total("some", "irq"), total("full", "irq")), (None, Some(8_494_000)));
    }

    #[test]
    fn the_full_cpu_pressure_of_a_host_is_missing_not_zero() {
        let root = machine();
        let readings = Readings::of(&mut Pressure::new(&captured(root.path())));
        assert_eq!(readings.whole("pressure.full", &["host", "cpu"]), None);
        assert!(readings.reason("pressure.full", "host cpu").unwrap().contains("no full CPU pressure"));
    }

    #[test]
    fn the_group_of_the_job_has_rows_of_its_own() {
        let root = machine();
        let unified = "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n";
        write(root.path(), "proc/self/mountinfo", unified);
        write(root.path(), "proc/7/cgroup", "0::/job\n");
        write(root.path(), "sys/fs/cgroup/job/io.pressure", include_str!("testdata/io"));
        let context = captured(root.path());
        context.target.replace(vec![Process { pid: 7, key: "7@1".into(), ..Process::default() }]);
        let readings = Readings::of(&mut Pressure::new(&context));
        assert_eq!(readings.whole("pressure.some", &["/job", "io"]), Some(159_886_802_000));
        assert!(readings.reason("pressure", "/job cpu").unwrap().contains("psi=1"));
    }

    #[test]
    fn a_machine_without_pressure_has_no_rows_and_says_why() {
        let root = tempfile::tempdir().unwrap();
        let readings = Readings::of(&mut Pressure::new(&captured(root.path())));
        assert!(readings.entities("pressure").is_empty());
        assert!(readings.reason("pressure", "host io").unwrap().contains("psi=1"));
    }
}
