//! All rows of one table, for exports and queries.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::columns::{self, RowsBuilder};
use super::layout;
use super::read::PartFile;
use super::segment::{Found, SegmentReader};
use crate::error::{Error, Result};
use crate::table::{Schema, TableId};

/// Rows of an open segment gathered for one record batch.
const ROWS: usize = 4096;

/// Record batches of one table of a run, in order; bounded memory however long the run.
pub struct RowBatches {
    folder: PathBuf,
    stored: Arc<Schema>,
    fingerprint: u32,
    table: TableId,
    schema: SchemaRef,
    units: std::vec::IntoIter<u64>,
    unit: Option<Unit>,
}

enum Unit {
    Part(PartFile),
    Segment(Box<SegmentReader>),
}

impl RowBatches {
    pub(super) fn new(folder: &Path, stored: &Arc<Schema>, fingerprint: u32, table: TableId) -> Result<Self> {
        Ok(Self {
            folder: folder.to_path_buf(),
            stored: Arc::clone(stored),
            fingerprint,
            table,
            schema: columns::schema(stored.table(table)),
            units: layout::units(folder)?.into_iter(),
            unit: None,
        })
    }

    /// The Arrow schema of every batch.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let batch = match &mut self.unit {
                Some(Unit::Part(part)) => part.next()?.map(|batch| self.conform(&batch)).transpose()?,
                Some(Unit::Segment(segment)) => gather(segment, &self.stored, self.table)?,
                None => {
                    let Some(number) = self.units.next() else { return Ok(None) };
                    self.unit = self.open(number)?;
                    continue;
                }
            };
            match batch {
                Some(batch) => return Ok(Some(batch)),
                None => self.unit = None,
            }
        }
    }

    fn open(&self, number: u64) -> Result<Option<Unit>> {
        if let Some(segment) = SegmentReader::open(&self.folder, number, &self.stored, self.fingerprint)? {
            return Ok(Some(Unit::Segment(Box::new(segment))));
        }
        let path = layout::part(&self.folder, &self.stored.table(self.table).name, number);
        Ok(PartFile::open(path)?.map(Unit::Part))
    }

    /// The columns of the declaration, in its order and types.
    fn conform(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.schema.fields().iter().map(|field| {
            let found = batch.column_by_name(field.name());
            found.cloned().ok_or_else(|| Error::new(format!("no column `{}`", field.name())))
        });
        let columns = columns.collect::<Result<_>>()?;
        let conformed = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        conformed.map_err(|e| Error::new(format!("table `{}`: {e}", self.stored.table(self.table).name)))
    }
}

impl Iterator for RowBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

fn gather(segment: &mut SegmentReader, schema: &Schema, table: TableId) -> Result<Option<RecordBatch>> {
    let mut rows = RowsBuilder::new(schema.table(table));
    while rows.len() < ROWS {
        let Found::Tick(sequence, tick) = segment.next()? else { break };
        if let Some(batch) = tick.batch(table) {
            rows.append(sequence, batch);
        }
    }
    if rows.len() == 0 { Ok(None) } else { rows.finish().map(Some) }
}
