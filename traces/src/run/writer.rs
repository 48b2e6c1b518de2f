//! The one writer of a run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::codec::MAX_CELLS;
use super::layout;
use super::meta::{self, Manifest, Meta};
use super::part::Parts;
use super::segment::SegmentWriter;
use crate::clock::{Clock, SystemClock, Ts};
use crate::error::{Error, Result};
use crate::flow::Sink;
use crate::table::{Schema, Table};
use crate::tick::{Batch, Tick};

/// When a segment is synced, and when it is closed into Parquet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time between two syncs: what a loss of power may cost.
    pub sync: Duration,
    /// Size in bytes at which a segment is closed.
    pub bytes: u64,
    /// Age at which a segment is closed.
    pub age: Duration,
}

impl Default for Limits {
    /// Synced each second, closed at 8 MiB or ten minutes: large parts compress well.
    fn default() -> Self {
        Self { sync: Duration::from_secs(1), bytes: 8 << 20, age: Duration::from_secs(600) }
    }
}

/// What was written so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Ticks.
    pub ticks: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Bytes appended to segments; they are removed when parts are closed.
    pub segment_bytes: u64,
    /// Bytes of closed parts.
    pub part_bytes: u64,
    /// Closed part numbers, each a file a table.
    pub parts: u64,
}

/// Writes a run: each tick is appended whole to the open segment before the call returns, so that
/// a kill costs no tick that was taken.
pub struct RunWriter {
    folder: PathBuf,
    manifest: Manifest,
    limits: Limits,
    clock: Box<dyn Clock>,
    /// `None` once the run is finished.
    lock: Option<File>,
    segment: Option<SegmentWriter>,
    parts: Parts,
    number: u64,
    opened: Ts,
    synced: Ts,
    last: Ts,
    written: Written,
    failed: Option<Error>,
}

impl RunWriter {
    /// Makes a new run in `folder`, which is created where needed.
    ///
    /// # Errors
    /// When there is a run already, another writer is at work, a table or column cannot have its
    /// name, or the folder cannot be written.
    pub fn create(folder: impl AsRef<Path>, meta: Meta, schema: &Arc<Schema>) -> Result<Self> {
        let folder = folder.as_ref().to_path_buf();
        meta::check(schema)?;
        fs::create_dir_all(&folder).map_err(|e| layout::write_failed(&folder, &e))?;
        let lock = layout::lock(&folder)?;
        if folder.join(layout::MANIFEST).exists() || !layout::units(&folder)?.is_empty() {
            let error = Error::new(format!("{}: there is a run already", folder.display()));
            return Err(error.hint("a run is written once; record into another folder"));
        }
        let (started, clock) = (meta.started, SystemClock::anchored_now());
        let strange = |entry: std::io::Result<fs::DirEntry>| entry.is_ok_and(|e| e.file_name() != layout::LOCK);
        if fs::read_dir(&folder).map_err(|e| Error::io(folder.display(), &e))?.any(strange) {
            let error = Error::new(format!("{}: the folder is not empty", folder.display()));
            return Err(error.hint("a run wants a folder of its own, which need not be there yet"));
        }
        let manifest = Manifest { meta, schema: Arc::clone(schema) };
        manifest.write(&folder)?;
        if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            layout::sync_folder(parent)?;
        }
        let now = clock.now();
        Ok(Self {
            folder,
            manifest,
            limits: Limits::default(),
            clock: Box::new(clock),
            lock: Some(lock),
            segment: None,
            parts: Parts::new(schema),
            number: 1,
            opened: now,
            synced: now,
            last: started,
            written: Written::default(),
            failed: None,
        })
    }

    /// The same writer with other limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What was written so far.
    #[must_use]
    pub fn written(&self) -> Written {
        self.written
    }

    fn append(&mut self, tick: &Tick) -> Result<()> {
        let segment = match &mut self.segment {
            Some(segment) => segment,
            None => {
                self.opened = self.clock.now();
                let segment = SegmentWriter::create(&self.folder, self.number, self.manifest.fingerprint())?;
                self.segment.insert(segment)
            }
        };
        let before = segment.len();
        segment.append(self.written.ticks, tick)?;
        self.written.segment_bytes += segment.len() - before;
        let size = segment.len();
        self.parts.append(self.written.ticks, tick)?;
        self.written.ticks += 1;
        self.written.rows += tick.rows() as u64;
        self.last = tick.at;
        let now = self.clock.now();
        if size >= self.limits.bytes || now >= self.opened.plus(self.limits.age) {
            return self.close();
        }
        if now >= self.synced.plus(self.limits.sync) {
            segment.sync()?;
            self.synced = now;
        }
        Ok(())
    }

    /// Closes the segment into Parquet. The segment goes last, so that its rows are never without
    /// a durable home.
    fn close(&mut self) -> Result<()> {
        let Some(segment) = &self.segment else { return Ok(()) };
        segment.sync()?;
        self.synced = self.clock.now();
        let parts = std::mem::replace(&mut self.parts, Parts::new(&self.manifest.schema));
        self.written.part_bytes += parts.write(&self.folder, self.number)?;
        let path = layout::segment(&self.folder, self.number);
        fs::remove_file(&path).map_err(|e| layout::write_failed(&path, &e))?;
        layout::sync_folder(&self.folder)?;
        self.segment = None;
        self.number += 1;
        self.written.parts += 1;
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.close()?;
        self.manifest.meta.ended = Some(self.last);
        self.manifest.write(&self.folder)
    }
}

impl Sink for RunWriter {
    fn accept(&mut self, schema: &Schema, tick: &Tick) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.lock.is_none() {
            return Err(Error::new(format!("{}: the run is finished", self.folder.display())));
        }
        check(&self.manifest.schema, schema, tick)?;
        let outcome = self.append(tick);
        // After a failed write the segment may not go on: it ends with its last whole tick.
        self.failed = outcome.as_ref().err().cloned();
        outcome
    }

    fn finish(&mut self) -> Result<()> {
        if self.lock.is_none() {
            return Ok(());
        }
        let outcome = match &self.failed {
            Some(error) => Err(error.clone()),
            None => self.end(),
        };
        self.lock = None;
        outcome
    }
}

/// Whether a tick is of the run's tables, and each column as long as its batch.
fn check(ours: &Arc<Schema>, theirs: &Schema, tick: &Tick) -> Result<()> {
    let mut cells = 0;
    for (index, batch) in tick.batches.iter().enumerate() {
        let Some(table) = ours.tables.get(batch.table.0) else {
            return Err(Error::new(format!("no table {} in this run", batch.table.0)));
        };
        let same = theirs.tables.get(batch.table.0).is_some_and(|t| t.name == table.name);
        if !same || !fits(table, batch) {
            let message = format!("rows of table `{}` do not have the columns that the run has", table.name);
            return Err(Error::new(message).hint("a run keeps the tables that it was created with"));
        }
        if tick.batches[..index].iter().any(|b| b.table == batch.table) {
            return Err(Error::new(format!("table `{}` comes twice in a tick", table.name)));
        }
        cells += batch.len() * (table.columns.len() + 1);
    }
    if cells > MAX_CELLS {
        return Err(Error::new(format!("a tick of {cells} values, expected at most {MAX_CELLS}")));
    }
    Ok(())
}

fn fits(table: &Table, batch: &Batch) -> bool {
    let mut columns = table.columns.iter().zip(&batch.columns);
    table.columns.len() == batch.columns.len() && columns.all(|(c, v)| c.kind == v.kind() && v.len() == batch.len())
}
