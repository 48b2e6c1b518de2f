//! Made-up jobs: a healthy one, of which each test changes what it is about.

use std::sync::Arc;

use feedline_traces::unit::Nanos;
use feedline_traces::{Counter, Derive as _, Row as _, Rows, Schema, Text, Tick, Ts};

use super::tables::{
    ActivityRow, CauseRow, CgroupRow, DeviceCallRow, DiskRow, FileIoRow, MemoryRow, MountRow, NfsRow, PressureRow,
    ProcessRow, RegionRow, StackRow, StallRow, ThreadRow, VmstatRow, WaitRow, WorkerRow,
};
use crate::finding::{Find, FindingRow};

/// What a thread or process does a second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Does {
    pub(super) cores: f64,
    pub(super) allowed: &'static str,
    pub(super) threads: f64,
    /// Cores that all its threads use, the main one too.
    pub(super) cpu: f64,
    pub(super) on_cpu: f64,
    pub(super) queued: f64,
    pub(super) storage: f64,
    pub(super) read: f64,
    pub(super) calls: f64,
    /// Shares of time in disk, and in a read on a remote mount.
    pub(super) disk: f64,
    pub(super) remote: f64,
}

/// What goes on in one second.
#[derive(Debug, Clone)]
pub(super) struct Second {
    pub(super) ranks: usize,
    pub(super) workers: usize,
    /// Added to the pids of workers: another number is another crew.
    pub(super) crew: usize,
    pub(super) worker: Does,
    pub(super) trainer: Does,
    pub(super) data: f64,
    pub(super) sites: Vec<(&'static str, f64)>,
    pub(super) causes: Vec<(&'static str, f64)>,
    pub(super) quota: Option<(f64, f64)>,
    pub(super) pressure: f64,
    pub(super) refaults: f64,
    pub(super) cache_growth: f64,
    pub(super) shm: Option<(f64, f64)>,
    /// Bytes a second and share of time busy.
    pub(super) disk: (f64, f64),
    /// Copies a second, share of time, bytes a second.
    pub(super) copies: Option<(f64, f64, f64)>,
    pub(super) pins: bool,
    /// Opens, reads and bytes a second on remote files, per worker.
    pub(super) files: Option<(f64, f64, f64)>,
    /// LOOKUPs, READs and bytes a second.
    pub(super) nfs: Option<(f64, f64, f64)>,
    pub(super) gc_region: Option<f64>,
    pub(super) wait: Option<f64>,
    /// File of a rank's worker in a second.
    pub(super) file: Option<fn(usize, usize, usize) -> usize>,
}

/// Eight cores, four workers that keep up, a trainer at its own work.
pub(super) fn healthy() -> Second {
    let worker = Does {
        cores: 8.0,
        allowed: "0-7",
        threads: 2.0,
        cpu: 0.5,
        on_cpu: 0.5,
        queued: 0.01,
        storage: 0.0,
        read: 40e6,
        calls: 400.0,
        disk: 0.0,
        remote: 0.0,
    };
    Second {
        ranks: 1,
        workers: 4,
        crew: 0,
        worker,
        trainer: Does { threads: 40.0, cpu: 0.7, on_cpu: 0.6, ..worker },
        data: 0.01,
        sites: vec![("host", 9.0), ("loader", 0.5)],
        causes: vec![("contention", 0.21), ("fetch.storage", 0.31)],
        quota: None,
        pressure: 0.02,
        refaults: 0.0,
        cache_growth: 0.0,
        shm: Some((1e9, 16e9)),
        disk: (0.0, 0.0),
        copies: None,
        pins: false,
        files: None,
        nfs: None,
        gc_region: None,
        wait: Some(0.002),
        file: None,
    }
}

/// Imports for four seconds, then a first fetch until a second, then steps.
pub(super) fn first_fetch(s: usize, until: usize, sites: Vec<(&'static str, f64)>, wait: f64) -> Second {
    let healthy = healthy();
    match s {
        0..=4 => Second { sites: vec![("host", 12.0)], workers: 0, wait: None, ..healthy },
        s if s <= until => Second { sites, wait: None, ..healthy },
        _ => Second { wait: Some(wait), ..healthy },
    }
}

pub(super) fn schema() -> Arc<Schema> {
    let tables = vec![
        ProcessRow::table(),
        ThreadRow::table(),
        ActivityRow::table(),
        StackRow::table(),
        WaitRow::table(),
        StallRow::table(),
        CauseRow::table(),
        WorkerRow::table(),
        DeviceCallRow::table(),
        FileIoRow::table(),
        RegionRow::table(),
        NfsRow::table(),
        CgroupRow::table(),
        DiskRow::table(),
        MountRow::table(),
        MemoryRow::table(),
        VmstatRow::table(),
        PressureRow::table(),
        FindingRow::table(),
    ];
    Arc::new(Schema::new(tables).unwrap())
}

/// Totals so far, by what is counted.
#[derive(Debug, Default)]
pub(super) struct Totals(std::collections::BTreeMap<String, f64>);

impl Totals {
    fn add(&mut self, name: &str, more: f64) -> u64 {
        let total = self.0.entry(name.to_owned()).or_default();
        *total += more;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
        let whole = *total as u64;
        whole
    }

    fn nanos(&mut self, name: &str, share: f64) -> Counter<Nanos> {
        self.add(name, share * 1e9).into()
    }
}

/// What `Find` says of each second: kind and process, and the last rows in full.
pub(super) fn said(seconds: usize, world: &dyn Fn(usize) -> Second) -> Vec<Vec<Said>> {
    let schema = schema();
    let mut find = Find::bind(&schema).on_machine(Some(8));
    let mut totals = Totals::default();
    (1..=seconds)
        .map(|s| {
            let tick = tick(&schema, &mut totals, s, &world(s));
            let mut rows = Rows::new(&schema, tick.at);
            find.derive(&tick, &mut rows).unwrap();
            let out = Tick { at: tick.at, batches: rows.finish() };
            read(&schema, &out)
        })
        .collect()
}

/// A row of `finding`.
#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) kind: String,
    pub(super) process: String,
    pub(super) severity: Option<f64>,
    pub(super) since: f64,
    pub(super) text: String,
    pub(super) advice: String,
    pub(super) evidence: String,
}

fn read(schema: &Schema, tick: &Tick) -> Vec<Said> {
    let Some(batch) = tick.batch(schema.find_table("finding").unwrap()) else { return Vec::new() };
    let column = |name: &str| &batch.columns[schema.find(&format!("finding.{name}")).unwrap().column];
    let text = |name: &str, row: usize| column(name).text(row).unwrap().to_string();
    (0..batch.len())
        .map(|row| Said {
            kind: text("kind", row),
            process: text("process", row),
            severity: column("severity").number(row),
            since: column("since").number(row).unwrap() / 1e9,
            text: text("text", row),
            advice: text("advice", row),
            evidence: text("evidence", row),
        })
        .collect()
}

pub(super) fn tick(schema: &Schema, totals: &mut Totals, s: usize, now: &Second) -> Tick {
    let at = Ts(i64::try_from(s).unwrap() * 1_000_000_000);
    let mut rows = Rows::new(schema, at);
    for rank in 0..now.ranks {
        let pid = 100 + rank;
        let key = format!("{pid}@7");
        of_process(&mut rows, totals, &key, "trainer", "", Some(rank), &now.trainer);
        trainer(&mut rows, totals, &key, now);
        for worker in 0..now.workers {
            let its = format!("{}@{}", 1000 + 100 * rank + worker, 90 + now.crew);
            of_process(&mut rows, totals, &its, "worker", &key, None, &now.worker);
            if let Some((opens, reads, bytes)) = now.files {
                for (operation, calls, bytes) in [("open", opens, 0.0), ("read", reads, bytes)] {
                    rows.push(FileIoRow {
                        process: its.as_str().into(),
                        operation: operation.into(),
                        on: "remote".into(),
                        calls: totals.add(&format!("{its} {operation} calls"), calls).into(),
                        time: totals.nanos(&format!("{its} {operation} time"), 0.1),
                        bytes: totals.add(&format!("{its} {operation} bytes"), bytes).into(),
                    });
                }
            }
            if let Some(file) = now.file {
                let file = format!("{:05}.jpg", file(rank, worker, s));
                rows.push(WorkerRow { process: its.as_str().into(), file: file.into() });
            }
        }
    }
    machine(&mut rows, totals, now);
    Tick { at, batches: rows.finish() }
}

fn of_process(
    rows: &mut Rows<'_>,
    totals: &mut Totals,
    key: &str,
    role: &str,
    parent: &str,
    rank: Option<usize>,
    does: &Does,
) {
    let thread = key.split('@').next().unwrap();
    rows.push(ProcessRow {
        process: key.into(),
        role: role.into(),
        parent: parent.into(),
        rank: rank.map(|rank| u64::try_from(rank).unwrap()).into(),
        cores_allowed: does.cores.into(),
        allowed: does.allowed.into(),
        threads: does.threads.into(),
        cgroup: "/job".into(),
        cpu_user: totals.nanos(&format!("{key} cpu"), does.cpu),
        cpu_system: 0.into(),
        storage_read: totals.add(&format!("{key} storage"), does.storage).into(),
        read: totals.add(&format!("{key} read"), does.read).into(),
        read_calls: totals.add(&format!("{key} calls"), does.calls).into(),
    });
    rows.push(ThreadRow {
        process: key.into(),
        thread: thread.into(),
        role: if role == "trainer" { "main" } else { "worker" }.into(),
        on_cpu: totals.nanos(&format!("{key} on"), does.on_cpu),
        run_queue: totals.nanos(&format!("{key} queue"), does.queued),
    });
    let rest = 1.0 - does.disk - does.remote;
    for (state, on, share) in [("disk", "", does.disk), ("read", "remote", does.remote), ("futex", "", rest)] {
        rows.push(ActivityRow {
            process: key.into(),
            thread: thread.into(),
            state: state.into(),
            on: on.into(),
            samples: (share * 100.0).into(),
        });
    }
}

fn trainer(rows: &mut Rows<'_>, totals: &mut Totals, key: &str, now: &Second) {
    let thread = key.split('@').next().unwrap();
    for (site, samples) in &now.sites {
        rows.push(StackRow {
            process: key.into(),
            thread: thread.into(),
            site: (*site).into(),
            samples: (*samples).into(),
        });
    }
    for _ in 0..3 {
        if let Some(wait) = now.wait {
            rows.push(WaitRow { process: key.into(), thread: thread.into(), duration: (wait * 1e9).into() });
        }
    }
    rows.push(StallRow { process: key.into(), cause: "data".into(), share: now.data.into() });
    for (cause, share) in &now.causes {
        let share = *share;
        rows.push(CauseRow { process: key.into(), cause: (*cause).into(), share: share.into(), run: share.into() });
    }
    if now.pins {
        rows.push(ThreadRow { process: key.into(), thread: "999".into(), role: "pin".into(), ..ThreadRow::default() });
    }
    if let Some((copies, share, bytes)) = now.copies {
        rows.push(DeviceCallRow {
            process: key.into(),
            thread: thread.into(),
            call: "copy_h2d".into(),
            calls: totals.add(&format!("{key} copies"), copies).into(),
            time: totals.nanos(&format!("{key} copying"), share),
            bytes: totals.add(&format!("{key} copied"), bytes).into(),
        });
    }
    if let Some(share) = now.gc_region {
        rows.push(RegionRow {
            process: key.into(),
            thread: thread.into(),
            region: "gc".into(),
            times: totals.add(&format!("{key} gcs"), 2.0).into(),
            time: totals.nanos(&format!("{key} gc"), share),
        });
    }
}

fn machine(rows: &mut Rows<'_>, totals: &mut Totals, now: &Second) {
    // A group without a quota counts no periods.
    let (limit, held) = now.quota.map_or((None, 0.0), |(limit, held)| (Some(limit), held));
    let ran = if limit.is_some() { 10.0 } else { 0.0 };
    rows.push(CgroupRow {
        cgroup: "/job".into(),
        cpu_limit: limit.into(),
        periods: totals.add("periods", ran).into(),
        throttled_periods: totals.add("held", ran * held).into(),
    });
    let cached = totals.add("cached", now.cache_growth);
    rows.push(MemoryRow {
        scope: "host".into(),
        total: 64e9.into(),
        available: 30e9.into(),
        cached: (10_000_000_000 + cached).into(),
        shm_used: now.shm.map(|(used, _)| used).into(),
        shm_total: now.shm.map(|(_, total)| total).into(),
    });
    rows.push(VmstatRow { scope: "host".into(), refaults_file: totals.add("refaults", now.refaults).into() });
    rows.push(PressureRow {
        scope: "host".into(),
        resource: "cpu".into(),
        some: totals.nanos("pressure", now.pressure),
    });
    rows.push(DiskRow {
        device: "sda".into(),
        read_bytes: totals.add("disk", now.disk.0).into(),
        write_bytes: 0.into(),
        busy: totals.nanos("busy", now.disk.1),
    });
    rows.push(MountRow {
        mount: "/data".into(),
        kind: "nfs4".into(),
        class: "network".into(),
        device: Text::default(),
    });
    rows.push(MountRow { mount: "/".into(), kind: "ext4".into(), class: "disk".into(), device: "sda".into() });
    if let Some((lookups, reads, bytes)) = now.nfs {
        for (operation, calls, bytes) in [("LOOKUP", lookups, 0.0), ("READ", reads, bytes)] {
            rows.push(NfsRow {
                mount: "/data".into(),
                operation: operation.into(),
                operations: totals.add(operation, calls).into(),
                received_bytes: totals.add(&format!("{operation} bytes"), bytes).into(),
            });
        }
    }
}
