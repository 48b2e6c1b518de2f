//! `/proc/diskstats`, whose lines have 14, 18 or 20 fields depending on the kernel.

use feedline_traces::{Error, Result};

/// One line: the counters of a block device or partition since boot, as the kernel writes them.
/// Sectors are of 512 bytes whatever the device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// Kernel name.
    pub name: String,
    /// Reads completed.
    pub reads: u64,
    /// Reads merged into others before they were issued.
    pub reads_merged: u64,
    /// Sectors read.
    pub sectors_read: u64,
    /// Milliseconds that reads took, added up.
    pub read_ms: u64,
    /// Writes completed.
    pub writes: u64,
    /// Writes merged into others before they were issued.
    pub writes_merged: u64,
    /// Sectors written.
    pub sectors_written: u64,
    /// Milliseconds that writes took, added up.
    pub write_ms: u64,
    /// Requests issued and not completed.
    pub in_flight: u64,
    /// Milliseconds in which at least one request was in flight.
    pub busy_ms: u64,
    /// Milliseconds that all requests took, added up, those in flight included.
    pub weighted_ms: u64,
    /// Discards, from Linux 4.18 on.
    pub discards: Option<Discards>,
    /// Flushes, from Linux 5.5 on.
    pub flushes: Option<Flushes>,
}

/// Discard counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Discards {
    /// Discards completed.
    pub count: u64,
    /// Sectors discarded.
    pub sectors: u64,
    /// Milliseconds that discards took, added up.
    pub ms: u64,
}

/// Flush counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flushes {
    /// Flushes completed.
    pub count: u64,
    /// Milliseconds that flushes took, added up.
    pub ms: u64,
}

/// What stands behind a device's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A device of its own: SATA, NVMe, virtio, MMC.
    Disk,
    /// Device mapper: LVM, encryption, multipath.
    Mapped,
    /// Software RAID.
    Raid,
    /// A file seen as a device.
    Loop,
    /// Memory seen as a device: ram, zram.
    Memory,
    /// A device that is often there without a medium: optical drive, floppy, network block device.
    Removable,
}

impl Kind {
    /// The kind of a device, by its kernel name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        const PREFIXES: [(&str, Kind); 8] = [
            ("dm-", Kind::Mapped),
            ("md", Kind::Raid),
            ("loop", Kind::Loop),
            ("ram", Kind::Memory),
            ("zram", Kind::Memory),
            ("sr", Kind::Removable),
            ("fd", Kind::Removable),
            ("nbd", Kind::Removable),
        ];
        let numbered = |prefix: &str| {
            let rest = name.strip_prefix(prefix)?;
            rest.starts_with(|c: char| c.is_ascii_digit()).then_some(())
        };
        PREFIXES.iter().find(|(prefix, _)| numbered(prefix).is_some()).map_or(Self::Disk, |(_, kind)| *kind)
    }

    /// The kind as it stands in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Mapped => "mapped",
            Self::Raid => "raid",
            Self::Loop => "loop",
            Self::Memory => "memory",
            Self::Removable => "removable",
        }
    }
}

/// Reads the whole file.
///
/// # Errors
/// When a line has too few fields or one that is no whole number.
pub fn diskstats(text: &str) -> Result<Vec<Device>> {
    let mut devices = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if !line.trim().is_empty() {
            devices.push(device(line).map_err(|error| error.at(format_args!("proc/diskstats:{}", index + 1)))?);
        }
    }
    Ok(devices)
}

fn device(line: &str) -> Result<Device> {
    let mut fields = line.split_ascii_whitespace();
    let mut next = |name: &str| match fields.next() {
        Some(field) => Ok(field),
        None => Err(Error::new(format!("expected {name}, found the end of the line"))),
    };
    next("major number")?;
    next("minor number")?;
    let name = next("device name")?.to_owned();
    let mut number = |name: &str| {
        let field = next(name)?;
        field.parse::<u64>().map_err(|_| Error::new(format!("expected {name}, found `{field}`")))
    };
    let mut device = Device {
        name,
        reads: number("reads")?,
        reads_merged: number("reads merged")?,
        sectors_read: number("sectors read")?,
        read_ms: number("read time")?,
        writes: number("writes")?,
        writes_merged: number("writes merged")?,
        sectors_written: number("sectors written")?,
        write_ms: number("write time")?,
        in_flight: number("requests in flight")?,
        busy_ms: number("busy time")?,
        weighted_ms: number("weighted time")?,
        discards: None,
        flushes: None,
    };
    let rest = line.split_ascii_whitespace().skip(14).count();
    if rest >= 4 {
        let count = number("discards")?;
        number("discards merged")?;
        device.discards = Some(Discards { count, sectors: number("sectors discarded")?, ms: number("discard time")? });
    }
    if rest >= 6 {
        device.flushes = Some(Flushes { count: number("flushes")?, ms: number("flush time")? });
    }
    Ok(device)
}

/// Whether a name is a partition of a device: `sda1` of `sda`, `nvme0n1p2` of `nvme0n1`.
#[must_use]
pub fn is_partition_of(name: &str, device: &str) -> bool {
    let Some(rest) = name.strip_prefix(device) else { return false };
    let number = if device.ends_with(|c: char| c.is_ascii_digit()) { rest.strip_prefix('p') } else { Some(rest) };
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_every_length_that_kernels_have_written_are_read() {
        let devices = diskstats(include_str!("testdata/diskstats")).unwrap();
        let find = |name: &str| devices.iter().find(|d| d.name == name).unwrap();
        let fourteen = find("nvme0n1");
        assert_eq!((fourteen.sectors_read, fourteen.busy_ms, fourteen.weighted_ms), (4_643_973, 222_766, 1_032_546));
        assert_eq!((fourteen.discards, fourteen.flushes), (None, None));
        let eighteen = find("sdb");
        assert_eq!(eighteen.discards, Some(Discards { count: 68_851, sectors: 1_925_173_784, ms: 11_130 }));
        assert_eq!(eighteen.flushes, None);
        assert_eq!(find("sdc").flushes, Some(Flushes { count: 1_555, ms: 1_944 }));
    }

    #[test]
    fn an_error_names_line_field_and_value() {
        let text = "8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n8 16 sdb 1 2 x 4 5 6 7 8 9 10 11";
        assert_eq!(diskstats(text).unwrap_err().message, "proc/diskstats:2: expected sectors read, found `x`");
        let short = diskstats("8 0 sda 1").unwrap_err().message;
        assert_eq!(short, "proc/diskstats:1: expected reads merged, found the end of the line");
    }

    #[test]
    fn kinds_and_partitions_are_told_by_name() {
        let kinds = [("sda", Kind::Disk), ("mdev", Kind::Disk), ("md127", Kind::Raid), ("zram0", Kind::Memory)];
        assert!(kinds.iter().all(|(name, kind)| Kind::of(name) == *kind));
        assert!(is_partition_of("sda12", "sda") && is_partition_of("nvme0n1p2", "nvme0n1"));
        assert!(
            !is_partition_of("nvme0n12", "nvme0n1")
                && !is_partition_of("sdab", "sda")
                && !is_partition_of("sda", "sda")
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(?s).{0,200}|([0-9a-z -]{0,30}\n?){0,40}") {
            let _ = diskstats(&text);
            let _ = is_partition_of(&text, "é");
        }
    }
}
