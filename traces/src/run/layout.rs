//! Names and places in a run folder, and how files there are replaced.
//!
//! ```text
//! run.json                         what the run is of
//! lock                             held by the one writer; its pid
//! open-000003.segment              ticks since the last closed part, at most one
//! table=tick/part-000001.parquet   the boundaries of the ticks
//! table=disk/part-000001.parquet   closed rows; parts of one number hold the same ticks
//! ```
//!
//! A segment is the truth about its number for as long as it exists: parts of the same number
//! are then leftovers of a writer that died while closing it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};

/// What makes a folder a run.
pub(super) const MANIFEST: &str = "run.json";
/// Held by the writer.
pub(super) const LOCK: &str = "lock";
/// Temporary names of what is being put in place.
pub(super) const MANIFEST_TMP: &str = "run.json.tmp";
pub(super) const PART_TMP: &str = "part.tmp";
/// The table of tick boundaries.
pub(super) const TICKS: &str = "tick";

/// The folder of a table's closed parts.
pub(super) fn table_folder(run: &Path, table: &str) -> PathBuf {
    run.join(format!("table={table}"))
}

/// A closed part of a table.
pub(super) fn part(run: &Path, table: &str, number: u64) -> PathBuf {
    table_folder(run, table).join(format!("part-{number:06}.parquet"))
}

/// The open segment of a number.
pub(super) fn segment(run: &Path, number: u64) -> PathBuf {
    run.join(format!("open-{number:06}.segment"))
}

/// The number of an open segment, from its file name.
pub(super) fn segment_number(name: &str) -> Option<u64> {
    number(name, "open-", ".segment")
}

/// The number of a closed part, from its file name.
pub(super) fn part_number(name: &str) -> Option<u64> {
    number(name, "part-", ".parquet")
}

fn number(name: &str, before: &str, after: &str) -> Option<u64> {
    let digits = name.strip_prefix(before)?.strip_suffix(after)?;
    (digits.len() >= 6 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok()).flatten()
}

/// Numbers found in a folder, in order; a folder that is not there has none.
pub(super) fn numbers(folder: &Path, number: fn(&str) -> Option<u64>) -> Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io(folder.display(), &e)),
    };
    let mut found: Vec<u64> = entries.filter_map(|e| number(e.ok()?.file_name().to_str()?)).collect();
    found.sort_unstable();
    Ok(found)
}

/// The numbers of a run's parts and segments, in order.
pub(super) fn units(run: &Path) -> Result<Vec<u64>> {
    let mut units = numbers(run, segment_number)?;
    units.extend(numbers(&table_folder(run, TICKS), part_number)?);
    units.sort_unstable();
    units.dedup();
    Ok(units)
}

/// A failure to write, with what to do about a full disk.
pub(super) fn write_failed(path: &Path, cause: &std::io::Error) -> Error {
    let error = Error::io(path.display(), cause);
    match cause.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            error.hint("what was recorded before is intact; free some space, for example with feedline prune")
        }
        _ => error,
    }
}

/// Puts a file in place whole: temporary name, sync, rename. The folder is not synced.
pub(super) fn replace(temporary: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut file = File::create(temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(temporary, path)
    };
    write().map_err(|e| {
        let _ = fs::remove_file(temporary);
        write_failed(path, &e)
    })
}

/// Makes names that were created, renamed or removed in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|f| f.sync_all()).map_err(|e| Error::io(folder.display(), &e))
}

/// The bytes of a regular file that is no larger than `most`.
pub(super) fn read_bounded(path: &Path, most: u64) -> Result<Vec<u8>> {
    let read = || {
        let file = File::open(path)?;
        let mut bytes = Vec::new();
        if file.metadata()?.is_file() {
            file.take(most + 1).read_to_end(&mut bytes)?;
            return Ok(bytes);
        }
        Err(std::io::Error::other("expected a file"))
    };
    match read() {
        Ok(bytes) if bytes.len() as u64 > most => {
            Err(Error::new(format!("{}: more than {most} bytes", path.display())))
        }
        Ok(bytes) => Ok(bytes),
        Err(e) => Err(Error::io(path.display(), &e)),
    }
}

/// Takes the writer's lock of a run folder. It is released when the file is dropped.
pub(super) fn lock(run: &Path) -> Result<File> {
    let path = run.join(LOCK);
    // A link planted in its place would have its target written over.
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).custom_flags(flags).open(&path);
    let mut file = open.map_err(|e| write_failed(&path, &e))?;
    if !file.metadata().is_ok_and(|m| m.is_file()) {
        return Err(Error::new(format!("{}: expected a regular file", path.display())));
    }
    // A reader that asks whether the run is live holds the lock for a moment.
    let mut outcome = file.try_lock();
    for _ in 0..20 {
        if !matches!(outcome, Err(fs::TryLockError::WouldBlock)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
        outcome = file.try_lock();
    }
    match outcome {
        Ok(()) => {
            let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
            written.map_err(|e| write_failed(&path, &e))?;
            Ok(file)
        }
        Err(fs::TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let _ = file.take(32).read_to_string(&mut pid);
            let message = format!("{}: process {} is writing this run", run.display(), pid.trim());
            Err(Error::new(message).hint("end it first, or record into another folder"))
        }
        Err(fs::TryLockError::Error(e)) => Err(Error::io(path.display(), &e)),
    }
}

/// Opens a file of a run to read it. A pipe or a device in its place would hang the reader.
pub(super) fn open(path: &Path) -> std::io::Result<File> {
    if fs::metadata(path)?.is_file() {
        return File::open(path);
    }
    Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "expected a file"))
}

/// Whether a writer holds the lock of a run folder.
pub(super) fn is_live(run: &Path) -> bool {
    open(&run.join(LOCK)).is_ok_and(|file| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_names_are_parts() {
        assert_eq!(part_number("part-000012.parquet"), Some(12));
        assert_eq!(part_number("part-1234567.parquet"), Some(1_234_567));
        for name in
            ["part-12.parquet", "part-+00012.parquet", "part-000012.parquet.tmp", "part-99999999999999999999.parquet"]
        {
            assert_eq!(part_number(name), None, "{name}");
        }
        assert_eq!(segment_number("open-000003.segment"), Some(3));
    }
}
