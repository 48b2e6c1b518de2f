//! Retention: old runs go, by size and age.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::layout::{self, LOCK, MANIFEST, TICKS};
use super::meta::Manifest;
use crate::clock::Ts;
use crate::error::{Error, Result};

/// What may stay. A limit that is `None` removes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Most bytes of all runs of a folder together.
    pub max_bytes: Option<u64>,
    /// Greatest time since a run ended.
    pub max_age: Option<Duration>,
}

struct Found {
    folder: PathBuf,
    tables: Vec<String>,
    started: Ts,
    ended: Ts,
    bytes: u64,
}

/// Removes runs of a folder until the limits hold, the oldest first, and returns what it removed.
/// A run that is being written is never removed, and neither is a file that Feedline did not
/// write: a folder with one stays, less the run. What is not a readable run is left alone.
///
/// # Errors
/// When the folder cannot be listed or a run cannot be removed.
pub fn prune(runs: &Path, retention: &Retention, now: Ts) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(runs).map_err(|e| Error::io(runs.display(), &e))? {
        let entry = entry.map_err(|e| Error::io(runs.display(), &e))?;
        // The type is the entry's own: a link to a run is not a run of this folder.
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            found.extend(look(entry.path()));
        }
    }
    found.sort_by(|a, b| (a.started, &a.folder).cmp(&(b.started, &b.folder)));
    let mut bytes: u64 = found.iter().map(|run| run.bytes).sum();
    let (mut removed, mut failed) = (Vec::new(), None);
    for run in found {
        let large = retention.max_bytes.is_some_and(|most| bytes > most);
        let old = retention.max_age.is_some_and(|most| now > run.ended.plus(most));
        if (large || old) && !layout::is_live(&run.folder) {
            // One that cannot be removed is no reason to keep the others.
            if let Err(error) = remove(&run) {
                failed = failed.or(Some(error));
                continue;
            }
            bytes -= run.bytes;
            removed.push(run.folder);
        }
    }
    failed.map_or(Ok(removed), Err)
}

fn look(folder: PathBuf) -> Option<Found> {
    // A pipe in place of a file would be waited for.
    fs::symlink_metadata(folder.join(MANIFEST)).ok().filter(fs::Metadata::is_file)?;
    let manifest = Manifest::read(&folder).ok()?;
    let tables: Vec<String> = manifest.schema.tables.iter().map(|t| t.name.to_string()).chain([TICKS.into()]).collect();
    let mut run = Found { tables, started: manifest.meta.started, ended: manifest.meta.started, bytes: 0, folder };
    let mut latest = manifest.meta.ended.unwrap_or(run.started);
    for file in files(&run) {
        let Ok(metadata) = fs::symlink_metadata(&file) else { continue };
        run.bytes += metadata.len();
        if manifest.meta.ended.is_none() {
            latest = latest.max(modified(&metadata));
        }
    }
    run.ended = latest;
    Some(run)
}

/// When a file last changed: the end of a run whose writer was killed.
fn modified(metadata: &fs::Metadata) -> Ts {
    let since = metadata.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    Ts(since.and_then(|s| i64::try_from(s.as_nanos()).ok()).unwrap_or(0))
}

/// The files of a run that Feedline wrote. `run.json` comes last: until it goes, the rest is
/// still a run.
fn files(run: &Found) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for table in &run.tables {
        // A linked folder is somebody else's, whatever its files are called.
        let place = layout::table_folder(&run.folder, table);
        if fs::symlink_metadata(&place).is_ok_and(|m| !m.is_dir()) {
            continue;
        }
        let numbers = layout::numbers(&layout::table_folder(&run.folder, table), layout::part_number);
        files.extend(numbers.unwrap_or_default().into_iter().map(|n| layout::part(&run.folder, table, n)));
    }
    let open = layout::numbers(&run.folder, layout::segment_number).unwrap_or_default();
    files.extend(open.into_iter().map(|n| layout::segment(&run.folder, n)));
    let leftovers = [layout::PART_TMP, layout::MANIFEST_TMP].map(|name| run.folder.join(name));
    files.extend(leftovers.into_iter().filter(|path| path.exists()));
    files.extend([run.folder.join(MANIFEST)]);
    files
}

fn remove(run: &Found) -> Result<()> {
    let lock = layout::lock(&run.folder)?;
    for file in files(run) {
        fs::remove_file(&file).map_err(|e| Error::io(file.display(), &e))?;
    }
    // Folders go when nothing else is in them.
    for table in &run.tables {
        let _ = fs::remove_dir(layout::table_folder(&run.folder, table));
    }
    let _ = fs::remove_file(run.folder.join(LOCK));
    drop(lock);
    let _ = fs::remove_dir(&run.folder);
    Ok(())
}
