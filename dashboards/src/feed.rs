//! The channel from a source to the screen: bounded, and what does not fit is counted.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use feedline_traces::{Result, Schema, Sink, Tick, Ts};

/// Messages that wait at most; a tick that finds no room is lost to the screen, never to the trace.
const ROOM: usize = 1024;

/// Whether time can be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Ticks come as they happen; pausing holds the screen only.
    Live,
    /// Ticks come from a run folder; time can be paused, moved and sped up.
    Replay,
}

/// What a source tells the screen.
#[derive(Debug, Clone)]
pub enum Message {
    /// The next tick.
    Tick(Arc<Tick>),
    /// Time has jumped: forget what was drawn.
    Reset,
    /// Where the replay is.
    Position(Position),
    /// Ticks that the screen was too slow for, in all so far.
    Lost(u64),
    /// No tick follows, and why.
    End(String),
}

/// Where a replay is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    /// Where it is.
    pub at: Ts,
    /// Beginning of the run.
    pub start: Ts,
    /// End of the run.
    pub end: Ts,
    /// Seconds of the run a second.
    pub speed: f64,
    /// Whether it stands still.
    pub paused: bool,
}

/// What the person at the screen asks of the source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Command {
    /// Leave.
    Quit,
    /// Stand still (replay).
    Pause,
    /// Go on (replay).
    Resume,
    /// Move by seconds (replay).
    Seek(i64),
    /// To the beginning (replay).
    Start,
    /// To the end (replay).
    End,
    /// The next higher speed (replay).
    Faster,
    /// The next lower speed (replay).
    Slower,
}

/// The sending end. As a [`Sink`] it never waits for the screen; [`Feed::send`] does.
#[derive(Debug, Clone)]
pub struct Feed {
    to: SyncSender<Message>,
    lost: u64,
    told: u64,
}

/// A channel to a screen.
#[must_use]
pub fn channel() -> (Feed, Receiver<Message>) {
    let (to, from) = sync_channel(ROOM);
    (Feed { to, lost: 0, told: 0 }, from)
}

impl Feed {
    /// Sends, waiting for room; false when the screen is gone.
    pub fn send(&self, message: Message) -> bool {
        self.to.send(message).is_ok()
    }
}

impl Sink for Feed {
    /// Hands the tick to the screen, or counts it as lost when there is no room. A screen that is
    /// gone is no error: the other sinks go on.
    fn accept(&mut self, _schema: &Schema, tick: &Tick) -> Result<()> {
        if let Err(TrySendError::Full(_)) = self.to.try_send(Message::Tick(Arc::new(tick.clone()))) {
            self.lost += 1;
        }
        if self.lost > self.told && self.to.try_send(Message::Lost(self.lost)).is_ok() {
            self.told = self.lost;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        // Without room the screen still learns of the end: the channel closes.
        let _ = self.to.try_send(Message::End("the source has ended".to_owned()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_screen_loses_ticks_and_learns_how_many() {
        let (mut feed, from) = channel();
        let schema = Schema::default();
        for _ in 0..ROOM + 5 {
            feed.accept(&schema, &Tick::default()).unwrap();
        }
        assert_eq!(from.try_iter().count(), ROOM);
        feed.accept(&schema, &Tick::default()).unwrap();
        let told: Vec<Message> = from.try_iter().collect();
        assert!(matches!(told.as_slice(), [Message::Tick(_), Message::Lost(5)]));
    }

    #[test]
    fn a_screen_that_is_gone_ends_nothing() {
        let (mut feed, from) = channel();
        drop(from);
        assert!(feed.accept(&Schema::default(), &Tick::default()).is_ok());
        assert!(feed.finish().is_ok());
    }
}
