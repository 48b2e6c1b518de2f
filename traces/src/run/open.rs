//! A run folder opened for reading. Reading never writes: a run on read-only storage, or one that
//! is being written, opens like any other.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cursor::Cursor;
use super::follow::Follow;
use super::layout::{self, TICKS};
use super::losses::{Losses, left_out};
use super::meta::{Manifest, Meta};
use super::part::Parts;
use super::read;
use super::replay::Replay;
use super::rows::RowBatches;
use super::segment::{Found, SegmentReader};
use crate::clock::Ts;
use crate::error::{Error, Result};
use crate::table::Schema;

/// An existing run.
#[derive(Debug)]
pub struct Run {
    folder: PathBuf,
    manifest: Manifest,
    recovery: Recovery,
    losses: Option<Losses>,
}

/// What was found in the open segment of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Whether a writer is at work; its tail is then not torn but unfinished.
    pub live: bool,
    /// Whole ticks that were found in the open segment.
    pub ticks: u64,
    /// Bytes at its end that are not a whole tick, and are lost unless the run is live.
    pub torn_bytes: u64,
    /// What a person should know: a killed writer, a torn tail, a missing part.
    pub notes: Vec<String>,
    span: Option<(Ts, Ts)>,
}

impl Run {
    /// Opens a run folder, and looks how far its open segment goes.
    ///
    /// # Errors
    /// When there is no readable `run.json`, or the open segment is not of this run.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref().to_path_buf();
        let manifest = Manifest::read(&folder)?;
        let recovery = look(&folder, &manifest)?;
        Ok(Self { folder, manifest, recovery, losses: None })
    }

    /// The same run, of which a damaged part is left out while the others are read. What was left
    /// out is told by [`Run::losses`].
    #[must_use]
    pub fn leaving_out_damage(mut self) -> Self {
        self.losses = Some(Losses::default());
        self
    }

    /// What was left out so far because it is damaged, in words; empty unless that was asked for.
    #[must_use]
    pub fn losses(&self) -> Vec<String> {
        self.losses.as_ref().map(Losses::told).unwrap_or_default()
    }

    /// What the run is of.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.manifest.meta
    }

    /// The tables.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.manifest.schema
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What was found in the open segment when the run was opened.
    #[must_use]
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Number of ticks, and the times of the earliest and latest, as far as the run went when it
    /// was opened.
    ///
    /// # Errors
    /// When a closed part cannot be read.
    pub fn extent(&self) -> Result<(u64, Option<(Ts, Ts)>)> {
        let (mut ticks, mut span) = (self.recovery.ticks, self.recovery.span);
        for number in self.closed()? {
            let extent = match (read::extent(&self.folder, number), &self.losses) {
                (Err(error), Some(losses)) => {
                    losses.note(left_out(number, &error));
                    continue;
                }
                (extent, _) => extent?,
            };
            let Some(extent) = extent else { continue };
            ticks += extent.ticks;
            span = match (span, extent.span) {
                (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
                (one, other) => one.or(other),
            };
        }
        Ok((ticks, span))
    }

    /// All ticks there are, as fast as they are asked for.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn replay(&self) -> Result<Replay> {
        Ok(Replay::new(self.cursor()))
    }

    /// All ticks there are and then new ones as they land, until the writer is done or gone.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn follow(&self) -> Result<Follow> {
        Ok(Follow::new(&self.folder, self.cursor()))
    }

    fn cursor(&self) -> Cursor {
        Cursor::new(&self.folder, &self.manifest.schema, self.manifest.fingerprint(), self.losses.clone())
    }

    /// The closed Parquet files of a table (its name, or `tick` for the boundaries of the ticks),
    /// in order. Rows of the open segment are not among them; see [`Run::snapshot`].
    #[must_use]
    pub fn files(&self, table: &str) -> Vec<PathBuf> {
        let closed = self.closed().unwrap_or_default();
        closed.into_iter().map(|n| layout::part(&self.folder, table, n)).filter(|path| path.is_file()).collect()
    }

    /// All rows of a table as Arrow record batches, closed and open, with `tick` and `at` before
    /// the table's own columns.
    ///
    /// # Errors
    /// When there is no such table; the hint names the nearest.
    pub fn rows(&self, table: &str) -> Result<RowBatches> {
        let id = self.manifest.schema.find_table(table)?;
        RowBatches::new(&self.folder, &self.manifest.schema, self.manifest.fingerprint(), id)
    }

    /// Makes a copy of the run in a new folder, in which the rows of the open segment are closed
    /// too: a live or killed run can then be queried whole. Parts that are closed already are
    /// linked, not copied, so the copy costs little and lives no longer than the run.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn snapshot(&self, to: impl AsRef<Path>) -> Result<Self> {
        let to = to.as_ref();
        fs::create_dir_all(to).map_err(|e| layout::write_failed(to, &e))?;
        let home = fs::canonicalize(&self.folder).map_err(|e| Error::io(self.folder.display(), &e))?;
        let link = |table: &str, number| {
            let (from, to) = (layout::part(&home, table, number), layout::part(to, table, number));
            if from.is_file() {
                std::os::unix::fs::symlink(&from, &to).map_err(|e| layout::write_failed(&to, &e))?;
            }
            Ok(())
        };
        let names: Vec<&str> = self.schema().tables.iter().map(|t| t.name.as_ref()).chain([TICKS]).collect();
        for name in &names {
            let folder = layout::table_folder(to, name);
            fs::create_dir_all(&folder).map_err(|e| layout::write_failed(&folder, &e))?;
        }
        for number in layout::units(&self.folder)? {
            let open = SegmentReader::open(&self.folder, number, self.schema(), self.manifest.fingerprint())?;
            match open {
                Some(mut segment) => {
                    close(&mut segment, self.schema(), to, number)?;
                }
                None => names.iter().try_for_each(|name| link(name, number))?,
            }
        }
        let mut manifest = self.manifest.clone();
        let last = self.extent()?.1.map(|(_, last)| last);
        manifest.meta.ended = manifest.meta.ended.or(last).or(Some(manifest.meta.started));
        manifest.meta.notes.extend(self.recovery.notes.iter().cloned());
        manifest.write(to)?;
        Self::open(to)
    }

    /// Closes what a killed writer left open, in place, and notes it in `run.json`. A run that
    /// was ended properly, or is being written, stays as it is.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn recover(folder: impl AsRef<Path>) -> Result<Self> {
        let run = Self::open(folder)?;
        let open = layout::numbers(&run.folder, layout::segment_number)?;
        if run.recovery.live || open.is_empty() && run.meta().ended.is_some() {
            return Ok(run);
        }
        let _lock = layout::lock(&run.folder)?;
        let mut manifest = run.manifest.clone();
        for number in open {
            let segment = SegmentReader::open(&run.folder, number, run.schema(), manifest.fingerprint())?;
            let Some(mut segment) = segment else { continue };
            close(&mut segment, run.schema(), &run.folder, number)?;
            let path = layout::segment(&run.folder, number);
            fs::remove_file(&path).map_err(|e| layout::write_failed(&path, &e))?;
            layout::sync_folder(&run.folder)?;
        }
        let last = run.extent()?.1.map(|(_, last)| last);
        manifest.meta.ended = manifest.meta.ended.or(last).or(Some(manifest.meta.started));
        manifest.meta.notes.extend(run.recovery.notes.iter().cloned());
        manifest.write(&run.folder)?;
        Ok(Self { manifest, ..run })
    }

    /// Numbers of the parts that count.
    fn closed(&self) -> Result<Vec<u64>> {
        let open = layout::numbers(&self.folder, layout::segment_number)?;
        Ok(layout::units(&self.folder)?.into_iter().filter(|n| !open.contains(n)).collect())
    }
}

/// Writes the whole ticks of a segment as parts.
fn close(segment: &mut SegmentReader, schema: &Arc<Schema>, to: &Path, number: u64) -> Result<()> {
    let mut parts = Parts::new(schema);
    let mut any = false;
    while let Found::Tick(sequence, tick) = segment.next()? {
        parts.append(sequence, &tick)?;
        any = true;
    }
    if any { parts.write(to, number).map(|_| ()) } else { Ok(()) }
}

/// Counts the whole ticks of the open segment.
fn look(folder: &Path, manifest: &Manifest) -> Result<Recovery> {
    let mut recovery = Recovery { live: layout::is_live(folder), ..Recovery::default() };
    let units = layout::units(folder)?;
    for pair in units.windows(2) {
        if pair[1] != pair[0] + 1 {
            recovery.notes.push(format!("parts {} to {} are missing", pair[0] + 1, pair[1] - 1));
        }
    }
    for &number in &units {
        let segment = SegmentReader::open(folder, number, &manifest.schema, manifest.fingerprint())?;
        let Some(mut segment) = segment else { continue };
        while let Found::Tick(_, tick) = segment.next()? {
            recovery.ticks += 1;
            let (first, last) = recovery.span.unwrap_or((tick.at, tick.at));
            recovery.span = Some((first.min(tick.at), last.max(tick.at)));
        }
        recovery.torn_bytes += segment.left();
    }
    if !recovery.live && manifest.meta.ended.is_none() {
        let found = format!("the writer did not finish; {} ticks were found in its open segment", recovery.ticks);
        recovery.notes.push(match recovery.torn_bytes {
            0 => found,
            torn => format!("{found}, the last {torn} bytes were not a whole tick and are lost"),
        });
    }
    Ok(recovery)
}
