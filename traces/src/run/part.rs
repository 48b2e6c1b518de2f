//! Closed parts: the Parquet files of one number hold the same ticks, one file a table, and a
//! `tick` file says where each tick ends.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{RecordBatch, StringBuilder, TimestampNanosecondBuilder, UInt64Builder};
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::columns::{self, RowsBuilder};
use super::layout::{self, TICKS};
use crate::error::{Error, Result};
use crate::table::{Kind, Schema, Table};
use crate::tick::Tick;

/// Rows gathered before they are encoded: few, so that memory stays small.
const CHUNK: usize = 8192;

/// How Parquet is written here and by exports.
pub(crate) fn options(counters: &[&str]) -> ArrowWriterOptions {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_created_by(concat!("feedline ", env!("CARGO_PKG_VERSION")).to_owned());
    for name in counters {
        properties = properties
            .set_column_dictionary_enabled(ColumnPath::from(*name), false)
            .set_column_encoding(ColumnPath::from(*name), Encoding::DELTA_BINARY_PACKED);
    }
    // With the Arrow schema embedded, engines of the Spark family would refuse the file.
    ArrowWriterOptions::new().with_properties(properties.build()).with_skip_arrow_metadata(true)
}

/// The columns of a table that grow, and are stored as differences.
pub(crate) fn growing(table: &Table) -> Vec<&str> {
    let counters = table.columns.iter().filter(|c| c.kind == Kind::Counter).map(|c| c.name.as_ref());
    ["tick", "at"].into_iter().chain(counters).collect()
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(error.to_string())
}

/// The part of one table, being encoded in memory.
struct TablePart {
    rows: RowsBuilder,
    writer: Option<ArrowWriter<Vec<u8>>>,
}

impl TablePart {
    fn flush(&mut self, table: &Table) -> Result<()> {
        if self.rows.len() == 0 {
            return Ok(());
        }
        let batch = self.rows.finish()?;
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let options = options(&growing(table));
                self.writer
                    .insert(ArrowWriter::try_new_with_options(Vec::new(), batch.schema(), options).map_err(failed)?)
            }
        };
        writer.write(&batch).map_err(failed)
    }
}

/// The ticks since the last part was closed, being encoded in memory while the segment holds
/// them on disk. The encoding is spread over the ticks, so that closing a part is short.
pub(super) struct Parts {
    schema: Arc<Schema>,
    tables: Vec<TablePart>,
    ticks: Boundaries,
}

struct Boundaries {
    tick: UInt64Builder,
    at: TimestampNanosecondBuilder,
    tables: StringBuilder,
    rows: UInt64Builder,
}

impl Parts {
    pub(super) fn new(schema: &Arc<Schema>) -> Self {
        let table = |t| TablePart { rows: RowsBuilder::new(t), writer: None };
        Self {
            schema: Arc::clone(schema),
            tables: schema.tables.iter().map(table).collect(),
            ticks: Boundaries {
                tick: UInt64Builder::new(),
                at: TimestampNanosecondBuilder::new().with_timezone("UTC"),
                tables: StringBuilder::new(),
                rows: UInt64Builder::new(),
            },
        }
    }

    /// Takes a tick that fits the schema.
    pub(super) fn append(&mut self, sequence: u64, tick: &Tick) -> Result<()> {
        let mut names = String::new();
        for batch in &tick.batches {
            let part = &mut self.tables[batch.table.0];
            part.rows.append(sequence, batch);
            if part.rows.len() >= CHUNK {
                part.flush(self.schema.table(batch.table))?;
            }
            if !names.is_empty() {
                names.push(',');
            }
            names.push_str(&self.schema.table(batch.table).name);
        }
        self.ticks.tick.append_value(sequence);
        self.ticks.at.append_value(tick.at.0);
        self.ticks.tables.append_value(names);
        self.ticks.rows.append_value(tick.rows() as u64);
        Ok(())
    }

    /// Writes the parts of a number durably, and says how many bytes they take. The caller then
    /// removes the segment of that number, which makes them count.
    pub(super) fn write(mut self, folder: &Path, number: u64) -> Result<u64> {
        let mut written = 0;
        let schema = Arc::clone(&self.schema);
        for (part, table) in self.tables.iter_mut().zip(&schema.tables) {
            part.flush(table)?;
            if let Some(writer) = part.writer.take() {
                written += place(folder, &table.name, number, &writer.into_inner().map_err(failed)?)?;
            }
        }
        written += place(folder, TICKS, number, &self.ticks.encode()?)?;
        layout::sync_folder(folder)?;
        Ok(written)
    }
}

impl Boundaries {
    fn encode(&mut self) -> Result<Vec<u8>> {
        let batch = RecordBatch::try_new(
            columns::ticks_schema(),
            vec![
                Arc::new(self.tick.finish()),
                Arc::new(self.at.finish()),
                Arc::new(self.tables.finish()),
                Arc::new(self.rows.finish()),
            ],
        );
        encode(&batch.map_err(failed)?, columns::ticks_schema())
    }
}

fn encode(batch: &RecordBatch, schema: SchemaRef) -> Result<Vec<u8>> {
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), schema, options(&["tick", "at"])).map_err(failed)?;
    writer.write(batch).map_err(failed)?;
    writer.into_inner().map_err(failed)
}

fn place(folder: &Path, table: &str, number: u64, bytes: &[u8]) -> Result<u64> {
    let home = layout::table_folder(folder, table);
    fs::create_dir_all(&home).map_err(|e| layout::write_failed(&home, &e))?;
    layout::replace(&folder.join(layout::PART_TMP), &layout::part(folder, table, number), bytes)?;
    layout::sync_folder(&home)?;
    Ok(bytes.len() as u64)
}
