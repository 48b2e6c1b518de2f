use feedline_traces::{Schema, Sink, Tick};

use super::fine::{PINNED, RANKS};
use super::fixture::{DECODE, HEALTHY, Job, STORAGE, schema};
use crate::report::{Format, Report, ReportBuilder};

fn report(job: Job, seconds: u64) -> Report {
    let schema = schema();
    let mut builder = ReportBuilder::new("attach 4000 · train.py");
    for tick in job.ticks(&schema, seconds) {
        builder.accept(&schema, &tick).unwrap();
    }
    builder.finish().unwrap();
    builder.report()
}

#[test]
fn a_storage_bound_run_as_text() {
    insta::assert_snapshot!(report(STORAGE, 120).render(Format::Text).unwrap());
}

#[test]
fn a_decode_bound_run_as_markdown() {
    insta::assert_snapshot!(report(DECODE, 120).render(Format::Markdown).unwrap());
}

#[test]
fn a_healthy_run_as_json() {
    let json = report(Job { workers: 1, ..HEALTHY }, 60).render(Format::Json).unwrap();
    insta::assert_snapshot!(json);
}

#[test]
fn a_run_with_causes_and_findings_as_text() {
    insta::assert_snapshot!(report(PINNED, 120).render(Format::Text).unwrap());
}

#[test]
fn a_run_of_four_ranks_as_markdown() {
    insta::assert_snapshot!(report(RANKS, 60).render(Format::Markdown).unwrap());
}

#[test]
fn causes_are_an_object_of_shares_and_trainers_carry_their_ranks() {
    let json: serde_json::Value = serde_json::from_str(&report(RANKS, 60).render(Format::Json).unwrap()).unwrap();
    let named = &json["slow"];
    assert_eq!((named["rank"].as_u64(), named["cause"].as_str()), (Some(2), Some("decode")));
    assert_eq!(json["verdict"]["process"].as_str(), Some("4002@77"));
    let slow = &json["trainers"][2];
    assert_eq!((slow["rank"].as_u64(), slow["process"].as_str()), (Some(2), Some("4002@77")));
    assert_eq!(slow["causes"]["decode"].as_f64(), Some(0.5));
    let sum: f64 = slow["causes"].as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9);
    assert_eq!(slow["causes_detail"][0]["cause"].as_str(), Some("decode"));
    assert_eq!(slow["workers"].as_array().unwrap().len(), 2);
    let finding = &json["findings"][0];
    assert_eq!((finding["kind"].as_str(), finding["holds"].as_bool()), (Some("cpu_quota"), Some(true)));
}

#[test]
fn a_finding_that_ended_says_for_how_long_it_held() {
    let report = report(PINNED, 120);
    let ended = report.findings.iter().find(|f| f.kind == "starting").unwrap();
    assert!(!ended.holds && (ended.seconds - 8.0).abs() < 1e-9 && ended.times == 1, "{ended:?}");
    let holds = &report.findings[0];
    assert!(holds.holds && holds.kind == "narrow_affinity" && (holds.seconds - 99.0).abs() < 1e-9, "{holds:?}");
}

#[test]
fn an_empty_run_says_so_in_every_form() {
    let report = ReportBuilder::new("nothing").report();
    insta::assert_snapshot!(report.render(Format::Text).unwrap());
    assert!(report.render(Format::Json).unwrap().contains("\"verdict\": null"));
}

#[test]
fn a_run_without_our_tables_is_not_recorded_and_no_error() {
    let mut builder = ReportBuilder::new("old");
    builder.accept(&Schema::default(), &Tick::default()).unwrap();
    builder.note("the last 1.2 s were lost when the recorder ended");
    let text = builder.report().render(Format::Text).unwrap();
    assert!(text.contains("Not recorded.") && text.contains("No verdict") && text.contains("1.2 s were lost"));
}

#[test]
fn a_rate_is_the_increase_over_the_time_seen() {
    let report = report(STORAGE, 61);
    let read = &report.sections["disks"].entries[0].values["read_bytes"];
    let expected = f64::from(12 * 12 * (1 << 20));
    assert!((read.mean.unwrap() - expected).abs() < 1.0 && read.unit == "bytes_per_second");
    let cpu = report.own.cpu.unwrap();
    assert!((cpu - 0.014).abs() < 1e-9);
}

#[test]
fn more_workers_than_fit_are_counted() {
    let report = report(Job { workers: 300, ..HEALTHY }, 3);
    let workers = &report.sections["workers"];
    assert_eq!((workers.entries.len(), workers.left_out), (256, 44));
}

#[test]
fn the_page_of_the_report_lists_every_key() {
    let page = include_str!("../../../docs/report.md");
    let json: serde_json::Value = serde_json::from_str(&report(RANKS, 20).render(Format::Json).unwrap()).unwrap();
    let mut keys = Vec::new();
    walk(&json, &mut keys);
    for key in keys {
        assert!(page.contains(&format!("`{key}`")), "docs/report.md lacks `{key}`");
    }
}

/// Keys that are ours; those below `labels`, `values`, `states`, `causes` and `shares` are names of
/// columns, states and causes.
fn walk(value: &serde_json::Value, keys: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                keys.push(key.clone());
                if let "labels" | "states" | "causes" | "shares" = key.as_str() {
                    continue;
                }
                if key == "values" {
                    value.as_object().into_iter().flat_map(|m| m.values()).for_each(|v| walk(v, keys));
                    continue;
                }
                walk(value, keys);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| walk(item, keys)),
        _ => {}
    }
}
