//! How figures and tables are written on the page.

use std::collections::BTreeMap;

use feedline_traces::unit::Unit;

use super::Report;
use super::page::Block;
use crate::bind::{MISSING, plain as pid, show_mix};

/// Rows of a table on the page; JSON has them all.
pub(super) const ROWS: usize = 40;

pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or(MISSING.to_owned(), |share| format!("{:.1} %", share * 100.0))
}

pub(crate) fn interval(low: Option<f64>, high: Option<f64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("{:.1}–{:.1} %", low * 100.0, high * 100.0),
        _ => MISSING.to_owned(),
    }
}

pub(crate) fn unit(unit: Unit, value: Option<f64>) -> String {
    unit.show(value.unwrap_or(f64::NAN))
}

pub(crate) fn plain(value: Option<f64>) -> String {
    value.map_or(MISSING.to_owned(), |value| format!("{value:.2}"))
}

/// A trainer as it is called on the page: its pid, its whole key where two share the pid.
pub(crate) fn trainer<'a>(report: &'a Report, key: &'a str) -> &'a str {
    pid(key, report.trainers.iter().map(|t| t.entry.entity.as_str()))
}

/// A table whose first `texts` columns are names.
pub(crate) fn table(heads: &[&str], texts: usize, rows: Vec<Vec<String>>, out: &mut Vec<Block>) {
    table_of(heads, (0..heads.len()).map(|column| column >= texts).collect(), rows, out);
}

/// A table, with the columns that are aligned right.
pub(crate) fn table_of(heads: &[&str], right: Vec<bool>, mut rows: Vec<Vec<String>>, out: &mut Vec<Block>) {
    if rows.is_empty() {
        out.push(Block::Line("Not known.".to_owned()));
        return;
    }
    let more = rows.len().saturating_sub(ROWS);
    rows.truncate(ROWS);
    out.push(Block::Table { heads: heads.iter().map(|head| (*head).to_owned()).collect(), right, rows });
    left_out(more, out);
}

pub(super) fn left_out(more: usize, out: &mut Vec<Block>) {
    if more > 0 {
        out.push(Block::Line(format!("{more} more are left out here.")));
    }
}

/// The three largest shares of states.
pub(crate) fn mix(states: &BTreeMap<String, f64>) -> String {
    let mut states: Vec<(String, f64)> = states.iter().map(|(state, share)| (state.clone(), *share)).collect();
    states.sort_by(|a, b| b.1.total_cmp(&a.1));
    show_mix(&states)
}
