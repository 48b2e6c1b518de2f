use std::collections::VecDeque;

use feedline_traces::SimClock;

use super::*;
use crate::feed::channel;

fn second(s: i64) -> Ts {
    Ts(s * 1_000_000_000)
}

/// A run with a tick at each of these seconds.
struct Seconds {
    at: Vec<i64>,
    next: usize,
}

impl Tape for Seconds {
    fn span(&self) -> (Ts, Ts) {
        (second(self.at[0]), second(self.at[self.at.len() - 1]))
    }
    fn next(&mut self) -> Result<Option<Tick>> {
        let tick = self.at.get(self.next).map(|s| Tick { at: second(*s), batches: Vec::new() });
        self.next += 1;
        Ok(tick)
    }
    fn seek(&mut self, to: Ts) -> Result<()> {
        self.next = self.at.iter().position(|s| second(*s) >= to).unwrap_or(self.at.len());
        Ok(())
    }
}

/// Plays with commands given at seconds of the clock; returns (second of the clock, second of the
/// tick) for each tick shown, and the messages.
fn played(at: Vec<i64>, speed: f64, script: &[(i64, Command)]) -> (Vec<(f64, i64)>, Vec<Message>) {
    let clock = SimClock::new(second(0));
    let (feed, from) = channel();
    let mut script: VecDeque<(i64, Command)> = script.iter().copied().collect();
    let mut shown = Vec::new();
    let mut messages = Vec::new();
    let mut drain = |now: Ts| {
        for message in from.try_iter() {
            if let Message::Tick(tick) = &message {
                shown.push((now.seconds_since(Ts(0)), tick.at.0 / 1_000_000_000));
            }
            messages.push(message);
        }
    };
    let mut tape = Seconds { at, next: 0 };
    pump(&mut tape, &clock, &feed, speed, &mut |limit| {
        drain(clock.now());
        let until_command = script.front().map(|(s, _)| second(*s).since(clock.now()).max(0).unsigned_abs());
        match (limit, until_command) {
            (Some(limit), Some(wait)) if limit < Duration::from_nanos(wait) => clock.advance(limit),
            (Some(limit), None) => clock.advance(limit),
            (None, None) => return Heard::Command(Command::Quit),
            (_, Some(wait)) => {
                clock.advance(Duration::from_nanos(wait));
                return Heard::Command(script.pop_front().map_or(Command::Quit, |(_, c)| c));
            }
        }
        Heard::Nothing
    })
    .unwrap();
    (shown, messages)
}

#[test]
fn ticks_come_at_the_pace_of_the_run() {
    let (shown, messages) = played(vec![100, 101, 103], 1.0, &[]);
    assert_eq!(shown, [(0.0, 100), (1.0, 101), (3.0, 103)]);
    assert!(messages.iter().any(|m| matches!(m, Message::End(_))));
}

#[test]
fn double_speed_halves_the_wait() {
    let (shown, _) = played(vec![100, 102, 104], 2.0, &[]);
    assert_eq!(shown, [(0.0, 100), (1.0, 102), (2.0, 104)]);
}

#[test]
fn a_pause_holds_the_run_and_does_not_make_up_for_it() {
    let (shown, _) = played((100..104).collect(), 1.0, &[(1, Command::Pause), (50, Command::Resume)]);
    assert_eq!(shown, [(0.0, 100), (51.0, 101), (52.0, 102), (53.0, 103)]);
}

#[test]
fn a_long_gap_is_jumped_over() {
    let (shown, _) = played(vec![100, 101, 5000, 5001], 1.0, &[]);
    assert_eq!(shown, [(0.0, 100), (1.0, 101), (4.0, 5000), (5.0, 5001)]);
}

#[test]
fn seeking_shows_the_history_at_once_and_goes_on_from_there() {
    let (shown, messages) = played((0..2000).collect(), 1.0, &[(2, Command::Seek(1500)), (4, Command::Quit)]);
    assert_eq!(messages.iter().filter(|m| matches!(m, Message::Reset)).count(), 1);
    let ticks: Vec<i64> = shown.iter().map(|(_, tick)| *tick).collect();
    assert!(ticks.starts_with(&[0, 1]));
    assert_eq!((ticks[2], ticks.last().copied()), (901, Some(1502)));
}

#[test]
fn seeking_stays_within_the_run_and_the_end_can_be_left_again() {
    let script = [(30, Command::End), (31, Command::Seek(-99_999)), (32, Command::Seek(99_999)), (40, Command::Start)];
    let (shown, messages) = played((100..110).collect(), 1.0, &script);
    assert!(shown.iter().filter(|(_, tick)| *tick == 100).count() >= 2);
    for message in messages {
        if let Message::Position(p) = message {
            assert!(p.at >= p.start && p.at <= p.end);
        }
    }
}

#[test]
fn speeds_move_by_steps_and_stop_at_the_last() {
    let mut playback = Playback::new(Ts(0), second(10), 1.0, Ts(0));
    playback.obey(Command::Faster, Ts(0));
    assert!((playback.speed - 2.0).abs() < 1e-9);
    for _ in 0..50 {
        playback.obey(Command::Slower, Ts(0));
    }
    assert!((playback.speed - 0.1).abs() < 1e-9);
}

#[test]
fn a_tape_whose_screen_is_gone_stops() {
    let clock = SimClock::new(Ts(0));
    let (feed, from) = channel();
    drop(from);
    let mut tape = Seconds { at: vec![0, 1], next: 0 };
    pump(&mut tape, &clock, &feed, 1.0, &mut |_| Heard::Nothing).unwrap();
}
