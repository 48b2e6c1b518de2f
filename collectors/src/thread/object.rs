//! What a blocked call is on: a pipe, a socket, a file and of which kind, as far as that is cheap.
//!
//! A call that reads or writes names a descriptor, whose link says what it leads to; of a path the
//! job's own list of mounts says where it lies. Neither asks the file system itself: `stat` or
//! `statfs` would wait behind a server that does not answer, and load one that does. Calls that wait
//! for several descriptors, or name a path, keep them in the job's memory, from where they are read
//! without stopping it (`proc/PID/mem`).

mod calls;

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use feedline_traces::{Symbol, Ts};

use super::probe::Call;
use super::syscalls::Arch;
use crate::Host;
use crate::mount::parse::{Class, Mount, mountinfo, serving};
use calls::{Object, object_of};

/// The kind of file that a call is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) enum On {
    /// Not known, or a call that is on none.
    #[default]
    Unknown,
    /// A pipe or FIFO.
    Pipe,
    /// A socket of any family.
    Socket,
    /// A file on a file system of this machine.
    File,
    /// A file on a file system that another machine or a program serves.
    Remote,
    /// A file in memory.
    Shm,
    /// Something else: a terminal, a device, an event.
    Other,
}

impl On {
    /// The kind as it stands in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::File => "file",
            Self::Remote => "remote",
            Self::Shm => "shm",
            Self::Other => "other",
        }
    }

    /// The kind that stands for several descriptors waited for at once: theirs, where they are of
    /// one kind. What is no data (events, timers, which loops add to wake themselves) does not count
    /// beside what is.
    fn of_all(kinds: impl IntoIterator<Item = Self>) -> Self {
        let mut found = None;
        for kind in kinds {
            found = match (found, kind) {
                (_, Self::Unknown) => return Self::Unknown,
                (None, kind) | (Some(Self::Other), kind) => Some(kind),
                (Some(known), Self::Other) => Some(known),
                (Some(known), kind) if known == kind => Some(known),
                _ => return Self::Unknown,
            };
        }
        found.unwrap_or_default()
    }
}

/// Processes remembered; past this all are forgotten.
const MOST_PROCESSES: usize = 1024;
/// Descriptors of one process remembered; past this they are forgotten.
const MOST_DESCRIPTORS: usize = 64;
/// A number may be another file soon: loaders open and close one for each sample.
const DESCRIPTOR_LIFE: Duration = Duration::from_millis(50);
/// What an event loop waits for changes with its connections.
const LOOP_LIFE: Duration = Duration::from_secs(1);
/// Mounts come and go seldom, and the list of them may be long.
const MOUNTS_LIFE: Duration = Duration::from_secs(10);
/// Mount namespaces told apart.
const MOST_SPACES: usize = 16;
/// Descriptors of one call looked at; a call that waits for more is on many things.
const MOST_POLLED: usize = 16;
/// Descriptors below this are seen in a `select`.
const MOST_SELECTED: usize = 256;

/// Tells what calls are on, and remembers it for a moment.
pub(super) struct Objects {
    host: Host,
    processes: HashMap<u32, Open>,
    spaces: Vec<Space>,
}

/// What is remembered of one process.
#[derive(Default)]
struct Open {
    memory: Option<File>,
    namespace: String,
    descriptors: HashMap<u64, (Ts, On)>,
    /// The file that a link or a path last led to.
    file: Option<Symbol>,
    loops: HashMap<u64, (Ts, On)>,
}

/// The mounts of one namespace.
struct Space {
    namespace: String,
    read_at: Ts,
    mounts: Vec<Mount>,
}

impl Objects {
    /// Nothing known yet.
    pub(super) fn new(host: Host) -> Self {
        Self { host, processes: HashMap::new(), spaces: Vec::new() }
    }

    /// Forgets the processes that are not among these.
    pub(super) fn keep(&mut self, watched: impl Fn(u32) -> bool) {
        self.processes.retain(|pid, _| watched(*pid));
    }

    /// What a call that a thread of a process is blocked in is on.
    pub(super) fn of(&mut self, pid: u32, call: &Call, now: Ts) -> On {
        let argument = |index: usize| call.arguments.get(index).copied().unwrap_or(u64::MAX);
        let Some(object) = object_of(Arch::THIS, call.number) else { return On::Unknown };
        if self.processes.len() >= MOST_PROCESSES && !self.processes.contains_key(&pid) {
            self.processes.clear();
        }
        match object {
            Object::Descriptor(index) => self.descriptor(pid, argument(index), now),
            Object::Path(index) => self.path(pid, None, argument(index), now),
            Object::PathAt(index) => self.path(pid, Some(argument(index)), argument(index + 1), now),
            Object::Polled => self.polled(pid, argument(0), argument(1), now),
            Object::Selected => self.selected(pid, argument(0), argument(1), now),
            Object::Loop => self.event_loop(pid, argument(0), now),
        }
    }

    /// The file that the calls of a process were last found on, by its path there. It may be that
    /// of a call a moment ago: what a descriptor leads to is remembered for a while.
    pub(super) fn file(&self, pid: u32) -> Option<Symbol> {
        self.processes.get(&pid)?.file.clone()
    }

    /// What a descriptor leads to.
    fn descriptor(&mut self, pid: u32, descriptor: u64, now: Ts) -> On {
        let open = self.processes.entry(pid).or_default();
        if let Some((at, on)) = open.descriptors.get(&descriptor)
            && is_fresh(*at, now, DESCRIPTOR_LIFE)
        {
            return *on;
        }
        let on = match self.host.link(format!("proc/{pid}/fd/{descriptor}")) {
            Ok(target) => self.target(pid, &target.to_string_lossy(), now),
            Err(_) => On::Unknown,
        };
        let open = self.processes.entry(pid).or_default();
        if open.descriptors.len() >= MOST_DESCRIPTORS {
            open.descriptors.clear();
        }
        open.descriptors.insert(descriptor, (now, on));
        on
    }

    /// What the target of a link is.
    fn target(&mut self, pid: u32, target: &str, now: Ts) -> On {
        if target.starts_with("pipe:[") {
            return On::Pipe;
        }
        if target.starts_with("socket:[") {
            return On::Socket;
        }
        if target.starts_with("/memfd:") || target.starts_with("/dev/shm/") || target.starts_with("/SYSV") {
            return On::Shm;
        }
        if !target.starts_with('/') || target.starts_with("/dev/") {
            return On::Other;
        }
        let Some(mounts) = self.mounts(pid, now) else { return On::Unknown };
        let on = match serving(mounts, target).map(Mount::class) {
            Some(Class::Disk | Class::Overlay) => On::File,
            Some(Class::Network | Class::Fuse) => On::Remote,
            Some(Class::Memory) => On::Shm,
            Some(Class::Pseudo) => On::Other,
            None => On::Unknown,
        };
        if matches!(on, On::File | On::Remote) {
            self.processes.entry(pid).or_default().file = Some(target.into());
        }
        on
    }

    /// The mounts as a process sees them; processes of one namespace share a reading.
    fn mounts(&mut self, pid: u32, now: Ts) -> Option<&[Mount]> {
        let open = self.processes.entry(pid).or_default();
        if open.namespace.is_empty() {
            let link = self.host.link(format!("proc/{pid}/ns/mnt"));
            open.namespace = link.map_or_else(|_| pid.to_string(), |link| link.to_string_lossy().into_owned());
        }
        let known = self.spaces.iter().position(|space| space.namespace == open.namespace);
        if let Some(index) = known {
            let space = self.spaces.get_mut(index)?;
            if !is_fresh(space.read_at, now, MOUNTS_LIFE) {
                space.mounts = mountinfo(&self.host.read(format!("proc/{pid}/mountinfo")).ok()?);
                space.read_at = now;
            }
            return self.spaces.get(index).map(|space| space.mounts.as_slice());
        }
        let mounts = mountinfo(&self.host.read(format!("proc/{pid}/mountinfo")).ok()?);
        if self.spaces.len() >= MOST_SPACES {
            self.spaces.clear();
        }
        self.spaces.push(Space { namespace: open.namespace.clone(), read_at: now, mounts });
        self.spaces.last().map(|space| space.mounts.as_slice())
    }

    /// Where a path lies that stands in the memory of the process; with an empty path the call is on
    /// the descriptor of the folder.
    fn path(&mut self, pid: u32, folder: Option<u64>, address: u64, now: Ts) -> On {
        let mut buffer = [0u8; 256];
        let length = self.memory(pid, address, &mut buffer);
        let Some(end) = buffer.get(..length).and_then(|read| read.iter().position(|b| *b == 0)) else {
            return On::Unknown;
        };
        let path = String::from_utf8_lossy(buffer.get(..end).unwrap_or_default()).into_owned();
        // A descriptor is an `int`: -100 stands for the working directory.
        let folder = folder.and_then(|fd| u32::try_from(fd & 0xffff_ffff).ok()).filter(|fd| i32::try_from(*fd).is_ok());
        if path.starts_with('/') {
            return self.target(pid, &path, now);
        }
        match folder {
            // A path further down is nearly always on the same mount.
            Some(descriptor) => self.descriptor(pid, u64::from(descriptor), now),
            None if path.is_empty() || path.contains("..") => On::Unknown,
            None => match self.host.link(format!("proc/{pid}/cwd")) {
                Ok(directory) => self.target(pid, &format!("{}/{path}", directory.to_string_lossy()), now),
                Err(_) => On::Unknown,
            },
        }
    }

    /// `poll`: an array of `struct pollfd` of 8 bytes, which begins with the descriptor.
    fn polled(&mut self, pid: u32, address: u64, count: u64, now: Ts) -> On {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let mut buffer = [0u8; 8 * MOST_POLLED];
        if count == 0 || count > MOST_POLLED || self.memory(pid, address, &mut buffer) < 8 * count {
            return On::Unknown;
        }
        let entries = buffer.chunks_exact(8).take(count);
        let fds = entries
            .filter_map(|entry| entry.get(..4).and_then(|bytes| Some(i32::from_ne_bytes(bytes.try_into().ok()?))));
        // A negative one is passed over by the kernel too.
        let fds: Vec<u64> = fds.filter_map(|fd| u64::try_from(fd).ok()).collect();
        On::of_all(fds.into_iter().map(|fd| self.descriptor(pid, fd, now)))
    }

    /// `select`: a bit for each descriptor waited for to be readable.
    fn selected(&mut self, pid: u32, highest: u64, address: u64, now: Ts) -> On {
        let highest = usize::try_from(highest).unwrap_or(usize::MAX);
        let mut buffer = [0u8; MOST_SELECTED / 8];
        if address == 0 || highest > MOST_SELECTED {
            return On::Unknown;
        }
        // The set is read in whole words, as the kernel does.
        let needed = highest.div_ceil(64) * 8;
        if self.memory(pid, address, buffer.get_mut(..needed).unwrap_or_default()) < needed {
            return On::Unknown;
        }
        let is_set = |fd: &usize| buffer.get(fd / 8).is_some_and(|byte| byte & (1 << (fd % 8)) != 0);
        let fds: Vec<usize> = (0..highest).filter(is_set).take(MOST_POLLED).collect();
        On::of_all(fds.into_iter().map(|fd| self.descriptor(pid, fd as u64, now)))
    }

    /// `epoll`: the kernel lists what the loop waits for.
    fn event_loop(&mut self, pid: u32, descriptor: u64, now: Ts) -> On {
        let open = self.processes.entry(pid).or_default();
        if let Some((at, on)) = open.loops.get(&descriptor)
            && is_fresh(*at, now, LOOP_LIFE)
        {
            return *on;
        }
        let text = self.host.read(format!("proc/{pid}/fdinfo/{descriptor}")).unwrap_or_default();
        let fds = waited_for(&text);
        let on = if fds.len() > MOST_POLLED {
            On::Unknown
        } else {
            On::of_all(fds.into_iter().map(|fd| self.descriptor(pid, fd, now)))
        };
        let open = self.processes.entry(pid).or_default();
        if open.loops.len() >= MOST_DESCRIPTORS {
            open.loops.clear();
        }
        open.loops.insert(descriptor, (now, on));
        on
    }

    /// Bytes of the memory of a process; fewer where the mapping ends, none where it may not be read.
    fn memory(&mut self, pid: u32, address: u64, buffer: &mut [u8]) -> usize {
        let open = self.processes.entry(pid).or_default();
        if open.memory.is_none() {
            open.memory = File::open(self.host.path(format!("proc/{pid}/mem"))).ok();
        }
        let read = open.memory.as_ref().map(|file| file.read_at(buffer, address));
        match read {
            Some(Ok(length)) if length > 0 => length,
            // Of a program that was replaced nothing can be read: the next try opens the new one's.
            _ => {
                open.memory = None;
                0
            }
        }
    }
}

fn is_fresh(at: Ts, now: Ts, life: Duration) -> bool {
    u64::try_from(now.since(at)).is_ok_and(|age| u128::from(age) <= life.as_nanos())
}

/// The descriptors in an event loop's `fdinfo`: lines such as `tfd:        5 events:       19 data: …`.
fn waited_for(text: &str) -> Vec<u64> {
    let target = |line: &str| line.strip_prefix("tfd:")?.split_ascii_whitespace().next()?.parse().ok();
    text.lines().filter_map(target).take(MOST_POLLED + 1).collect()
}

/// Feeds a text to the parser of this file, for [`crate::foreign`].
pub(super) fn parse_all(text: &str) {
    let _ = waited_for(text);
}

#[cfg(test)]
mod tests;
