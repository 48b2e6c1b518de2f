//! What a thread can be doing.

/// What a thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// On a CPU, or ready to be.
    Running,
    /// In uninterruptible sleep, nearly always for storage.
    Disk,
    /// Waiting on a lock, condition or semaphore.
    Futex,
    /// Waiting for descriptors or for a peer (`poll`, `select`, `epoll_wait`, `accept`, `connect`).
    Poll,
    /// Reading data or metadata from a file, pipe or socket.
    Read,
    /// Writing, syncing or changing a file, pipe or socket.
    Write,
    /// Sleeping for a time (`nanosleep`, or `select` and `poll` without descriptors).
    Sleep,
    /// Waiting for a child or a signal.
    Wait,
    /// Stopped by a signal or a tracer.
    Stopped,
    /// Blocked in something else.
    Other,
    /// Blocked, and the kernel refuses to say in what.
    Unreadable,
}

impl State {
    /// All of them; [`State::index`] is a position here.
    pub const ALL: [Self; 11] = [
        Self::Running,
        Self::Disk,
        Self::Futex,
        Self::Poll,
        Self::Read,
        Self::Write,
        Self::Sleep,
        Self::Wait,
        Self::Stopped,
        Self::Other,
        Self::Unreadable,
    ];

    /// The state as it stands in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Disk => "disk",
            Self::Futex => "futex",
            Self::Poll => "poll",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sleep => "sleep",
            Self::Wait => "wait",
            Self::Stopped => "stopped",
            Self::Other => "other",
            Self::Unreadable => "unreadable",
        }
    }

    /// Position in [`State::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether the thread waits for something that the job or the machine does.
    #[must_use]
    pub fn is_blocked(self) -> bool {
        !matches!(self, Self::Running | Self::Stopped | Self::Unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_in_the_order_of_their_index() {
        for (position, state) in State::ALL.into_iter().enumerate() {
            assert_eq!(state.index(), position);
        }
    }
}
