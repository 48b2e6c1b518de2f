//! A page of headings, lines and tables, and its two forms.

use std::fmt::Write as _;

/// One part of a page.
#[derive(Debug)]
pub(crate) enum Block {
    /// The title.
    Title(String),
    /// The heading of a section.
    Heading(String),
    /// A sentence that matters most.
    Lead(String),
    /// A sentence.
    Line(String),
    /// Points.
    List(Vec<String>),
    /// A table.
    Table {
        /// Headings.
        heads: Vec<String>,
        /// Whether a column is aligned right.
        right: Vec<bool>,
        /// Rows, cell by cell.
        rows: Vec<Vec<String>>,
    },
}

/// For the terminal.
pub(crate) fn text(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        match block {
            Block::Title(text) => push(&mut out, text),
            Block::Heading(text) => {
                push(&mut out, "");
                push(&mut out, text);
            }
            Block::Lead(text) | Block::Line(text) => push(&mut out, text),
            Block::List(points) => points.iter().for_each(|point| push(&mut out, &format!("  - {point}"))),
            Block::Table { heads, right, rows } => text_table(&mut out, heads, right, rows),
        }
    }
    out
}

/// One line: a name with a line break in it must not look like a line of the report.
fn push(out: &mut String, line: &str) {
    let line = line.trim_end();
    out.extend(line.chars().map(|c| if c == '\n' || c == '\r' { ' ' } else { c }));
    out.push('\n');
}

fn text_table(out: &mut String, heads: &[String], right: &[bool], rows: &[Vec<String>]) {
    let wide = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .chain(heads.get(column))
            .map(|c| c.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(wide).collect();
    for row in std::iter::once(heads).chain(rows.iter().map(Vec::as_slice)) {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if right.get(column).copied().unwrap_or(false) {
                write!(line, "  {cell:>width$}")
            } else {
                write!(line, "  {cell:<width$}")
            };
        }
        push(out, &line);
    }
}

/// For an issue or a wiki.
pub(crate) fn markdown(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        if !out.is_empty() {
            out.push('\n');
        }
        match block {
            Block::Title(text) => push(&mut out, &format!("# {}", escape(text))),
            Block::Heading(text) => push(&mut out, &format!("## {}", escape(text))),
            Block::Lead(text) => push(&mut out, &format!("**{}**", escape(text))),
            Block::Line(text) => push(&mut out, &escape(text)),
            Block::List(points) => points.iter().for_each(|point| push(&mut out, &format!("- {}", escape(point)))),
            Block::Table { heads, right, rows } => {
                let line = |cells: &[String]| {
                    let cells: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
                    format!("| {} |", cells.join(" | "))
                };
                push(&mut out, &line(heads));
                let rules: Vec<&str> = right.iter().map(|right| if *right { "---:" } else { "---" }).collect();
                push(&mut out, &format!("|{}|", rules.join("|")));
                rows.iter().for_each(|row| push(&mut out, &line(row)));
            }
        }
    }
    out
}

/// Text from the machine stays text: no row, emphasis or tag is made of it.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '<' | '[' | '\\' => out.extend(['\\', c]),
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_bar_does_not_break_the_table() {
        let table = Block::Table { heads: vec!["a".into()], right: vec![false], rows: vec![vec!["x|y\n<b>".into()]] };
        assert_eq!(markdown(&[table]), "| a |\n|---|\n| x\\|y \\<b> |\n");
    }
}
