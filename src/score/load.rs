//! Data sets from a folder: each has declarations (TOML) that say what the columns of a file (CSV or
//! Parquet) beside them are.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow::array::{Array as _, ArrayRef, AsArray as _};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use feedline_models::learn::Frame;
use feedline_models::learn::declare::{Declaration, Raw, Table};
use feedline_traces::{Error, Result};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// A data set that was read.
#[derive(Debug)]
pub struct Set {
    /// What its columns are.
    pub declared: Declaration,
    /// Its rows.
    pub frame: Frame,
}

/// The most bytes of a CSV file, and of a declaration.
const BYTES: u64 = 256 << 20;
/// The most rows of a Parquet file.
const ROWS: usize = 5_000_000;

/// All data sets of a folder and its sub-folders, by name.
///
/// # Errors
/// When the folder has none, or one cannot be read or does not fit its declaration.
pub fn sets(folder: &Path) -> Result<Vec<Set>> {
    let mut found = Vec::new();
    declarations(folder, 0, &mut found)?;
    found.sort();
    if found.is_empty() {
        return Err(Error::new(format!("{}: no data set", folder.display())).hint(
            "a data set is a file of rows and a declaration beside it; see models/data/mlperf_storage/runs.toml",
        ));
    }
    found.iter().map(|path| set(path)).collect()
}

fn declarations(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |cause: &std::io::Error| {
        Error::io(folder.display(), cause).hint("`--data DIR` names the folder `models/data` of the source")
    };
    for entry in fs::read_dir(folder).map_err(|cause| failed(&cause))? {
        let path = entry.map_err(|cause| failed(&cause))?.path();
        if path.is_dir() && depth < 3 {
            declarations(&path, depth + 1, found)?;
        } else if path.extension().is_some_and(|e| e == "toml") {
            found.push(path);
        }
    }
    Ok(())
}

fn set(path: &Path) -> Result<Set> {
    let declared: Declaration =
        toml::from_str(&text(path)?).map_err(|cause| Error::new(format!("{}: {cause}", path.display())))?;
    let rows = path.with_file_name(&declared.file);
    if rows.parent() != path.parent() {
        return Err(Error::new(format!("{}: `{}` is not beside it", path.display(), declared.file)));
    }
    let parquet = rows.extension().is_some_and(|e| e == "parquet");
    let table =
        if parquet { from_parquet(&rows)? } else { from_csv(&text(&rows)?).map_err(|e| e.at(rows.display()))? };
    let frame = declared.frame(&table)?;
    Ok(Set { declared, frame })
}

fn text(path: &Path) -> Result<String> {
    let failed = |cause: std::io::Error| Error::io(path.display(), &cause);
    let bytes = fs::metadata(path).map_err(failed)?.len();
    if bytes > BYTES {
        return Err(Error::new(format!("{}: {bytes} bytes, at most {BYTES} are read", path.display())));
    }
    fs::read_to_string(path).map_err(failed)
}

/// Columns of a CSV text with a head; quoted cells may hold commas, line ends and doubled quotes.
fn from_csv(text: &str) -> Result<Table> {
    let mut rows = records(text).into_iter();
    let head = rows.next().ok_or_else(|| Error::new("1: no head"))?;
    let mut columns = vec![Vec::new(); head.len()];
    for (number, row) in rows.enumerate() {
        if row.len() != head.len() {
            return Err(Error::new(format!("row {}: {} cells under {} heads", number + 1, row.len(), head.len())));
        }
        columns.iter_mut().zip(row).for_each(|(column, cell)| column.push(cell));
    }
    Ok(head.into_iter().zip(columns.into_iter().map(Raw::Texts)).collect())
}

fn records(text: &str) -> Vec<Vec<String>> {
    let mut records = Vec::new();
    let (mut record, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut cell)),
            '\r' if !quoted && chars.peek() == Some(&'\n') => (),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut cell));
                records.push(std::mem::take(&mut record));
            }
            c => cell.push(c),
        }
    }
    if !cell.is_empty() || !record.is_empty() {
        record.push(cell);
        records.push(record);
    }
    records
}

fn from_parquet(path: &Path) -> Result<Table> {
    let failed = |cause: String| Error::new(format!("{}: {cause}", path.display()));
    let file = File::open(path).map_err(|cause| Error::io(path.display(), &cause))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|cause| failed(cause.to_string()))?;
    let mut table = Table::new();
    let mut rows = 0;
    for batch in builder.build().map_err(|cause| failed(cause.to_string()))? {
        let batch = batch.map_err(|cause| failed(cause.to_string()))?;
        rows += batch.num_rows();
        if rows > ROWS {
            return Err(failed(format!("more than {ROWS} rows")));
        }
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            // Lists and structures are no columns to learn from.
            let Some(part) = raw(column) else { continue };
            match (table.get_mut(field.name()), part) {
                (Some(Raw::Texts(all)), Raw::Texts(part)) => all.extend(part),
                (Some(Raw::Numbers(all)), Raw::Numbers(part)) => all.extend(part),
                (Some(_), _) => return Err(failed(format!("column {}: text and numbers", field.name()))),
                (None, part) => {
                    table.insert(field.name().clone(), part);
                }
            }
        }
    }
    Ok(table)
}

fn raw(column: &ArrayRef) -> Option<Raw> {
    let is_text = |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let text = match column.data_type() {
        DataType::Dictionary(_, values) => is_text(values),
        kind => is_text(kind),
    };
    if text {
        let texts = cast(column, &DataType::Utf8).ok()?;
        return Some(Raw::Texts(texts.as_string::<i32>().iter().map(|t| t.unwrap_or_default().to_owned()).collect()));
    }
    let numbers = cast(column, &DataType::Float64).ok()?;
    let numbers = numbers.as_primitive::<Float64Type>();
    Some(Raw::Numbers(
        (0..numbers.len()).map(|row| if numbers.is_null(row) { f64::NAN } else { numbers.value(row) }).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;

    use super::*;

    #[test]
    fn quoted_cells_hold_commas_quotes_and_line_ends() {
        let table = from_csv("a,b\r\n1,\"x, \"\"y\"\"\nz\"\n,2\n").unwrap();
        assert_eq!(table["a"], Raw::Texts(vec!["1".into(), String::new()]));
        assert_eq!(table["b"], Raw::Texts(vec!["x, \"y\"\nz".into(), "2".into()]));
        assert!(from_csv("a,b\n1\n").unwrap_err().message.contains("row 1: 1 cells under 2 heads"));
        assert!(from_csv("").is_err());
    }

    #[test]
    fn parquet_gives_numbers_and_texts_and_nulls_are_missing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.parquet");
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("n", Arc::new(Int64Array::from(vec![Some(3), None]))),
            ("x", Arc::new(Float64Array::from(vec![0.5, f64::NAN]))),
            ("s", Arc::new(StringArray::from(vec![Some("tar"), None]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let table = from_parquet(&path).unwrap();
        let Raw::Numbers(n) = &table["n"] else { panic!("no numbers") };
        assert!(n[0] == 3.0 && n[1].is_nan());
        assert_eq!(table["s"], Raw::Texts(vec!["tar".into(), String::new()]));
    }

    #[test]
    fn the_data_sets_that_come_with_the_source_fit_their_declarations() {
        let sets = sets(&Path::new(env!("CARGO_MANIFEST_DIR")).join("models/data")).unwrap();
        let runs = sets.iter().find(|s| s.declared.name == "mlperf_storage").unwrap();
        assert_eq!(runs.frame.len(), 607);
        for set in &sets {
            for scored in &set.declared.task {
                let task = scored.task(&set.frame);
                task.check(&set.frame).unwrap();
                assert!(!task.rows(&set.frame).unwrap().is_empty(), "{}", set.declared.name);
                for split in &scored.splits {
                    assert!(set.frame.group(split).unwrap().levels.len() > 1);
                }
            }
        }
        // Given what only a run tells, the leak test says so.
        let mut task = runs.declared.task[1].task(&runs.frame);
        task.features.push("samples_per_s".to_owned());
        let error = task.check(&runs.frame).unwrap_err();
        assert!(error.message.contains("samples_per_s shares the outcome's timer"), "{error}");
    }
}
