//! The closed sets that attribution counts over: thread states, what a call is on, and the groups of
//! the first level.

/// Number of thread states.
pub(crate) const STATES: usize = 11;
/// Number of groups.
pub(crate) const GROUPS: usize = 5;

/// What a thread was doing for the kernel when it was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// On a CPU or runnable.
    Running,
    /// Uninterruptible, waiting for a device.
    Disk,
    /// Waiting on a lock or a channel.
    Futex,
    /// In poll, select or epoll.
    Poll,
    /// In read, pread or recv.
    Read,
    /// In write, pwrite or send.
    Write,
    /// In nanosleep.
    Sleep,
    /// Waiting for a child process.
    Wait,
    /// Stopped by a signal.
    Stopped,
    /// Blocked in another system call.
    Other,
    /// The kernel refuses to say.
    Unreadable,
}

impl State {
    /// Every state, in the order of their numbers.
    pub const ALL: [Self; STATES] = [
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

    /// The state of a name; a name from a later version is `Other`.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|s| s.name() == name).unwrap_or(Self::Other)
    }

    /// Whether a loader thread in this state is at work rather than waiting for work or for room:
    /// idle threads wait in futex or poll, and a reader that sleeps waits for its storage.
    pub(crate) fn at_work(self) -> bool {
        matches!(self, Self::Running | Self::Disk | Self::Read | Self::Write | Self::Sleep)
    }
}

/// Where a trainer's time goes, at the first level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Waiting in the loader.
    Data,
    /// Other file or network work of the main thread.
    Io,
    /// Waiting for the device or for another rank.
    Device,
    /// Own work on the host.
    Host,
    /// Not known.
    Unknown,
}

impl Group {
    /// Every group, in the order of their numbers.
    pub const ALL: [Self; GROUPS] = [Self::Data, Self::Io, Self::Device, Self::Host, Self::Unknown];

    /// The group as it stands in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Io => "io",
            Self::Device => "device",
            Self::Host => "host",
            Self::Unknown => "unknown",
        }
    }

    /// The site that stands for the group, for evidence.
    pub(crate) fn site(self) -> &'static str {
        if self == Self::Data { "loader" } else { self.name() }
    }
}

/// What a worker's state can mean, before its stack is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// On a CPU or queueing for one.
    Running,
    /// In disk or read: storage, unless the stack says that it waits for work.
    Storage,
    /// In poll: a socket in a fetch, or a queue.
    Poll,
    /// In a timed sleep.
    Sleep,
    /// On a lock, a full pipe, or something else.
    Rest,
}

impl Hold {
    pub(crate) fn of(state: State) -> Self {
        match state {
            State::Running => Self::Running,
            State::Disk | State::Read => Self::Storage,
            State::Poll => Self::Poll,
            State::Sleep => Self::Sleep,
            _ => Self::Rest,
        }
    }
}

/// What a blocked call is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum On {
    /// Not known, or the state has none.
    Unknown,
    Pipe,
    Socket,
    /// A file of a local file system.
    File,
    /// A file of a network or FUSE file system.
    Remote,
    /// A file in memory.
    Memory,
    Other,
}

impl On {
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "pipe" => Self::Pipe,
            "socket" => Self::Socket,
            "file" => Self::File,
            "remote" => Self::Remote,
            "shm" => Self::Memory,
            "" => Self::Unknown,
            _ => Self::Other,
        }
    }

    /// For evidence, after the name of a state.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Unknown | Self::Other => "",
            Self::Pipe => " on a pipe",
            Self::Socket => " on a socket",
            Self::File => " on a local file",
            Self::Remote => " on a remote file",
            Self::Memory => " on a file in memory",
        }
    }
}

/// A state, and what the call was on.
pub(crate) type Kind = (State, On);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_states_and_strange_ones_to_other() {
        for state in State::ALL {
            assert_eq!(State::named(state.name()), state);
        }
        assert_eq!(State::named("io_uring"), State::Other);
    }
}
