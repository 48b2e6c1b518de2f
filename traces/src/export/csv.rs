//! Comma-separated values, RFC 4180: quotes where needed, doubled within, lines end with `\n`.

use std::io::{self, Write};

use arrow::array::{Array as _, ArrayRef, AsArray as _};
use arrow::datatypes::{DataType, Float64Type, TimestampNanosecondType, UInt64Type};

use super::failed;
use crate::clock::Ts;
use crate::error::Result;
use crate::run::{RowBatches, utc};

pub(super) fn write(rows: RowBatches, out: &mut dyn Write) -> Result<()> {
    let names: Vec<&str> = rows.schema().fields().iter().map(|f| f.name().as_str()).collect();
    writeln!(out, "{}", names.join(",")).map_err(failed)?;
    for batch in rows {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            for (index, column) in batch.columns().iter().enumerate() {
                if index > 0 {
                    out.write_all(b",").map_err(failed)?;
                }
                cell(column, row, out).map_err(failed)?;
            }
            out.write_all(b"\n").map_err(failed)?;
        }
    }
    Ok(())
}

fn cell(column: &ArrayRef, row: usize, out: &mut dyn Write) -> io::Result<()> {
    if column.is_null(row) {
        return Ok(());
    }
    match column.data_type() {
        DataType::Utf8 => text(column.as_string::<i32>().value(row), out),
        DataType::UInt64 => write!(out, "{}", column.as_primitive::<UInt64Type>().value(row)),
        DataType::Float64 => write!(out, "{}", column.as_primitive::<Float64Type>().value(row)),
        _ => {
            let at = column.as_primitive_opt::<TimestampNanosecondType>().map(|at| Ts(at.value(row)));
            at.map_or(Ok(()), |at| out.write_all(utc::rfc3339(at).as_bytes()))
        }
    }
}

/// An empty text is quoted, so that it is not taken for a missing one.
fn text(text: &str, out: &mut dyn Write) -> io::Result<()> {
    if !text.is_empty() && !text.contains([',', '"', '\n', '\r']) {
        return out.write_all(text.as_bytes());
    }
    write!(out, "\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_would_split_is_quoted() {
        for (plain, written) in [("a b", "a b"), ("", "\"\""), ("a,\"b\"\n", "\"a,\"\"b\"\"\n\"")] {
            let mut out = Vec::new();
            text(plain, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), written);
        }
    }
}
