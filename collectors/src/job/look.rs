//! Looking at processes through a host. What changes is read each time, what costs is kept.

use std::collections::{HashMap, HashSet};

use feedline_traces::{Error, Result};

use crate::process::parse::{Stat, stat, status};
use crate::{Host, Ranks};

use super::parse::{self, Kind, Sign};
use super::tree::Seen;

/// The most processes that are looked at; a tree with more is cut, and the rest counted.
const PROCESSES: usize = 1024;
/// The most threads and open files of one process that are looked at for signs.
const SIGNS: usize = 512;
/// Looks after which a process is read anew: it may have replaced its program, loaded a
/// framework, started threads. Later, every so many looks.
const AGAIN: [u64; 5] = [1, 2, 5, 10, 20];
const EVERY: u64 = 60;
/// With more threads than this, not all are asked for children each time.
const THREADS: usize = 32;

/// Reads one process's `stat`.
///
/// # Errors
/// When there is no such process.
pub(super) fn stat_of(host: &Host, pid: u32) -> Result<Stat> {
    let path = format!("proc/{pid}/stat");
    stat(&host.read(&path)?).map_err(|error| error.at(path))
}

/// The pids of a host, in order.
pub(super) fn pids(host: &Host) -> Vec<u32> {
    let mut pids: Vec<u32> = host.names("proc").iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

/// A process that was looked at before.
#[derive(Debug, Default)]
struct Known {
    seen: Seen,
    looks: u64,
    /// Threads that have children: forks come from few threads.
    forking: HashSet<String>,
}

/// Looks at processes again and again.
#[derive(Debug)]
pub(super) struct Watch {
    host: Host,
    known: HashMap<u32, Known>,
}

impl Watch {
    pub(super) fn new(host: Host) -> Self {
        Self { host, known: HashMap::new() }
    }

    /// The living processes of the tree under `root`, and how many were left out.
    ///
    /// # Errors
    /// When the root is gone or has exited.
    pub(super) fn tree(&mut self, root: u32) -> Result<(Vec<Seen>, usize)> {
        let mut found = Vec::new();
        let mut met = HashSet::from([root]);
        let mut queue = vec![root];
        let mut left_out = 0;
        while let Some(pid) = queue.pop() {
            if found.len() >= PROCESSES {
                left_out += queue.len() + 1;
                break;
            }
            let Some(seen) = self.look(pid) else { continue };
            found.push(seen.clone());
            queue.extend(self.children(pid).into_iter().filter(|child| met.insert(*child)));
        }
        if !found.iter().any(|s| s.pid == root) {
            return Err(Error::new(format!("no process {root}")));
        }
        // The kernel's list of children can miss one while another exits: who was there and
        // still lives under a known parent stays.
        let missed: Vec<u32> = self.known.keys().copied().filter(|pid| !met.contains(pid)).collect();
        for pid in missed {
            let before = self.known.get(&pid).map(|k| k.seen.start);
            let now = self.look(pid).filter(|s| Some(s.start) == before && met.contains(&s.parent)).cloned();
            match now {
                Some(seen) if found.len() < PROCESSES => found.push(seen),
                _ => drop(self.known.remove(&pid)),
            }
        }
        let alive: HashSet<u32> = found.iter().map(|s| s.pid).collect();
        self.known.retain(|pid, _| alive.contains(pid));
        Ok((found, left_out))
    }

    /// Every living process of the host but kernel threads.
    pub(super) fn all(&mut self) -> Vec<Seen> {
        let mut out = Vec::new();
        for pid in pids(&self.host) {
            if let Some(seen) = self.look(pid)
                && !seen.command.name.is_empty()
            {
                out.push(seen.clone());
            }
        }
        out
    }

    /// Looks at one process. `None` when it is gone or has exited.
    fn look(&mut self, pid: u32) -> Option<&Seen> {
        let Some(stat) = stat_of(&self.host, pid).ok().filter(|s| !s.is_dead()) else {
            self.known.remove(&pid);
            return None;
        };
        let parent = self.known.get(&stat.parent).map(|p| p.seen.command.digest);
        let known = self.known.entry(pid).or_default();
        if known.seen.start != stat.start || known.seen.pid != pid {
            // Another process under the same pid.
            *known = Known { seen: Seen { pid, start: stat.start, ..Seen::default() }, ..Known::default() };
        }
        let renamed = known.seen.comm != stat.comm;
        known.seen.comm = stat.comm;
        known.seen.parent = stat.parent;
        known.seen.cpu = stat.user.saturating_add(stat.system);
        let looks = known.looks;
        known.looks += 1;
        if renamed || looks == 0 || AGAIN.contains(&looks) || looks.is_multiple_of(EVERY) {
            describe(&self.host, &mut known.seen, parent);
        }
        Some(&known.seen)
    }

    /// The children of a process.
    fn children(&mut self, pid: u32) -> Vec<u32> {
        let Some(known) = self.known.get_mut(&pid) else { return Vec::new() };
        let tasks = format!("proc/{pid}/task");
        let threads = self.host.names(&tasks);
        let own = format!("{tasks}/{pid}/children");
        let Ok(mut text) = self.host.read(&own) else { return self.children_by_parent(pid) };
        // Right after the start and every few looks all threads are asked, else only those that
        // forked before.
        let all = threads.len() <= THREADS || known.looks % 5 == 1;
        for thread in &threads {
            if thread.parse() == Ok(pid) || !(all || known.forking.contains(thread)) {
                continue;
            }
            let more = self.host.read(format!("{tasks}/{thread}/children")).unwrap_or_default();
            if more.trim().is_empty() {
                known.forking.remove(thread);
            } else {
                known.forking.insert(thread.clone());
                text.push(' ');
                text.push_str(&more);
            }
        }
        text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
    }

    /// The same on a kernel without lists of children: every process is asked for its parent.
    fn children_by_parent(&self, pid: u32) -> Vec<u32> {
        let is_child = |other: &u32| stat_of(&self.host, *other).is_ok_and(|s| s.parent == pid);
        pids(&self.host).into_iter().filter(is_child).collect()
    }
}

/// Reads what seldom changes. What may not be read stays as if it were not there. `parent` is the
/// digest of the parent's command line: a process that still runs its parent's program has the
/// parent's libraries and open files, which say nothing of it.
fn describe(host: &Host, seen: &mut Seen, parent: Option<u64>) {
    let pid = seen.pid;
    let program = seen.command.digest;
    seen.command = parse::command(&host.read_bytes(format!("proc/{pid}/cmdline")).unwrap_or_default());
    let status = status(&host.read(format!("proc/{pid}/status")).unwrap_or_default());
    seen.inner = status.inner();
    seen.user = status.user;
    let file = host.link(format!("proc/{pid}/exe")).ok();
    let file = file.as_deref().and_then(|p| p.file_name()).and_then(|n| n.to_str());
    seen.python = seen.command.python || file.is_some_and(parse::is_python);
    seen.ranks = Ranks::default();
    let before = std::mem::take(&mut seen.signs);
    if seen.command.name.is_empty() || matches!(seen.command.kind, Kind::Tracker) || seen.comm == "pt_data_worker" {
        return;
    }
    seen.ranks = parse::ranks(&host.read_bytes(format!("proc/{pid}/environ")).unwrap_or_default());
    let tasks = host.names(format!("proc/{pid}/task"));
    let names = tasks.iter().take(SIGNS).filter_map(|t| host.read(format!("proc/{pid}/task/{t}/comm")).ok());
    seen.signs = parse::threads(names.collect::<Vec<_>>().iter().map(String::as_str));
    if seen.command.kind != Kind::Spawned && parent == Some(seen.command.digest) {
        return;
    }
    // A framework that was loaded stays, and its maps are thousands of lines.
    let same = program == seen.command.digest;
    let loaded: Vec<Sign> = before.into_iter().filter(|sign| same && sign.is_library()).collect();
    if loaded.iter().any(|sign| sign.weight().0 >= 0.4) {
        seen.signs.extend(loaded);
    } else {
        seen.signs.extend(parse::maps(&host.read(format!("proc/{pid}/maps")).unwrap_or_default()));
    }
    seen.python |= seen.signs.contains(&Sign::Python);
    let files = format!("proc/{pid}/fd");
    let open = host.names(&files).into_iter().take(SIGNS).filter_map(|fd| host.link(format!("{files}/{fd}")).ok());
    if open.into_iter().any(|path| path.to_str().is_some_and(parse::is_accelerator)) {
        seen.signs.insert(Sign::DeviceFile);
    }
}
