//! Two calls without a safe wrapper, made so that they can do nothing but say whether they would work.

#![expect(unsafe_code, reason = "process_vm_readv and cachestat have no safe wrapper")]

use std::io;

/// The number of `cachestat`, which every architecture shares.
const CACHESTAT: libc::c_long = 451;

/// Whether the memory of a process may be read. Its address 0 is asked for, which nobody maps: a
/// right gives `EFAULT`, no right `EPERM`.
///
/// # Errors
/// What the kernel refuses with: `EPERM`, `ESRCH`, `ENOSYS`.
pub(super) fn read_memory(pid: u32) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let mut byte = [0_u8; 1];
    let local = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 1 };
    // SAFETY: both vectors live through the call, `local` points to one writable byte of this
    // process, and `remote` is an address in another process that the kernel checks.
    let outcome = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    let error = io::Error::last_os_error();
    if outcome >= 0 || error.raw_os_error() == Some(libc::EFAULT) { Ok(()) } else { Err(error) }
}

/// Whether `cachestat` exists. It is asked about no file: where it exists it says `EBADF`.
///
/// # Errors
/// What the kernel refuses with: `ENOSYS` before Linux 6.5, `EPERM` under some container filters.
pub(super) fn cachestat() -> io::Result<()> {
    let null = std::ptr::null_mut::<u64>();
    // SAFETY: file descriptor -1 is refused before either pointer is followed, and the kernel
    // checks the null pointers if it were not.
    let outcome = unsafe { libc::syscall(CACHESTAT, -1_i32, null, null, 0 as libc::c_uint) };
    let error = io::Error::last_os_error();
    let exists = outcome == 0 || matches!(error.raw_os_error(), Some(libc::EBADF | libc::EFAULT));
    if exists { Ok(()) } else { Err(error) }
}
