//! Which argument of a system call names what it is on, as data, for each architecture.

use super::super::syscalls::Arch;

/// Where a call names what it is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Object {
    /// This argument is a descriptor.
    Descriptor(usize),
    /// This argument points to a path.
    Path(usize),
    /// This argument is a folder's descriptor, and the next points to a path below it.
    PathAt(usize),
    /// The first points to an array of descriptors, the second counts them.
    Polled,
    /// The first is above all descriptors, the second points to a set of them.
    Selected,
    /// The first is an event loop's descriptor.
    Loop,
}

use Object::{Descriptor, Loop, Path, PathAt, Polled, Selected};

/// Where a call names what it is on; `None` for a call that names nothing.
pub(super) fn object_of(arch: Arch, number: i64) -> Option<Object> {
    let table: &[(Object, &[i64])] = match arch {
        Arch::X86_64 => X86_64,
        Arch::Generic => GENERIC,
    };
    table.iter().find(|(_, numbers)| numbers.contains(&number)).map(|(object, _)| *object)
}

/// The commonest first.
#[rustfmt::skip]
const X86_64: &[(Object, &[i64])] = &[
    // read, write, pread64, readv, recvfrom, recvmsg, pwrite64, writev, sendto, sendmsg, preadv,
    // preadv2, pwritev, pwritev2, recvmmsg, sendmmsg
    (Descriptor(0), &[0, 1, 17, 19, 45, 47, 18, 20, 44, 46, 295, 327, 296, 328, 299, 307]),
    (Polled, &[7, 271]),                // poll, ppoll
    (Loop, &[232, 281, 441]),           // epoll_wait, epoll_pwait, epoll_pwait2
    (Selected, &[23, 270]),             // select, pselect6
    // openat, openat2, newfstatat, faccessat, statx, readlinkat, unlinkat, mkdirat, renameat, renameat2
    (PathAt(0), &[257, 437, 262, 269, 332, 267, 263, 258, 264, 316]),
    // fsync, fdatasync, sync_file_range, syncfs, ftruncate, fallocate, fstat, getdents, getdents64,
    // readahead, splice, copy_file_range, connect, accept, accept4
    (Descriptor(0), &[74, 75, 277, 306, 77, 285, 5, 78, 217, 187, 275, 326, 42, 43, 288]),
    (Descriptor(1), &[40]),             // sendfile
    // open, stat, lstat, access, readlink, truncate, rename, unlink, mkdir
    (Path(0), &[2, 4, 6, 21, 89, 76, 82, 87, 83]),
];

#[rustfmt::skip]
const GENERIC: &[(Object, &[i64])] = &[
    // read, write, pread64, readv, recvfrom, recvmsg, pwrite64, writev, sendto, sendmsg, preadv,
    // preadv2, pwritev, pwritev2, recvmmsg, sendmmsg
    (Descriptor(0), &[63, 64, 67, 65, 207, 212, 68, 66, 206, 211, 69, 286, 70, 287, 243, 269]),
    (Polled, &[73]),                    // ppoll
    (Loop, &[22, 441]),                 // epoll_pwait, epoll_pwait2
    (Selected, &[72]),                  // pselect6
    // openat, openat2, newfstatat, faccessat, statx, readlinkat, unlinkat, mkdirat, renameat, renameat2
    (PathAt(0), &[56, 437, 79, 48, 291, 78, 35, 34, 38, 276]),
    // fsync, fdatasync, sync_file_range, syncfs, ftruncate, fallocate, fstat, getdents64, readahead,
    // splice, copy_file_range, connect, accept, accept4
    (Descriptor(0), &[82, 83, 84, 267, 46, 47, 80, 61, 213, 76, 285, 203, 202, 242]),
    (Descriptor(1), &[71]),             // sendfile
    (Path(0), &[45]),                   // truncate
];
