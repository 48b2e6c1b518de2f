//! Queries over small run folders.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use crate::{Runs, Value, sql, tables};
use feedline_traces::run::{Job, Machine, Meta, RunWriter};
use feedline_traces::unit::{Bytes, Ratio};
use feedline_traces::{Counter, Gauge, Key, Row as _, Rows, Schema, Sink as _, Tick, Ts, table};
use polars::df;
use polars::prelude::{DataFrame, DataType, IntoLazy as _, ParquetWriter, TimeUnit, TimeZone, col};

/// Writes a part of a table, `at` in seconds since the epoch.
fn part(run: &Path, table: &str, number: u32, frame: DataFrame) {
    let time = DataType::Datetime(TimeUnit::Nanoseconds, Some(TimeZone::UTC));
    let frame = frame.lazy().with_column((col("at") * 1_000_000_000_i64.into()).cast(time));
    let folder = run.join(format!("table={table}"));
    fs::create_dir_all(&folder).unwrap();
    let file = File::create(folder.join(format!("part-{number:06}.parquet"))).unwrap();
    ParquetWriter::new(file).finish(&mut frame.collect().unwrap()).unwrap();
}

/// A run with two disks over two parts, and a trainer that waits.
fn run(folder: &Path) {
    let disk = |at: [i64; 2], bytes: [u64; 2]| {
        df!("at" => at, "device" => ["sda", "sdb"], "read_bytes" => bytes, "index" => [Some(0_u64), None]).unwrap()
    };
    part(folder, "disk", 1, disk([10, 10], [100, 7]));
    part(folder, "disk", 2, disk([20, 20], [300, 7]));
    let stall = df!("at" => [10_i64, 20, 20], "process" => ["9@1"; 3], "cause" => ["data", "data", "io"],
        "share" => [Some(0.5), Some(0.7), None]);
    part(folder, "stall", 1, stall.unwrap());
}

fn one() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path());
    folder
}

#[test]
fn every_table_is_listed_with_its_rows_and_columns() {
    let run = one();
    let tables = tables(run.path()).unwrap();
    let names: Vec<(&str, u64)> = tables.iter().map(|t| (t.table.as_str(), t.rows)).collect();
    assert_eq!(names, [("disk", 4), ("stall", 3)]);
    let columns: Vec<String> = tables[0].columns.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
    assert_eq!(columns, ["at time", "device text", "read_bytes whole", "index whole"]);
}

#[test]
fn an_aggregate_goes_over_all_parts() {
    let run = one();
    let query = "SELECT device, max(read_bytes) - min(read_bytes) AS bytes FROM disk GROUP BY device ORDER BY device";
    let answer = sql(run.path(), query).unwrap();
    assert_eq!(answer.columns, ["device", "bytes"]);
    assert_eq!(
        answer.rows,
        [[Value::Text("sda".into()), Value::Whole(200)], [Value::Text("sdb".into()), Value::Whole(0)],]
    );
}

#[test]
fn tables_join_and_missing_values_stay_missing() {
    let run = one();
    let query = "SELECT s.cause, s.share, d.read_bytes FROM stall s JOIN disk d ON s.at = d.at \
                 WHERE d.device = 'sda' ORDER BY s.cause, s.share";
    let answer = sql(run.path(), query).unwrap();
    let shown = answer.to_string();
    assert_eq!(answer.rows.len(), 3);
    assert_eq!(answer.rows[2][1], Value::Null);
    assert!(shown.contains("io         –         300"), "{shown}");
}

#[test]
fn times_compare_with_dates_and_subtract_to_spans() {
    let run = one();
    let query = "SELECT max(at) AS last, max(at) - min(at) AS span FROM disk WHERE at >= '1970-01-01 00:00:10'";
    let answer = sql(run.path(), query).unwrap();
    assert_eq!(answer.rows, [[Value::Time(20_000_000_000), Value::Span(10_000_000_000)]]);
    assert_eq!(answer.csv(), "last,span\r\n1970-01-01T00:00:20.000000000Z,10000000000\r\n");
}

#[test]
fn column_names_of_feedline_are_no_reserved_words() {
    let folder = tempfile::tempdir().unwrap();
    let frame = df!("at" => [1_i64], "process" => ["1@2"], "index" => [1_u64], "name" => ["n"], "read" => [1_u64],
        "written" => [1_u64], "state" => ["s"], "low" => [0.1], "high" => [0.2], "text" => ["t"], "power" => [1.0],
        "worker" => [1_u64], "rank" => [1_u64], "role" => ["r"], "kind" => ["k"], "class" => ["c"], "parent" => ["p"],
        "command" => ["c"], "world" => [1_u64], "source" => ["s"], "files" => [1.0], "part" => ["p"], "data" => [0.1],
        "period" => [1.0], "steps" => [1.0], "wait" => [1.0], "error" => ["e"], "rows" => [1.0], "what" => ["w"],
        "reason" => ["r"], "duration" => [1.0], "late" => [1.0], "share" => [0.1], "cost" => [1.0], "tick" => [1_u64])
    .unwrap();
    let names: Vec<String> = frame.get_column_names().iter().map(ToString::to_string).collect();
    for table in [
        "process",
        "thread",
        "activity",
        "wait",
        "stack",
        "disk",
        "interface",
        "mount",
        "health",
        "own",
        "absent",
        "stall",
        "step",
        "verdict",
        "accelerator",
        "tick",
    ] {
        part(folder.path(), table, 1, frame.clone());
        let answer = sql(folder.path(), &format!("SELECT {} FROM {table}", names.join(", "))).unwrap();
        assert_eq!(answer.columns, names, "{table}");
    }
}

#[test]
fn several_runs_are_one_table_with_a_column_for_the_run() {
    let runs = tempfile::tempdir().unwrap();
    run(&runs.path().join("first"));
    run(&runs.path().join("second"));
    let wider = df!("at" => [30_i64], "device" => ["sdc"], "read_bytes" => [1_u64], "index" => [Some(0_u64)],
        "discards" => [4_u64]);
    part(&runs.path().join("third"), "disk", 1, wider.unwrap());

    let query = "SELECT run, count(*) AS n, sum(discards) AS discards FROM disk GROUP BY run ORDER BY run";
    let answer = sql(runs.path(), query).unwrap();
    let shown: Vec<String> = answer.rows.iter().map(|row| format!("{row:?}")).collect();
    assert_eq!(shown.len(), 3);
    assert!(shown[0].contains("first") && shown[0].contains("Whole(4)"), "{shown:?}");
    assert!(shown[2].contains("third") && shown[2].ends_with("Whole(4)]"), "{shown:?}");

    let list = [runs.path().join("first"), runs.path().join("second")];
    let answer = Runs::open(&list).unwrap().sql("SELECT count(*) AS n FROM stall WHERE run = 'second'").unwrap();
    assert_eq!(answer.rows, [[Value::Whole(3)]]);
}

#[test]
fn a_mistake_is_named_with_what_was_perhaps_meant() {
    let run = one();
    let cases = [
        ("SELECT * FROM dsk", "no table `dsk`\nhint: did you mean `disk`?"),
        ("SELECT * FROM weather", "no table `weather`\nhint: the tables are disk, stall"),
        ("SELECT shaer FROM stall", "no column `stall.shaer`\nhint: did you mean `stall.share`?"),
        (
            "SELECT device FROM disk WHERE red_bytes > 1",
            "no column `disk.red_bytes`\nhint: did you mean `disk.read_bytes`?",
        ),
    ];
    for (query, expected) in cases {
        assert_eq!(sql(run.path(), query).unwrap_err().to_string(), expected, "{query}");
    }
    let joined = "SELECT d.devise FROM stall s JOIN disk d ON s.at = d.at";
    assert!(sql(run.path(), joined).unwrap_err().to_string().ends_with("did you mean `disk.device`?"));
    let far = sql(run.path(), "SELECT weather FROM stall").unwrap_err();
    assert_eq!(far.hint.as_deref(), Some("`stall` has at, process, cause, share"));
    let syntax = sql(run.path(), "SELEKT * FROM disk").unwrap_err();
    assert!(syntax.message.starts_with("sql: ") && syntax.message.contains("SELEKT"), "{syntax}");
    assert!(!syntax.message.contains('\n') && syntax.message.len() < 300);
}

#[test]
fn odd_queries_are_errors_and_never_panics() {
    let run = one();
    let odd = [
        "",
        ";",
        "SELECT",
        "SELECT 1; SELECT 2",
        "SELECT * FROM disk WHERE",
        "SELECT avg(device) FROM disk",
        "SELECT CAST(at AS DATE) FROM disk",
        "SELECT device + 1 FROM disk",
        "SELECT * FROM disk JOIN stall",
        "SELECT foo(device) FROM disk",
        "SELECT * FROM disk LIMIT -1",
        "SELECT * FROM disk ORDER BY 99",
        "SELECT nosuch.device FROM disk",
        "DELETE FROM disk",
        "SELECT * FROM (SELECT * FROM disk",
        "\u{0}\u{1}",
        "SELECT INTERVAL '1 fortnight' FROM disk",
        "SELECT EXTRACT(blink FROM at) FROM disk",
        "SELECT * FROM disk WHERE at > 'yesterday'",
        "SELECT at AT TIME ZONE 'Mars' FROM disk",
        "SELECT x.* FROM disk",
        "SELECT share[1] FROM stall",
        "WITH a AS (SELECT * FROM a) SELECT * FROM a",
    ];
    for query in odd {
        if let Err(error) = sql(run.path(), query) {
            assert!(!error.message.contains('\n') && error.message.len() < 600, "{query}: {error}");
        }
    }
}

table! {
    /// Activity of disks.
    pub(crate) disk: DiskRow {
        /// Name.
        device: Key,
        /// Bytes read.
        read_bytes: Counter<Bytes>,
    }
}

table! {
    /// A table that gets no row.
    pub(crate) derived stall: StallRow {
        /// Cause.
        cause: Key,
        /// Share of time.
        share: Gauge<Ratio>,
    }
}

#[test]
fn a_run_that_was_killed_is_asked_in_full_and_tables_without_rows_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let schema = Arc::new(Schema::new(vec![DiskRow::table(), StallRow::table()]).unwrap());
    let meta = Meta::new(Ts(0), Job::default(), Machine::default());
    let mut writer = RunWriter::create(&folder, meta, &schema).unwrap();
    for second in 1..=3_u64 {
        let at = Ts(i64::try_from(second).unwrap() * 1_000_000_000);
        let mut rows = Rows::new(&schema, at);
        rows.push(DiskRow { device: Key::from("sda"), read_bytes: (100 * second).into() });
        writer.accept(&schema, &Tick { at, batches: rows.finish() }).unwrap();
    }
    // No `finish`: as a kill leaves it, with all rows in the open segment.
    std::mem::forget(writer);
    let answer =
        sql(&folder, "SELECT device, max(read_bytes) AS bytes, max(at) AS last FROM disk GROUP BY device").unwrap();
    assert_eq!(answer.rows, [[Value::Text("sda".into()), Value::Whole(300), Value::Time(3_000_000_000)]]);
    let answer = sql(&folder, "SELECT cause, share FROM stall WHERE share > 0.5").unwrap();
    assert_eq!((answer.columns.len(), answer.rows.len()), (2, 0));
    let listed: Vec<(String, u64)> = tables(&folder).unwrap().into_iter().map(|t| (t.table, t.rows)).collect();
    assert_eq!(listed, [("disk".to_owned(), 3), ("stall".to_owned(), 0), ("tick".to_owned(), 3)]);
}

#[test]
fn a_folder_without_a_run_says_how_to_make_one() {
    let folder = tempfile::tempdir().unwrap();
    let error = tables(folder.path()).unwrap_err();
    assert!(error.message.ends_with("no run here"), "{error}");
    assert!(sql(&folder.path().join("gone"), "SELECT 1").is_err());
}

#[test]
fn a_damaged_part_is_named() {
    let run = one();
    fs::write(run.path().join("table=disk/part-000003.parquet"), b"PAR1 not really").unwrap();
    let error = tables(run.path()).unwrap_err();
    assert!(error.message.contains("part-000003.parquet"), "{error}");
    assert!(sql(run.path(), "SELECT count(*) FROM disk").is_err());
}

#[test]
fn a_long_answer_is_cut_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    crate::sample::write(folder.path(), 100_001).unwrap();
    let answer = sql(folder.path(), "SELECT x FROM sample").unwrap();
    assert!(answer.cut);
    assert_eq!(answer.rows.len(), crate::MOST_ROWS);
    let answer = sql(folder.path(), "SELECT key, avg(x) AS x FROM sample GROUP BY key").unwrap();
    assert_eq!((answer.rows.len(), answer.cut), (64, false));
}
