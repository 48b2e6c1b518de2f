//! Closed parts read back: a batch of rows at a time, never a whole part.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::statistics::Statistics;

use super::columns::{Loaded, LoadedTicks, Symbols};
use super::layout::{self, TICKS};
use super::losses::{Losses, left_out};
use crate::clock::Ts;
use crate::error::{Error, Result};
use crate::table::{Schema, Table, TableId};
use crate::tick::{Batch, Tick};

/// Rows decoded at a time.
const ROWS: usize = 4096;

/// Record batches of one Parquet file.
pub(super) struct PartFile {
    path: PathBuf,
    /// `None` after a failure: a decoder that failed is in no known state.
    reader: Option<ParquetRecordBatchReader>,
}

impl PartFile {
    /// `None` when there is no such file.
    pub(super) fn open(path: PathBuf) -> Result<Option<Self>> {
        let Some(builder) = builder(&path)? else { return Ok(None) };
        let reader = Some(guarded(&path, || builder.with_batch_size(ROWS).build())?);
        Ok(Some(Self { path, reader }))
    }

    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(mut reader) = self.reader.take() else {
            return Err(damaged(&self.path, "reading it failed before"));
        };
        let batch = guarded(&self.path, || reader.next().transpose())?;
        self.reader = Some(reader);
        Ok(batch)
    }
}

fn builder(path: &Path) -> Result<Option<ParquetRecordBatchReaderBuilder<File>>> {
    let file = match layout::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io(path.display(), &e)),
    };
    let length = match file.metadata() {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => return Err(Error::new(format!("{}: expected a file", path.display()))),
    };
    let builder = guarded(path, || ParquetRecordBatchReaderBuilder::try_new(file))?;
    for column in builder.metadata().row_groups().iter().flat_map(|group| group.columns()) {
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let end = start.checked_add(column.compressed_size());
        let within = end.and_then(|end| u64::try_from(end).ok()).is_some_and(|end| end <= length);
        if start < 0 || column.compressed_size() < 0 || !within {
            return Err(damaged(path, format!("column `{}` lies outside of the file", column.column_path())));
        }
    }
    Ok(Some(builder))
}

/// Runs the Parquet decoder, which panics on some damaged files where it should fail.
fn guarded<T, E: std::fmt::Display>(path: &Path, work: impl FnOnce() -> std::result::Result<T, E>) -> Result<T> {
    // Whatever `work` borrows is dropped when it fails, so that nothing half-changed is seen.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(outcome) => outcome.map_err(|e| damaged(path, e)),
        Err(_) => Err(damaged(path, "it cannot be decoded")),
    }
}

fn damaged(path: &Path, cause: impl std::fmt::Display) -> Error {
    Error::new(format!("{}: {cause}", path.display()))
        .hint("this part is damaged; restore it, or read the other files with any Parquet tool")
}

/// How many ticks a part has, and the times of the earliest and latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) ticks: u64,
    pub(super) span: Option<(Ts, Ts)>,
}

/// The extent of a closed part, from its footer alone.
pub(super) fn extent(folder: &Path, number: u64) -> Result<Option<Extent>> {
    let path = layout::part(folder, TICKS, number);
    let Some(builder) = builder(&path)? else { return Ok(None) };
    let mut extent = Extent { ticks: 0, span: None };
    for group in builder.metadata().row_groups() {
        extent.ticks += u64::try_from(group.num_rows()).unwrap_or(0);
        let at = group.columns().iter().find(|c| c.column_descr().name() == "at").and_then(|c| c.statistics());
        let Some(Statistics::Int64(at)) = at else { continue };
        if let (Some(&min), Some(&max)) = (at.min_opt(), at.max_opt()) {
            let (first, last) = extent.span.unwrap_or((Ts(min), Ts(max)));
            extent.span = Some((first.min(Ts(min)), last.max(Ts(max))));
        }
    }
    Ok(Some(extent))
}

/// Rows of one table, consumed tick by tick.
struct TableRows {
    file: PartFile,
    rows: Option<Loaded>,
    next: usize,
}

impl TableRows {
    /// Consumes the rows of a tick, into a batch where one is given.
    fn take(&mut self, table: &Table, tick: u64, symbols: &mut Symbols, mut out: Option<&mut Batch>) -> Result<u64> {
        let mut taken = 0;
        while self.load(table)? {
            let Some(rows) = &self.rows else { break };
            let ticks = &rows.tick.values()[self.next..];
            let count = ticks.iter().take_while(|t| **t == tick).count();
            if count == 0 {
                break;
            }
            if let Some(out) = &mut out {
                rows.copy(self.next, self.next + count, symbols, out);
            }
            taken += count as u64;
            self.next += count;
        }
        Ok(taken)
    }

    /// Whether there is another row.
    fn load(&mut self, table: &Table) -> Result<bool> {
        while self.rows.as_ref().is_none_or(|rows| self.next >= rows.at.values().len()) {
            let Some(batch) = self.file.next()? else { return Ok(false) };
            self.rows = Some(Loaded::new(table, &batch).map_err(|e| e.at(self.file.path.display()))?);
            self.next = 0;
        }
        Ok(true)
    }
}

/// The ticks of one closed part.
pub(super) struct PartReader {
    schema: Arc<Schema>,
    /// Position of each table in the schema that is shown; `None` hides it.
    shown: Arc<[Option<TableId>]>,
    ticks: PartFile,
    loaded: Option<LoadedTicks>,
    next: usize,
    tables: Vec<Option<TableRows>>,
    symbols: Symbols,
    /// The latest list of tables, and what it means: it rarely changes from tick to tick.
    order: (String, Vec<usize>),
    number: u64,
    /// Where a damaged table is noted; without it, it is an error.
    losses: Option<Losses>,
    /// Whether a table was left out, so that rows are missing.
    lossy: bool,
}

impl PartReader {
    /// `None` when there is no part of that number.
    pub(super) fn open(
        folder: &Path,
        number: u64,
        schema: &Arc<Schema>,
        shown: &Arc<[Option<TableId>]>,
        losses: &Option<Losses>,
    ) -> Result<Option<Self>> {
        let Some(ticks) = PartFile::open(layout::part(folder, TICKS, number))? else { return Ok(None) };
        let mut tables = Vec::new();
        let mut lossy = false;
        for (table, shown) in schema.tables.iter().zip(shown.iter()) {
            let file = shown.map(|_| PartFile::open(layout::part(folder, &table.name, number))).transpose();
            let file = match (file, losses) {
                (Err(error), Some(losses)) => {
                    losses.note(left_out(number, &error));
                    lossy = true;
                    None
                }
                (file, _) => file?.flatten(),
            };
            tables.push(file.map(|file| TableRows { file, rows: None, next: 0 }));
        }
        Ok(Some(Self {
            schema: Arc::clone(schema),
            shown: Arc::clone(shown),
            ticks,
            loaded: None,
            next: 0,
            tables,
            symbols: Symbols::default(),
            order: (String::new(), Vec::new()),
            number,
            losses: losses.clone(),
            lossy,
        }))
    }

    /// The next tick that ends at `from` or later.
    pub(super) fn next(&mut self, from: Ts) -> Result<Option<Tick>> {
        loop {
            while self.loaded.as_ref().is_none_or(|t| self.next >= t.tick.values().len()) {
                let Some(batch) = self.ticks.next()? else { return self.exhausted().map(|()| None) };
                self.loaded = Some(LoadedTicks::new(&batch).map_err(|e| e.at(self.ticks.path.display()))?);
                self.next = 0;
            }
            let Some(loaded) = &self.loaded else { return Ok(None) };
            let (number, at) = (loaded.tick.value(self.next), Ts(loaded.at.value(self.next)));
            let (names, rows) = (loaded.tables.value(self.next), loaded.rows.value(self.next));
            if self.order.0 != names {
                self.order =
                    (names.to_owned(), order(&self.schema, names).map_err(|e| e.at(self.ticks.path.display()))?);
            }
            self.next += 1;
            let tick = self.tick(number, at, rows, at >= from)?;
            if at >= from {
                return Ok(Some(tick));
            }
        }
    }

    fn tick(&mut self, number: u64, at: Ts, rows: u64, wanted: bool) -> Result<Tick> {
        let mut tick = Tick { at, batches: Vec::with_capacity(self.order.1.len()) };
        let (mut found, mut hidden) = (0, false);
        for &index in &self.order.1 {
            let Some(id) = self.shown.get(index).copied().flatten() else {
                hidden = true;
                continue;
            };
            let table = &self.schema.tables[index];
            let mut batch = Batch::new(id, table);
            if let Some(rows) = &mut self.tables[index] {
                match (rows.take(table, number, &mut self.symbols, wanted.then_some(&mut batch)), &self.losses) {
                    (Err(error), Some(losses)) => {
                        losses.note(left_out(self.number, &error));
                        (self.tables[index], self.lossy) = (None, true);
                        batch = Batch::new(id, table);
                    }
                    (taken, _) => found += taken?,
                }
            }
            tick.batches.push(batch);
        }
        if !hidden && !self.lossy && found != rows {
            let message = format!("tick {number} has {rows} rows, the parts of its tables hold {found}");
            return Err(damaged(&self.ticks.path, message));
        }
        Ok(tick)
    }

    /// No row may be left when the ticks are.
    fn exhausted(&mut self) -> Result<()> {
        if self.lossy {
            return Ok(());
        }
        for (rows, table) in self.tables.iter_mut().zip(&self.schema.tables) {
            if let Some(rows) = rows
                && rows.load(table)?
            {
                return Err(damaged(&rows.file.path, "rows of a tick that is not in the table of ticks"));
            }
        }
        Ok(())
    }
}

/// The tables of a tick in order, from their names.
fn order(schema: &Schema, names: &str) -> Result<Vec<usize>> {
    let mut order = Vec::new();
    for name in names.split(',').filter(|name| !name.is_empty()) {
        let id = schema.find_table(name)?;
        if order.contains(&id.0) {
            return Err(Error::new(format!("table `{name}` comes twice in a tick")));
        }
        order.push(id.0);
    }
    Ok(order)
}
