//! Each pattern where it holds, and where something close to it holds.

mod cases;
mod nonsense;
mod tables;
mod world;

use cases::{World, always, cases, pinned};
use world::{Said, Second, healthy, said};

fn kinds(rows: &[Said]) -> Vec<&str> {
    rows.iter().map(|said| said.kind.as_str()).collect()
}

/// The kinds said in the last of 40 seconds.
fn last(world: &World) -> Vec<Said> {
    said(40, world).pop().unwrap()
}

#[test]
fn each_pattern_is_said_where_it_holds_and_not_where_something_close_does() {
    for (kind, close, there, near) in cases() {
        let rows = last(&there);
        assert!(kinds(&rows).contains(&kind), "{kind} is not said: {rows:#?}");
        let rows = last(&near);
        assert!(!kinds(&rows).contains(&kind), "{kind} is said of {close}: {rows:#?}");
    }
}

#[test]
fn every_pattern_has_a_case_and_stands_in_the_page() {
    let page = include_str!("../../../../docs/findings.md");
    let cases = cases();
    for pattern in super::patterns() {
        let kind = pattern.kind();
        assert!(cases.iter().any(|(of, ..)| *of == kind), "{kind} has no case");
        assert!(page.contains(&format!("## `{kind}`")), "docs/findings.md lacks `{kind}`");
    }
}

#[test]
fn a_healthy_job_has_no_findings() {
    for rows in said(60, &|_| healthy()) {
        assert!(rows.is_empty(), "{rows:#?}");
    }
}

#[test]
fn a_finding_comes_after_some_seconds_and_goes_after_some() {
    let world = |s: usize| {
        let mut second = healthy();
        second.shm = Some(if (10..30).contains(&s) { (63e6, 64e6) } else { (1e6, 64e6) });
        second
    };
    let seconds: Vec<bool> = said(60, &world).iter().map(|rows| kinds(rows).contains(&"shm_full")).collect();
    let first = seconds.iter().position(|seen| *seen).unwrap() + 1;
    let last = seconds.iter().rposition(|seen| *seen).unwrap() + 1;
    assert_eq!((first, last), (13, 34));
    assert!(seconds[first - 1..last].iter().all(|seen| *seen));
}

#[test]
fn what_flickers_near_its_threshold_does_not_flicker_on_the_screen() {
    let world = |s: usize| {
        let mut second = healthy();
        second.shm = Some(if s < 5 || s % 4 != 3 { (63e6, 64e6) } else { (50e6, 64e6) });
        second
    };
    let seconds: Vec<bool> = said(60, &world).iter().map(|rows| kinds(rows).contains(&"shm_full")).collect();
    assert!(seconds[4..].iter().all(|seen| *seen), "{seconds:?}");
}

#[test]
fn a_moment_is_no_finding() {
    let world = |s: usize| Second { shm: Some(if s == 20 { (63e6, 64e6) } else { (1e6, 64e6) }), ..healthy() };
    assert!(said(40, &world).iter().all(|rows| kinds(rows).is_empty()));
}

#[test]
fn a_job_that_starts_is_starting_until_its_first_batch() {
    let world = |s: usize| {
        let starts = s <= 20;
        let sites = if starts { vec![("startup", 9.0), ("loader", 2.0)] } else { healthy().sites };
        Second { sites, wait: (!starts).then_some(0.002), ..healthy() }
    };
    let seconds: Vec<bool> = said(30, &world).iter().map(|rows| kinds(rows).contains(&"starting")).collect();
    assert!(seconds[3..20].iter().all(|seen| *seen), "{seconds:?}");
    assert!(seconds[20..].iter().all(|seen| !*seen), "{seconds:?}");
}

#[test]
fn the_cost_is_what_the_attribution_says_and_null_where_it_does_not() {
    let rows = last(&always(pinned));
    let row = rows.iter().find(|row| row.kind == "narrow_affinity").unwrap();
    assert_eq!((row.severity, row.process.as_str()), (Some(0.21), "100@7"));
    assert!(row.since >= 20.0, "{row:?}");
    let rows = last(&always(|s| {
        pinned(s);
        s.causes.clear();
    }));
    assert_eq!(rows.iter().find(|row| row.kind == "narrow_affinity").unwrap().severity, None);
}

#[test]
fn each_finding_in_words() {
    let mut out = String::new();
    let mut before = "";
    for (kind, _, there, _) in cases().into_iter().filter(|case| case.0 != "starting") {
        if kind == before {
            continue;
        }
        before = kind;
        let rows = last(&there);
        let row = rows.iter().find(|row| row.kind == kind).unwrap();
        out += &format!("{kind} ({})\n  {}\n  → {}\n  {}\n", row.process, row.text, row.advice, row.evidence);
    }
    insta::assert_snapshot!(out);
}
