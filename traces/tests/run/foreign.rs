//! polars, DuckDB and pandas read a run with no Feedline code.

use std::path::Path;
use std::process::Command;

use feedline_traces::Sink as _;

use crate::sample::{every, write};

#[test]
fn polars_duckdb_and_pandas_read_a_run() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Set up once by `tests/python-env.sh`, which `make test` calls.
    let python = std::env::var_os("FEEDLINE_PYTHON").map(Into::into).or_else(|| {
        let cached = Path::new(&std::env::var_os("HOME")?).join(".cache/feedline/venv/bin/python");
        cached.exists().then_some(cached)
    });
    let Some(python) = python else {
        println!("skipped: no Python environment; tests/python-env.sh makes one");
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let run = home.path().join("run");
    write(&run, 0..200, every(3000)).finish().unwrap();
    let out = Command::new(python).arg(here.join("tests/python/read_run.py")).arg(&run).output().unwrap();
    let (said, failed) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{said}{failed}");
    println!("{said}");
}
