//! Replay at a pace: position, speed and pause as values, and a loop that obeys them.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use feedline_traces::{Clock, Result, Tick, Ts};

use crate::feed::{Command, Feed, Message, Position};
use crate::series::SLOTS;

/// Speeds, in seconds of the run a second.
const SPEEDS: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
/// A gap in the run longer than this is jumped over, in seconds at the screen.
const PATIENCE: f64 = 3.0;
/// What is shown at once before the point sought, so that charts are full.
const HISTORY: Duration = Duration::from_secs(SLOTS as u64);

/// A recorded run that can be read from any point.
pub trait Tape {
    /// Times of the first and of the last tick.
    fn span(&self) -> (Ts, Ts);

    /// The next tick, `None` at the end.
    ///
    /// # Errors
    /// When the run cannot be read.
    fn next(&mut self) -> Result<Option<Tick>>;

    /// Moves so that the next tick is the first at or after a time.
    ///
    /// # Errors
    /// When the run cannot be read.
    fn seek(&mut self, to: Ts) -> Result<()>;
}

/// Plays a tape to a screen until the person quits or the screen is gone. It blocks, so it wants a
/// thread of its own.
///
/// # Errors
/// When the tape cannot be read.
pub fn play(
    tape: &mut dyn Tape,
    clock: &dyn Clock,
    feed: &Feed,
    commands: &Receiver<Command>,
    speed: f64,
) -> Result<()> {
    pump(tape, clock, feed, speed, &mut |limit| match limit {
        Some(limit) => match commands.recv_timeout(limit) {
            Ok(command) => Heard::Command(command),
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
            Err(RecvTimeoutError::Disconnected) => Heard::Command(Command::Quit),
        },
        None => Heard::Command(commands.recv().unwrap_or(Command::Quit)),
    })
}

/// What came while waiting.
enum Heard {
    Command(Command),
    Nothing,
}

/// Waits for a command, at most so long; for ever without a limit.
type Listen<'a> = dyn FnMut(Option<Duration>) -> Heard + 'a;

fn pump(tape: &mut dyn Tape, clock: &dyn Clock, feed: &Feed, speed: f64, listen: &mut Listen<'_>) -> Result<()> {
    let (start, end) = tape.span();
    let mut playback = Playback::new(start, end, speed, clock.now());
    let mut next = tape.next()?;
    let mut ended = false;
    loop {
        if next.is_none() && !ended {
            ended = true;
            playback.reach(end, clock.now());
            feed.send(Message::Position(playback.position()));
            feed.send(Message::End("end of the run".to_owned()));
        }
        let due = next.as_ref().and_then(|tick| playback.due(tick.at, clock.now()));
        let asked = match listen(due) {
            Heard::Command(command) => playback.obey(command, clock.now()),
            Heard::Nothing => {
                if let Some(tick) = next.take() {
                    playback.reach(tick.at, clock.now());
                    if !feed.send(Message::Tick(Arc::new(tick))) {
                        return Ok(());
                    }
                    next = tape.next()?;
                }
                Asked::Nothing
            }
        };
        match asked {
            Asked::Nothing => {}
            Asked::Leave => return Ok(()),
            Asked::Seek(to) => {
                (next, ended) = (jump(tape, feed, to)?, false);
            }
        }
        if !feed.send(Message::Position(playback.position())) {
            return Ok(());
        }
    }
}

/// Shows what came before a point at once, and returns the first tick at or after it.
fn jump(tape: &mut dyn Tape, feed: &Feed, to: Ts) -> Result<Option<Tick>> {
    let history = i64::try_from(HISTORY.as_nanos()).unwrap_or(i64::MAX);
    tape.seek(Ts(to.0.saturating_sub(history)))?;
    feed.send(Message::Reset);
    loop {
        match tape.next()? {
            Some(tick) if tick.at < to => {
                feed.send(Message::Tick(Arc::new(tick)));
            }
            next => return Ok(next),
        }
    }
}

/// What a command asks of the tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    Seek(Ts),
    Leave,
}

/// Position, speed and pause.
#[derive(Debug)]
struct Playback {
    start: Ts,
    end: Ts,
    at: Ts,
    speed: f64,
    paused: bool,
    /// When the clock showed the first, the run was at the second.
    anchor: (Ts, Ts),
}

impl Playback {
    fn new(start: Ts, end: Ts, speed: f64, now: Ts) -> Self {
        let speed = if speed.is_finite() { speed.clamp(0.01, 1e4) } else { 1.0 };
        Self { start, end, at: start, speed, paused: false, anchor: (now, start) }
    }

    fn position(&self) -> Position {
        Position { at: self.at, start: self.start, end: self.end, speed: self.speed, paused: self.paused }
    }

    /// How long until a tick is due; `None` while paused.
    fn due(&self, tick: Ts, now: Ts) -> Option<Duration> {
        let left = tick.seconds_since(self.anchor.1) / self.speed - now.seconds_since(self.anchor.0);
        (!self.paused).then(|| Duration::try_from_secs_f64(left.clamp(0.0, PATIENCE)).unwrap_or_default())
    }

    /// The run has come to a time. After a gap that was jumped over, the pace starts anew.
    fn reach(&mut self, tick: Ts, now: Ts) {
        self.at = tick.max(self.start).min(self.end.max(self.start));
        if tick > self.now_at(now) {
            self.anchor = (now, tick);
        }
    }

    /// The point of the run that the clock has come to.
    #[expect(clippy::cast_possible_truncation, reason = "the conversion saturates, which is what is wanted")]
    fn now_at(&self, now: Ts) -> Ts {
        let gone = now.since(self.anchor.0).max(0);
        Ts(self
            .anchor
            .1
            .0
            .saturating_add((Duration::from_nanos(gone.unsigned_abs()).as_secs_f64() * self.speed * 1e9) as i64))
    }

    fn obey(&mut self, command: Command, now: Ts) -> Asked {
        match command {
            Command::Quit => return Asked::Leave,
            Command::Pause => self.paused = true,
            Command::Resume => self.paused = false,
            Command::Seek(seconds) => {
                return self.go(Ts(self.at.0.saturating_add(seconds.saturating_mul(1_000_000_000))), now);
            }
            Command::Start => return self.go(self.start, now),
            Command::End => return self.go(self.end, now),
            Command::Faster => self.speed = SPEEDS.iter().copied().find(|s| *s > self.speed).unwrap_or(self.speed),
            Command::Slower => {
                self.speed = SPEEDS.iter().rev().copied().find(|s| *s < self.speed).unwrap_or(self.speed);
            }
        }
        self.anchor = (now, self.at);
        Asked::Nothing
    }

    fn go(&mut self, to: Ts, now: Ts) -> Asked {
        self.at = to.min(self.end).max(self.start);
        self.anchor = (now, self.at);
        Asked::Seek(self.at)
    }
}

#[cfg(test)]
#[path = "playback_tests.rs"]
mod tests;
