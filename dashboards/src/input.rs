//! Keys and mouse, read by a thread of their own: reading from a terminal that is gone never
//! returns, and must hold nobody up.

use std::io::stdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use feedline_traces::{Error, Result};
use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Events that wait at most.
const ROOM: usize = 1024;

/// What the person does.
pub(crate) struct Input {
    events: Receiver<Event>,
}

impl Input {
    /// Starts reading. The thread ends with the program: a read cannot be called off.
    pub(crate) fn start() -> Result<Self> {
        let (to, events) = sync_channel(ROOM);
        let read = move || while event::read().is_ok_and(|event| to.send(event).is_ok()) {};
        let thread = std::thread::Builder::new().name("input".into()).spawn(read);
        thread.map_err(|cause| Error::io("input thread", &cause))?;
        Ok(Self { events })
    }

    /// The next event, waiting for it so long at most.
    ///
    /// # Errors
    /// When nothing more can be read.
    pub(crate) fn next(&self, wait: Duration) -> Result<Option<Event>> {
        match self.events.recv_timeout(wait) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Error::new("terminal: no more keys can be read")),
        }
    }
}

/// Whether the terminal behind standard input is gone: its window was closed, or the line dropped.
pub(crate) fn hung_up() -> bool {
    let stdin = stdin();
    let mut asked = [PollFd::new(&stdin, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&now))
        .is_ok_and(|_| asked[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL))
}
