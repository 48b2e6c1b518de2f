//! The one place that writes to the terminal's standard streams.

use std::io::{self, IsTerminal as _, Write as _};

use feedline_dashboards::report::Report;
use feedline_traces::{Error, Origin, Result, Schema, Sink, Tick};
use serde::Serialize;

/// Writes a text to standard output. A reader that has gone away (`| head`) is no failure: there
/// is nobody left to tell, so the program ends well.
///
/// # Errors
/// When standard output cannot be written for another reason.
pub fn text(text: &str) -> Result<()> {
    match write(text) {
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        outcome => outcome.map_err(|cause| Error::io("standard output", &cause)),
    }
}

fn write(text: &str) -> io::Result<()> {
    let text = &plain(text);
    let mut out = io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    out.write_all(text.as_bytes())?;
    out.write_all(newline.as_bytes())?;
    out.flush()
}

/// Standard output for rows that are written as they come. As with [`text`], a reader that has gone away
/// ends the program well.
#[derive(Debug)]
pub struct Rows;

impl io::Write for Rows {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match io::stdout().write(bytes) {
            Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match io::stdout().flush() {
            Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
            flushed => flushed,
        }
    }
}

/// Writes a value as one JSON document for whoever still reads, where the exit code is not ours.
///
/// # Errors
/// When it is no JSON.
pub fn last_json(value: &impl Serialize) -> Result<()> {
    let document = serde_json::to_string_pretty(value).map_err(|cause| Error::new(format!("json: {cause}")))?;
    match write(&document) {
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.map_err(|cause| Error::io("standard output", &cause)),
    }
}

/// Text without what would drive a terminal: names of jobs and what stands in a stranger's trace
/// may hold escape sequences, and characters that turn the direction of writing.
fn plain(text: &str) -> String {
    let drives = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
    };
    text.chars().map(|c| if drives(c) { '\u{fffd}' } else { c }).collect()
}

/// Writes a value as one JSON document.
///
/// # Errors
/// When it cannot be written.
pub fn json(value: &impl Serialize) -> Result<()> {
    let document = serde_json::to_string_pretty(value).map_err(|cause| Error::new(format!("json: {cause}")))?;
    text(&document)
}

/// Writes a value as one line of JSON.
///
/// # Errors
/// When it cannot be written.
pub fn json_line(value: &impl Serialize) -> Result<()> {
    let document = serde_json::to_string(value).map_err(|cause| Error::new(format!("json: {cause}")))?;
    text(&document)
}

/// Says something beside the result, on standard error.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", plain(text));
}

/// Whether standard output may carry colour: a terminal, and `NO_COLOR` unset or empty.
#[must_use]
pub fn colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Rows as an aligned table: the first row is the head, numbers stand right.
#[must_use]
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &w)| format!("{cell:<w$}")).collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// The verdict of a report in a few lines: what it waits for, and what to change.
#[must_use]
pub fn verdict(report: &Report) -> String {
    let mut out = String::new();
    for verdict in report.trainers.iter().filter_map(|trainer| trainer.verdict.as_ref()) {
        let pid = verdict.process.split('@').next().unwrap_or_default();
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        out.push_str(&format!("trainer {pid}: {}\n", text(&verdict.text)));
        match &verdict.advice {
            Some(advice) => out.push_str(&format!("advice: {advice}\n")),
            None => out.push_str("advice: none yet; record 20 s and more\n"),
        }
    }
    if out.is_empty() { "no verdict: too little was seen\n".to_owned() } else { out }
}

/// Derived rows as lines of JSON, as they come.
pub struct Lines;

impl Sink for Lines {
    fn accept(&mut self, schema: &Schema, tick: &Tick) -> Result<()> {
        for batch in &tick.batches {
            let table = schema.table(batch.table);
            if table.origin != Origin::Derived {
                continue;
            }
            for row in 0..batch.len() {
                let mut line = serde_json::Map::new();
                line.insert("table".to_owned(), table.name.clone().into());
                line.insert("at".to_owned(), batch.at[row].0.into());
                for (column, values) in table.columns.iter().zip(&batch.columns) {
                    let value = match values.text(row) {
                        Some(text) => text.to_string().into(),
                        None => values.number(row).map_or(serde_json::Value::Null, Into::into),
                    };
                    line.insert(column.name.to_string(), value);
                }
                json_line(&line)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_would_drive_a_terminal_is_taken_out() {
        assert_eq!(super::plain("a\u{1b}[2Jb\tc\nd\u{202e}e"), "a\u{fffd}[2Jb\tc\nd\u{fffd}e");
    }
}
