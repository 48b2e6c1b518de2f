//! A run of made-up rows, to time queries on.

use std::fs::{self, File};
use std::path::Path;

use feedline_traces::{Error, Result};
use polars::df;
use polars::prelude::{DataType, IntoLazy as _, ParquetWriter, TimeUnit, TimeZone, col};

/// Rows of a part.
const PART: u64 = 1 << 20;

/// Distinct keys.
const KEYS: u64 = 64;

/// Writes a run folder with one table `sample` of so many rows: `tick`, `at`, `key` (64 of them)
/// and `x` (a number between 0 and 1), in parts of 2²⁰ rows.
///
/// # Errors
/// When the folder cannot be written.
pub fn write(run: &Path, rows: u64) -> Result<()> {
    let folder = run.join("table=sample");
    fs::create_dir_all(&folder).map_err(|cause| Error::io(folder.display(), &cause))?;
    let mut from = 0;
    let mut number = 1;
    while from < rows {
        let to = rows.min(from + PART);
        write_part(&folder.join(format!("part-{number:06}.parquet")), from, to)?;
        from = to;
        number += 1;
    }
    Ok(())
}

fn write_part(path: &Path, from: u64, to: u64) -> Result<()> {
    let failed = |error: polars::prelude::PolarsError| Error::new(error.to_string()).at(path.display());
    let keys: Vec<String> = (0..KEYS).map(|key| format!("{}@{}", 40_000 + key, 7_000 + key)).collect();
    // A multiplicative hash: neither keys nor numbers come in an order that compresses away.
    let mixed = |row: u64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
    let key = |row: u64| keys[usize::try_from(mixed(row) % KEYS).unwrap_or(0)].as_str();
    #[expect(clippy::cast_precision_loss, reason = "53 bits are kept, as many as the number has")]
    let x = |row: u64| mixed(row) as f64 / (1_u64 << 53) as f64;
    let frame = df!(
        "tick" => (from..to).map(|row| row / KEYS).collect::<Vec<u64>>(),
        "at" => (from..to).map(|row| i64::try_from(row / KEYS).unwrap_or(0) * 500_000_000).collect::<Vec<i64>>(),
        "key" => (from..to).map(key).collect::<Vec<&str>>(),
        "x" => (from..to).map(x).collect::<Vec<f64>>(),
    );
    let time = DataType::Datetime(TimeUnit::Nanoseconds, Some(TimeZone::UTC));
    let frame = frame.map_err(failed)?.lazy().with_column(col("at").cast(time)).collect();
    let file = File::create(path).map_err(|cause| Error::io(path.display(), &cause))?;
    ParquetWriter::new(file).finish(&mut frame.map_err(failed)?).map(|_| ()).map_err(failed)
}
