//! The two calls that tell which pages of a file are in memory. Neither reads the file.

#![expect(unsafe_code, reason = "cachestat has no wrapper yet, and mincore needs a mapping")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr;

/// Pages of a part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pages {
    /// In memory.
    pub(super) cached: u64,
    /// Of those, changed and not yet written; `None` where the call does not tell.
    pub(super) dirty: Option<u64>,
    /// Dropped so recently that reading them again would count as a refault; `None` as above.
    pub(super) evicted: Option<u64>,
}

/// The number of the call, which every architecture shares (Linux 6.5 and later).
const CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The pages of a range, by `cachestat`.
///
/// # Errors
/// `ENOSYS` before Linux 6.5, `EPERM` where the file belongs to somebody else (later kernels).
pub(super) fn cachestat(file: &File, offset: u64, length: u64) -> io::Result<Pages> {
    let range = Range { offset, length };
    let mut stat = Cachestat::default();
    // SAFETY: both pointers are to live structures of the layout that the call documents; it reads
    // the first and writes the second before it returns, and keeps neither.
    let outcome = unsafe {
        libc::syscall(CACHESTAT, file.as_raw_fd(), ptr::from_ref(&range), ptr::from_mut(&mut stat), 0 as libc::c_uint)
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Pages { cached: stat.cached, dirty: Some(stat.dirty), evicted: Some(stat.recently_evicted) })
}

/// The pages of a range, by mapping it and asking `mincore`. The offset is a multiple of a page.
///
/// # Errors
/// When the range cannot be mapped.
pub(super) fn mincore(file: &File, offset: u64, length: u64, page: u64) -> io::Result<Pages> {
    let too_large = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let bytes = usize::try_from(length).map_err(too_large)?;
    let offset = libc::off_t::try_from(offset).map_err(too_large)?;
    let pages = usize::try_from(length.div_ceil(page.max(1))).map_err(too_large)?;
    let mut resident = vec![0_u8; pages];
    // SAFETY: a new mapping at an address of the kernel's choice, without access rights, aliases
    // nothing; it is never read through.
    let address =
        unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, libc::MAP_SHARED, file.as_raw_fd(), offset) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the range is the mapping just made, and the vector has a byte for each of its pages.
    let outcome = unsafe { libc::mincore(address, bytes, resident.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: the mapping was made above, and nothing points into it.
    unsafe { libc::munmap(address, bytes) };
    if outcome != 0 {
        return Err(error);
    }
    let cached = resident.iter().filter(|byte| **byte & 1 == 1).count() as u64;
    Ok(Pages { cached, dirty: None, evicted: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_calls_see_a_file_that_was_just_written() {
        let folder = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![1_u8; 1 << 20]).unwrap();
        let file = File::open(&path).unwrap();
        let page = rustix::param::page_size() as u64;
        assert_eq!(mincore(&file, 0, 1 << 20, page).unwrap().cached, (1 << 20) / page);
        match cachestat(&file, 0, 1 << 20) {
            Ok(pages) => assert_eq!(pages.cached, (1 << 20) / page),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOSYS)),
        }
    }

    #[test]
    fn what_was_dropped_is_seen_to_be_gone() {
        let folder = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![1_u8; 1 << 20]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let page = rustix::param::page_size() as u64;
        assert!(mincore(&file, 0, 1 << 20, page).unwrap().cached < (1 << 20) / page);
    }
}
