//! Memory of the machine, and the shared memory through which loaders hand batches over.

use std::path::PathBuf;

use feedline_traces::unit::Bytes;
use feedline_traces::{Collector, Gauge, Key, Result, Row as _, Rows, Table, table};

use crate::absent::{AbsentRow, Reasons};
use crate::{Context, Host, Role, Target};

pub mod parse;

table! {
    /// Memory of the machine, once a tick.
    pub memory: MemoryRow {
        /// Always `host`.
        scope: Key,
        /// All memory that the kernel manages.
        total: Gauge<Bytes>,
        /// Not used for anything.
        free: Gauge<Bytes>,
        /// What could be given to programs without swapping, as the kernel estimates it.
        available: Gauge<Bytes>,
        /// Page cache, shared memory included, block-device buffers not.
        cached: Gauge<Bytes>,
        /// Page cache of block devices.
        buffers: Gauge<Bytes>,
        /// File pages that reclaim would take first.
        inactive_file: Gauge<Bytes>,
        /// Changed and not yet being written.
        dirty: Gauge<Bytes>,
        /// Being written.
        writeback: Gauge<Bytes>,
        /// Shared memory and tmpfs.
        shmem: Gauge<Bytes>,
        /// Swap space.
        swap_total: Gauge<Bytes>,
        /// Swap in use.
        swap_used: Gauge<Bytes>,
        /// Size of the job's `/dev/shm`, which PyTorch workers fill with batches.
        shm_total: Gauge<Bytes>,
        /// Used of the job's `/dev/shm`.
        shm_used: Gauge<Bytes>,
    }
}

/// Reads `/proc/meminfo` and the fill of `/dev/shm`.
pub struct Memory {
    host: Host,
    target: Target,
    reasons: Reasons,
}

impl Memory {
    /// The memory of a machine.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self { host: context.host.clone(), target: context.target.clone(), reasons: Reasons::default() }
    }

    /// Size and use of the `/dev/shm` that the job sees, or why it is not known.
    fn shm(&self) -> std::result::Result<(u64, u64), &'static str> {
        if !self.host.is_live() {
            return Err("a captured machine has no `/dev/shm` to ask");
        }
        let trainer = self.target.processes().iter().find(|p| p.role == Role::Trainer).map(|p| p.pid);
        // In a container `/dev/shm` is another one, often of 64 MiB.
        let inside = trainer.map(|pid| self.host.path(format!("proc/{pid}/root/dev/shm")));
        let candidates: Vec<PathBuf> = inside.into_iter().chain([self.host.path("dev/shm")]).collect();
        let found = candidates.iter().find_map(|path| rustix::fs::statfs(path).ok());
        let Some(stat) = found else { return Err("there is no `/dev/shm`") };
        if i128::from(stat.f_type) != TMPFS {
            return Err("`/dev/shm` is not a tmpfs");
        }
        let size = u64::try_from(stat.f_bsize).unwrap_or(0);
        let bytes = |blocks: u64| blocks.saturating_mul(size);
        Ok((bytes(stat.f_blocks), bytes(stat.f_blocks.saturating_sub(stat.f_bfree))))
    }
}

/// The type that the kernel gives to tmpfs.
const TMPFS: i128 = 0x0102_1994;

impl Collector for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn tables(&self) -> Vec<Table> {
        vec![MemoryRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        let text = self.host.read("proc/meminfo")?;
        let read = |name: &str| parse::bytes(&text, name);
        let available = read("MemAvailable");
        let why = available.is_none().then_some("this kernel estimates no available memory; Linux 3.14 and later do");
        self.reasons.say(out, "memory.available", "", why);
        let shm = self.shm();
        self.reasons.say(out, "memory.shm_used", "", shm.err());
        let swap = read("SwapTotal");
        out.push(MemoryRow {
            scope: "host".into(),
            total: read("MemTotal").into(),
            free: read("MemFree").into(),
            available: available.into(),
            cached: read("Cached").into(),
            buffers: read("Buffers").into(),
            inactive_file: read("Inactive(file)").into(),
            dirty: read("Dirty").into(),
            writeback: read("Writeback").into(),
            shmem: read("Shmem").into(),
            swap_total: swap.into(),
            swap_used: swap.zip(read("SwapFree")).map(|(total, free)| total.saturating_sub(free)).into(),
            shm_total: shm.ok().map(|(total, _)| total).into(),
            shm_used: shm.ok().map(|(_, used)| used).into(),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readings::{Readings, captured};
    use std::sync::Arc;

    fn of(meminfo: &str) -> Readings {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        std::fs::write(root.path().join("proc/meminfo"), meminfo).unwrap();
        Readings::of(&mut Memory::new(&captured(root.path())))
    }

    #[test]
    fn a_captured_machine_reads_as_node_exporter_reads_it() {
        let readings = of(include_str!("testdata/meminfo"));
        let expected = [
            ("total", 3_831_959_552.0),
            ("free", 230_883_328.0),
            ("cached", 953_229_312.0),
            ("buffers", 22_568_960.0),
            ("inactive_file", 149_172_224.0),
            ("dirty", 1_077_248.0),
            ("writeback", 0.0),
            ("shmem", 608_092_160.0),
            ("swap_total", 4_294_963_200.0),
            ("swap_used", 4_294_963_200.0 - 3_231_088_640.0),
        ];
        for (column, value) in expected {
            assert_eq!(readings.number(&format!("memory.{column}"), &["host"]), Some(value), "{column}");
        }
    }

    #[test]
    fn what_an_old_kernel_or_a_capture_cannot_say_is_missing_with_a_reason() {
        let readings = of(include_str!("testdata/meminfo"));
        assert_eq!(readings.number("memory.available", &["host"]), None);
        assert!(readings.reason("memory.available", "").unwrap().contains("3.14"));
        assert_eq!(readings.number("memory.shm_used", &["host"]), None);
        assert!(readings.reason("memory.shm_used", "").unwrap().contains("captured"));
        let readings = of(include_str!("testdata/meminfo-6.18"));
        assert!(readings.number("memory.available", &["host"]).is_some());
        assert_eq!(readings.reason("memory.available", ""), None);
    }

    #[test]
    fn this_machine_has_memory() {
        let clock = Arc::new(feedline_traces::SystemClock::anchored_now());
        let readings = Readings::of(&mut Memory::new(&Context::new(Host::this(), clock)));
        let cell = |column: &str| readings.number(&format!("memory.{column}"), &["host"]).unwrap();
        assert!(cell("total") > cell("available") && cell("available") > 0.0);
    }
}
