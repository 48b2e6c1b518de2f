//! The programs' maps as values: the layouts of `bpf/kernel.bpf.c`, and what they mean. Pure.

use crate::thread::{Arch, On, State, state_of};

/// Key and sum of block requests: `device` is `major << 20 | minor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) operation: u16,
    bucket: u16,
}

impl Block {
    pub(super) fn of(key: [u32; 2]) -> Self {
        Self { major: key[0] >> 20, minor: key[0] & 0xf_ffff, operation: low(key[1]), bucket: high(key[1]) }
    }

    /// The kernel's `REQ_OP_*` by name.
    pub(super) fn operation(self) -> &'static str {
        match self.operation {
            0 => "read",
            1 => "write",
            2 => "flush",
            3 => "discard",
            _ => "other",
        }
    }

    /// Upper bound of the latencies in the bucket, in nanoseconds: a power of two.
    pub(super) fn bound(self) -> u64 {
        1_u64.checked_shl(u32::from(self.bucket)).unwrap_or(u64::MAX)
    }
}

/// How a thread left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Blocked,
    Uninterruptible,
    Runnable,
    Stopped,
}

/// Whose time off the CPU, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Off {
    pub(super) tgid: u32,
    pub(super) tid: u32,
    how: How,
    /// The system call in progress; -1 for none, -2 where the kernel does not tell.
    syscall: i16,
    /// Bit n: argument n of the call is 0.
    zeros: u8,
}

impl Off {
    pub(super) fn of(key: [u32; 3]) -> Self {
        let [call_low, call_high, how, zeros] = key[2].to_le_bytes();
        let how = match how {
            0 => How::Blocked,
            1 => How::Uninterruptible,
            2 => How::Runnable,
            _ => How::Stopped,
        };
        Self { tgid: key[0], tid: key[1], how, syscall: i16::from_le_bytes([call_low, call_high]), zeros }
    }

    /// The reason as it stands in `off_cpu.reason`.
    pub(super) fn reason(self, arch: Arch) -> &'static str {
        let argument = |n: u8| u64::from(self.zeros >> n & 1 == 0);
        let call = state_of(arch, i64::from(self.syscall), &[argument(0), argument(1)]);
        match self.how {
            How::Runnable => "queue",
            How::Stopped => "stopped",
            // Without a call in progress it is a page fault that had to wait.
            How::Uninterruptible if self.syscall == -1 => "fault",
            How::Uninterruptible => "io",
            How::Blocked if self.syscall == -2 => "unknown",
            How::Blocked => call.map_or("other", State::name),
        }
    }
}

/// A thread, and since when it is off its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OffNow {
    pub(super) key: [u32; 3],
    since: u64,
    woken: u64,
}

impl OffNow {
    pub(super) fn of(value: [u64; 4]) -> Self {
        let (low, high) = halves(value[2]);
        Self { key: [low, high, halves(value[3]).0], since: value[0], woken: value[1] }
    }

    /// Nanoseconds that are to be added to its sum by now: up to where it was woken, for what came
    /// after counts as waiting for a CPU once it has one. `None` for a thread that has one.
    pub(super) fn pending(self, now: u64) -> Option<u64> {
        if self.since == 0 {
            return None;
        }
        let until = if self.woken > self.since { self.woken } else { now };
        Some(until.saturating_sub(self.since))
    }
}

/// What was read or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct File {
    pub(super) tgid: u32,
    magic: u32,
    operation: u8,
    kind: u8,
}

impl File {
    pub(super) fn of(key: [u32; 3]) -> Self {
        let [operation, kind, ..] = key[2].to_le_bytes();
        Self { tgid: key[0], magic: key[1], operation, kind }
    }

    pub(super) fn operation(self) -> &'static str {
        if self.operation == 0 { "read" } else { "open" }
    }

    /// What kind of file it is, as in `activity.on`; empty for one that could not be opened.
    pub(super) fn on(self) -> &'static str {
        let on = match self.kind {
            0 => On::Unknown,
            0o1 => On::Pipe,
            0o14 => On::Socket,
            0o6 => On::File,
            0o4 | 0o10 => file_system(self.magic),
            _ => On::Other,
        };
        on.name()
    }
}

/// Where the bytes of a file system come from, by its magic number (`statfs(2)`).
fn file_system(magic: u32) -> On {
    match magic {
        // nfs, fuse, ceph, cifs, smb2, smb, lustre, 9p, gpfs, beegfs, afs, coda, ocfs2, gfs2, orangefs
        0x6969 | 0x6573_5546 | 0x00c3_6400 | 0xff53_4d42 | 0xfe53_4d42 | 0x517b | 0x0bd0_0bd0 | 0x0102_1997
        | 0x4750_4653 | 0x1983_0326 | 0x5346_414f | 0x7375_7245 | 0x7461_636f | 0x0116_1970 | 0x2003_0528 => On::Remote,
        // tmpfs, ramfs, hugetlbfs
        0x0102_1994 | 0x8584_58f6 | 0x9584_58f6 => On::Shm,
        // proc, sysfs, cgroup, cgroup2, debugfs, tracefs, devpts, bpf, anonymous inodes
        0x9fa0 | 0x6265_6572 | 0x0027_e0eb | 0x6367_7270 | 0x6462_6720 | 0x7472_6163 | 0x1cd1 | 0xcafe_4a11
        | 0x0904_1934 => On::Other,
        _ => On::File,
    }
}

/// What a thread calls of the device's libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Called {
    pub(super) tgid: u32,
    pub(super) tid: u32,
    pub(super) call: u32,
}

impl Called {
    pub(super) fn of(key: [u32; 4]) -> Self {
        Self { tgid: key[0], tid: key[1], call: key[2] }
    }
}

/// A thread's call in progress: who, and since when; 0 for none.
pub(super) fn call_now(value: [u64; 5]) -> (Called, u64) {
    let ((tgid, tid), (call, _)) = (halves(value[3]), halves(value[4]));
    (Called { tgid, tid, call }, value[0])
}

/// Process and thread of a read or open in progress.
pub(super) fn file_now(value: [u64; 3]) -> (u32, u32) {
    halves(value[2])
}

/// What a map had no room for, in the order of the programs' `enum loss`.
pub(super) const LOSSES: [&str; 8] = [
    "block requests in flight",
    "block histogram",
    "threads off their CPU",
    "off-CPU sums",
    "reads in progress",
    "file sums",
    "device calls in progress",
    "device call sums",
];

fn low(value: u32) -> u16 {
    (value & 0xffff) as u16
}

fn high(value: u32) -> u16 {
    (value >> 16) as u16
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of a word")]
fn halves(value: u64) -> (u32, u32) {
    (value as u32, (value >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn off(syscall: i16, how: u8, zeros: u8) -> &'static str {
        let [a, b] = syscall.to_le_bytes();
        Off::of([7, 8, u32::from_le_bytes([a, b, how, zeros])]).reason(Arch::X86_64)
    }

    #[test]
    fn a_block_key_names_device_operation_and_the_bound_of_its_latencies() {
        let block = Block::of([254 << 20 | 17, 20 << 16 | 1]);
        assert_eq!((block.major, block.minor, block.operation(), block.bound()), (254, 17, "write", 1 << 20));
        assert_eq!(Block::of([0, 9]).operation(), "other");
        assert_eq!(Block::of([0, 64 << 16]).bound(), u64::MAX);
    }

    #[test]
    fn the_reason_off_the_cpu_is_told_from_task_state_and_system_call() {
        assert_eq!(off(202, 0, 0), "futex");
        assert_eq!(off(0, 0, 0), "read");
        assert_eq!(off(0, 1, 0), "io");
        assert_eq!(off(7, 0, 0), "poll");
        // select(0, …) only sleeps.
        assert_eq!(off(23, 0, 1), "sleep");
        assert_eq!(off(-1, 1, 0), "fault");
        assert_eq!(off(-1, 2, 0), "queue");
        assert_eq!(off(-1, 3, 0), "stopped");
        assert_eq!(off(-2, 0, 0), "unknown");
        assert_eq!(off(16, 0, 0), "other");
    }

    #[test]
    fn a_thread_that_is_still_off_its_cpu_is_counted_up_to_now_or_to_where_it_was_woken() {
        let value = |since, woken| [since, woken, 8 << 32 | 7, 202];
        assert_eq!(OffNow::of(value(100, 0)).pending(350), Some(250));
        assert_eq!(OffNow::of(value(100, 300)).pending(350), Some(200));
        assert_eq!(OffNow::of(value(100, 100)).pending(350), Some(250));
        assert_eq!(OffNow::of(value(400, 0)).pending(350), Some(0));
        assert_eq!(OffNow::of(value(0, 0)).pending(350), None);
        assert_eq!(OffNow::of(value(100, 0)).key, [7, 8, 202]);
    }

    #[test]
    fn files_are_told_by_type_and_file_system() {
        let on = |magic, kind: u32| File::of([7, magic, kind << 8]).on();
        assert_eq!(on(0xef53, 0o10), "file");
        assert_eq!(on(0x6573_5546, 0o10), "remote");
        assert_eq!(on(0x0102_1994, 0o10), "shm");
        assert_eq!(on(0x9fa0, 0o10), "other");
        assert_eq!(on(0x5049_5045, 0o1), "pipe");
        assert_eq!(on(0, 0o14), "socket");
        assert_eq!(on(0, 0), "");
        assert_eq!(File::of([7, 0, 1]).operation(), "open");
    }

    #[test]
    fn a_call_in_progress_says_who_and_since_when() {
        let (called, since) = call_now([500, 0, 0, 9 << 32 | 7, 4]);
        assert_eq!((called, since), (Called { tgid: 7, tid: 9, call: 4 }, 500));
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_decoder_panic(key in any::<[u32; 3]>(), value in any::<[u64; 4]>(), now in any::<u64>()) {
            let (off, file) = (Off::of(key), File::of(key));
            prop_assert!(!off.reason(Arch::X86_64).is_empty() && !off.reason(Arch::Generic).is_empty());
            prop_assert!(!file.operation().is_empty() && file.on().len() < 8);
            prop_assert!(OffNow::of(value).pending(now).is_none_or(|time| time <= now.max(value[1])));
            prop_assert!(Block::of([key[0], key[1]]).bound() > 0);
        }
    }
}
