//! The screen as a picture: one drawing of the state as SVG, for a README, an issue or a mail.

use std::fmt::Write as _;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Size;
use ratatui::style::{Color, Modifier};

use crate::draw::draw;
use crate::state::{Event, State};
use crate::widgets::look::Look;

/// Width and height of a cell, in pixels.
const CELL: (u32, u32) = (8, 17);
/// Room around the screen, in pixels.
const MARGIN: u32 = 12;
/// What a terminal draws where no colour is asked for.
const INK: &str = "#d5d9e0";
const PAPER: &str = "#16181d";

/// The state drawn on a screen of that many columns and rows, as an SVG document in colour.
///
/// # Errors
/// When the size is one that cannot be drawn on.
pub fn picture(state: &mut State, columns: u16, rows: u16) -> feedline_traces::Result<String> {
    let failed = |cause: std::convert::Infallible| match cause {};
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).map_err(failed)?;
    state.update(Event::Resize(Size { width: columns, height: rows }));
    terminal.draw(|frame| draw(state, Look { colour: true }, frame)).map_err(failed)?;
    Ok(svg(terminal.backend().buffer()))
}

fn svg(buffer: &Buffer) -> String {
    let area = buffer.area;
    let (width, height) = (u32::from(area.width) * CELL.0 + 2 * MARGIN, u32::from(area.height) * CELL.1 + 2 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"13\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"{PAPER}\"/>\n"
    );
    for y in 0..area.height {
        let mut x = 0;
        while x < area.width {
            let style = Style::of(&buffer[(x, y)]);
            let from = x;
            let mut text = String::new();
            while x < area.width && Style::of(&buffer[(x, y)]) == style {
                text.push_str(buffer[(x, y)].symbol());
                x += 1;
            }
            run(&mut out, (from, y), x - from, &text, &style);
        }
    }
    out.push_str("</svg>\n");
    out
}

#[derive(PartialEq)]
struct Style {
    ink: &'static str,
    paper: Option<&'static str>,
    bold: bool,
    dim: bool,
}

impl Style {
    fn of(cell: &Cell) -> Self {
        let (ink, paper) = (colour(cell.fg), colour(cell.bg));
        let has = |modifier| cell.modifier.contains(modifier);
        let (ink, paper) = if has(Modifier::REVERSED) {
            (paper.unwrap_or(PAPER), Some(ink.unwrap_or(INK)))
        } else {
            (ink.unwrap_or(INK), paper)
        };
        Self { ink, paper, bold: has(Modifier::BOLD), dim: has(Modifier::DIM) }
    }
}

/// Cells of one style in a row.
fn run(out: &mut String, at: (u16, u16), cells: u16, text: &str, style: &Style) {
    let (x, y) = (u32::from(at.0) * CELL.0 + MARGIN, u32::from(at.1) * CELL.1 + MARGIN);
    let width = u32::from(cells) * CELL.0;
    if let Some(paper) = style.paper {
        let _ = writeln!(out, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{}\" fill=\"{paper}\"/>", CELL.1);
    }
    if text.trim().is_empty() {
        return;
    }
    let weight = if style.bold { " font-weight=\"bold\"" } else { "" };
    let fade = if style.dim { " opacity=\"0.6\"" } else { "" };
    let _ = writeln!(
        out,
        "<text x=\"{x}\" y=\"{}\" textLength=\"{width}\" lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\" fill=\"{}\"{weight}{fade}>{}</text>",
        y + CELL.1 - 4,
        style.ink,
        escaped(text)
    );
}

/// Text as XML has it; characters that XML cannot hold are shown as a replacement.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

fn colour(colour: Color) -> Option<&'static str> {
    match colour {
        Color::Black => Some("#2b2f38"),
        Color::Red => Some("#e06c75"),
        Color::Green => Some("#98c379"),
        Color::Yellow => Some("#e5c07b"),
        Color::Blue => Some("#61afef"),
        Color::Magenta => Some("#c678dd"),
        Color::Cyan => Some("#56b6c2"),
        Color::Gray => Some("#abb2bf"),
        Color::DarkGray => Some("#7f848e"),
        Color::LightRed => Some("#ff8b92"),
        Color::LightGreen => Some("#b5e890"),
        Color::LightYellow => Some("#ffd68a"),
        Color::LightBlue => Some("#8cc8ff"),
        Color::LightMagenta => Some("#df9cf2"),
        Color::LightCyan => Some("#7fdbe6"),
        Color::White => Some("#ffffff"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use feedline_traces::Schema;

    use super::*;
    use crate::feed::Mode;

    #[test]
    fn a_picture_is_well_formed_and_shows_the_title() {
        let mut state = State::new(&Arc::new(Schema::default()), Mode::Live, "a <job> & more");
        let picture = picture(&mut state, 100, 30).unwrap();
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
        assert!(picture.contains("a &lt;job&gt; &amp; more"));
        assert_eq!(picture.matches("<text").count(), picture.matches("</text>").count());
    }
}
