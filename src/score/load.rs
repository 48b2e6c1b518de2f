//! Data sets from a folder: each has declarations (TOML) that say what the columns of a file (CSV or
//! Parquet) beside them are. What `feedline sweep` leaves needs none: its columns are known.

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
    /// The file it was read from.
    pub path: PathBuf,
    /// Its rows.
    pub frame: Frame,
}

/// The most bytes of a CSV file, and of a declaration.
const BYTES: u64 = 256 << 20;
/// The most rows of a Parquet file.
const ROWS: usize = 5_000_000;

/// The declaration of observations, for what a sweep leaves in a folder of its own.
const OBSERVATIONS: &str = include_str!("../../models/data/observations/observations.toml");
/// What a sweep leaves.
const SWEPT: &str = "observation.parquet";

/// What a folder holds.
#[derive(Debug)]
pub struct Found {
    /// Data sets, by the paths of their declarations.
    pub sets: Vec<Set>,
    /// Files with rows that are declared and not there.
    pub absent: Vec<PathBuf>,
}

/// All data sets of a folder and its sub-folders.
///
/// # Errors
/// When the folder has none, or one cannot be read or does not fit its declaration.
pub fn sets(folder: &Path) -> Result<Found> {
    let mut paths = Vec::new();
    declarations(folder, 0, &mut paths)?;
    paths.sort();
    let mut found = Found { sets: Vec::new(), absent: Vec::new() };
    for path in &paths {
        match set(path)? {
            Ok(set) => found.sets.push(set),
            Err(absent) => found.absent.push(absent),
        }
    }
    if found.sets.is_empty() {
        let absent = found.absent.first().map_or_else(String::new, |path| format!(": {} is not there", path.display()));
        return Err(Error::new(format!("{}: no data set{absent}", folder.display())).hint(
            "a data set is a file of rows and a declaration beside it, see models/data/mlperf_storage/runs.toml; \
             or the folder that `feedline sweep` wrote",
        ));
    }
    Ok(found)
}

fn declarations(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |cause: &std::io::Error| {
        Error::io(folder.display(), cause).hint("`--data DIR` names the folder `models/data` of the source")
    };
    let (mut declared, mut swept) = (false, None);
    for entry in fs::read_dir(folder).map_err(|cause| failed(&cause))? {
        let path = entry.map_err(|cause| failed(&cause))?.path();
        if path.is_dir() && depth < 3 {
            declarations(&path, depth + 1, found)?;
        } else if path.extension().is_some_and(|e| e == "toml") {
            declared = true;
            found.push(path);
        } else if path.file_name().is_some_and(|name| name == SWEPT) {
            swept = Some(path);
        }
    }
    found.extend(swept.filter(|_| !declared));
    Ok(())
}

/// The data set of a declaration or of a sweep's table; else the file that is not there.
fn set(path: &Path) -> Result<std::result::Result<Set, PathBuf>> {
    let swept = path.extension().is_some_and(|e| e == "parquet");
    let source = if swept { OBSERVATIONS.to_owned() } else { text(path)? };
    let declared: Declaration =
        toml::from_str(&source).map_err(|cause| Error::new(format!("{}: {cause}", path.display())))?;
    let rows = if swept { path.to_path_buf() } else { path.with_file_name(&declared.file) };
    if rows.parent() != path.parent() {
        return Err(Error::new(format!("{}: `{}` is not beside it", path.display(), declared.file)));
    }
    if !rows.exists() {
        return Ok(Err(rows));
    }
    let parquet = rows.extension().is_some_and(|e| e == "parquet");
    let table =
        if parquet { from_parquet(&rows)? } else { from_csv(&text(&rows)?).map_err(|e| e.at(rows.display()))? };
    let frame = declared.frame(&table)?;
    Ok(Ok(Set { declared, path: rows, frame }))
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

/// Columns of a Parquet file.
pub(crate) fn from_parquet(path: &Path) -> Result<Table> {
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
    use feedline_models::learn::random::Random;
    use feedline_models::observation::{OUTCOMES, ObservationRow, PROVENANCE};
    use feedline_traces::Row as _;
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
        let found = sets(&Path::new(env!("CARGO_MANIFEST_DIR")).join("models/data")).unwrap();
        let runs = found.sets.iter().find(|s| s.declared.name == "mlperf_storage").unwrap();
        assert_eq!(runs.frame.len(), 607);
        found.sets.iter().for_each(fits);
        // Given what only a run tells, the leak test says so.
        let mut task = runs.declared.task[1].task(&runs.frame);
        task.features.push("samples_per_s".to_owned());
        let error = task.check(&runs.frame).unwrap_err();
        assert!(error.message.contains("samples_per_s shares the outcome's timer"), "{error}");
    }

    fn fits(set: &Set) {
        for scored in &set.declared.task {
            let task = scored.task(&set.frame);
            task.check(&set.frame).unwrap();
            assert!(!task.rows(&set.frame).unwrap().is_empty(), "{}", set.declared.name);
            for split in &scored.splits {
                assert!(set.frame.group(split).unwrap().levels.len() > 1);
            }
        }
        for class in &set.declared.class {
            assert!(set.frame.group(&class.label).unwrap().levels.len() > 1, "{}", class.label);
            let inputs = class.features(&set.frame);
            assert!(!inputs.is_empty() && inputs.iter().all(|name| set.frame.feature(name).unwrap().timer != "loop"));
        }
    }

    /// A table as a sweep leaves it, of made-up rows; every third is simulated.
    fn swept(folder: &Path) -> PathBuf {
        let mut random = Random::new(3, 0);
        let rows = 60;
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        for column in ObservationRow::table().columns {
            let name = column.name.to_string();
            let texts = |of: &dyn Fn(usize) -> &'static str| {
                Arc::new(StringArray::from((0..rows).map(of).collect::<Vec<_>>())) as ArrayRef
            };
            let mut numbers = |low: f64, high: f64| {
                let draw = |_| (low * (high / low).powf(random.unit())).round();
                Arc::new(Float64Array::from((0..rows).map(draw).collect::<Vec<_>>())) as ArrayRef
            };
            let values = match name.as_str() {
                "origin" => texts(&|row| if row % 3 == 2 { "simulated" } else { "real" }),
                "storage" => texts(&|row| ["disk", "fuse", "tmpfs"][row % 3]),
                "format" => texts(&|row| ["files", "tar"][row % 2]),
                "content" => texts(&|_| "bytes"),
                "access" => texts(&|row| ["shuffled", "sequential"][row % 2]),
                "step_kind" => texts(&|_| "sleep"),
                "sweep" | "machine" | "setting" => texts(&|_| "one"),
                "config" => Arc::new(Int64Array::from((0..60).map(|row| row / 2).collect::<Vec<i64>>())),
                "batch" | "workers" | "prefetch" | "cores" => numbers(1.0, 8.0),
                "stall" | "busy" | "resident" => {
                    Arc::new(Float64Array::from((0..rows).map(|_| random.unit()).collect::<Vec<_>>()))
                }
                _ => numbers(1e5, 1e8),
            };
            columns.push((name, values));
        }
        let path = folder.join(SWEPT);
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        path
    }

    #[test]
    fn what_a_sweep_leaves_is_a_data_set_and_its_outcomes_are_no_inputs() {
        let dir = tempfile::tempdir().unwrap();
        swept(dir.path());
        let found = sets(dir.path()).unwrap();
        let set = &found.sets[0];
        fits(set);
        let rate = set.declared.task[0].task(&set.frame);
        assert_eq!(rate.rows(&set.frame).unwrap().len(), 40, "simulated rows are in no score");
        for outcome in &set.declared.task[0].leaked {
            let mut task = rate.clone();
            task.features.push(outcome.clone());
            let error = task.check(&set.frame).unwrap_err();
            assert!(error.message.contains(&format!("{outcome} shares the outcome's timer `loop`")), "{error}");
        }
        // As an input without a timer, the leak test of values is not even asked.
        for column in OUTCOMES.iter().chain(&PROVENANCE) {
            let mut declared = set.declared.clone();
            let input = format!("column = \"{column}\"");
            declared.input.retain(|input| input.column != *column);
            declared.input.push(toml::from_str(&input).unwrap());
            declared.task.iter_mut().for_each(|task| task.leaked.retain(|name| name != column));
            let error = declared.frame(&from_parquet(&dir.path().join(SWEPT)).unwrap()).unwrap_err();
            assert!(error.message.contains(&format!("`{column}` among the inputs")), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_declared_and_not_there_is_named_and_costs_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let table = swept(dir.path());
        fs::create_dir(dir.path().join("more")).unwrap();
        fs::write(dir.path().join("more/observations.toml"), OBSERVATIONS).unwrap();
        let found = sets(dir.path()).unwrap();
        assert_eq!((found.sets.len(), found.absent.len()), (1, 1));
        assert!(found.absent[0].ends_with("more/observations.parquet"));
        fs::remove_file(table).unwrap();
        assert!(sets(dir.path()).unwrap_err().message.contains("observations.parquet is not there"));
    }
}
