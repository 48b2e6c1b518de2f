//! A table: columns as wide as what is in them; where they do not fit, those that matter least go.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::look::{Look, Tone};
use crate::bind::MISSING;

/// The widest column.
const WIDEST: usize = 34;
/// The narrowest that a column of names is cut to.
const NARROWEST: usize = 10;

/// Cells that are ready to be drawn.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    /// Headings.
    pub(crate) heads: Vec<String>,
    /// Whether a column is aligned right.
    pub(crate) right: Vec<bool>,
    /// Whether a column may be cut.
    pub(crate) gives_way: Vec<bool>,
    /// The rows that are seen, cell by cell.
    pub(crate) rows: Vec<Vec<String>>,
}

/// Draws a table with its headings.
pub(crate) fn draw(grid: &Grid, look: Look, area: Rect, buf: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let (columns, whole) = fit(grid, area.width.into());
    let mut x = area.x;
    for (column, wide) in columns {
        let wide = wide.min(usize::from(area.right().saturating_sub(x)));
        let right = grid.right.get(column).copied().unwrap_or(false);
        put(&grid.heads[column], right, x, area.y, wide, look.of(Tone::Dim), buf);
        for (row, y) in grid.rows.iter().zip(area.y + 1..area.bottom()) {
            if let Some(cell) = row.get(column) {
                put(cell, right, x, y, wide, Style::new(), buf);
            }
        }
        x = x.saturating_add(u16::try_from(wide + 2).unwrap_or(u16::MAX));
    }
    // What is left out is said, so that nobody takes the table for whole.
    if !whole && x <= area.right() {
        buf.set_stringn(area.right() - 1, area.y, "…", 1, look.of(Tone::Dim));
    }
}

/// The columns that fit a width, with theirs, and whether nothing was left out that had a value.
/// Where there is little room, columns without any value go first; then names are cut; then the
/// last columns go, which matter least.
fn fit(grid: &Grid, room: usize) -> (Vec<(usize, usize)>, bool) {
    let mut columns: Vec<(usize, usize)> = Vec::new();
    for (column, head) in grid.heads.iter().enumerate() {
        let cells = grid.rows.iter().filter_map(|row| row.get(column));
        let wide = cells.chain([head]).map(|c| c.chars().count()).max().unwrap_or(0).clamp(1, WIDEST);
        columns.push((column, wide));
    }
    let needed = |columns: &[(usize, usize)]| columns.iter().map(|(_, wide)| wide + 2).sum::<usize>().saturating_sub(2);
    let empty = |column: usize| grid.rows.iter().all(|row| row.get(column).is_none_or(|cell| cell == MISSING));
    while needed(&columns) > room {
        let Some(at) = columns.iter().rposition(|(column, _)| empty(*column)) else { break };
        columns.remove(at);
    }
    let mut whole = true;
    while needed(&columns) > room && columns.len() > 1 {
        let over = needed(&columns) - room;
        let may = |column: usize| grid.gives_way.get(column).copied().unwrap_or(false);
        let widest = columns.iter_mut().filter(|(column, _)| may(*column)).max_by_key(|(_, wide)| *wide);
        match widest {
            Some((_, wide)) if *wide >= over + NARROWEST => *wide -= over,
            _ => {
                columns.pop();
                whole = false;
            }
        }
    }
    (columns, whole)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(cells: &[(&str, &str)]) -> Grid {
        Grid {
            heads: cells.iter().map(|(head, _)| (*head).to_owned()).collect(),
            right: vec![false; cells.len()],
            gives_way: cells.iter().map(|(head, _)| *head == "name").collect(),
            rows: vec![cells.iter().map(|(_, cell)| (*cell).to_owned()).collect()],
        }
    }

    #[test]
    fn columns_without_a_value_go_first_then_names_are_cut_then_the_last_go() {
        let cells = [("pid", "4000"), ("minor", MISSING), ("name", "a name of twenty-five c"), ("cpu", "15 %")];
        let columns = |room| fit(&grid(&cells), room);
        assert_eq!(columns(60).0.len(), 4);
        assert_eq!(columns(35), (vec![(0, 4), (2, 23), (3, 4)], true));
        assert_eq!(columns(25), (vec![(0, 4), (2, 13), (3, 4)], true));
        assert_eq!(columns(18), (vec![(0, 4), (2, 12)], false));
        assert_eq!(columns(3).0, vec![(0, 4)]);
    }
}
