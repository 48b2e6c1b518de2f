//! The files that the job's processes have open, and the mounts they lie on.

use std::io::ErrorKind;

use super::parse::{self, Class, Link, Mount, Opened};
use crate::{Host, Process};

/// Descriptors looked at in one process; the rest is counted as left.
const DESCRIPTORS: usize = 2048;
/// Files looked at more closely in one process.
const FILES: usize = 128;
/// Mount namespaces told apart.
const SPACES: usize = 8;

/// What one look at the job's processes found.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The mounts as the processes see them; most jobs have one namespace.
    pub(crate) spaces: Vec<Space>,
    /// Open files on mounts that hold data, at most [`FILES`] a process.
    pub(crate) files: Vec<OpenFile>,
    /// Working directories: where a job looks for its data when no file happens to be open.
    pub(crate) directories: Vec<Place>,
    /// Descriptors that were not looked at, for there were too many.
    pub(crate) left: u64,
    /// Whether a process was there and its files may not be read.
    pub(crate) refused: bool,
}

/// The mounts of one mount namespace.
#[derive(Debug)]
pub(crate) struct Space {
    /// What tells namespaces apart.
    namespace: String,
    /// A process that lives there.
    pub(crate) pid: u32,
    /// Its mounts, in the order they were mounted.
    pub(crate) mounts: Vec<Mount>,
}

/// A mount in a survey: position of its namespace, and of the mount there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) space: usize,
    pub(crate) mount: usize,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// Who has it open.
    pub(crate) pid: u32,
    /// As which descriptor.
    pub(crate) descriptor: u32,
    /// Its path as the process sees it.
    pub(crate) path: String,
    /// How it was opened, and where it stands.
    pub(crate) opened: Opened,
    /// Where it lies.
    pub(crate) place: Place,
}

impl Survey {
    /// Looks at every process once.
    pub(crate) fn of(host: &Host, processes: &[Process]) -> Self {
        let mut survey = Self::default();
        for process in processes {
            survey.visit(host, process.pid);
        }
        survey
    }

    /// The mount at a place of this survey.
    pub(crate) fn mount(&self, place: Place) -> &Mount {
        &self.spaces[place.space].mounts[place.mount]
    }

    fn visit(&mut self, host: &Host, pid: u32) {
        let Ok(directory) = host.link(format!("proc/{pid}/cwd")) else {
            self.refused |= refused(host, pid);
            return;
        };
        let Some(space) = self.space(host, pid) else { return };
        let mut seen = 0;
        for (descriptor, target) in descriptors(host, pid, &mut self.left) {
            let Link::File(path) = parse::link(&target) else { continue };
            seen += 1;
            if seen > FILES {
                self.left += 1;
                continue;
            }
            let opened = host.read(format!("proc/{pid}/fdinfo/{descriptor}")).map(|text| parse::fdinfo(&text));
            let opened = opened.unwrap_or_default();
            let Some(place) = self.place(space, opened.mount, path) else { continue };
            self.files.push(OpenFile { pid, descriptor, path: path.to_owned(), opened, place });
        }
        self.directories.extend(self.place(space, None, &directory.to_string_lossy()));
    }

    /// The namespace of a process; processes of one share the mounts that were read first.
    fn space(&mut self, host: &Host, pid: u32) -> Option<usize> {
        let link = host.link(format!("proc/{pid}/ns/mnt"));
        let namespace = link.map(|link| link.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some(known) = self.spaces.iter().position(|space| space.namespace == namespace) {
            return Some(known);
        }
        let mounts = parse::mountinfo(&host.read(format!("proc/{pid}/mountinfo")).ok()?);
        if self.spaces.len() >= SPACES {
            return None;
        }
        self.spaces.push(Space { namespace, pid, mounts });
        Some(self.spaces.len() - 1)
    }

    /// Where a file lies: the kernel names the mount by number; the path tells where it does not.
    fn place(&self, space: usize, id: Option<u64>, path: &str) -> Option<Place> {
        let mounts = &self.spaces[space].mounts;
        let by_id = id.and_then(|id| mounts.iter().position(|mount| mount.id == id));
        let by_path = || {
            let found = parse::serving(mounts, path)?;
            mounts.iter().position(|mount| std::ptr::eq(mount, found))
        };
        let mount = by_id.or_else(by_path)?;
        (mounts[mount].class() != Class::Pseudo).then_some(Place { space, mount })
    }
}

/// Whether a process is there and its files may not be read.
pub(crate) fn refused(host: &Host, pid: u32) -> bool {
    let outcome = std::fs::read_link(host.path(format!("proc/{pid}/cwd")));
    outcome.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// What a user does about it.
pub(crate) const REFUSED: &str = "the job's open files may not be read; run Feedline as the job's user or as root";

/// The descriptors of a process and what they lead to; what is beyond the limit is added to `left`.
pub(crate) fn descriptors(host: &Host, pid: u32, left: &mut u64) -> Vec<(u32, String)> {
    let names = host.names(format!("proc/{pid}/fd"));
    *left += names.len().saturating_sub(DESCRIPTORS) as u64;
    let resolve = |name: &String| {
        let target = host.link(format!("proc/{pid}/fd/{name}")).ok()?;
        Some((name.parse().ok()?, target.to_string_lossy().into_owned()))
    };
    names.iter().take(DESCRIPTORS).filter_map(resolve).collect()
}
