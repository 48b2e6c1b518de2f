//! Pressure stall files: `/proc/pressure/*` and `*.pressure` of a control group.

use feedline_traces::{Error, Result};

/// The two lines of a file, where present.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pressure {
    /// At least one task stalled.
    pub some: Option<Stall>,
    /// All tasks that were not idle stalled.
    pub full: Option<Stall>,
}

/// One line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stall {
    /// Per cent of the last 10 s.
    pub average_10: f64,
    /// Microseconds stalled since boot, or since the group was made.
    pub total: u64,
}

/// Reads a whole file; lines that later kernels may add are passed over.
///
/// # Errors
/// When a `some` or `full` line lacks its 10 s average or its total; the message begins with the
/// number of the line.
pub fn pressure(text: &str) -> Result<Pressure> {
    let mut pressure = Pressure::default();
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split_ascii_whitespace();
        let slot = match words.next() {
            Some("some") => &mut pressure.some,
            Some("full") => &mut pressure.full,
            _ => continue,
        };
        *slot = Some(stall(line).map_err(|error| error.at(index + 1))?);
    }
    Ok(pressure)
}

fn stall(line: &str) -> Result<Stall> {
    let average = field(line, "avg10")?;
    let total = field(line, "total")?;
    Ok(Stall {
        average_10: average.parse().map_err(|_| Error::new(format!("expected a per cent, found `{average}`")))?,
        total: total.parse().map_err(|_| Error::new(format!("expected microseconds, found `{total}`")))?,
    })
}

fn field<'a>(line: &'a str, name: &str) -> Result<&'a str> {
    let find = |word: &'a str| word.strip_prefix(name)?.strip_prefix('=');
    line.split_ascii_whitespace()
        .find_map(find)
        .ok_or_else(|| Error::new(format!("expected `{name}=`, found `{line}`")))
}

/// The path of a process in the version 2 hierarchy, from its `/proc/PID/cgroup`.
#[must_use]
pub fn unified(cgroup: &str) -> Option<&str> {
    cgroup.lines().find_map(|line| line.strip_prefix("0::")).filter(|path| path.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_lines_are_read_and_irq_has_only_one() {
        let io = pressure(include_str!("testdata/io")).unwrap();
        assert_eq!(io.some, Some(Stall { average_10: 0.18, total: 159_886_802 }));
        assert_eq!(io.full.unwrap().total, 159_229_614);
        let irq = pressure(include_str!("testdata/irq")).unwrap();
        assert_eq!((irq.some, irq.full.unwrap().total), (None, 8_494));
    }

    #[test]
    fn an_error_names_line_and_value() {
        let error = pressure("some avg10=0.00 total=x").unwrap_err();
        assert_eq!(error.message, "1: expected microseconds, found `x`");
        assert!(pressure("some avg10=1").unwrap_err().message.contains("total="));
    }

    #[test]
    fn only_the_unified_hierarchy_has_pressure() {
        assert_eq!(unified("5:memory:/a\n0::/user.slice/job\n"), Some("/user.slice/job"));
        assert_eq!(unified("5:memory:/a\n"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(?s).{0,200}|((some|full) (avg10=|total=)?[0-9.x ]{0,9}\n){0,9}") {
            let _ = pressure(&text);
            let _ = unified(&text);
        }
    }
}
