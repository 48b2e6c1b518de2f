//! Rows as Arrow arrays, as they stand on disk, and back.
//!
//! Every table has `tick` (the sequence number of its tick) and `at` before its own columns.
//! Nulls are nulls, a gauge that is NaN is null.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray as _, Float64Array, Float64Builder, RecordBatch, StringArray, StringBuilder,
    TimestampNanosecondArray, TimestampNanosecondBuilder, UInt64Array, UInt64Builder,
};
use arrow::datatypes::{
    DataType, Field, Float64Type, Schema as ArrowSchema, SchemaRef, TimeUnit, TimestampNanosecondType, UInt64Type,
};

use crate::clock::Ts;
use crate::error::{Error, Result};
use crate::table::{Kind, Table};
use crate::tick::{Batch, Values};
use crate::value::Symbol;

/// The time zone of every timestamp.
const UTC: &str = "UTC";
/// Most distinct strings remembered by a reader.
const MAX_SYMBOLS: usize = 1 << 16;

fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some(UTC.into()))
}

fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::Key | Kind::Text => DataType::Utf8,
        Kind::Id | Kind::Counter => DataType::UInt64,
        Kind::Gauge => DataType::Float64,
    }
}

/// The Arrow schema of a table on disk.
pub(super) fn schema(table: &Table) -> SchemaRef {
    let mut fields = vec![Field::new("tick", DataType::UInt64, false), Field::new("at", timestamp(), false)];
    let field = |c: &crate::Column| Field::new(c.name.as_ref(), data_type(c.kind), c.kind != Kind::Key);
    fields.extend(table.columns.iter().map(field));
    Arc::new(ArrowSchema::new(fields))
}

/// The Arrow schema of the table of tick boundaries.
pub(super) fn ticks_schema() -> SchemaRef {
    Arc::new(ArrowSchema::new(vec![
        Field::new("tick", DataType::UInt64, false),
        Field::new("at", timestamp(), false),
        Field::new("tables", DataType::Utf8, false),
        Field::new("rows", DataType::UInt64, false),
    ]))
}

enum Builder {
    Text(StringBuilder),
    Whole(UInt64Builder),
    Number(Float64Builder),
}

/// Gathers rows of one table.
pub(super) struct RowsBuilder {
    schema: SchemaRef,
    tick: UInt64Builder,
    at: TimestampNanosecondBuilder,
    columns: Vec<Builder>,
}

impl RowsBuilder {
    pub(super) fn new(table: &Table) -> Self {
        let columns = table.columns.iter().map(|c| match data_type(c.kind) {
            DataType::Utf8 => Builder::Text(StringBuilder::new()),
            DataType::UInt64 => Builder::Whole(UInt64Builder::new()),
            _ => Builder::Number(Float64Builder::new()),
        });
        Self {
            schema: schema(table),
            tick: UInt64Builder::new(),
            at: TimestampNanosecondBuilder::new().with_timezone(UTC),
            columns: columns.collect(),
        }
    }

    pub(super) fn append(&mut self, tick: u64, batch: &Batch) {
        for at in &batch.at {
            self.tick.append_value(tick);
            self.at.append_value(at.0);
        }
        for (builder, values) in self.columns.iter_mut().zip(&batch.columns) {
            match (builder, values) {
                (Builder::Text(out), Values::Key(values)) => values.iter().for_each(|v| out.append_value(v)),
                (Builder::Text(out), Values::Text(values)) => {
                    values.iter().for_each(|v| out.append_option(v.as_deref()));
                }
                (Builder::Whole(out), Values::Id(values) | Values::Counter(values)) => {
                    values.iter().for_each(|v| out.append_option(*v));
                }
                (Builder::Number(out), Values::Gauge(values)) => {
                    values.iter().for_each(|v| out.append_option((!v.is_nan()).then_some(*v)));
                }
                _ => debug_assert!(false, "the writer checks a tick before it appends it"),
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tick.values_slice().len()
    }

    /// The rows gathered; the builder is empty then.
    pub(super) fn finish(&mut self) -> Result<RecordBatch> {
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(self.tick.finish()), Arc::new(self.at.finish())];
        arrays.extend(self.columns.iter_mut().map(|column| match column {
            Builder::Text(builder) => Arc::new(builder.finish()) as ArrayRef,
            Builder::Whole(builder) => Arc::new(builder.finish()),
            Builder::Number(builder) => Arc::new(builder.finish()),
        }));
        RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(|e| Error::new(e.to_string()))
    }
}

/// Rows of one table read from disk, in reach by position.
pub(super) struct Loaded {
    pub(super) tick: UInt64Array,
    pub(super) at: TimestampNanosecondArray,
    columns: Vec<Column>,
}

enum Column {
    Key(StringArray),
    Text(StringArray),
    Id(UInt64Array),
    Counter(UInt64Array),
    Gauge(Float64Array),
}

impl Loaded {
    /// The columns of a table, found by name.
    ///
    /// # Errors
    /// When one is missing or of another type, or has nulls where there can be none.
    pub(super) fn new(table: &Table, batch: &RecordBatch) -> Result<Self> {
        let columns = table.columns.iter().map(|column| {
            let array = find(batch, &column.name, &data_type(column.kind))?;
            Ok(match column.kind {
                Kind::Key => Column::Key(whole(&column.name, array)?.as_string::<i32>().clone()),
                Kind::Text => Column::Text(array.as_string::<i32>().clone()),
                Kind::Id => Column::Id(array.as_primitive::<UInt64Type>().clone()),
                Kind::Counter => Column::Counter(array.as_primitive::<UInt64Type>().clone()),
                Kind::Gauge => Column::Gauge(array.as_primitive::<Float64Type>().clone()),
            })
        });
        Ok(Self { tick: ticks(batch)?, at: times(batch)?, columns: columns.collect::<Result<_>>()? })
    }

    /// Appends a range of rows to a batch of the same table.
    pub(super) fn copy(&self, from: usize, to: usize, symbols: &mut Symbols, out: &mut Batch) {
        out.at.extend((from..to).map(|row| Ts(self.at.value(row))));
        for (column, values) in self.columns.iter().zip(&mut out.columns) {
            match (column, values) {
                (Column::Key(a), Values::Key(v)) => v.extend((from..to).map(|row| symbols.of(a.value(row)))),
                (Column::Text(a), Values::Text(v)) => {
                    v.extend((from..to).map(|row| a.is_valid(row).then(|| symbols.of(a.value(row)))));
                }
                (Column::Id(a), Values::Id(v)) | (Column::Counter(a), Values::Counter(v)) => {
                    v.extend((from..to).map(|row| a.is_valid(row).then(|| a.value(row))));
                }
                (Column::Gauge(a), Values::Gauge(v)) => {
                    v.extend((from..to).map(|row| if a.is_valid(row) { a.value(row) } else { f64::NAN }));
                }
                _ => debug_assert!(false, "columns and batch come from one table"),
            }
        }
    }
}

/// The tick boundaries read from disk.
pub(super) struct LoadedTicks {
    pub(super) tick: UInt64Array,
    pub(super) at: TimestampNanosecondArray,
    pub(super) tables: StringArray,
    pub(super) rows: UInt64Array,
}

impl LoadedTicks {
    pub(super) fn new(batch: &RecordBatch) -> Result<Self> {
        Ok(Self {
            tick: ticks(batch)?,
            at: times(batch)?,
            tables: whole("tables", find(batch, "tables", &DataType::Utf8)?)?.as_string::<i32>().clone(),
            rows: whole("rows", find(batch, "rows", &DataType::UInt64)?)?.as_primitive::<UInt64Type>().clone(),
        })
    }
}

fn ticks(batch: &RecordBatch) -> Result<UInt64Array> {
    Ok(whole("tick", find(batch, "tick", &DataType::UInt64)?)?.as_primitive::<UInt64Type>().clone())
}

fn times(batch: &RecordBatch) -> Result<TimestampNanosecondArray> {
    Ok(whole("at", find(batch, "at", &timestamp())?)?.as_primitive::<TimestampNanosecondType>().clone())
}

fn find<'a>(batch: &'a RecordBatch, name: &str, wanted: &DataType) -> Result<&'a ArrayRef> {
    let array = batch.column_by_name(name).ok_or_else(|| Error::new(format!("no column `{name}`")))?;
    if array.data_type() == wanted {
        return Ok(array);
    }
    Err(Error::new(format!("column `{name}`: expected {wanted}, found {}", array.data_type())))
}

fn whole<'a>(name: &str, array: &'a ArrayRef) -> Result<&'a ArrayRef> {
    match array.null_count() {
        0 => Ok(array),
        nulls => Err(Error::new(format!("column `{name}`: {nulls} nulls, expected none"))),
    }
}

/// Strings seen, so that equal ones are shared.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    seen: HashSet<Symbol>,
}

impl Symbols {
    fn of(&mut self, text: &str) -> Symbol {
        if let Some(symbol) = self.seen.get(text) {
            return Symbol::clone(symbol);
        }
        let symbol = Symbol::from(text);
        if self.seen.len() >= MAX_SYMBOLS {
            self.seen.clear();
        }
        self.seen.insert(Symbol::clone(&symbol));
        symbol
    }
}
