//! One JSON object a line.

use std::io::Write;

use arrow::array::{Array as _, ArrayRef, AsArray as _};
use arrow::datatypes::{DataType, Float64Type, TimestampNanosecondType, UInt64Type};
use serde_json::Value;

use super::failed;
use crate::clock::Ts;
use crate::error::Result;
use crate::run::{RowBatches, utc};

pub(super) fn write(rows: RowBatches, out: &mut dyn Write) -> Result<()> {
    let names: Vec<Value> = rows.schema().fields().iter().map(|f| Value::from(f.name().as_str())).collect();
    for batch in rows {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            // Written by hand, so that columns keep the order of the declaration.
            for (index, (name, column)) in names.iter().zip(batch.columns()).enumerate() {
                let before = if index == 0 { "{" } else { "," };
                write!(out, "{before}{name}:{}", cell(column, row)).map_err(failed)?;
            }
            out.write_all(b"}\n").map_err(failed)?;
        }
    }
    Ok(())
}

fn cell(column: &ArrayRef, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Utf8 => Value::from(column.as_string::<i32>().value(row)),
        DataType::UInt64 => Value::from(column.as_primitive::<UInt64Type>().value(row)),
        DataType::Float64 => Value::from(column.as_primitive::<Float64Type>().value(row)),
        _ => {
            let at = column.as_primitive_opt::<TimestampNanosecondType>().map(|at| Ts(at.value(row)));
            at.map_or(Value::Null, |at| Value::from(utc::rfc3339(at)))
        }
    }
}
