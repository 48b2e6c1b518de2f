//! Answers: columns and rows, and how they are printed.

use std::fmt::{self, Write as _};

use feedline_traces::unit::Unit;
use polars::prelude::{AnyValue, DataFrame, TimeUnit};

/// The widest a cell is printed in a terminal table, in characters.
const WIDEST: usize = 60;

/// What a query gave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Value>>,
    /// Whether there were more rows than [`MOST_ROWS`](crate::MOST_ROWS).
    pub cut: bool,
}

/// One value of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Missing.
    Null,
    /// True or false.
    Flag(bool),
    /// A whole number.
    Whole(i128),
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
    /// A time, in nanoseconds since the Unix epoch.
    Time(i64),
    /// A span of time, in nanoseconds.
    Span(i64),
}

impl Answer {
    pub(crate) fn new(frame: &DataFrame, most: usize) -> Self {
        let columns: Vec<String> = frame.get_column_names().into_iter().map(ToString::to_string).collect();
        let height = frame.height().min(most);
        let mut rows = vec![Vec::with_capacity(columns.len()); height];
        for column in frame.columns() {
            let series = column.as_materialized_series().rechunk();
            for (row, value) in rows.iter_mut().zip(series.iter()) {
                row.push(Value::new(&value));
            }
        }
        Self { columns, rows, cut: frame.height() > most }
    }

    /// Comma-separated values with a header, as RFC 4180 has them; null is empty, times are ISO
    /// 8601 in UTC, spans are nanoseconds.
    #[must_use]
    pub fn csv(&self) -> String {
        let quoted = |text: &str| match text.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_owned(),
        };
        let mut out = self.columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",");
        for row in &self.rows {
            out.push_str("\r\n");
            out.push_str(&row.iter().map(|value| quoted(&value.exact())).collect::<Vec<_>>().join(","));
        }
        out.push_str("\r\n");
        out
    }

    /// A JSON array with an object a row, one a line; times are ISO 8601 in UTC, spans are
    /// nanoseconds, and what JSON has no number for is null.
    #[must_use]
    pub fn json(&self) -> String {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let mut out = String::from("[");
        for (i, row) in self.rows.iter().enumerate() {
            out.push_str(if i == 0 { "\n  {" } else { ",\n  {" });
            for (j, (name, value)) in self.columns.iter().zip(row).enumerate() {
                let value = match value {
                    Value::Text(_) | Value::Time(_) => text(&value.exact()),
                    Value::Null => "null".to_owned(),
                    Value::Number(x) if !x.is_finite() => "null".to_owned(),
                    value => value.exact(),
                };
                let _ = write!(out, "{}{}: {value}", if j == 0 { "" } else { ", " }, text(name));
            }
            out.push('}');
        }
        out.push_str(if self.rows.is_empty() { "]\n" } else { "\n]\n" });
        out
    }
}

/// An aligned table for a terminal: numbers to the right, missing values as `–`.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(Value::shown).collect()).collect();
        let names: Vec<String> = self.columns.iter().map(|name| printable(name)).collect();
        let width = |i: usize| {
            let cells = cells.iter().filter_map(|row| row.get(i));
            cells.chain(names.get(i)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..names.len()).map(width).collect();
        let right: Vec<bool> = (0..names.len()).map(|i| self.is_number(i)).collect();
        let mut line = |cells: &[String]| {
            let mut out = String::new();
            for (i, cell) in cells.iter().enumerate() {
                let gap = if i == 0 { "" } else { "  " };
                let width = widths[i];
                let _ = if right[i] { write!(out, "{gap}{cell:>width$}") } else { write!(out, "{gap}{cell:<width$}") };
            }
            writeln!(f, "{}", out.trim_end())
        };
        line(&names)?;
        line(&widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>())?;
        cells.iter().try_for_each(|row| line(row))?;
        if self.cut {
            writeln!(f, "… cut after {} rows: add a condition or a `LIMIT`", self.rows.len())?;
        }
        Ok(())
    }
}

impl Answer {
    fn is_number(&self, column: usize) -> bool {
        let number = |v: &Value| matches!(v, Value::Whole(_) | Value::Number(_) | Value::Span(_) | Value::Null);
        let some = |v: &Value| *v != Value::Null;
        let values = || self.rows.iter().filter_map(|row| row.get(column));
        values().all(number) && values().any(some)
    }
}

impl Value {
    fn new(value: &AnyValue<'_>) -> Self {
        match value {
            AnyValue::Null => Self::Null,
            AnyValue::Boolean(flag) => Self::Flag(*flag),
            AnyValue::String(text) => Self::Text((*text).to_owned()),
            AnyValue::StringOwned(text) => Self::Text(text.to_string()),
            AnyValue::Float64(x) => Self::Number(*x),
            AnyValue::Float32(x) => Self::Number(f64::from(*x)),
            AnyValue::Datetime(time, unit, _) | AnyValue::DatetimeOwned(time, unit, _) => {
                Self::Time(nanos(*time, *unit))
            }
            AnyValue::Duration(span, unit) => Self::Span(nanos(*span, *unit)),
            other if other.is_integer() => other.extract().map_or(Self::Null, Self::Whole),
            other => Self::Text(other.to_string()),
        }
    }

    /// In full, for programs.
    fn exact(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Flag(flag) => flag.to_string(),
            Self::Whole(n) => n.to_string(),
            Self::Number(x) => x.to_string(),
            Self::Text(text) => text.clone(),
            Self::Time(at) => format!("{}Z", moment(*at, 9).replace(' ', "T")),
            Self::Span(span) => span.to_string(),
        }
    }

    /// As short as it stays readable, for people.
    #[expect(clippy::cast_precision_loss, reason = "three digits of it are shown")]
    fn shown(&self) -> String {
        match self {
            Self::Null => "–".to_owned(),
            Self::Number(x) => number(*x),
            Self::Text(text) => printable(text),
            Self::Time(at) => moment(*at, 3),
            Self::Span(span) => Unit::Nanos.show(*span as f64),
            value => value.exact(),
        }
    }
}

fn nanos(value: i64, unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Nanoseconds => value,
        TimeUnit::Microseconds => value.saturating_mul(1_000),
        TimeUnit::Milliseconds => value.saturating_mul(1_000_000),
    }
}

/// Six significant digits, without trailing zeros.
fn number(x: f64) -> String {
    let magnitude = x.abs();
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    if !(1e-4..1e15).contains(&magnitude) {
        return format!("{x:.3e}");
    }
    #[expect(clippy::cast_possible_truncation, reason = "the magnitude is between 1e-4 and 1e15")]
    let before = magnitude.log10().floor() as i32;
    let places = usize::try_from((5 - before).max(0)).unwrap_or(0);
    let text = format!("{x:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Text that cannot steer a terminal, cut where it is long.
fn printable(text: &str) -> String {
    let mut out: String = text.chars().take(WIDEST + 1).map(|c| if c.is_control() { '·' } else { c }).collect();
    if out.chars().count() > WIDEST {
        out = out.chars().take(WIDEST - 1).chain(['…']).collect();
    }
    out
}

/// A time as `2026-07-14 08:12:53.353`, with a number of decimals.
fn moment(at: i64, decimals: usize) -> String {
    let seconds = at.div_euclid(1_000_000_000);
    let fraction = format!("{:09}", at.rem_euclid(1_000_000_000));
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(day);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{}", &fraction[..decimals.min(9)])
}

/// Year, month and day of a day since 1970-01-01, by the proleptic Gregorian calendar.
fn civil(day: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that the leap day is the last; an era is 400 years.
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + carry, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Answer {
        Answer {
            columns: vec!["device".into(), "busy".into(), "at".into()],
            rows: vec![
                vec![
                    Value::Text("GPU, \"first\"".into()),
                    Value::Number(0.412_345_678),
                    Value::Time(1_784_016_773_353_000_001),
                ],
                vec![Value::Text("b\u{1b}[2J".into()), Value::Null, Value::Null],
            ],
            cut: false,
        }
    }

    #[test]
    fn a_terminal_table_is_aligned_and_cannot_steer_the_terminal() {
        let shown = answer().to_string();
        let expected = "\
device            busy  at
────────────  ────────  ───────────────────────
GPU, \"first\"  0.412346  2026-07-14 08:12:53.353
b·[2J                –  –
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn csv_and_json_are_exact() {
        let csv =
            "device,busy,at\r\n\"GPU, \"\"first\"\"\",0.412345678,2026-07-14T08:12:53.353000001Z\r\nb\u{1b}[2J,,\r\n";
        assert_eq!(answer().csv(), csv);
        let rows: serde_json::Value = serde_json::from_str(&answer().json()).unwrap();
        assert_eq!(rows[0]["busy"], 0.412_345_678);
        assert_eq!(rows[1]["at"], serde_json::Value::Null);
        assert_eq!(Answer::default().json(), "[]\n");
    }

    #[test]
    fn times_before_1970_and_leap_days_are_dates() {
        assert_eq!(moment(-1, 3), "1969-12-31 23:59:59.999");
        assert_eq!(moment(951_782_400_000_000_000, 0), "2000-02-29 00:00:00.");
        assert_eq!(civil(19_782), (2024, 2, 29));
    }

    #[test]
    fn numbers_have_six_digits() {
        let cases =
            [(1_234_567.0, "1234567"), (0.000_012, "1.200e-5"), (12.5, "12.5"), (-0.25, "-0.25"), (1e18, "1.000e18")];
        for (x, shown) in cases {
            assert_eq!(number(x), shown);
        }
    }
}
