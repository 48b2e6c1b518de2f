//! The keys: one list, from which the help overlay and `docs/dashboard.md` follow.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::feed::Mode;

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Action {
    /// Leave.
    Quit,
    /// Show or hide the keys.
    Help,
    /// Hold the screen, or let it go on.
    Pause,
    /// Move in time by seconds.
    Seek(i64),
    /// To the beginning of the run.
    Start,
    /// To the end of the run.
    End,
    /// The next higher speed.
    Faster,
    /// The next lower speed.
    Slower,
    /// The next panel.
    Next,
    /// The panel before.
    Previous,
    /// Scroll by rows.
    Scroll(i16),
}

/// One line of the help.
#[derive(Debug)]
pub(crate) struct Binding {
    /// The keys, as they are written.
    pub(crate) label: &'static str,
    /// What they do, in words.
    pub(crate) help: &'static str,
    /// Only in replay.
    pub(crate) replay: bool,
    keys: &'static [(KeyCode, Action)],
}

/// Every key.
pub(crate) const KEYS: &[Binding] = &[
    Binding {
        label: "q  esc  ctrl-c",
        help: "quit; attached jobs go on undisturbed",
        replay: false,
        keys: &[(KeyCode::Char('q'), Action::Quit), (KeyCode::Esc, Action::Quit)],
    },
    Binding {
        label: "?",
        help: "show or hide the keys",
        replay: false,
        keys: &[(KeyCode::Char('?'), Action::Help), (KeyCode::Char('h'), Action::Help), (KeyCode::F(1), Action::Help)],
    },
    Binding {
        label: "space",
        help: "pause or go on",
        replay: false,
        keys: &[(KeyCode::Char(' '), Action::Pause), (KeyCode::Char('p'), Action::Pause)],
    },
    Binding {
        label: "tab  shift-tab",
        help: "next or previous panel",
        replay: false,
        keys: &[(KeyCode::Tab, Action::Next), (KeyCode::BackTab, Action::Previous)],
    },
    Binding {
        label: "↓ ↑  j k  wheel",
        help: "scroll the panel",
        replay: false,
        keys: &[
            (KeyCode::Down, Action::Scroll(1)),
            (KeyCode::Char('j'), Action::Scroll(1)),
            (KeyCode::Up, Action::Scroll(-1)),
            (KeyCode::Char('k'), Action::Scroll(-1)),
        ],
    },
    Binding {
        label: "← →",
        help: "10 s back or forward",
        replay: true,
        keys: &[(KeyCode::Left, Action::Seek(-10)), (KeyCode::Right, Action::Seek(10))],
    },
    Binding {
        label: "PgUp PgDn",
        help: "60 s back or forward",
        replay: true,
        keys: &[(KeyCode::PageUp, Action::Seek(-60)), (KeyCode::PageDown, Action::Seek(60))],
    },
    Binding {
        label: "Home End",
        help: "to the beginning or the end",
        replay: true,
        keys: &[(KeyCode::Home, Action::Start), (KeyCode::End, Action::End)],
    },
    Binding {
        label: "+ -",
        help: "faster or slower",
        replay: true,
        keys: &[
            (KeyCode::Char('+'), Action::Faster),
            (KeyCode::Char('='), Action::Faster),
            (KeyCode::Char('-'), Action::Slower),
        ],
    },
];

/// The bindings that a mode has.
pub(crate) fn bindings(mode: Mode) -> impl Iterator<Item = &'static Binding> {
    KEYS.iter().filter(move |binding| mode == Mode::Replay || !binding.replay)
}

/// What a key asks for in a mode.
pub(crate) fn action(mode: Mode, key: KeyEvent) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Action::Quit);
    }
    bindings(mode).flat_map(|binding| binding.keys).find(|(code, _)| *code == key.code).map(|(_, action)| *action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_means_two_things() {
        let codes: Vec<KeyCode> = KEYS.iter().flat_map(|b| b.keys).map(|(code, _)| *code).collect();
        for (i, code) in codes.iter().enumerate() {
            assert!(!codes[..i].contains(code), "{code:?} is bound twice");
        }
    }

    #[test]
    fn seeking_is_for_replay() {
        let left = KeyEvent::new(KeyCode::Left, KeyModifiers::NONE);
        assert_eq!(action(Mode::Live, left), None);
        assert_eq!(action(Mode::Replay, left), Some(Action::Seek(-10)));
    }

    #[test]
    fn control_c_quits_and_other_control_keys_do_nothing() {
        let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        assert_eq!(action(Mode::Live, control('c')), Some(Action::Quit));
        assert_eq!(action(Mode::Live, control('q')), None);
    }

    #[test]
    fn the_page_lists_every_key() {
        let page = include_str!("../../docs/dashboard.md");
        for binding in KEYS {
            let only = if binding.replay { " (replay)" } else { "" };
            let line = format!("| `{}` | {}{only} |", binding.label, binding.help);
            assert!(page.contains(&line), "docs/dashboard.md lacks: {line}");
        }
    }
}
