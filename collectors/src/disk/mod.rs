//! Block devices: what they read and wrote, and how long it took.

use feedline_traces::unit::{Bytes, Count, Nanos};
use feedline_traces::{Background, Collector, Counter, Gauge, Key, Result, Row as _, Rows, Table, Text, table};

use crate::absent::{AbsentRow, Reasons};
use crate::{Context, Host};

pub mod parse;

use parse::{Device, Kind};

/// Devices of one reading; a machine with more has their rows dropped and counted.
const LIMIT: usize = 256;
const SECTOR: u64 = 512;
const MILLI: u64 = 1_000_000;

table! {
    /// Block-device activity, one row per device per tick. Partitions are left out, and so are
    /// loop, memory and removable devices that never did anything. A request to a mapped or RAID
    /// device is counted again at the disks beneath it.
    pub disk: DiskRow {
        /// Kernel name of the device.
        device: Key,
        /// `disk`, `mapped` (LVM, encryption, multipath), `raid`, `loop`, `memory` or `removable`.
        kind: Text,
        /// Reads completed since boot.
        reads: Counter<Count>,
        /// Writes completed since boot.
        writes: Counter<Count>,
        /// Bytes read since boot.
        read_bytes: Counter<Bytes>,
        /// Bytes written since boot.
        write_bytes: Counter<Bytes>,
        /// Time that reads took since boot, added up over requests.
        read_time: Counter<Nanos>,
        /// Time that writes took since boot, added up over requests.
        write_time: Counter<Nanos>,
        /// Time in which at least one request was in flight, since boot.
        busy: Counter<Nanos>,
        /// Time that all requests took since boot, added up; its rate is the mean queue depth.
        queue_time: Counter<Nanos>,
        /// Requests in flight at the moment.
        in_flight: Gauge<Count>,
        /// Reads merged into others before they were issued, since boot.
        reads_merged: Counter<Count>,
        /// Writes merged into others before they were issued, since boot.
        writes_merged: Counter<Count>,
        /// Discards completed since boot; counted from Linux 4.18 on.
        discards: Counter<Count>,
        /// Bytes discarded since boot.
        discard_bytes: Counter<Bytes>,
        /// Time that discards took since boot, added up.
        discard_time: Counter<Nanos>,
        /// Flushes completed since boot; counted from Linux 5.5 on.
        flushes: Counter<Count>,
        /// Time that flushes took since boot, added up.
        flush_time: Counter<Nanos>,
    }
}

/// Reads `/proc/diskstats`.
#[derive(Debug)]
pub struct Disks {
    host: Host,
    reasons: Reasons,
    drops: u64,
}

impl Disks {
    /// The disks of a machine.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self { host: context.host.clone(), reasons: Reasons::default(), drops: 0 }
    }
}

impl Collector for Disks {
    fn name(&self) -> &'static str {
        "disk"
    }

    fn tables(&self) -> Vec<Table> {
        vec![DiskRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        let devices = parse::diskstats(&self.host.read("proc/diskstats")?)?;
        let shown = shown(&devices);
        self.drops += shown.len().saturating_sub(LIMIT) as u64;
        for device in shown.into_iter().take(LIMIT) {
            let why = device.discards.is_none().then_some("this kernel counts no discards; Linux 4.18 and later do");
            self.reasons.say(out, "disk.discards", &device.name, why);
            let why = device.flushes.is_none().then_some("this kernel counts no flushes; Linux 5.5 and later do");
            self.reasons.say(out, "disk.flushes", &device.name, why);
            out.push(row(device));
        }
        Ok(())
    }

    fn background(&mut self) -> Background {
        Background { drops: std::mem::take(&mut self.drops), ..Background::default() }
    }
}

/// The devices that have a row. A partition stands somewhere after its device.
fn shown(devices: &[Device]) -> Vec<&Device> {
    let mut shown: Vec<&Device> = Vec::new();
    for device in devices {
        let idle = device.reads == 0 && device.writes == 0 && device.in_flight == 0;
        let hidden = idle && !matches!(Kind::of(&device.name), Kind::Disk | Kind::Mapped | Kind::Raid);
        if !hidden && !shown.iter().any(|whole| parse::is_partition_of(&device.name, &whole.name)) {
            shown.push(device);
        }
    }
    shown
}

fn row(device: &Device) -> DiskRow {
    let bytes = |sectors: u64| sectors.checked_mul(SECTOR);
    let nanos = |ms: u64| ms.checked_mul(MILLI);
    let discards = device.discards;
    let flushes = device.flushes;
    DiskRow {
        device: device.name.as_str().into(),
        kind: Kind::of(&device.name).name().into(),
        reads: device.reads.into(),
        writes: device.writes.into(),
        read_bytes: bytes(device.sectors_read).into(),
        write_bytes: bytes(device.sectors_written).into(),
        read_time: nanos(device.read_ms).into(),
        write_time: nanos(device.write_ms).into(),
        busy: nanos(device.busy_ms).into(),
        queue_time: nanos(device.weighted_ms).into(),
        in_flight: device.in_flight.into(),
        reads_merged: device.reads_merged.into(),
        writes_merged: device.writes_merged.into(),
        discards: discards.map(|d| d.count).into(),
        discard_bytes: discards.and_then(|d| bytes(d.sectors)).into(),
        discard_time: discards.and_then(|d| nanos(d.ms)).into(),
        flushes: flushes.map(|f| f.count).into(),
        flush_time: flushes.and_then(|f| nanos(f.ms)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readings::{Readings, captured};
    use std::sync::Arc;

    fn machine(diskstats: &str) -> (tempfile::TempDir, Disks) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        std::fs::write(root.path().join("proc/diskstats"), diskstats).unwrap();
        let disks = Disks::new(&captured(root.path()));
        (root, disks)
    }

    #[test]
    fn a_captured_machine_reads_as_node_exporter_reads_it() {
        let (_root, mut disks) = machine(include_str!("testdata/diskstats"));
        let readings = Readings::of(&mut disks);
        assert_eq!(
            readings.entities("disk").join(" "),
            "dm-0 dm-1 dm-2 dm-3 dm-4 dm-5 fd0 mmcblk0 nvme0n1 sda sdb sdc vda"
        );
        for line in include_str!("testdata/expected").lines() {
            let [column, device, value] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let read = readings.number(&format!("disk.{column}"), &[device]).unwrap();
            let expected: f64 = value.parse().unwrap();
            assert!((read - expected).abs() <= 1e-9 * expected, "{line}: {read}");
        }
    }

    #[test]
    fn what_a_kernel_does_not_count_is_missing_with_a_reason() {
        let (_root, mut disks) = machine(include_str!("testdata/diskstats"));
        let readings = Readings::of(&mut disks);
        assert_eq!(readings.whole("disk.discards", &["sda"]), None);
        assert!(readings.reason("disk.discards", "sda").unwrap().contains("4.18"));
        assert_eq!(readings.whole("disk.discards", &["sdb"]), Some(68_851));
        assert_eq!(readings.reason("disk.discards", "sdb"), None);
    }

    #[test]
    fn an_idle_loop_device_is_left_out_and_one_in_use_is_shown() {
        let (_root, mut disks) = machine("7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n7 1 loop1 3 0 6 1 0 0 0 0 0 1 1\n");
        let readings = Readings::of(&mut disks);
        assert_eq!(readings.entities("disk"), ["loop1"]);
        assert_eq!(readings.text("disk.kind", &["loop1"]).unwrap(), "loop");
    }

    #[test]
    fn a_line_that_cannot_be_read_fails_with_its_place() {
        let (_root, mut disks) = machine("8 0 sda 1 2 x 4 5 6 7 8 9 10 11\n");
        let schema = feedline_traces::Schema::new(disks.tables()).unwrap();
        let error = disks.collect(&mut Rows::new(&schema, feedline_traces::Ts(0))).unwrap_err();
        assert_eq!(error.message, "proc/diskstats:1: expected sectors read, found `x`");
    }

    #[test]
    fn this_machine_can_be_read() {
        let clock = Arc::new(feedline_traces::SystemClock::anchored_now());
        Readings::of(&mut Disks::new(&Context::new(Host::this(), clock)));
    }
}
