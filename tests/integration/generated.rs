//! Generated documents are current: `make metrics` rewrites them.

use std::fs;
use std::sync::Arc;

use feedline_collectors::{Context, Host};
use feedline_models::observation::ObservationRow;
use feedline_traces::{Row as _, Schema, SystemClock};

use crate::support::root;

/// Compares a document with what the code says, or rewrites it where `FEEDLINE_UPDATE` is set.
fn check(path: &str, current: &str) {
    let file = root().join(path);
    if std::env::var_os("FEEDLINE_UPDATE").is_some() {
        fs::write(&file, current).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(written == current, "{path} is stale; `make metrics` rewrites it");
}

#[test]
fn the_reference_of_tables_is_current() {
    let context = Context::new(Host::this(), Arc::new(SystemClock::anchored_now()));
    let schema = feedline::chain::schema(&context).unwrap();
    let head = "# Tables and columns\n\nGenerated from the declarations by `make metrics`; do not edit.\n";
    check("docs/metrics.md", &format!("{head}{}", schema.reference()));
}

#[test]
fn the_reference_of_observations_is_current() {
    let schema = Schema::new(vec![ObservationRow::table()]).unwrap();
    let head = "# The table of a sweep\n\nGenerated from its declaration by `make metrics`; do not edit. `docs/sweep.md` says how it is filled.\n";
    check("docs/observation.md", &format!("{head}{}", schema.reference()));
}

#[test]
fn the_errors_of_advice_are_those_of_the_observations() {
    let observations = root().join("models/data/observations/observations.parquet");
    if !observations.is_file() {
        eprintln!("skipped: the source has no observations yet, and the errors are assumed");
        return;
    }
    let errors = feedline::advise::measured_errors(&observations).unwrap().unwrap();
    check("models/data/advise/errors.json", &(serde_json::to_string_pretty(&errors).unwrap() + "\n"));
}

#[test]
fn every_table_and_column_has_a_doc_that_is_a_sentence() {
    let context = Context::new(Host::this(), Arc::new(SystemClock::anchored_now()));
    for table in feedline::chain::schema(&context).unwrap().tables {
        assert!(table.doc.ends_with('.'), "{}: doc is no sentence", table.name);
        for column in &table.columns {
            assert!(column.doc.ends_with('.'), "{}.{}: doc is no sentence", table.name, column.name);
        }
    }
}
