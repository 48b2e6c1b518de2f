//! A run's tables in other formats, one format a file.

mod arrow;
mod csv;
mod jsonl;
mod parquet;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::run::{RowBatches, Run};
use crate::table::Table;

/// A format that a table can be exported to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Comma-separated values with a header line; missing is empty, an empty text is `""`.
    Csv,
    /// One JSON object a line; missing is null, and so is an infinite gauge, which JSON lacks.
    Jsonl,
    /// One Apache Parquet file.
    Parquet,
    /// One Apache Arrow IPC file.
    Arrow,
}

impl Format {
    /// The usual ending of a file name, without the dot.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
        }
    }

    /// Writes the rows of one table; memory is bounded however many there are.
    ///
    /// # Errors
    /// When the rows cannot be read or `out` cannot be written.
    pub fn write(self, table: &Table, rows: RowBatches, out: &mut (dyn Write + Send)) -> Result<()> {
        match self {
            Self::Csv => csv::write(rows, out),
            Self::Jsonl => jsonl::write(rows, out),
            Self::Parquet => parquet::write(table, rows, out),
            Self::Arrow => arrow::write(rows, out),
        }
    }
}

/// Writes one table of a run, or all, into `folder`, a file a table, and returns the files, and
/// what was wrong with the tables that could not be written whole.
///
/// # Errors
/// When there is no such table, or the folder cannot be made.
pub fn export(run: &Run, table: Option<&str>, format: Format, folder: &Path) -> Result<(Vec<PathBuf>, Vec<Error>)> {
    let schema = run.schema();
    let tables: Vec<&Table> = match table {
        Some(name) => vec![schema.table(schema.find_table(name)?)],
        None => schema.tables.iter().collect(),
    };
    fs::create_dir_all(folder).map_err(|e| Error::io(folder.display(), &e))?;
    let (mut files, mut failures) = (Vec::new(), Vec::new());
    for table in tables {
        let path = folder.join(format!("{}.{}", table.name, format.extension()));
        // One damaged table is no reason to keep back the others.
        match write(run, table, format, &path) {
            Ok(()) => files.push(path),
            Err(error) => failures.push(error),
        }
    }
    Ok((files, failures))
}

fn write(run: &Run, table: &Table, format: Format, path: &Path) -> Result<()> {
    let file = File::create(path).map_err(|e| Error::io(path.display(), &e))?;
    let mut out = BufWriter::new(file);
    format.write(table, run.rows(&table.name)?, &mut out).map_err(|e| e.at(path.display()))?;
    out.flush().map_err(|e| Error::io(path.display(), &e))
}

/// A failure of the format's own writer.
fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(error.to_string())
}
