//! Reads the state of one thread, cheaply: files stay open and are read again from the start.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;

use super::classify::classify;
use super::parse::{self, Syscall};
use super::state::State;
use super::syscalls::Arch;
use crate::Host;

/// Which thread: ids in the namespace of the host's `proc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ThreadId {
    /// Process.
    pub(crate) pid: u32,
    /// When the process started, in clock ticks since boot; another one is another process.
    pub(crate) start: u64,
    /// Thread.
    pub(crate) tid: u32,
}

/// What one look at a thread gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// It is in this state.
    Seen(State),
    /// It could not be read this time.
    Failed,
    /// The thread is no more, or its id is another process's now.
    Gone,
}

/// A system call that a thread was blocked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    /// Number of the call, in the architecture's table.
    pub(crate) number: i64,
    /// Its six arguments.
    pub(crate) arguments: [u64; 6],
}

/// How many looks may trust a call that never leaves interruptible sleep before `stat` is read
/// again: a stopped thread still shows the call that it was stopped in.
const TRUSTED: u32 = 16;

/// After a refusal the right is asked for again after this many looks.
const RETRY: u32 = 512;

/// The open files of one thread.
#[derive(Debug)]
pub(crate) struct Probe {
    thread: ThreadId,
    files: Option<Files>,
    /// Looks left before `stat` is read whatever the call is.
    trusted: u32,
    /// Looks left before `syscall` is tried again; 0 while it is readable.
    refused: u32,
    /// The call that the last look showed.
    call: Option<Call>,
}

#[derive(Debug)]
struct Files {
    stat: File,
    syscall: Option<File>,
    wchan: Option<File>,
}

impl Probe {
    /// A probe of a thread; files are opened at the first look.
    pub(crate) fn new(thread: ThreadId) -> Self {
        Self { thread, files: None, trusted: 0, refused: 0, call: None }
    }

    /// Whether the kernel refused to show the system call.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused > 0
    }

    /// The call that the thread was in at the last look; none while it ran, or where none is shown.
    pub(crate) fn call(&self) -> Option<Call> {
        self.call
    }

    /// Looks at the thread.
    pub(crate) fn look(&mut self, host: &Host) -> Look {
        self.call = None;
        if self.files.is_none() {
            match self.open(host) {
                Ok(files) => self.files = Some(files),
                Err(look) => return look,
            }
        }
        let Some(files) = self.files.as_ref() else { return Look::Failed };
        let mut buffer = [0u8; 512];
        let syscall = match &files.syscall {
            Some(file) => match text(file, &mut buffer) {
                Ok(line) => parse::syscall(line),
                Err(error) if is_gone(&error) => return self.gone(),
                Err(_) => Syscall::Unreadable,
            },
            None => Syscall::Unreadable,
        };
        if syscall != Syscall::Unreadable {
            self.refused = 0;
        }
        if let Syscall::Call { number, arguments } = syscall {
            self.call = Some(Call { number, arguments });
        }
        let guess = classify(Arch::THIS, None, &syscall, None);
        if guess == State::Running || (self.trusted > 0 && is_interruptible(guess)) {
            self.trusted = self.trusted.saturating_sub(1);
            return Look::Seen(guess);
        }
        let code = match text(&files.stat, &mut buffer) {
            Ok(line) => parse::code(line),
            Err(error) if is_gone(&error) => return self.gone(),
            Err(_) => None,
        };
        if matches!(code, Some('Z' | 'X' | 'x')) {
            return self.gone();
        }
        let Some(code) = code else {
            self.files = None;
            return Look::Failed;
        };
        let state = match classify(Arch::THIS, Some(code), &syscall, None) {
            State::Other | State::Unreadable => {
                let wchan = files.wchan.as_ref().and_then(|file| text(file, &mut buffer).ok());
                classify(Arch::THIS, Some(code), &syscall, wchan.map(str::trim))
            }
            state => state,
        };
        self.trusted = if state == State::Stopped { 0 } else { TRUSTED };
        if syscall == Syscall::Unreadable {
            self.note_refusal();
        }
        Look::Seen(state)
    }

    /// The right may come (or the file was opened too early): from time to time it is asked for again.
    fn note_refusal(&mut self) {
        self.refused = match self.refused {
            0 => RETRY,
            1 => {
                self.files = None;
                RETRY
            }
            left => left - 1,
        };
        if let Some(files) = &mut self.files {
            files.syscall = None;
        }
    }

    fn gone(&mut self) -> Look {
        self.files = None;
        Look::Gone
    }

    fn open(&self, host: &Host) -> Result<Files, Look> {
        let ThreadId { pid, start, tid } = self.thread;
        let folder = format!("proc/{pid}/task/{tid}");
        let open = |name: &str| File::open(host.path(format!("{folder}/{name}")));
        // The thread's files first, then the process's start time: a pid reused in between is seen.
        let stat = open("stat").map_err(|error| look_of(&error))?;
        let files = Files { stat, syscall: open("syscall").ok(), wchan: open("wchan").ok() };
        let process = File::open(host.path(format!("proc/{pid}/stat"))).map_err(|error| look_of(&error))?;
        let mut buffer = [0u8; 1024];
        let line = text(&process, &mut buffer).map_err(|error| look_of(&error))?;
        match parse::stat(line) {
            Ok((_, found)) if found == start => Ok(files),
            Ok(_) => Err(Look::Gone),
            Err(_) => Err(Look::Failed),
        }
    }
}

/// Calls that wait in interruptible sleep only, so that `stat` adds nothing.
fn is_interruptible(state: State) -> bool {
    matches!(state, State::Futex | State::Poll | State::Sleep | State::Wait)
}

fn text<'a>(file: &File, buffer: &'a mut [u8]) -> std::io::Result<&'a str> {
    let length = file.read_at(buffer, 0)?;
    let bytes = buffer.get(..length).unwrap_or_default();
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text),
        // A name cut in the middle of a character, or not UTF-8 at all: what follows `)` is ASCII.
        Err(_) => {
            let close = bytes.iter().rposition(|b| *b == b')').unwrap_or(0);
            let tail = bytes.get(close..).unwrap_or_default();
            std::str::from_utf8(tail).map_err(|_| std::io::Error::from(ErrorKind::InvalidData))
        }
    }
}

fn is_gone(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

fn look_of(error: &std::io::Error) -> Look {
    if error.kind() == ErrorKind::NotFound || is_gone(error) { Look::Gone } else { Look::Failed }
}

/// Why the state of a process's threads is refused, and what would give it.
pub(crate) fn refusal(host: &Host, pid: u32) -> String {
    let right = format!("ptrace access to PID {pid} (same user, or CAP_SYS_PTRACE)");
    match host.read("proc/sys/kernel/yama/ptrace_scope").ok().as_deref().map(str::trim) {
        Some(scope) if scope != "0" => format!("{right}; kernel.yama.ptrace_scope is {scope}"),
        _ => right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine(code: char, syscall: Option<&str>) -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().unwrap();
        let task = root.path().join("proc/7/task/7");
        fs::create_dir_all(&task).unwrap();
        let host = Host::at(root.path());
        write(&host, code, syscall);
        (root, host)
    }

    fn write(host: &Host, code: char, syscall: Option<&str>) {
        let stat = format!("7 (python3) {code} 1 7 7 0 -1 4194304 1 0 0 0 7 3 0 0 20 0 1 0 555 1 1 1\n");
        fs::write(host.path("proc/7/stat"), &stat).unwrap();
        fs::write(host.path("proc/7/task/7/stat"), &stat).unwrap();
        if let Some(line) = syscall {
            fs::write(host.path("proc/7/task/7/syscall"), line).unwrap();
        }
    }

    const SEVEN: ThreadId = ThreadId { pid: 7, start: 555, tid: 7 };

    #[test]
    fn a_thread_is_read_again_without_reopening() {
        let read = if Arch::THIS == Arch::X86_64 { "0 0x3 0x0" } else { "63 0x3 0x0" };
        let (_root, host) = machine('S', Some(read));
        let mut probe = Probe::new(SEVEN);
        assert_eq!(probe.look(&host), Look::Seen(State::Read));
        write(&host, 'D', Some(read));
        assert_eq!(probe.look(&host), Look::Seen(State::Disk));
        write(&host, 'R', Some("running\n"));
        assert_eq!(probe.look(&host), Look::Seen(State::Running));
    }

    #[test]
    fn a_stopped_thread_is_found_out_within_some_looks() {
        let futex = if Arch::THIS == Arch::X86_64 { "202 0x1 0x0" } else { "98 0x1 0x0" };
        let (_root, host) = machine('S', Some(futex));
        let mut probe = Probe::new(SEVEN);
        assert_eq!(probe.look(&host), Look::Seen(State::Futex));
        write(&host, 'T', Some(futex));
        let looks: Vec<Look> = (0..=TRUSTED).map(|_| probe.look(&host)).collect();
        assert_eq!(looks.last(), Some(&Look::Seen(State::Stopped)));
        assert_eq!(probe.look(&host), Look::Seen(State::Stopped));
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let (_root, host) = machine('S', Some("running"));
        assert_eq!(Probe::new(ThreadId { start: 556, ..SEVEN }).look(&host), Look::Gone);
        assert_eq!(Probe::new(ThreadId { pid: 8, start: 555, tid: 8 }).look(&host), Look::Gone);
    }

    #[test]
    fn without_the_right_the_state_letter_remains() {
        let (_root, host) = machine('S', None);
        let mut probe = Probe::new(SEVEN);
        assert_eq!(probe.look(&host), Look::Seen(State::Unreadable));
        assert!(probe.is_refused());
        write(&host, 'R', None);
        assert_eq!(probe.look(&host), Look::Seen(State::Running));
        write(&host, 'S', Some("running"));
        let last = (0..2 * RETRY).map(|_| probe.look(&host)).last();
        assert_eq!(last, Some(Look::Seen(State::Running)), "the right is asked for again");
        assert!(!probe.is_refused());
    }

    #[test]
    fn a_refusal_names_the_process_and_the_right() {
        let (root, host) = machine('S', None);
        assert_eq!(refusal(&host, 42), "ptrace access to PID 42 (same user, or CAP_SYS_PTRACE)");
        fs::create_dir_all(root.path().join("proc/sys/kernel/yama")).unwrap();
        fs::write(root.path().join("proc/sys/kernel/yama/ptrace_scope"), "2\n").unwrap();
        assert!(refusal(&host, 42).ends_with("; kernel.yama.ptrace_scope is 2"));
    }
}
