//! Polars' errors and panics in Feedline's words.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use feedline_traces::unit::Unit;
use feedline_traces::{Column, Error, Kind, Origin, Result, Schema, Table};
use polars::prelude::PolarsError;

/// Most characters of an explanation that is passed on.
const LONGEST: usize = 240;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a query, and turns a panic into an error.
///
/// Polars panics on some SQL that it only half supports, such as a type that a build leaves out.
/// A query is a question: it must not end the program that asks, nor print a backtrace over its
/// screen.
pub(crate) fn quietly<T>(query: impl FnOnce() -> Result<T>) -> Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let ours = QUIET.get() || std::thread::current().name().is_some_and(|name| name.starts_with("polars"));
            if !ours {
                others(panic);
            }
        }));
    });
    let before = QUIET.replace(true);
    // The query's state is dropped with it, so that nothing half-changed is seen afterwards.
    let outcome = panic::catch_unwind(AssertUnwindSafe(query));
    QUIET.set(before);
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref().copied());
        let text = text.unwrap_or("no reason given");
        Err(Error::new(format!("sql: this is not supported: {}", shortened(text))))
    })
}

/// The schema of tables given by name and columns, to find near names in.
pub(crate) fn schema<'a>(tables: impl Iterator<Item = (&'a str, Vec<String>)>) -> Schema {
    let column = |name: String| Column { name: name.into(), kind: Kind::Text, unit: Unit::None, doc: "".into() };
    let table = |(name, columns): (&str, Vec<String>)| Table {
        name: name.to_owned().into(),
        origin: Origin::Observed,
        doc: "".into(),
        columns: columns.into_iter().map(column).collect(),
    };
    Schema { tables: tables.map(table).collect() }
}

/// What polars refused, with near names from the tables that the query mentions.
pub(crate) fn refused(error: &PolarsError, all: &Schema, mentioned: &Schema) -> Error {
    let text = error.to_string();
    if let Some(name) = text.strip_prefix("relation '").and_then(|rest| rest.split('\'').next()) {
        return no_table(name, all);
    }
    if let Some(name) = missing_column(error, &text) {
        return no_column(name, mentioned);
    }
    let text = text.strip_prefix("sql parser error: ").unwrap_or(&text);
    Error::new(format!("sql: {}", shortened(text)))
}

fn no_table(name: &str, all: &Schema) -> Error {
    match all.find_table(name) {
        Ok(_) => Error::new(format!("table `{name}` cannot be used here")),
        Err(error) if error.hint.is_some() => error,
        Err(error) => {
            let names: Vec<&str> = all.tables.iter().map(|t| t.name.as_ref()).collect();
            error.hint(format!("the tables are {}", names.join(", ")))
        }
    }
}

/// The column that an error says is not there.
fn missing_column<'a>(error: &PolarsError, text: &'a str) -> Option<&'a str> {
    if let Some((_, rest)) = text.split_once("unable to find column \"") {
        return rest.split('"').next().filter(|name| !name.is_empty());
    }
    let not_found = match error {
        PolarsError::ColumnNotFound(_) | PolarsError::SchemaFieldNotFound(_) => true,
        PolarsError::Context { error, .. } => matches!(**error, PolarsError::ColumnNotFound(_)),
        PolarsError::SQLInterface(_) => text.contains("no column named"),
        _ => false,
    };
    let first_line = text.lines().next().filter(|_| not_found)?;
    // The name stands in the first quotes, or is the first word.
    let quoted = first_line.split(['"', '\'', '`']).nth(1).filter(|name| !name.is_empty());
    quoted.or_else(|| first_line.split([' ', ';', ':']).next().filter(|word| !word.is_empty()))
}

fn no_column(name: &str, mentioned: &Schema) -> Error {
    let (alias, column) = name.split_once('.').map_or((None, name), |(alias, column)| (Some(alias), column));
    let asked: Vec<&Table> = match mentioned.tables.iter().find(|t| Some(t.name.as_ref()) == alias) {
        Some(table) => vec![table],
        None => mentioned.tables.iter().collect(),
    };
    let Some(first) = asked.first() else { return Error::new(format!("sql: no column `{name}`")) };
    let error = Error::new(format!("no column `{}.{column}`", first.name));
    let near = |table: &&Table| {
        // Columns as a schema of their own: near by their name alone, not by the table's too.
        let columns = schema(table.columns.iter().map(|c| (c.name.as_ref(), Vec::new())));
        let hint = columns.find_table(column).err()?.hint?;
        Some(format!("did you mean `{}.{}`?", table.name, hint.split('`').nth(1)?))
    };
    match asked.iter().find_map(near) {
        Some(hint) => error.hint(hint),
        None => {
            let columns: Vec<&str> = first.columns.iter().map(|c| c.name.as_ref()).collect();
            error.hint(format!("`{}` has {}", first.name, columns.join(", ")))
        }
    }
}

/// The first line, in the house's style, no longer than a few terminal lines.
fn shortened(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason given");
    let line = line.trim_end_matches('.').replace("Line: ", "line ").replace("Column: ", "column ");
    let mut chars = line.chars();
    let mut short: String = chars.by_ref().take(LONGEST).collect();
    // A keyword in capitals stays one.
    if short.chars().nth(1).is_some_and(char::is_lowercase) {
        short = short.chars().take(1).flat_map(char::to_lowercase).chain(short.chars().skip(1)).collect();
    }
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let error = quietly::<()>(|| panic!("activate 'x' feature.\nmore")).unwrap_err();
        assert_eq!(error.message, "sql: this is not supported: activate 'x' feature");
    }

    #[test]
    fn long_explanations_are_cut_to_a_line() {
        assert_eq!(shortened("\n Expected: x at Line: 1, Column: 7.\nbacktrace"), "expected: x at line 1, column 7");
        assert!(shortened(&"ü".repeat(10_000)).chars().count() < 250);
    }
}
