//! The table, and its rows as jobs.

use super::{BINDS, EXPECTED, OUTCOMES, ObservationRow, PROVENANCE, expect, inputs, refused, simulated};
use crate::learn::declare::{Raw, Table};
use crate::step_model::Run;
use feedline_traces::Row as _;

/// Two workers that read 100 kB in 10 ms each and decode for 5 ms, for a step of 50 ms.
fn row() -> ObservationRow {
    ObservationRow {
        origin: "real".into(),
        step_kind: "sleep".into(),
        access: "shuffled".into(),
        row: 7_u64.into(),
        batch: 16.0.into(),
        workers: 2.0.into(),
        prefetch: 2.0.into(),
        step: 50e6.into(),
        sample_bytes: 100e3.into(),
        cores: 4.0.into(),
        read_p10_1: 10e6.into(),
        read_p50_1: 10e6.into(),
        read_p90_1: 10e6.into(),
        read_p99_1: 10e6.into(),
        read_mean_1: 10e6.into(),
        read_mean_16: 11e6.into(),
        rate_1: 10e6.into(),
        rate_4: 40e6.into(),
        rate_16: 150e6.into(),
        rate_in_order: 10e6.into(),
        read_cpu: 0.1e6.into(),
        decode_cpu: 5e6.into(),
        collate_cpu: 1e6.into(),
        tensor_bytes: 150e3.into(),
        ..ObservationRow::default()
    }
}

#[test]
fn every_column_is_an_input_an_outcome_or_says_where_a_row_comes_from() {
    let names: Vec<String> = ObservationRow::table().columns.iter().map(|c| c.name.to_string()).collect();
    for name in OUTCOMES.iter().chain(&PROVENANCE) {
        assert!(names.iter().any(|n| n == name), "`{name}` is no column");
    }
    let documented = ObservationRow::table().columns.into_iter().filter(|c| c.doc.starts_with("Outcome:"));
    let documented: Vec<String> = documented.map(|c| c.name.into_owned()).collect();
    assert_eq!(documented, OUTCOMES, "columns whose documentation says that they are outcomes");
    assert_eq!(inputs().count(), names.len() - OUTCOMES.len() - PROVENANCE.len());
}

#[test]
fn a_row_without_its_outcome_is_enough_for_the_step_model() {
    let made = simulated(&row(), &Run::default()).unwrap();
    // 16 samples of 15 ms over 2 workers, and a little for the batch: 120 ms against a step of 50.
    assert!((made.period.0 / 120.5e6 - 1.0).abs() < 0.05, "{}", made.period.0);
    assert!((made.stall.0 - 0.585).abs() < 0.03 && &*made.origin.0 == "simulated", "{}", made.stall.0);
    assert_eq!(made.row.0, Some(7));
    let outcome = ObservationRow { stall: 0.9.into(), period: 1.0.into(), samples_rate: 1e9.into(), ..row() };
    assert_eq!(outcome.job().unwrap(), row().job().unwrap(), "an outcome reached the model");
}

#[test]
fn what_handing_over_a_batch_takes_is_work_of_both_sides() {
    let slow = ObservationRow { handover: 9e6.into(), handover_cpu: 2e6.into(), ..row() };
    let job = slow.job().unwrap();
    assert!((job.collate.mean() - 0.009).abs() < 1e-12 && (job.handover.mean() - 0.002).abs() < 1e-12);
    let turns = ObservationRow { cores: 1.0.into(), ..slow.clone() }.job().unwrap();
    assert!((turns.collate.mean() - 0.007).abs() < 1e-12, "on one core the trainer's part is in the time too");
    let alone = ObservationRow { workers: 0.0.into(), ..slow }.job().unwrap();
    assert!((alone.collate.mean() - 0.001).abs() < 1e-12 && alone.handover.is_zero());
}

#[test]
fn bandwidth_binds_only_where_reads_became_slower_with_depth() {
    assert!(row().job().unwrap().storage.bandwidth.is_infinite(), "sixteen readers got sixteen times as much");
    let narrow = ObservationRow { read_mean_16: 100e6.into(), rate_4: 15e6.into(), rate_16: 15e6.into(), ..row() };
    let storage = narrow.job().unwrap().storage;
    assert!((storage.bandwidth - 15e6).abs() < 1.0 && storage.latency.mean() < 0.004, "{storage:?}");
    let cached = ObservationRow { read_cpu: 9.9e6.into(), ..narrow };
    assert!(cached.job().unwrap().storage.bandwidth.is_infinite(), "one core was what sixteen threads lacked");
}

#[test]
fn neighbours_that_are_read_ahead_cost_what_they_cost_in_order() {
    let ahead = ObservationRow { access: "sequential".into(), rate_in_order: 100e6.into(), ..row() };
    assert!((ahead.job().unwrap().storage.latency.mean() - 0.0009).abs() < 1e-9);
    let shuffled = ObservationRow { access: "shuffled".into(), ..ahead };
    assert!((shuffled.job().unwrap().storage.latency.mean() - 0.0099).abs() < 1e-9);
}

#[test]
fn a_row_without_a_probe_is_refused_by_the_number_that_is_missing() {
    let holes = ObservationRow { read_p10_1: f64::NAN.into(), read_p90_1: f64::NAN.into(), ..row() };
    assert!((holes.job().unwrap().storage.latency.mean() - 0.0099).abs() < 1e-9, "a quantile that is missing is no 0");
    let error = ObservationRow { decode_cpu: f64::NAN.into(), ..row() }.job().unwrap_err();
    assert!(error.message.contains("`decode_cpu`") && error.message.contains('7'), "{error}");
}

#[test]
fn what_is_expected_of_a_row_comes_from_its_configuration_and_probe_alone() {
    let expected = row().expected().unwrap();
    let made = simulated(&row(), &Run::default()).unwrap();
    assert!((expected.samples_rate / made.samples_rate.0 - 1.0).abs() < 0.05, "{expected:?}");
    assert!((expected.stall - made.stall.0).abs() < 0.05, "{expected:?}");
    // A batch of 16 for a step of 50 ms; 15 ms a sample and 1 ms a batch over two workers; 5.1 ms of four cores.
    assert!((expected.demand_rate - 320.0).abs() < 1e-6);
    assert!((expected.worker_rate - 2.0 / (0.015 + 0.001 / 16.0)).abs() < 1e-6, "{expected:?}");
    assert!((expected.core_rate - 4.0 / (0.0051 + 0.001 / 16.0)).abs() < 1e-6, "{expected:?}");
    assert!((expected.storage_rate - 1500.0).abs() < 1e-6 && expected.loader_binding == "workers");
    let outcome = ObservationRow { stall: 0.9.into(), period: 1.0.into(), samples_rate: 1e9.into(), ..row() };
    assert_eq!(outcome.expected().unwrap(), expected, "an outcome reached the estimate");
}

/// A table of rows as it comes from a file.
fn table(rows: &[ObservationRow]) -> Table {
    use feedline_traces::Values;
    let declared = ObservationRow::table();
    let mut columns: Vec<Values> = declared.columns.iter().map(|column| Values::new(column.kind)).collect();
    rows.iter().for_each(|row| row.clone().push(&mut columns));
    let raw = |values: &Values| {
        let texts = (0..rows.len()).map(|at| values.text(at).map(|t| t.to_string()).unwrap_or_default()).collect();
        let numbers = (0..rows.len()).map(|at| values.number(at).unwrap_or(f64::NAN)).collect();
        if values.text(0).is_some() { Raw::Texts(texts) } else { Raw::Numbers(numbers) }
    };
    declared.columns.iter().zip(&columns).map(|(column, values)| (column.name.to_string(), raw(values))).collect()
}

#[test]
fn a_table_gets_what_the_step_model_expects_and_a_row_without_a_probe_has_it_missing() {
    let holes = ObservationRow { decode_cpu: f64::NAN.into(), stall: 0.4.into(), ..row() };
    let fed = ObservationRow { stall: 0.01.into(), ..row() };
    let starved = ObservationRow { stall: 0.58.into(), ..row() };
    let mut table = table(&[row(), holes, fed, starved]);
    expect(&mut table).unwrap();
    for name in EXPECTED {
        assert_eq!(table[name].len(), 4, "{name}");
    }
    let rates = table["expected_samples_rate"].numbers();
    assert!(rates[0] > 100.0 && rates[1].is_nan());
    assert_eq!(table[BINDS].texts(), ["", "", "step", "workers"], "nothing is known of a row without its outcome");
    table.remove("read_cpu");
    assert!(expect(&mut table).unwrap_err().message.contains("`read_cpu`"));
}

#[test]
fn outcomes_and_provenance_are_refused_as_inputs_and_what_is_expected_is_not() {
    for name in OUTCOMES.iter().chain(&PROVENANCE).chain([&BINDS]) {
        assert!(refused(name).is_some(), "{name}");
    }
    let known = inputs().chain(EXPECTED.map(str::to_owned));
    known.for_each(|name| assert_eq!(refused(&name), None, "{name}"));
}
