//! Which system calls block in which state, as data, for each architecture.

use super::state::State;

/// An architecture, for the numbers of its system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm, and every other that uses the kernel's generic table (RISC-V, LoongArch).
    Generic,
}

impl Arch {
    /// The one Feedline was built for.
    pub(crate) const THIS: Self = if cfg!(target_arch = "x86_64") { Self::X86_64 } else { Self::Generic };
}

/// How a call that waits for descriptors says that it has none, and so only sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// Blocks in this state.
    In(State),
    /// `select` and kin: the count of descriptors is this argument; with none the call sleeps.
    Descriptors(usize),
}

use Call::{Descriptors, In};
use State::{Futex, Poll, Read, Sleep, Wait, Write};

/// The state a thread is in while blocked in a call, given its arguments. `None` for a call that
/// says nothing, such as `ioctl`.
pub(crate) fn state_of(arch: Arch, number: i64, arguments: &[u64]) -> Option<State> {
    let table: &[(i64, Call)] = match arch {
        Arch::X86_64 => X86_64,
        Arch::Generic => GENERIC,
    };
    let (_, call) = table.iter().find(|(n, _)| *n == number)?;
    Some(match *call {
        In(state) => state,
        Descriptors(index) if arguments.get(index) == Some(&0) => Sleep,
        Descriptors(_) => Poll,
    })
}

/// The commonest first: the table is searched in order.
#[rustfmt::skip]
const X86_64: &[(i64, Call)] = &[
    (202, In(Futex)),        // futex
    (7, Descriptors(1)),     // poll
    (230, In(Sleep)),        // clock_nanosleep
    (0, In(Read)),           // read
    (232, In(Poll)),         // epoll_wait
    (1, In(Write)),          // write
    (23, Descriptors(0)),    // select
    (270, Descriptors(0)),   // pselect6
    (271, Descriptors(1)),   // ppoll
    (281, In(Poll)),         // epoll_pwait
    (441, In(Poll)),         // epoll_pwait2
    (17, In(Read)),          // pread64
    (19, In(Read)),          // readv
    (295, In(Read)),         // preadv
    (327, In(Read)),         // preadv2
    (45, In(Read)),          // recvfrom
    (47, In(Read)),          // recvmsg
    (299, In(Read)),         // recvmmsg
    (40, In(Read)),          // sendfile
    (275, In(Read)),         // splice
    (326, In(Read)),         // copy_file_range
    (187, In(Read)),         // readahead
    (208, In(Read)),         // io_getevents
    (333, In(Read)),         // io_pgetevents
    (426, In(Read)),         // io_uring_enter
    (243, In(Read)),         // mq_timedreceive
    (70, In(Read)),          // msgrcv
    (2, In(Read)),           // open
    (257, In(Read)),         // openat
    (437, In(Read)),         // openat2
    (4, In(Read)),           // stat
    (5, In(Read)),           // fstat
    (6, In(Read)),           // lstat
    (21, In(Read)),          // access
    (262, In(Read)),         // newfstatat
    (269, In(Read)),         // faccessat
    (332, In(Read)),         // statx
    (78, In(Read)),          // getdents
    (217, In(Read)),         // getdents64
    (89, In(Read)),          // readlink
    (267, In(Read)),         // readlinkat
    (18, In(Write)),         // pwrite64
    (20, In(Write)),         // writev
    (296, In(Write)),        // pwritev
    (328, In(Write)),        // pwritev2
    (44, In(Write)),         // sendto
    (46, In(Write)),         // sendmsg
    (307, In(Write)),        // sendmmsg
    (74, In(Write)),         // fsync
    (75, In(Write)),         // fdatasync
    (277, In(Write)),        // sync_file_range
    (162, In(Write)),        // sync
    (306, In(Write)),        // syncfs
    (26, In(Write)),         // msync
    (76, In(Write)),         // truncate
    (77, In(Write)),         // ftruncate
    (285, In(Write)),        // fallocate
    (82, In(Write)),         // rename
    (264, In(Write)),        // renameat
    (316, In(Write)),        // renameat2
    (87, In(Write)),         // unlink
    (263, In(Write)),        // unlinkat
    (83, In(Write)),         // mkdir
    (258, In(Write)),        // mkdirat
    (242, In(Write)),        // mq_timedsend
    (69, In(Write)),         // msgsnd
    (449, In(Futex)),        // futex_waitv
    (455, In(Futex)),        // futex_wait
    (65, In(Futex)),         // semop
    (220, In(Futex)),        // semtimedop
    (35, In(Sleep)),         // nanosleep
    (42, In(Poll)),          // connect
    (43, In(Poll)),          // accept
    (288, In(Poll)),         // accept4
    (61, In(Wait)),          // wait4
    (247, In(Wait)),         // waitid
    (34, In(Wait)),          // pause
    (128, In(Wait)),         // rt_sigtimedwait
    (130, In(Wait)),         // rt_sigsuspend
];

#[rustfmt::skip]
const GENERIC: &[(i64, Call)] = &[
    (98, In(Futex)),         // futex
    (73, Descriptors(1)),    // ppoll
    (115, In(Sleep)),        // clock_nanosleep
    (63, In(Read)),          // read
    (22, In(Poll)),          // epoll_pwait
    (64, In(Write)),         // write
    (72, Descriptors(0)),    // pselect6
    (441, In(Poll)),         // epoll_pwait2
    (67, In(Read)),          // pread64
    (65, In(Read)),          // readv
    (69, In(Read)),          // preadv
    (286, In(Read)),         // preadv2
    (207, In(Read)),         // recvfrom
    (212, In(Read)),         // recvmsg
    (243, In(Read)),         // recvmmsg
    (71, In(Read)),          // sendfile
    (76, In(Read)),          // splice
    (285, In(Read)),         // copy_file_range
    (213, In(Read)),         // readahead
    (4, In(Read)),           // io_getevents
    (292, In(Read)),         // io_pgetevents
    (426, In(Read)),         // io_uring_enter
    (183, In(Read)),         // mq_timedreceive
    (188, In(Read)),         // msgrcv
    (56, In(Read)),          // openat
    (437, In(Read)),         // openat2
    (79, In(Read)),          // newfstatat
    (80, In(Read)),          // fstat
    (48, In(Read)),          // faccessat
    (291, In(Read)),         // statx
    (61, In(Read)),          // getdents64
    (78, In(Read)),          // readlinkat
    (68, In(Write)),         // pwrite64
    (66, In(Write)),         // writev
    (70, In(Write)),         // pwritev
    (287, In(Write)),        // pwritev2
    (206, In(Write)),        // sendto
    (211, In(Write)),        // sendmsg
    (269, In(Write)),        // sendmmsg
    (82, In(Write)),         // fsync
    (83, In(Write)),         // fdatasync
    (84, In(Write)),         // sync_file_range
    (81, In(Write)),         // sync
    (267, In(Write)),        // syncfs
    (227, In(Write)),        // msync
    (45, In(Write)),         // truncate
    (46, In(Write)),         // ftruncate
    (47, In(Write)),         // fallocate
    (38, In(Write)),         // renameat
    (276, In(Write)),        // renameat2
    (35, In(Write)),         // unlinkat
    (34, In(Write)),         // mkdirat
    (182, In(Write)),        // mq_timedsend
    (189, In(Write)),        // msgsnd
    (449, In(Futex)),        // futex_waitv
    (455, In(Futex)),        // futex_wait
    (193, In(Futex)),        // semop
    (192, In(Futex)),        // semtimedop
    (101, In(Sleep)),        // nanosleep
    (203, In(Poll)),         // connect
    (202, In(Poll)),         // accept
    (242, In(Poll)),         // accept4
    (260, In(Wait)),         // wait4
    (95, In(Wait)),          // waitid
    (137, In(Wait)),         // rt_sigtimedwait
    (133, In(Wait)),         // rt_sigsuspend
];

/// What the kernel function a thread sleeps in says, where the system call says nothing or cannot
/// be read. Matched by the start of the name: the kernel adds suffixes (`.isra.0`, `_common`).
pub(super) fn state_of_wchan(wchan: &str) -> Option<State> {
    WCHAN.iter().find(|(start, _)| wchan.starts_with(start)).map(|(_, state)| *state)
}

#[rustfmt::skip]
const WCHAN: &[(&str, State)] = &[
    ("futex_", Futex),
    ("__futex_wait", Futex),
    ("do_futex", Futex),
    ("poll_schedule_timeout", Poll),
    ("do_poll", Poll),
    ("do_sys_poll", Poll),
    ("do_select", Poll),
    ("ep_poll", Poll),
    ("do_epoll_wait", Poll),
    ("hrtimer_nanosleep", Sleep),
    ("do_nanosleep", Sleep),
    ("pipe_read", Read),
    ("anon_pipe_read", Read),
    ("pipe_wait_readable", Read),
    ("unix_stream_read", Read),
    ("unix_stream_data_wait", Read),
    ("sk_wait_data", Read),
    ("wait_woken", Read),
    ("__skb_wait_for_more", Read),
    ("eventfd_read", Read),
    ("request_wait_answer", Read),
    ("io_cqring_wait", Read),
    ("read_events", Read),
    ("pipe_write", Write),
    ("anon_pipe_write", Write),
    ("sk_stream_wait_memory", Write),
    ("sock_alloc_send_pskb", Write),
    ("do_wait", Wait),
    ("kernel_wait", Wait),
    ("sigsuspend", Wait),
    ("do_sigtimedwait", Wait),
    ("folio_wait", State::Disk),
    ("wait_on_page", State::Disk),
    ("io_schedule", State::Disk),
    ("blk_", State::Disk),
    ("rq_qos_wait", State::Disk),
    ("rpc_wait_bit", State::Disk),
    ("nfs_", State::Disk),
    ("wait_on_buffer", State::Disk),
    ("jbd2_", State::Disk),
    ("xfs_", State::Disk),
];
