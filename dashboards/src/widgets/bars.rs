//! One bar a row, with its interval.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::look::{Look, Tone, glyph};

/// One bar.
#[derive(Debug)]
pub(crate) struct Bar {
    /// What it is of.
    pub(crate) name: String,
    /// Its length, of one.
    pub(crate) share: f64,
    /// The interval.
    pub(crate) between: Option<(f64, f64)>,
}

/// Draws bars: `data    ████████├──┤      41 % (38–44)`.
pub(crate) fn draw(bars: &[Bar], look: Look, area: Rect, buf: &mut Buffer) {
    let longest = bars.iter().map(|bar| bar.name.chars().count() + 1).max().unwrap_or(0).clamp(9, 15);
    let (names, numbers) = (u16::try_from(longest).unwrap_or(9), 16_u16);
    let wide = area.width.saturating_sub(names + numbers);
    for (row, bar) in (area.y..area.bottom()).zip(bars) {
        buf.set_stringn(area.x, row, &bar.name, usize::from(names.min(area.width)).saturating_sub(1), Style::new());
        let numbers_at = area.x + names + wide;
        if numbers_at < area.right() {
            let text = match bar.between {
                Some((low, high)) => {
                    format!(" {:.0} % ({:.0}–{:.0})", bar.share * 100.0, low * 100.0, high * 100.0)
                }
                None => format!(" {:.0} %", bar.share * 100.0),
            };
            buf.set_stringn(numbers_at, row, text, usize::from(area.right() - numbers_at), Style::new());
        }
        let style = look.cause(&bar.name).map_or(Style::new(), |c| Style::new().fg(c));
        for column in 0..wide {
            let middle = (f64::from(column) + 0.5) / f64::from(wide);
            let inside = bar.between.is_some_and(|(low, high)| middle >= low && middle < high);
            let x = area.x + names + column;
            if middle < bar.share {
                buf.set_string(x, row, glyph(&bar.name), style);
            } else if inside {
                buf.set_string(x, row, "─", look.of(Tone::Dim));
            }
        }
    }
}
