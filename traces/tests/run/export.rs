//! Other formats.

use std::fs;

use arrow::ipc::reader::FileReader;
use feedline_traces::Sink as _;
use feedline_traces::export::{Format, export};
use feedline_traces::run::Run;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use crate::sample::{every, write};

#[test]
fn each_format_has_every_row_of_closed_parts_and_open_segment() {
    let home = tempfile::tempdir().unwrap();
    let _open = write(&home.path().join("run"), 0..60, every(1500));
    let run = Run::open(home.path().join("run")).unwrap();
    let rows: usize = run.rows("disk").unwrap().map(|b| b.unwrap().num_rows()).sum();
    assert_eq!(rows, 3 * 48);
    let out = home.path().join("out");
    for format in [Format::Csv, Format::Jsonl, Format::Parquet, Format::Arrow] {
        let (files, failed) = export(&run, None, format, &out).unwrap();
        assert_eq!(failed, []);
        assert_eq!(files.len(), 3);
        let file = || fs::File::open(out.join(format!("disk.{}", format.extension()))).unwrap();
        let found = match format {
            Format::Csv => std::io::read_to_string(file()).unwrap().lines().count() - 1,
            Format::Jsonl => std::io::read_to_string(file()).unwrap().lines().count(),
            Format::Parquet => {
                ParquetRecordBatchReader::try_new(file(), 64).unwrap().map(|b| b.unwrap().num_rows()).sum()
            }
            Format::Arrow => FileReader::try_new(file(), None).unwrap().map(|b| b.unwrap().num_rows()).sum(),
        };
        assert_eq!(found, rows, "{format:?}");
    }
}

#[test]
fn missing_values_are_empty_or_null() {
    let home = tempfile::tempdir().unwrap();
    let mut writer = write(&home.path().join("run"), 0..8, every(1 << 20));
    writer.finish().unwrap();
    let run = Run::open(home.path().join("run")).unwrap();
    let text = |format: Format| {
        let (files, _) = export(&run, Some("disk"), format, home.path()).unwrap();
        fs::read_to_string(&files[0]).unwrap()
    };
    let csv = text(Format::Csv);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "tick,at,device,read_bytes,busy,used");
    assert_eq!(lines[1], "1,2023-11-14T22:13:21.000000000Z,sda,18446744073709551614,1000003,0.1");
    assert_eq!(lines[6], "2,2023-11-14T22:13:22.000000000Z,dm-ü,18446744073709551613,2000006,");
    let jsonl = text(Format::Jsonl);
    let last: serde_json::Value = serde_json::from_str(jsonl.lines().last().unwrap()).unwrap();
    assert_eq!(last["tick"], 7);
    assert_eq!(last["read_bytes"], serde_json::Value::Null);
    assert_eq!(last["device"], "dm-ü");
    assert!(export(&run, Some("dsik"), Format::Csv, home.path()).unwrap_err().hint.unwrap().contains("`disk`"));
}
