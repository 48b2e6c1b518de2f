//! Lines over time in braille, each with its letter at the right end.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::symbols::Marker;
use ratatui::widgets::Widget;
use ratatui::widgets::canvas::{Canvas, Line};

use super::area::axis;
use super::look::{Look, Tone};
use crate::bind::Shape;
use crate::series::Series;

/// Colours of lines, in order.
const COLOURS: [Color; 4] = [Color::Cyan, Color::Yellow, Color::Magenta, Color::Green];

/// Columns of the scale at the left.
const SCALE: u16 = 7;

/// Draws every series from zero to a little over the largest value.
pub(crate) fn draw(series: &Series, shape: Shape, look: Look, area: Rect, buf: &mut Buffer) {
    if area.height < 3 || area.width < SCALE + 8 {
        return;
    }
    let plot = Rect { x: area.x + SCALE, y: area.y + 1, width: area.width - SCALE, height: area.height - 2 };
    let points = usize::from(plot.width) * 2;
    let drawn: Vec<Vec<Option<f64>>> = (0..series.names.len()).map(|s| series.drawn(s, points)).collect();
    let most = drawn.iter().flatten().flatten().copied().filter(|v| v.is_finite()).fold(0.0, f64::max);
    let top = if most > 0.0 { most * 1.1 } else { 1.0 };
    let head: Vec<String> = series
        .names
        .iter()
        .enumerate()
        .map(|(s, name)| format!("{name} {}", shape.show(series.latest(s).unwrap_or(f64::NAN))))
        .collect();
    buf.set_stringn(area.x, area.y, head.join("  "), area.width.into(), look.of(Tone::Plain));
    let width = f64::from(plot.width);
    Canvas::default()
        .marker(Marker::Braille)
        .x_bounds([0.0, width])
        .y_bounds([0.0, top])
        .paint(|canvas| {
            for (s, values) in drawn.iter().enumerate() {
                let color = if look.colour { COLOURS[s % COLOURS.len()] } else { Color::Reset };
                let at = |i: usize| f64::from(u32::try_from(i).unwrap_or(u32::MAX)) / 2.0;
                for (i, pair) in values.windows(2).enumerate() {
                    if let [Some(y1), Some(y2)] = *pair {
                        canvas.draw(&Line { x1: at(i), y1, x2: at(i + 1), y2, color });
                    }
                }
                if let (Some(Some(last)), Some(letter)) = (values.last(), series.names[s].chars().next()) {
                    canvas.print(width, *last, ratatui::text::Line::styled(letter.to_string(), color));
                }
            }
        })
        .render(plot, buf);
    let (gutter, dim) = (usize::from(SCALE) - 1, look.of(Tone::Dim));
    buf.set_stringn(area.x, plot.y, format!("{:>gutter$}", shape.show(top)), gutter, dim);
    buf.set_stringn(area.x, plot.bottom() - 1, format!("{:>gutter$}", 0), gutter, dim);
    axis(series.span(), look, Rect { y: plot.bottom(), height: 1, ..plot }, buf);
}
