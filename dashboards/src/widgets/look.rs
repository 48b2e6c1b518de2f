//! Colours, from the 16 that every terminal has. Nothing is told by colour alone: each tone comes
//! with a word or a glyph, and without colour it is weight.

use ratatui::style::{Color, Modifier, Style};

use crate::panels::CAUSES;

/// How things look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Whether colours may be used.
    pub colour: bool,
}

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Text.
    Plain,
    /// Less important.
    Dim,
    /// More important.
    Strong,
    /// Worth a look.
    Warn,
    /// Wrong.
    Bad,
    /// What has the focus.
    Focus,
}

impl Look {
    /// The style of a tone.
    pub(crate) fn of(self, tone: Tone) -> Style {
        let style = Style::new();
        match tone {
            Tone::Plain => style,
            Tone::Dim => self.with(style, Color::DarkGray, Modifier::DIM),
            Tone::Strong => style.add_modifier(Modifier::BOLD),
            Tone::Warn => self.with(style, Color::Yellow, Modifier::BOLD),
            Tone::Bad => self.with(style, Color::Red, Modifier::BOLD),
            Tone::Focus => self.with(style, Color::Cyan, Modifier::empty()).add_modifier(Modifier::BOLD),
        }
    }

    fn with(self, style: Style, colour: Color, without: Modifier) -> Style {
        if self.colour { style.fg(colour) } else { style.add_modifier(without) }
    }

    /// The colour of a cause, if colours may be used.
    pub(crate) fn cause(self, name: &str) -> Option<Color> {
        self.colour.then_some(match name {
            "data" | "fetch.storage" => Color::Yellow,
            "fetch.cache" => Color::LightYellow,
            "fetch.network" => Color::LightRed,
            "decode" => Color::Red,
            "handoff" => Color::LightMagenta,
            "startup" | "contention" => Color::White,
            "io" | "checkpoint" => Color::Magenta,
            "device" | "copy" => Color::Cyan,
            "offload" | "bubble" | "embedding" => Color::LightCyan,
            "collective" | "imbalance" => Color::LightBlue,
            "host" => Color::Green,
            "compute" => Color::DarkGray,
            "unknown" => Color::Gray,
            _ => Color::Blue,
        })
    }
}

/// The glyph of a cause.
pub(crate) fn glyph(name: &str) -> &'static str {
    CAUSES.iter().find(|(cause, _)| *cause == name).map_or("+", |(_, glyph)| glyph)
}

/// The place of a cause in the stack.
pub(crate) fn rank(name: &str) -> usize {
    CAUSES.iter().position(|(cause, _)| *cause == name).unwrap_or(CAUSES.len())
}
