//! A table: columns as wide as what is in them; those that do not fit are left out from the right.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::look::{Look, Tone};

/// The widest column.
const WIDEST: usize = 34;

/// Cells that are ready to be drawn.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    /// Headings.
    pub(crate) heads: Vec<String>,
    /// Whether a column is aligned right.
    pub(crate) right: Vec<bool>,
    /// The rows that are seen, cell by cell.
    pub(crate) rows: Vec<Vec<String>>,
}

/// Draws a table with its headings.
pub(crate) fn draw(grid: &Grid, look: Look, area: Rect, buf: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let mut x = area.x;
    for (column, head) in grid.heads.iter().enumerate() {
        let cells = grid.rows.iter().filter_map(|row| row.get(column));
        let wide = cells.chain([head]).map(|c| c.chars().count()).max().unwrap_or(0).clamp(1, WIDEST);
        let left = usize::from(area.right().saturating_sub(x));
        let last_texts = !grid.right.get(column).copied().unwrap_or(false) && left >= 12;
        if wide > left && !last_texts {
            // What is left out is said, so that nobody takes the table for whole.
            if left >= 1 {
                buf.set_stringn(area.right() - 1, area.y, "…", 1, look.of(Tone::Dim));
            }
            return;
        }
        let wide = wide.min(left);
        let right = grid.right.get(column).copied().unwrap_or(false);
        put(head, right, x, area.y, wide, look.of(Tone::Dim), buf);
        for (row, y) in grid.rows.iter().zip(area.y + 1..area.bottom()) {
            if let Some(cell) = row.get(column) {
                put(cell, right, x, y, wide, Style::new(), buf);
            }
        }
        x = x.saturating_add(u16::try_from(wide + 2).unwrap_or(u16::MAX));
    }
}

fn put(text: &str, right: bool, x: u16, y: u16, wide: usize, style: Style, buf: &mut Buffer) {
    let length = text.chars().count();
    if length > wide {
        let cut: String = text.chars().take(wide.saturating_sub(1)).chain(['…']).collect();
        buf.set_stringn(x, y, cut, wide, style);
    } else {
        let pad = if right { u16::try_from(wide - length).unwrap_or(0) } else { 0 };
        buf.set_stringn(x + pad, y, text, length.max(1), style);
    }
}
