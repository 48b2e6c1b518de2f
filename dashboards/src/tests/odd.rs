//! Any size, any keys, any ticks: no panic.

use std::sync::Arc;

use feedline_traces::{Rows, Schema, Tick, Ts};
use proptest::prelude::*;
use ratatui::crossterm::event::{KeyCode, KeyModifiers, MouseEvent, MouseEventKind};

use super::fixture::{AbsentRow, HEALTHY, Job, StallRow, StepRow, VerdictRow, schema};
use super::screens::{buffer, press};
use crate::report::{Format, ReportBuilder};
use crate::{Event, Message, Mode, State};
use feedline_traces::Sink as _;

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MAX),
        Just(-0.0),
        -2.0..3.0,
        any::<f64>()
    ]
}

fn key() -> impl Strategy<Value = KeyCode> {
    prop_oneof![
        prop::sample::select(vec![
            KeyCode::Tab,
            KeyCode::BackTab,
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::Left,
            KeyCode::Right,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::Esc,
            KeyCode::Enter,
        ]),
        any::<char>().prop_map(KeyCode::Char),
        prop::sample::select(vec!['?', 'p', ' ', 'j', 'k', '+', '-']).prop_map(KeyCode::Char),
    ]
}

/// A tick of rows that no model would conclude, at any time.
fn odd_tick(schema: &Schema, at: i64, names: &[String], numbers: &[f64]) -> Tick {
    let mut rows = Rows::new(schema, Ts(at));
    for (i, name) in names.iter().enumerate() {
        let n = |k: usize| numbers[(i + k) % numbers.len()];
        let name = name.as_str();
        rows.push(StallRow {
            process: name.into(),
            cause: name.into(),
            share: n(0).into(),
            low: n(1).into(),
            high: n(2).into(),
            confidence: n(3).into(),
        });
        rows.push(StepRow {
            process: name.into(),
            steps: n(1).into(),
            period: n(2).into(),
            wait: n(3).into(),
            confidence: n(0).into(),
        });
        rows.push(VerdictRow { process: name.into(), text: name.into(), data: n(0).into(), ..VerdictRow::default() });
        rows.push(AbsentRow { what: name.into(), entity: name.into(), reason: name.into() });
    }
    Tick { at: Ts(at), batches: rows.finish() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_screen_draws(
        width in 1_u16..400, height in 1_u16..120, colour in any::<bool>(), live in any::<bool>(),
        keys in prop::collection::vec(key(), 0..12),
        names in prop::collection::vec("\\PC{0,12}", 0..6), numbers in prop::collection::vec(number(), 1..9),
        times in prop::collection::vec(prop_oneof![any::<i64>(), 0..100_000_000_000_i64], 0..6),
        workers in prop_oneof![Just(0_u64), Just(3), Just(300)], mouse in (0_u16..500, 0_u16..200),
    ) {
        let schema = schema();
        let mut state = State::new(&schema, if live { Mode::Live } else { Mode::Replay }, "odd ünïcode 任务");
        let report = ReportBuilder::new("odd");
        let job = Job { workers, ..HEALTHY };
        let regular = (0..2).map(|s| job.tick(&schema, s));
        let odd = times.iter().map(|at| odd_tick(&schema, *at, &names, &numbers));
        for tick in regular.chain(odd).chain([Tick::default()]) {
            report.clone().accept(&schema, &tick).unwrap();
            state.update(Event::Message(Message::Tick(Arc::new(tick))));
        }
        for key in keys {
            let _ = press(&mut state, key);
            let kind = MouseEventKind::ScrollDown;
            state.update(Event::Mouse(MouseEvent { kind, column: mouse.0, row: mouse.1, modifiers: KeyModifiers::NONE }));
            let _ = buffer(&mut state, width, height, colour);
        }
        let _ = buffer(&mut state, width, height, colour);
        for format in [Format::Text, Format::Markdown, Format::Json] {
            prop_assert!(!report.report().render(format).unwrap().is_empty());
        }
    }
}
