//! Rung 4: what the job counts of itself, exactly, where it carries Feedline's marks or hooks.
//!
//! The `feedline` package of Python keeps its counters in a memory file that is opened through
//! `/proc/PID/fd`. Reading it asks nothing of the job; the one thing written is until when somebody
//! listens, into the word that is there for it.

pub mod parse;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use feedline_traces::unit::{Count, Nanos};
use feedline_traces::{Background, Collector, Counter, Key, Result, Row as _, Rows, Symbol, Table, table};

use crate::absent::{AbsentRow, Reasons};
use crate::monotonic::monotonic;
use crate::{Context, Host, Process, Target};
use parse::{BLOCK, FOR_EVER, LISTEN, MOST};

table! {
    /// Regions of the program, timed exactly inside the job (`feedline run`, `feedline.region()`),
    /// one row per thread and region.
    pub region: RegionRow {
        /// The process, as `PID@START`.
        process: Key,
        /// Thread id.
        thread: Key,
        /// What the time went to: `data` `startup` `step` `optimizer` `checkpoint` `collective` `pipeline` `device`
        /// `copy` `gc`, in loaders `worker.fetch` and `worker.collate`, or a name that the program gives.
        region: Key,
        /// How often it ended; batches, for `data` and `worker.fetch`.
        times: Counter<Count>,
        /// Time in it, up to now where it is open; what lies in a nested region counts there only.
        /// `worker.` regions lie beside the others and take nothing from them.
        time: Counter<Nanos>,
    }
}

/// How long a reader is taken to listen after its last word, in nanoseconds.
const LEASE: u64 = 5_000_000_000;
/// Readings after which the hooks of a process must be there, when the job was started with them.
const PATIENCE: u32 = 60;
/// File descriptors of one process that are looked at.
const DESCRIPTORS: usize = 20_000;

/// Reads the channels of a job's processes.
pub struct InProcess {
    host: Host,
    target: Target,
    reasons: Reasons,
    /// Whether the job was started with hooks.
    hooked: bool,
    now: fn() -> u64,
    open: BTreeMap<Symbol, Open>,
    searches: BTreeMap<Symbol, Search>,
    drops: u64,
}

/// A channel that was found. It can be read after its process has ended, as long as it is open.
struct Open {
    file: File,
    process: Process,
    /// What was last read, by slot: counters never fall.
    slots: Vec<Counted>,
    threads: BTreeMap<u64, Symbol>,
    overflow: u64,
    buffer: Vec<u8>,
}

struct Counted {
    thread: u64,
    name: Symbol,
    times: u64,
    time: u64,
}

/// When a process is searched for a channel again: ever more seldom.
#[derive(Default)]
struct Search {
    tries: u32,
    wait: u32,
}

impl InProcess {
    /// The channels of the job that a context names.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self {
            host: context.host.clone(),
            target: context.target.clone(),
            reasons: Reasons::default(),
            hooked: context.settings.hooked,
            now: monotonic,
            open: BTreeMap::new(),
            searches: BTreeMap::new(),
            drops: 0,
        }
    }

    /// Opens the channels of processes that have one by now.
    fn search(&mut self, processes: &[Process]) {
        self.searches.retain(|key, _| processes.iter().any(|p| p.key == *key));
        for process in processes.iter().filter(|p| p.python) {
            if self.open.contains_key(&process.key) {
                continue;
            }
            let search = self.searches.entry(process.key.clone()).or_default();
            if search.wait > 0 {
                search.wait -= 1;
                continue;
            }
            search.tries += 1;
            // A job without marks costs little; one with hooks has its channel in a moment.
            search.wait = if self.hooked && search.tries < PATIENCE { 0 } else { 1 << search.tries.min(7) };
            if let Some(file) = find(&self.host, process) {
                self.searches.remove(&process.key);
                self.open.insert(process.key.clone(), Open::new(file, process.clone()));
            }
        }
    }

    fn explain(&mut self, out: &mut Rows<'_>, processes: &[Process]) {
        let searched = processes.iter().any(|p| p.python);
        let reason = match (self.open.is_empty(), self.hooked) {
            (false, _) => None,
            (true, _) if processes.is_empty() => return,
            (true, true) if searched => {
                Some("the hooks are not in yet, or its Python does not read PYTHONPATH (-I, -E)")
            }
            (true, false) if searched => {
                Some("the job carries no marks; `feedline run -- COMMAND` starts one with exact timers")
            }
            (true, _) => Some("no process of the job is a Python interpreter"),
        };
        self.reasons.say(out, RegionRow::NAME, "", reason);
    }
}

impl Collector for InProcess {
    fn name(&self) -> &'static str {
        "inprocess"
    }

    fn tables(&self) -> Vec<Table> {
        vec![RegionRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        let processes = self.target.processes();
        self.search(&processes);
        let mut gone = Vec::new();
        for (key, open) in &mut self.open {
            let here = processes.iter().any(|p| p.key == *key);
            let trouble = match open.read((self.now)(), here) {
                Ok((lost, failures)) => {
                    self.drops += lost;
                    (failures > 0).then(|| format!("hooks failed {failures} times; the job saw nothing of it"))
                }
                Err(error) => Some(error.to_string().replace('\n', "; ")),
            };
            self.reasons.say(out, RegionRow::NAME, key, trouble.as_deref());
            open.rows(&self.host).into_iter().for_each(|row| out.push(row));
            if !here {
                gone.push(key.clone());
            }
        }
        self.explain(out, &processes);
        // What has ended was read once more, to the end.
        gone.iter().for_each(|key| drop(self.open.remove(key)));
        Ok(())
    }

    fn background(&mut self) -> Background {
        Background { drops: std::mem::take(&mut self.drops), ..Background::default() }
    }
}

impl Open {
    fn new(file: File, process: Process) -> Self {
        Self { file, process, slots: Vec::new(), threads: BTreeMap::new(), overflow: 0, buffer: Vec::new() }
    }

    /// Reads everything, and says that somebody listens. Gives what was lost since the last
    /// reading, and how often hooks have failed.
    fn read(&mut self, now: u64, listens: bool) -> Result<(u64, u64)> {
        let place = |cause: std::io::Error| feedline_traces::Error::io("channel", &cause);
        self.buffer.resize((MOST + 1) * BLOCK, 0);
        let mut filled = 0;
        loop {
            let read = self.file.read_at(&mut self.buffer[filled..], filled as u64).map_err(place)?;
            filled += read;
            if read == 0 || filled == self.buffer.len() {
                break;
            }
        }
        let channel = parse::channel(&self.buffer[..filled])?;
        if listens && channel.listen < FOR_EVER {
            let until = channel.listen.max(now.saturating_add(LEASE));
            // Where only reading is allowed, marks that are not counted yet stay so.
            let _ = self.file.write_at(&until.to_le_bytes(), LISTEN);
        }
        // No region can have run for longer than there was a channel.
        let age = now.checked_sub(channel.made).unwrap_or(u64::MAX);
        for (index, slot) in channel.slots.into_iter().enumerate() {
            let time = slot.time(now).min(age);
            match self.slots.get_mut(index) {
                Some(known) if known.thread == slot.thread && *known.name == *slot.name => {
                    known.times = known.times.max(slot.times);
                    known.time = known.time.max(time);
                }
                // The package gives a slot to one region for ever; another writer may not.
                Some(_) => {}
                None => {
                    self.slots.push(Counted { thread: slot.thread, name: slot.name.into(), times: slot.times, time })
                }
            }
        }
        let lost = channel.overflow.saturating_sub(self.overflow);
        self.overflow = self.overflow.max(channel.overflow);
        Ok((lost, channel.failures))
    }

    /// A row for each thread and region; names cut to the same letters are one.
    fn rows(&mut self, host: &Host) -> Vec<RegionRow> {
        let mut sums = BTreeMap::<(u64, Symbol), (u64, u64)>::new();
        for slot in &self.slots {
            let sum = sums.entry((slot.thread, slot.name.clone())).or_default();
            *sum = (sum.0.saturating_add(slot.times), sum.1.saturating_add(slot.time));
        }
        let row = |((thread, region), (times, time)): ((u64, Symbol), (u64, u64))| RegionRow {
            process: self.process.key.clone().into(),
            thread: self.threads.entry(thread).or_insert_with(|| outer(host, &self.process, thread)).clone().into(),
            region: region.into(),
            times: times.into(),
            time: time.into(),
        };
        sums.into_iter().map(row).collect()
    }
}

/// The thread's id outside its own pid namespace; the inner one where it cannot be told any more.
fn outer(host: &Host, process: &Process, thread: u64) -> Symbol {
    let found = match process.inner {
        None => None,
        Some(inner) if u64::from(inner) == thread => Some(process.pid.to_string()),
        Some(_) => host.names(format!("proc/{}/task", process.pid)).into_iter().find(|task| {
            let status = host.read(format!("proc/{}/task/{task}/status", process.pid)).unwrap_or_default();
            let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
            ids.split_ascii_whitespace().next_back().and_then(|id| id.parse().ok()) == Some(thread)
        }),
    };
    found.unwrap_or_else(|| thread.to_string()).into()
}

/// The channel of a process among its file descriptors.
fn find(host: &Host, process: &Process) -> Option<File> {
    candidates(host, process.pid).into_iter().find_map(|path| {
        // Neither a pipe by that name may hold us up, nor a device take what we write.
        let open = |write: bool| {
            OpenOptions::new().read(true).write(write).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(&path)
        };
        let file = open(true).or_else(|_| open(false)).ok()?;
        let mut header = [0; BLOCK];
        file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        file.read_exact_at(&mut header, 0).ok()?;
        // A forked child holds its parent's until it makes its own.
        let pid = parse::channel(&header).ok()?.pid;
        (pid == u64::from(process.inner.unwrap_or(process.pid))).then_some(file)
    })
}

/// File descriptors of a process that are called as channels are.
fn candidates(host: &Host, pid: u32) -> Vec<PathBuf> {
    let folder = format!("proc/{pid}/fd");
    let is_channel = |name: &String| {
        host.link(format!("{folder}/{name}")).is_ok_and(|link| link.as_os_str() == "/memfd:feedline (deleted)")
    };
    let names = host.names(&folder).into_iter().take(DESCRIPTORS);
    names.filter(is_channel).map(|name| host.path(format!("{folder}/{name}"))).collect()
}

/// Whether a process carries hooks or marks.
pub(crate) fn carried(host: &Host, pid: u32) -> bool {
    !candidates(host, pid).is_empty()
}
