//! Tables of runs as lazy frames.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use feedline_traces::{Error, Kind, Result, Schema as Names};
use polars::io::HiveOptions;
use polars::prelude::{
    DataFrame, DataType, IntoLazy as _, LazyFrame, PlRefPath, PolarsError, ScanArgsParquet, Schema, SchemaRef,
    SerReader as _, TimeUnit, TimeZone, UnionArgs, all, col, concat, lit,
};
use polars::sql::{SQLContext, extract_table_identifiers};

use crate::Answer;
use crate::refusal;
use crate::runs::{Contents, Run, Runs, table_names};

/// The tables of some runs.
pub(crate) struct Tables<'a> {
    runs: &'a Runs,
    names: BTreeSet<String>,
}

impl<'a> Tables<'a> {
    /// Finds which tables there are.
    pub(crate) fn find(runs: &'a Runs) -> Self {
        let mut names = BTreeSet::new();
        for run in &runs.runs {
            names.extend(table_names(&run.folder));
            names.extend(run.declared.iter().flat_map(|s| &s.tables).map(|table| table.name.to_string()));
        }
        Self { runs, names }
    }

    /// Names, rows and columns of all tables.
    pub(crate) fn contents(&self) -> Result<Vec<Contents>> {
        let contents = self.names.iter().map(|table| {
            let mut rows = 0;
            for run in &self.runs.runs {
                for part in parts(run, table)? {
                    rows += count(&part)?;
                }
            }
            let columns = self.frame(table)?.map(|mut frame| columns(&mut frame, table)).transpose()?;
            Ok(Contents { table: table.clone(), rows, columns: columns.unwrap_or_default() })
        });
        contents.filter(|c| c.as_ref().map_or(true, |c| !c.columns.is_empty())).collect()
    }

    /// The answer to a query, cut after a number of rows.
    pub(crate) fn sql(&self, query: &str, most: usize) -> Result<Answer> {
        let none = Names::default();
        let mentioned =
            extract_table_identifiers(query, false, true).map_err(|e| refusal::refused(&e, &none, &none))?;
        let mut context = SQLContext::new();
        let mut found = Vec::new();
        // A query that names no table may ask which there are.
        for table in self.names.iter().filter(|name| mentioned.is_empty() || mentioned.contains(name)) {
            let Some(mut frame) = self.frame(table)? else { continue };
            found.push((table.as_str(), columns(&mut frame, table)?.into_iter().map(|(name, _)| name).collect()));
            context.register(table, frame);
        }
        let found = refusal::schema(found.into_iter());
        let every = refusal::schema(self.names.iter().map(|name| (name.as_str(), Vec::new())));
        let refused = |error: PolarsError| refusal::refused(&error, &every, &found);
        let limit = u32::try_from(most).unwrap_or(u32::MAX).saturating_add(1);
        let frame = context.execute(query).map_err(refused)?.limit(limit);
        let frame = match frame.clone().collect() {
            // Polars rewrites a bare `count(*)` over a union into a sum of 128-bit numbers, which
            // this build leaves out; without the rewriting step it counts rows one by one.
            Err(error) if error.to_string().contains("UInt128") => frame.with_projection_pushdown(false).collect(),
            outcome => outcome,
        };
        Ok(Answer::new(&frame.map_err(refused)?, most))
    }

    /// A table over all runs; `None` when no run has rows of it.
    fn frame(&self, table: &str) -> Result<Option<LazyFrame>> {
        let mut frames = Vec::new();
        for run in &self.runs.runs {
            let Some(frame) = scan(run, table)? else { continue };
            frames.push(match self.runs.named {
                true => frame.select([lit(run.name.as_str()).alias("run"), all().as_expr()]),
                false => frame,
            });
        }
        if frames.len() < 2 {
            return Ok(frames.pop());
        }
        let failed = |error: PolarsError| refusal::refused(&error, &Names::default(), &Names::default()).at(table);
        let schemas = frames.iter_mut().map(|f| f.collect_schema().map_err(failed)).collect::<Result<Vec<_>>>()?;
        let union = union(table, &schemas)?;
        let aligned: Vec<_> = frames.into_iter().zip(&schemas).map(|(f, schema)| align(f, schema, &union)).collect();
        concat(aligned, UnionArgs::default()).map(Some).map_err(failed)
    }
}

/// The closed parts of a table, in order.
fn parts(run: &Run, table: &str) -> Result<Vec<PathBuf>> {
    let folder = run.folder.join(format!("table={table}"));
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let parts = names(&folder)?.into_iter().filter(|name| name.ends_with(".parquet"));
    let mut parts: Vec<PathBuf> = parts.map(|name| folder.join(name)).collect();
    parts.sort();
    Ok(parts)
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).map_err(|cause| Error::io(folder.display(), &cause))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
}

fn scan(run: &Run, table: &str) -> Result<Option<LazyFrame>> {
    let parts = parts(run, table)?;
    if parts.is_empty() {
        return Ok(declared(run, table));
    }
    let failed = |error: PolarsError| unreadable(&run.folder.join(format!("table={table}")), &error);
    let paths = parts.into_iter().map(|part| PlRefPath::try_from_pathbuf(part).map_err(failed));
    let paths = paths.collect::<Result<Vec<_>>>()?;
    let options = ScanArgsParquet {
        // The folder's name says the table; it is no column.
        hive_options: HiveOptions::new_disabled(),
        glob: false,
        ..ScanArgsParquet::default()
    };
    LazyFrame::scan_parquet_files(paths.into(), options).map(Some).map_err(failed)
}

/// A table without a row, if the run declares it.
fn declared(run: &Run, table: &str) -> Option<LazyFrame> {
    let table = run.declared.as_ref()?.tables.iter().find(|t| t.name == table)?;
    let mut schema = Schema::default();
    schema.insert("tick".into(), DataType::UInt64);
    schema.insert("at".into(), DataType::Datetime(TimeUnit::Nanoseconds, Some(TimeZone::UTC)));
    for column in &table.columns {
        let kind = match column.kind {
            Kind::Key | Kind::Text => DataType::String,
            Kind::Id | Kind::Counter => DataType::UInt64,
            Kind::Gauge => DataType::Float64,
        };
        schema.insert(column.name.as_ref().into(), kind);
    }
    Some(DataFrame::empty_with_schema(&schema).lazy())
}

fn count(part: &Path) -> Result<u64> {
    let file = File::open(part).map_err(|cause| Error::io(part.display(), &cause))?;
    let rows = polars::prelude::ParquetReader::new(file).num_rows().map_err(|error| unreadable(part, &error))?;
    Ok(rows as u64)
}

fn unreadable(place: &Path, error: &PolarsError) -> Error {
    refusal::refused(error, &Names::default(), &Names::default()).at(place.display())
}

fn columns(frame: &mut LazyFrame, table: &str) -> Result<Vec<(String, String)>> {
    let schema = frame.collect_schema().map_err(|error| unreadable(Path::new(table), &error))?;
    Ok(schema.iter().map(|(name, kind)| (name.to_string(), kind_name(kind))).collect())
}

fn kind_name(kind: &DataType) -> String {
    match kind {
        DataType::String => "text".to_owned(),
        DataType::Datetime(..) => "time".to_owned(),
        DataType::Float32 | DataType::Float64 => "number".to_owned(),
        kind if kind.is_integer() => "whole".to_owned(),
        other => other.to_string(),
    }
}

/// The columns of all runs, in the order they first appear.
fn union(table: &str, schemas: &[SchemaRef]) -> Result<Schema> {
    let mut union = Schema::default();
    for (name, kind) in schemas.iter().flat_map(|schema| schema.iter()) {
        match union.get(name) {
            Some(known) if known != kind => {
                let (a, b) = (kind_name(known), kind_name(kind));
                return Err(Error::new(format!("`{table}.{name}` is {a} in one run and {b} in another"))
                    .hint("ask the runs one by one"));
            }
            Some(_) => {}
            None => {
                union.insert(name.clone(), kind.clone());
            }
        }
    }
    Ok(union)
}

/// The frame with all columns of the union; those that it lacks are null.
fn align(frame: LazyFrame, schema: &Schema, union: &Schema) -> LazyFrame {
    let column = |(name, kind): (&polars::prelude::PlSmallStr, &DataType)| match schema.contains(name) {
        true => col(name.clone()),
        false => lit(polars::prelude::NULL).cast(kind.clone()).alias(name.clone()),
    };
    frame.select(union.iter().map(column).collect::<Vec<_>>())
}
