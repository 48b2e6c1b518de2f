//! Which evidence can be had here, and what would make the rest available: what `feedline doctor`
//! asks.

mod calls;
pub mod parse;
mod probes;

use serde::Serialize;

use crate::Host;
use probes::PROBES;

/// Whether something can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It can.
    Works,
    /// Partly, or not for every process.
    Degraded,
    /// It cannot.
    Missing,
}

/// One source of evidence, and whether it can be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What is asked for, in a few words.
    pub name: &'static str,
    /// Rung of the evidence ladder: 0 `/proc`, 1 accelerators, 2 stacks, 3 kernel events, 4 inside
    /// the process.
    pub rung: u8,
    /// Whether it can be had.
    pub state: State,
    /// What was found, and what goes without it.
    pub detail: String,
    /// What to do to get it, where that is known.
    pub how_to_get: Option<&'static str>,
}

/// Asks a host for every right and source, for the process `pid` where one is meant. Only looks:
/// nothing is changed and no process is stopped. On a captured host, what needs a system call is
/// reported missing.
#[must_use]
pub fn checks(host: &Host, pid: Option<u32>) -> Vec<Check> {
    let asked = Asked::new(host, pid);
    PROBES
        .iter()
        .map(|probe| {
            let (state, detail, how_to_get) = (probe.ask)(&asked).into_parts();
            Check { name: probe.name, rung: probe.rung, state, detail, how_to_get }
        })
        .collect()
}

/// Whether what a job does may be read: the system calls of its threads. Without that right there
/// is nothing to attribute its waits by.
///
/// # Errors
/// When the kernel refuses; the message names the right.
pub fn readable(host: &Host, pid: u32) -> feedline_traces::Result<()> {
    match std::fs::File::open(host.path(format!("proc/{pid}/syscall")))
        .and_then(|mut file| std::io::Read::read(&mut file, &mut [0; 128]))
    {
        Err(cause) if cause.kind() == std::io::ErrorKind::PermissionDenied => Err(feedline_traces::Error::new(
            format!("no right to read process {pid}: it needs the same user, or CAP_SYS_PTRACE"),
        )),
        // A process that is gone, or a kernel without the file, is for the collectors to say.
        _ => Ok(()),
    }
}

/// What the probes share.
struct Asked<'a> {
    host: &'a Host,
    /// The process that is meant, or this one.
    pid: u32,
    /// Whether another process than this one is meant.
    other: bool,
    capabilities: u64,
    user: Option<u32>,
    mountinfo: String,
}

/// Capability numbers of capabilities(7).
const PTRACE: u32 = 19;
const ADMIN: u32 = 21;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

impl<'a> Asked<'a> {
    fn new(host: &'a Host, pid: Option<u32>) -> Self {
        let status = host.read("proc/self/status").unwrap_or_default();
        Self {
            host,
            pid: pid.unwrap_or_else(std::process::id),
            other: pid.is_some(),
            capabilities: parse::capabilities(&status),
            user: parse::user(&status),
            mountinfo: host.read("proc/self/mountinfo").unwrap_or_default(),
        }
    }

    fn may(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }

    /// A number that stands alone in a file.
    fn number(&self, path: &str) -> Option<i64> {
        parse::number(&self.host.read(path).ok()?)
    }

    /// Whether a file of the process can be read; the text, or why not.
    fn of_process(&self, name: &str) -> Result<String, String> {
        self.host.read(format!("proc/{}/{name}", self.pid)).map_err(|error| error.message)
    }

    /// Whether the process belongs to somebody else.
    fn is_foreign(&self) -> bool {
        let status = self.host.read(format!("proc/{}/status", self.pid)).unwrap_or_default();
        let owner = parse::user(&status);
        owner.is_some() && owner != self.user
    }

    /// How far what was found speaks for the jobs of other people.
    fn scope(&self) -> &'static str {
        if self.other {
            "for this process"
        } else if self.may(PTRACE) {
            "for every process"
        } else {
            "for processes of this user"
        }
    }
}

#[cfg(test)]
mod tests;
