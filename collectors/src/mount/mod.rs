//! The mounts that serve the job's files, and what a network file system says of itself.

use std::collections::{BTreeMap, HashMap};

use feedline_traces::unit::{Bytes, Count, Nanos};
use feedline_traces::{Background, Collector, Counter, Gauge, Key, Result, Row as _, Rows, Table, Text, table};

use crate::absent::{AbsentRow, Reasons};
use crate::{Context, Host, Target};

pub(crate) mod files;
pub mod nfs;
pub mod parse;

use files::{Place, Survey};
use nfs::{Operation, Statistics};
use parse::{Class, Mount};

/// Mounts remembered; a job that uses more has the others left out and counted.
const LIMIT: usize = 64;
/// The remote calls that reading a data set makes.
const OPERATIONS: [&str; 12] = [
    "READ",
    "READ_PLUS",
    "WRITE",
    "COMMIT",
    "OPEN",
    "OPEN_NOATTR",
    "CLOSE",
    "GETATTR",
    "LOOKUP",
    "ACCESS",
    "READDIR",
    "READDIRPLUS",
];
const MILLI: u64 = 1_000_000;

table! {
    /// Mounts that serve the job's files: those on which one of its processes had a file open or
    /// its working directory since Feedline came. Every few seconds.
    pub mount: MountRow {
        /// Mount point, as the job sees it.
        mount: Key,
        /// File-system type.
        kind: Text,
        /// What is mounted: a device, a server and path, a name.
        source: Text,
        /// Where the bytes come from: `disk`, `network`, `fuse`, `memory` or `overlay`.
        class: Text,
        /// The whole block device beneath, as in `disk.device`; null where there is none or several.
        device: Text,
        /// Files on it that the job has open at the moment.
        files: Gauge<Count>,
        /// Bytes read from the server since the mount was made.
        read_bytes: Counter<Bytes>,
        /// Bytes written to the server since the mount was made.
        write_bytes: Counter<Bytes>,
        /// Bytes that programs asked to read since the mount was made, cached or not.
        requested_bytes: Counter<Bytes>,
    }
}

table! {
    /// Remote calls of an NFS mount that serves the job's files, since the mount was made. Every
    /// few seconds.
    pub nfs_operation: NfsOperationRow {
        /// Mount point, as the job sees it.
        mount: Key,
        /// Name of the call, such as `READ`.
        operation: Key,
        /// Calls made.
        operations: Counter<Count>,
        /// Transmissions, repeated ones included.
        transmissions: Counter<Count>,
        /// Times that all repetitions timed out.
        timeouts: Counter<Count>,
        /// Calls that the server refused; counted from Linux 5.3 on.
        errors: Counter<Count>,
        /// Bytes sent, headers included.
        sent_bytes: Counter<Bytes>,
        /// Bytes received, headers included.
        received_bytes: Counter<Bytes>,
        /// Time that calls waited to be sent, added up.
        queue_time: Counter<Nanos>,
        /// Time from sent to answered, added up: the round trips.
        response_time: Counter<Nanos>,
        /// Time from asked to done, added up.
        execute_time: Counter<Nanos>,
    }
}

/// Finds the mounts that serve the job's files.
pub struct Mounts {
    host: Host,
    target: Target,
    reasons: Reasons,
    /// Mount points that ever had a file open, with what was mounted there.
    seen: BTreeMap<String, Mount>,
    /// Block devices by their number; a mount keeps its device.
    devices: HashMap<String, Option<String>>,
    drops: u64,
}

impl Mounts {
    /// The mounts of a job.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self {
            host: context.host.clone(),
            target: context.target.clone(),
            reasons: Reasons::default(),
            seen: BTreeMap::new(),
            devices: HashMap::new(),
            drops: 0,
        }
    }

    /// Adds the mounts of a survey to those seen, and counts the open files of each.
    fn remember(&mut self, survey: &Survey) -> BTreeMap<String, u64> {
        let mut open: BTreeMap<String, u64> = BTreeMap::new();
        let mut note = |place: Place, files: u64| {
            let mount = survey.mount(place);
            if !self.seen.contains_key(&mount.point) && self.seen.len() >= LIMIT {
                self.drops += 1;
                return;
            }
            self.seen.insert(mount.point.clone(), mount.clone());
            *open.entry(mount.point.clone()).or_default() += files;
        };
        survey.directories.iter().for_each(|place| note(*place, 0));
        survey.files.iter().for_each(|file| note(file.place, 1));
        let mounted = |mount: &Mount| survey.spaces.iter().any(|space| space.mounts.contains(mount));
        self.seen.retain(|_, mount| survey.spaces.is_empty() || mounted(mount));
        open
    }

    /// The whole block device beneath a mount.
    fn device(&mut self, mount: &Mount) -> Option<String> {
        if mount.class() == Class::Overlay {
            // The layers' paths are those of the host, which are Feedline's own unless it runs in
            // the same container; there they lead nowhere and nothing is said.
            let text = self.host.read("proc/self/mountinfo").ok()?;
            let mounts = parse::mountinfo(&text);
            let beneath = mount.layers().into_iter().find_map(|layer| parse::serving(&mounts, layer).cloned())?;
            return if beneath.class() == Class::Disk { self.device(&beneath) } else { None };
        }
        if mount.class() != Class::Disk {
            return None;
        }
        if let Some(known) = self.devices.get(&mount.device) {
            return known.clone();
        }
        let by_number = self.host.link(format!("sys/dev/block/{}", mount.device)).ok();
        let by_name = || {
            let name = mount.source.strip_prefix("/dev/").filter(|name| !name.contains('/'))?;
            self.host.link(format!("sys/class/block/{name}")).ok()
        };
        let link = by_number.or_else(by_name);
        let device = link.and_then(|link| parse::block_device(&link.to_string_lossy()).map(str::to_owned));
        self.devices.insert(mount.device.clone(), device.clone());
        device
    }

    /// What a Lustre client counts for a mount: its folder is named after the file system.
    fn lustre(&self, mount: &Mount) -> Option<(Option<u64>, Option<u64>)> {
        let name = mount.source.rsplit_once(":/")?.1.split('/').next()?;
        ["proc/fs/lustre/llite", "sys/kernel/debug/lustre/llite"].iter().find_map(|folder| {
            let names = self.host.names(folder);
            let instance = names.iter().find(|n| n.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')))?;
            Some(parse::lustre(&self.host.read(format!("{folder}/{instance}/stats")).ok()?))
        })
    }
}

impl Collector for Mounts {
    fn name(&self) -> &'static str {
        "mount"
    }

    fn tables(&self) -> Vec<Table> {
        vec![MountRow::table(), NfsOperationRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        let survey = Survey::of(&self.host, &self.target.processes());
        self.reasons.say(out, "mount", "", survey.refused.then_some(files::REFUSED));
        let open = self.remember(&survey);
        self.drops += survey.left;
        let mounts: Vec<Mount> = self.seen.values().cloned().collect();
        let nfs = if mounts.iter().any(|mount| mount.kind.starts_with("nfs")) {
            let pids = survey.spaces.iter().map(|space| space.pid);
            let read = |pid| self.host.read(format!("proc/{pid}/mountstats")).map(|text| nfs::mountstats(&text));
            pids.filter_map(|pid| read(pid).ok()).flatten().collect()
        } else {
            Vec::new()
        };
        for mount in mounts {
            let mut row = MountRow {
                mount: mount.point.as_str().into(),
                kind: mount.kind.as_str().into(),
                source: mount.source.as_str().into(),
                class: mount.class().name().into(),
                device: self.device(&mount).into(),
                files: open.get(&mount.point).copied().unwrap_or(0).into(),
                ..MountRow::default()
            };
            if let Some(statistics) = nfs.iter().rfind(|statistics| is_of(statistics, &mount)) {
                row.read_bytes = statistics.bytes.map(|bytes| bytes.read).into();
                row.write_bytes = statistics.bytes.map(|bytes| bytes.written).into();
                row.requested_bytes = statistics.bytes.map(|bytes| bytes.requested).into();
                operations(statistics, out);
            } else if let Some((read, written)) = (mount.kind == "lustre").then(|| self.lustre(&mount)).flatten() {
                row.read_bytes = read.into();
                row.write_bytes = written.into();
            }
            let why = row.read_bytes.0.is_none().then(|| uncounted(mount.class()));
            self.reasons.say(out, "mount.read_bytes", &mount.point, why);
            out.push(row);
        }
        Ok(())
    }

    fn background(&mut self) -> Background {
        Background { drops: std::mem::take(&mut self.drops), ..Background::default() }
    }
}

fn is_of(statistics: &Statistics, mount: &Mount) -> bool {
    statistics.point == mount.point && statistics.kind == mount.kind && statistics.source == mount.source
}

fn operations(statistics: &Statistics, out: &mut Rows<'_>) {
    let used = |operation: &&Operation| operation.operations > 0 && OPERATIONS.contains(&operation.name.as_str());
    for operation in statistics.operations.iter().filter(used) {
        let nanos = |ms: u64| ms.checked_mul(MILLI);
        out.push(NfsOperationRow {
            mount: statistics.point.as_str().into(),
            operation: operation.name.as_str().into(),
            operations: operation.operations.into(),
            transmissions: operation.transmissions.into(),
            timeouts: operation.timeouts.into(),
            errors: operation.errors.into(),
            sent_bytes: operation.sent.into(),
            received_bytes: operation.received.into(),
            queue_time: nanos(operation.queue_ms).into(),
            response_time: nanos(operation.response_ms).into(),
            execute_time: nanos(operation.execute_ms).into(),
        });
    }
}

/// Why a mount has no byte counters.
fn uncounted(class: Class) -> &'static str {
    match class {
        Class::Disk | Class::Overlay => "local mounts are not counted one by one; `disk` counts their device",
        Class::Network => "this file system counts no bytes per mount that can be read",
        Class::Fuse => "a FUSE mount counts no bytes; `process.read` and `socket` see them elsewhere",
        Class::Memory | Class::Pseudo => "its bytes are memory",
    }
}

#[cfg(test)]
mod tests;
