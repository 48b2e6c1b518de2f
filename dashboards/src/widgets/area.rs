//! Shares over time, one upon the other: two half cells a row where there is colour, one glyph
//! a cause everywhere.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};

use super::look::{Look, Tone, glyph, rank};
use crate::series::Series;

/// Columns of the scale at the left.
const SCALE: u16 = 5;

/// Draws shares of one, with their scale, legend and time axis.
pub(crate) fn draw(series: &Series, look: Look, area: Rect, buf: &mut Buffer) {
    if area.height < 3 || area.width < SCALE + 8 {
        return;
    }
    let order = order(series);
    legend(series, &order, look, Rect { height: 1, ..area }, buf);
    let plot = Rect { x: area.x + SCALE, y: area.y + 1, width: area.width - SCALE, height: area.height - 2 };
    scale(look, plot, buf);
    axis(series.span(), look, Rect { y: plot.bottom(), height: 1, ..plot }, buf);
    let columns: Vec<Vec<Option<f64>>> = order.iter().map(|s| series.drawn(*s, plot.width.into())).collect();
    for column in 0..plot.width {
        let shares: Vec<Option<f64>> = columns.iter().map(|c| c.get(usize::from(column)).copied().flatten()).collect();
        stack(series, &order, &shares, look, Rect { x: plot.x + column, width: 1, ..plot }, buf);
    }
}

fn order(series: &Series) -> Vec<usize> {
    let mut order: Vec<usize> = (0..series.names.len()).collect();
    order.sort_by_key(|s| rank(&series.names[*s]));
    order
}

/// One column: from the bottom up, each half cell belongs to the cause that reaches its middle.
fn stack(series: &Series, order: &[usize], shares: &[Option<f64>], look: Look, area: Rect, buf: &mut Buffer) {
    if shares.iter().all(Option::is_none) {
        buf.set_string(area.x, area.bottom() - 1, "·", look.of(Tone::Dim));
        return;
    }
    let halves = area.height * 2;
    let owner = |half: u16| {
        let middle = (f64::from(half) + 0.5) / f64::from(halves);
        let mut top = 0.0;
        for (share, series) in shares.iter().zip(order) {
            top += share.unwrap_or(0.0).max(0.0);
            if middle < top {
                return Some(*series);
            }
        }
        None
    };
    for row in 0..area.height {
        let (low, high) = (owner(row * 2), owner(row * 2 + 1));
        let name = |s: Option<usize>| s.map(|s| series.names[s].as_str());
        let (symbol, style) = cell(name(low), name(high), look);
        buf.set_string(area.x, area.bottom() - 1 - row, symbol, style);
    }
}

fn cell(low: Option<&str>, high: Option<&str>, look: Look) -> (&'static str, Style) {
    let colour = |name| look.cause(name);
    match (low, high) {
        (None, None) => (" ", Style::new()),
        (Some(low), Some(high)) if low != high && look.colour => {
            ("▄", Style::new().fg(colour(low).unwrap_or(Color::Reset)).bg(colour(high).unwrap_or(Color::Reset)))
        }
        (Some(low), None) if look.colour => ("▄", Style::new().fg(colour(low).unwrap_or(Color::Reset))),
        (Some(name), _) | (None, Some(name)) => {
            (glyph(name), colour(name).map_or(Style::new(), |c| Style::new().fg(c)))
        }
    }
}

/// Causes that are all named, however small their share.
const FEW: usize = 6;
/// Share from which one of many causes is named.
const NAMED: f64 = 0.005;

/// `█ data 41 %  ▒ device 20 %`; where there is little room without the signs, then without the
/// smallest shares, and `…` says so.
fn legend(series: &Series, order: &[usize], look: Look, area: Rect, buf: &mut Buffer) {
    let value = |s: usize| series.latest(s).unwrap_or(0.0);
    let share = |s: usize| series.latest(s).map_or("–".to_owned(), |v| format!("{:.0}", v * 100.0));
    let length = |text: &str| text.chars().count() + 2;
    let named: Vec<usize> = order.iter().copied().filter(|s| order.len() <= FEW || value(*s) >= NAMED).collect();
    let mut texts: Vec<(usize, String)> =
        named.iter().map(|s| (*s, format!("{} {} % ", series.names[*s], share(*s)))).collect();
    let total = |texts: &[(usize, String)]| texts.iter().map(|(_, text)| length(text) + 1).sum::<usize>();
    let mut room = usize::from(area.width) + 1;
    if total(&texts) > room {
        texts = named.iter().map(|s| (*s, format!("{} {}", series.names[*s], share(*s)))).collect();
    }
    let whole = total(&texts) <= room;
    room = if whole { room } else { room.saturating_sub(2) };
    while total(&texts) > room && texts.len() > 1 {
        let least = (0..texts.len()).min_by(|a, b| value(texts[*a].0).total_cmp(&value(texts[*b].0)));
        texts.remove(least.unwrap_or(0));
    }
    let mut x = area.x;
    for (s, text) in texts {
        let name = &series.names[s];
        let style = look.cause(name).map_or(Style::new(), |c| Style::new().fg(c));
        let room = usize::from(area.right().saturating_sub(x));
        buf.set_stringn(x, area.y, glyph(name), room, style);
        buf.set_stringn(x.saturating_add(2), area.y, &text, room.saturating_sub(2), Style::new());
        x = x.saturating_add(u16::try_from(length(&text) + 1).unwrap_or(u16::MAX));
    }
    if !whole && x < area.right() {
        buf.set_string(x, area.y, "…", look.of(Tone::Dim));
    }
}

fn scale(look: Look, plot: Rect, buf: &mut Buffer) {
    let style = look.of(Tone::Dim);
    let x = plot.x - SCALE;
    buf.set_string(x, plot.y, "100 %", style);
    if plot.height >= 5 {
        buf.set_string(x, plot.y + plot.height / 2, " 50 %", style);
    }
    buf.set_string(x, plot.bottom() - 1, "  0 %", style);
}

/// The time axis: how far back the left edge is.
pub(crate) fn axis(span: i64, look: Look, area: Rect, buf: &mut Buffer) {
    let style = look.of(Tone::Dim);
    let left = if span % 60 == 0 { format!("−{} min", span / 60) } else { format!("−{span} s") };
    buf.set_stringn(area.x, area.y, left, area.width.into(), style);
    if area.width >= 16 {
        buf.set_string(area.right() - 3, area.y, "now", style);
    }
}
