//! Python stacks of a running process, read from its memory without stopping it.
//!
//! This is the only place that knows py-spy. It is told never to lock: the target is not stopped
//! and not traced, so a stack can be torn while it is read, and such a one counts as missing.

use py_spy::config::{LineNo, LockingStrategy};
use py_spy::{Config, PythonSpy, StackTrace};

use super::rounds::Local;
use super::rules::Frame;
use crate::Host;
use crate::thread::refusal;

/// Attaches to processes.
pub(super) trait Attach: Send {
    /// Attaches to a process; `inner` is its pid within its own namespace. On an error the reason.
    fn attach(&self, pid: u32, inner: Option<u32>) -> Result<Box<dyn Unwind>, String>;
}

/// What is wanted of a reading beside the main thread's stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Wanted {
    /// The whole numbers among the local variables, which takes a few times as long.
    pub(super) numbers: bool,
    /// The stacks of the other threads.
    pub(super) threads: bool,
    /// The names of those threads, which takes about as long as a stack.
    pub(super) names: bool,
}

/// The stacks of one process, read at once. Frames go from the outermost to the innermost.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Reading {
    /// The main thread's.
    pub(super) main: Vec<Frame>,
    /// Whole numbers among its local variables, where they are wanted.
    pub(super) numbers: Vec<Local>,
    /// The other threads', where they are wanted and have an id: Python before 3.11 tells none.
    pub(super) others: Vec<Other>,
}

/// The stack of a thread beside the main one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Other {
    /// Its id, in the process's own namespace.
    pub(super) id: u32,
    /// Its name in the program, where that was asked for and is known.
    pub(super) name: Option<String>,
    pub(super) frames: Vec<Frame>,
}

/// Reads the stacks of one process. Bound to the thread that attached.
pub(super) trait Unwind {
    /// Its stacks; `None` when that of the main thread cannot be read now.
    fn read(&mut self, wanted: Wanted) -> Option<Reading>;
}

/// Attaches with py-spy.
#[derive(Debug)]
pub(super) struct PySpy {
    /// The machine, for the reasons why not.
    pub(super) host: Host,
}

impl Attach for PySpy {
    fn attach(&self, pid: u32, inner: Option<u32>) -> Result<Box<dyn Unwind>, String> {
        if !self.host.is_live() {
            return Err("stacks are read from running processes, and this machine is a captured one".to_owned());
        }
        let id = i32::try_from(pid).map_err(|_| format!("PID {pid} is out of range"))?;
        match PythonSpy::new(id, &config()) {
            Ok(spy) => Ok(Box::new(Spy { spy, threads: [Some(pid), inner], root: Root::default() })),
            Err(error) => {
                let maps = self.host.read(format!("proc/{pid}/maps"));
                Err(reason(&format!("{error:#}"), maps.as_deref().ok(), pid, || refusal(&self.host, pid)))
            }
        }
    }
}

fn config() -> Config {
    Config {
        blocking: LockingStrategy::NonBlocking,
        native: false,
        collect_thread_names: false,
        // Short names would look for `__init__.py` in the file system.
        full_filenames: true,
        lineno: LineNo::NoLine,
        ..Config::default()
    }
}

/// Why stacks cannot be had, from what py-spy said and what the process has mapped.
fn reason(error: &str, maps: Option<&str>, pid: u32, refusal: impl Fn() -> String) -> String {
    if maps.is_none() || error.contains("ermission denied") || error.contains("not permitted") {
        return refusal();
    }
    if maps.is_some_and(is_free_threaded) {
        return format!("PID {pid} runs a free-threaded Python, whose stacks py-spy cannot read");
    }
    let mut error: String = error.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = error.char_indices().nth(200) {
        error.truncate(end);
    }
    format!("py-spy finds no Python it knows in PID {pid}: {}", error.trim_end_matches('.'))
}

/// Whether an interpreter built without the global lock is mapped: its name ends in `t`, as in
/// `libpython3.13t.so.1.0`.
fn is_free_threaded(maps: &str) -> bool {
    maps.lines().filter_map(|line| line.rsplit('/').next()).any(|name| {
        let version = name.strip_prefix("libpython3.").or_else(|| name.strip_prefix("python3."));
        version.is_some_and(|rest| {
            let minor = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            minor.len() < rest.len() && minor.starts_with('t')
        })
    })
}

struct Spy {
    spy: PythonSpy,
    /// Ids that the main thread may have: as seen from here, and from within its namespace.
    threads: [Option<u32>; 2],
    root: Root,
}

impl Unwind for Spy {
    fn read(&mut self, wanted: Wanted) -> Option<Reading> {
        if wanted.names {
            // Ids are used again, so names that were read for others must not stay.
            self.spy.python_thread_names.clear();
        }
        self.spy.config.dump_locals = u64::from(wanted.numbers);
        self.spy.config.collect_thread_names = wanted.names;
        let traces = self.spy.get_stack_traces();
        (self.spy.config.dump_locals, self.spy.config.collect_thread_names) = (0, false);
        let mut traces = traces.ok()?;
        let main = main_of(&traces, self.threads)?;
        let main = traces.swap_remove(main);
        let mut numbers = Vec::new();
        for (position, frame) in main.frames.iter().rev().enumerate() {
            let all = frame.locals.iter().flatten();
            numbers.extend(all.filter_map(|local| number(position, &local.name, local.repr.as_deref()?)));
        }
        let main = frames(main);
        if !self.root.is_whole(&main) {
            return None;
        }
        let others = traces.into_iter().filter(|_| wanted.threads);
        let others = others.filter_map(|mut trace| {
            let id = u32::try_from(trace.os_thread_id?).ok()?;
            Some(Other { id, name: trace.thread_name.take(), frames: frames(trace) })
        });
        Some(Reading { main, numbers, others: others.collect() })
    }
}

/// The frames from the outermost to the innermost; the source has them the other way round.
fn frames(trace: StackTrace) -> Vec<Frame> {
    trace.frames.into_iter().rev().map(|f| Frame { function: f.name, file: f.filename }).collect()
}

/// A variable that holds a whole number; of any other nothing is kept.
fn number(frame: usize, name: &str, shown: &str) -> Option<Local> {
    let digits = shown.len() <= 15 && shown.bytes().all(|b| b.is_ascii_digit());
    let value = shown.parse().ok().filter(|_| digits)?;
    Some(Local { frame, name: name.chars().take(64).collect(), value })
}

/// Which of the stacks is the main thread's: the one with its id. Before Python 3.11 there is no
/// id, and a forked process of 3.11 still shows its parent's; the interpreter lists the youngest
/// thread first, so the last is the one that it started with.
fn main_of(traces: &[StackTrace], threads: [Option<u32>; 2]) -> Option<usize> {
    let is_main = |trace: &StackTrace| threads.into_iter().flatten().any(|id| trace.os_thread_id == Some(id.into()));
    traces.iter().position(is_main).or(traces.len().checked_sub(1))
}

/// Tells torn stacks from whole ones: a thread's stack has the same outermost frame all its life, and
/// one that was read while it changed often lacks it.
#[derive(Debug, Default)]
pub(super) struct Root {
    known: Option<Frame>,
    candidate: Option<(Frame, u32)>,
}

/// A different outermost frame is believed when it is seen so many times in a row.
const BELIEVED: u32 = 4;

impl Root {
    pub(super) fn is_whole(&mut self, frames: &[Frame]) -> bool {
        // No Python frame at all is a program that is starting or ending: whole, and empty.
        let Some(outermost) = frames.first() else { return self.known.is_none() };
        if self.known.as_ref() == Some(outermost) {
            self.candidate = None;
            return true;
        }
        // Scripts and forked workers start in a module, threads in their bootstrap; nothing to learn.
        if self.known.is_none() && (outermost.function == "<module>" || outermost.function.ends_with("_bootstrap")) {
            self.known = Some(outermost.clone());
            return true;
        }
        let seen = match &self.candidate {
            Some((candidate, seen)) if candidate == outermost => seen + 1,
            _ => 1,
        };
        if seen >= BELIEVED {
            (self.known, self.candidate) = (Some(outermost.clone()), None);
            return true;
        }
        self.candidate = Some((outermost.clone(), seen));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(function: &str) -> Frame {
        Frame { function: function.into(), file: "/job/train.py".into() }
    }

    #[test]
    fn a_stack_without_its_outermost_frame_is_torn() {
        let mut root = Root::default();
        let (whole, torn) = ([frame("<module>"), frame("main")], [frame("main")]);
        assert!(root.is_whole(&whole));
        assert!(!root.is_whole(&torn));
        assert!(!root.is_whole(&[]));
        assert!(root.is_whole(&whole));
    }

    #[test]
    fn another_outermost_frame_is_believed_when_it_stays() {
        let mut root = Root::default();
        let seen: Vec<bool> = (0..6).map(|_| root.is_whole(&[frame("run"), frame("main")])).collect();
        assert_eq!(seen, [false, false, false, true, true, true]);
    }

    #[test]
    fn the_main_thread_is_found_by_id_or_as_the_oldest() {
        let trace = |id: Option<u64>| StackTrace {
            pid: 0,
            thread_id: 0,
            thread_name: None,
            os_thread_id: id,
            active: false,
            owns_gil: false,
            frames: Vec::new(),
            process_info: None,
        };
        let ids = [Some(4242), Some(17)];
        assert_eq!(main_of(&[trace(Some(9)), trace(Some(4242)), trace(Some(8))], ids), Some(1));
        assert_eq!(main_of(&[trace(Some(9)), trace(Some(17))], ids), Some(1), "its id inside the container");
        assert_eq!(main_of(&[trace(None), trace(None)], ids), Some(1));
        assert_eq!(main_of(&[], ids), None);
    }

    #[test]
    fn the_reason_names_what_is_missing() {
        let right = || "ptrace access to PID 7".to_owned();
        let maps = "7f00-7f01 r-xp 0 08:01 1 /opt/lib/libpython3.13t.so.1.0\n";
        assert_eq!(reason("Permission denied (os error 13)", Some(""), 7, right), "ptrace access to PID 7");
        assert_eq!(reason("x", None, 7, right), "ptrace access to PID 7");
        assert!(reason("x", Some(maps), 7, right).contains("free-threaded"));
        let other = reason("Failed to find\n python.", Some("7f00-7f01 r-xp 0 08:01 1 /usr/bin/bash\n"), 7, right);
        assert_eq!(other, "py-spy finds no Python it knows in PID 7: Failed to find python");
    }

    #[test]
    fn only_a_version_with_a_t_is_free_threaded() {
        for (name, expected) in [
            ("/usr/bin/python3.13t", true),
            ("/usr/bin/python3.13", false),
            ("/usr/lib/libpython3.11.so.1.0", false),
            ("/usr/bin/python3.tool", false),
        ] {
            assert_eq!(is_free_threaded(name), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(error in ".{0,300}", maps in any::<Option<String>>()) {
            reason(&error, maps.as_deref(), 1, String::new);
        }
    }
}
