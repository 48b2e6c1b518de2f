use std::sync::Arc;

use feedline_traces::{Schema, Tick};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Size;
use ratatui::style::{Color, Modifier};

use super::fine::{MANY, PINNED, RANKS};
use super::fixture::{DECODE, HEALTHY, Job, STORAGE, schema, second};
use crate::draw::draw;
use crate::{Command, Event, Look, Message, Mode, Position, State};

pub(super) fn press(state: &mut State, code: KeyCode) -> Option<Command> {
    state.update(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

pub(super) fn buffer(state: &mut State, width: u16, height: u16, colour: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    state.update(Event::Resize(Size::new(width, height)));
    terminal.draw(|frame| draw(state, Look { colour }, frame)).unwrap();
    terminal.backend().buffer().clone()
}

pub(super) fn text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let line: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn fed(schema: &Arc<Schema>, mode: Mode, title: &str, ticks: Vec<Arc<Tick>>) -> State {
    let mut state = State::new(schema, mode, title);
    for tick in ticks {
        state.update(Event::Message(Message::Tick(tick)));
    }
    state
}

fn attached(job: Job) -> State {
    let schema = schema();
    fed(&schema, Mode::Live, "attach 4000 · train.py", job.ticks(&schema, 90))
}

fn replayed(job: Job) -> State {
    let schema = schema();
    let mut state = fed(&schema, Mode::Replay, "replay runs/node7-train", job.ticks(&schema, 300));
    let position = Position { at: second(299), start: second(0), end: second(600), speed: 2.0, paused: false };
    state.update(Event::Message(Message::Position(position)));
    state
}

fn screen(state: &mut State, width: u16, height: u16) -> String {
    text(&buffer(state, width, height, true))
}

#[test]
fn attach_to_a_storage_bound_job_on_a_small_screen() {
    insta::assert_snapshot!(screen(&mut attached(STORAGE), 80, 24));
}

#[test]
fn attach_to_a_storage_bound_job_on_a_large_screen() {
    insta::assert_snapshot!(screen(&mut attached(STORAGE), 160, 50));
}

#[test]
fn attach_to_a_healthy_job() {
    insta::assert_snapshot!(screen(&mut attached(HEALTHY), 80, 24));
}

#[test]
fn attach_to_a_decode_bound_job_without_an_accelerator() {
    insta::assert_snapshot!(screen(&mut attached(DECODE), 160, 50));
}

#[test]
fn causes_workers_and_findings_on_a_small_and_on_a_large_screen() {
    insta::assert_snapshot!("fine_small", screen(&mut attached(PINNED), 80, 24));
    insta::assert_snapshot!("fine_large", screen(&mut attached(PINNED), 160, 50));
    insta::assert_snapshot!("fine_small_without_colour", text(&buffer(&mut attached(PINNED), 80, 24, false)));
}

#[test]
fn findings_have_a_panel_with_what_to_do() {
    let mut state = attached(PINNED);
    press(&mut state, KeyCode::Tab);
    press(&mut state, KeyCode::Tab);
    insta::assert_snapshot!(screen(&mut state, 80, 24));
}

#[test]
fn of_several_ranks_the_slow_one_is_named() {
    let mut state = attached(RANKS);
    insta::assert_snapshot!("ranks_small", screen(&mut state, 80, 24));
    insta::assert_snapshot!("ranks_large", screen(&mut state, 160, 50));
}

#[test]
fn trainers_without_a_verdict_are_counted() {
    assert!(screen(&mut attached(MANY), 160, 50).contains("44 trainers not judged"));
    assert!(!screen(&mut attached(RANKS), 160, 50).contains("not judged"));
}

#[test]
fn a_finding_that_has_ended_is_not_on_the_screen() {
    let schema = schema();
    let during = screen(&mut fed(&schema, Mode::Live, "attach", PINNED.ticks(&schema, 9)), 80, 24);
    let after = screen(&mut fed(&schema, Mode::Live, "attach", PINNED.ticks(&schema, 12)), 80, 24);
    assert!(during.contains("Still starting") && !after.contains("Still starting"), "{during}{after}");
}

#[test]
fn scrolling_stops_where_the_last_row_is_in_sight() {
    let mut state = attached(STORAGE);
    let _ = screen(&mut state, 80, 24);
    for _ in 0..50 {
        press(&mut state, KeyCode::Down);
    }
    let end = screen(&mut state, 80, 24);
    assert!(end.contains("workers 7–12 of 12") && end.contains("5009"), "{end}");
    // On a larger screen all of them fit again.
    let large = screen(&mut state, 80, 60);
    assert!(large.contains("workers (12)") && large.contains("4998"), "{large}");
    press(&mut state, KeyCode::Up);
    let _ = screen(&mut state, 80, 24);
    let mut few = attached(HEALTHY);
    press(&mut few, KeyCode::Down);
    assert!(screen(&mut few, 80, 24).contains("4998"));
}

#[test]
fn attach_before_the_first_tick() {
    let schema = schema();
    insta::assert_snapshot!("empty_small", screen(&mut fed(&schema, Mode::Live, "attach 4000", Vec::new()), 80, 24));
    insta::assert_snapshot!("empty_large", screen(&mut fed(&schema, Mode::Live, "attach 4000", Vec::new()), 160, 50));
}

#[test]
fn replay_on_a_small_and_on_a_large_screen() {
    insta::assert_snapshot!("replay_small", screen(&mut replayed(DECODE), 80, 24));
    insta::assert_snapshot!("replay_large", screen(&mut replayed(HEALTHY), 160, 50));
}

#[test]
fn the_help_lists_the_keys_of_the_mode() {
    let mut replay = replayed(HEALTHY);
    press(&mut replay, KeyCode::Char('?'));
    insta::assert_snapshot!("help_replay", screen(&mut replay, 80, 24));
    let mut live = attached(HEALTHY);
    press(&mut live, KeyCode::Char('?'));
    assert!(!screen(&mut live, 80, 24).contains("Home End"));
    assert_eq!(press(&mut live, KeyCode::Esc), None);
    assert!(!screen(&mut live, 80, 24).contains("next or previous panel"));
}

#[test]
fn without_colour_causes_are_told_apart_by_glyphs() {
    let plain = buffer(&mut attached(STORAGE), 80, 24, false);
    for cell in plain.content() {
        assert!(cell.fg == Color::Reset && cell.bg == Color::Reset);
    }
    insta::assert_snapshot!(text(&plain));
}

#[test]
fn colours_are_of_the_sixteen_and_each_cause_has_its_own() {
    let coloured = buffer(&mut attached(STORAGE), 160, 50, true);
    let seen = |colour| coloured.content().iter().any(|c| c.fg == colour || c.bg == colour);
    assert!(seen(Color::Yellow) && seen(Color::Cyan) && seen(Color::Green));
    for cell in coloured.content() {
        for colour in [cell.fg, cell.bg] {
            assert!(!matches!(colour, Color::Rgb(..) | Color::Indexed(_)), "{colour:?}");
        }
    }
}

#[test]
fn a_data_bound_verdict_stands_out_and_a_healthy_one_does_not() {
    let verdict = |job| buffer(&mut attached(job), 80, 24, true)[(0, 1)].clone();
    assert_eq!((verdict(STORAGE).fg, verdict(HEALTHY).fg), (Color::Yellow, Color::Reset));
    assert!(verdict(HEALTHY).modifier.contains(Modifier::BOLD));
}

#[test]
fn a_run_without_tables_says_not_recorded_everywhere() {
    let mut state = fed(&Arc::new(Schema::default()), Mode::Replay, "replay old", vec![Arc::new(Tick::default())]);
    insta::assert_snapshot!(screen(&mut state, 160, 50));
}

#[test]
fn a_held_screen_stands_still_and_then_catches_up() {
    let schema = schema();
    let mut state = fed(&schema, Mode::Live, "attach 4000", HEALTHY.ticks(&schema, 5));
    assert_eq!(press(&mut state, KeyCode::Char(' ')), None);
    let held = state.recent.now();
    for s in 5..2000 {
        state.update(Event::Message(Message::Tick(Arc::new(HEALTHY.tick(&schema, s)))));
    }
    assert_eq!(state.recent.now(), held);
    assert!(screen(&mut state, 80, 24).contains("paused, 900 ticks behind"));
    press(&mut state, KeyCode::Char(' '));
    assert_eq!((state.recent.now(), state.tally.lost), (second(1999), 1095));
}

#[test]
fn replay_keys_become_commands() {
    let mut state = replayed(HEALTHY);
    assert_eq!(press(&mut state, KeyCode::Right), Some(Command::Seek(10)));
    assert_eq!(press(&mut state, KeyCode::PageUp), Some(Command::Seek(-60)));
    assert_eq!(press(&mut state, KeyCode::Home), Some(Command::Start));
    assert_eq!(press(&mut state, KeyCode::Char('+')), Some(Command::Faster));
    assert_eq!(press(&mut state, KeyCode::Char(' ')), Some(Command::Pause));
    assert_eq!(press(&mut state, KeyCode::Char('q')), Some(Command::Quit));
}

#[test]
fn a_reset_forgets_what_was_drawn_but_not_the_reasons() {
    let mut state = replayed(DECODE);
    state.update(Event::Message(Message::Reset));
    let screen = screen(&mut state, 160, 50);
    assert!(screen.contains("no rows yet") && screen.contains("libnvidia-ml"));
}

#[test]
fn the_wheel_scrolls_the_table_under_the_pointer_and_a_click_focuses_it() {
    let mut state = attached(STORAGE);
    let _ = screen(&mut state, 80, 24);
    let mouse = |kind, row| Event::Mouse(MouseEvent { kind, column: 5, row, modifiers: KeyModifiers::NONE });
    for _ in 0..3 {
        state.update(mouse(MouseEventKind::ScrollDown, 20));
    }
    assert!(screen(&mut state, 80, 24).contains("4–"));
    let _ = screen(&mut state, 160, 50);
    state.update(mouse(MouseEventKind::Down(MouseButton::Left), 27));
    assert!(screen(&mut state, 160, 50).contains("▸ trainers"));
}

#[test]
fn nothing_new_is_not_drawn_again() {
    let mut state = attached(HEALTHY);
    let _ = screen(&mut state, 80, 24);
    assert!(state.take_dirty());
    assert!(!state.take_dirty());
    state.update(Event::Resize(Size::new(80, 24)));
    assert!(!state.take_dirty());
    press(&mut state, KeyCode::Tab);
    assert!(state.take_dirty());
}

#[test]
fn the_last_error_of_a_collector_stays_on_the_screen() {
    let mut state = attached(STORAGE);
    assert!(screen(&mut state, 160, 50).contains("collector `stack`: last error: proc/4000/mem: permission denied"));
}

#[test]
fn trouble_of_feedline_itself_is_said_on_the_last_line() {
    let mut state = attached(HEALTHY);
    assert_eq!(state.update(Event::Trouble("thread `player` panicked".to_owned())), None);
    assert!(screen(&mut state, 80, 24).lines().last().is_some_and(|line| line.starts_with("thread `player`")));
}
