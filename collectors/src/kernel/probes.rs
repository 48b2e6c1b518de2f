//! Probes in the device's libraries of running processes: where they are set, and when they are
//! taken away because the job calls too often.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::num::NonZeroU32;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use aya::programs::uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeLink, UProbeScope};
use feedline_traces::{Error, Result, Symbol};

use super::elf::{self, Place};
use super::programs::{Programs, why};
use super::symbols::{Call, Library, libraries};
use crate::{Host, Process, Role};

/// Probes in all; each holds a file descriptor.
const MOST: usize = 512;
/// Calls of a kind a second, for some seconds, at which its probes leave a process: the two of a
/// call cost it 2.4 µs, so this is one hundredth of its time.
pub(super) const TOO_OFTEN: u64 = 4_000;
/// The same for functions whose first instruction must be single-stepped, which cost 13 µs.
pub(super) const TOO_OFTEN_STEPPED: u64 = 750;
/// Readings from one look at the libraries of a process to the next, until it has one and after.
const LOOK: u64 = 5;
const LOOK_AGAIN: u64 = 30;

/// A function with its probes.
struct Probed {
    call: Call,
    stepped: bool,
    _links: [UProbeLink; 2],
}

/// The probes of one process.
#[derive(Default)]
struct Watched {
    key: Symbol,
    /// The reading of the last look.
    looked: u64,
    /// Libraries that have their probes, by path.
    done: Vec<String>,
    links: Vec<Probed>,
    /// Kinds of calls that came too often, and how often.
    shed: BTreeMap<Call, u64>,
    /// Functions that could not be probed, and why the last could not.
    failed: Option<String>,
    /// Functions without a probe because there are too many.
    left: usize,
}

/// The probes of all trainers.
#[derive(Default)]
pub(super) struct Probes {
    processes: BTreeMap<u32, Watched>,
    /// Places by device and inode of the library: the same for every process that has it.
    places: HashMap<(u64, u64), HashMap<String, Place>>,
    reading: u64,
}

impl Probes {
    /// Sets probes in what trainers have mapped since the last call, and forgets who is gone.
    pub(super) fn update(&mut self, host: &Host, programs: &mut Programs, processes: &[Process]) {
        self.reading += 1;
        let trainer = |p: &&Process| p.role == Role::Trainer;
        self.processes.retain(|pid, w| processes.iter().filter(trainer).any(|p| p.pid == *pid && p.key == w.key));
        for process in processes.iter().filter(trainer) {
            let reading = self.reading;
            let watched = self.processes.entry(process.pid).or_default();
            let wait = if watched.done.is_empty() { LOOK } else { LOOK_AGAIN };
            if watched.looked != 0 && reading < watched.looked + wait {
                continue;
            }
            watched.key = process.key.clone();
            watched.looked = reading;
            let maps = host.read(format!("proc/{}/maps", process.pid)).unwrap_or_default();
            let mut found = libraries(&maps);
            found.retain(|(_, path)| !watched.done.contains(path));
            for (library, path) in found {
                self.library(host, programs, process.pid, library, &path);
            }
        }
    }

    fn held(&self) -> usize {
        self.processes.values().map(|watched| 2 * watched.links.len()).sum()
    }

    /// Sets the probes of one library in one process.
    fn library(&mut self, host: &Host, programs: &mut Programs, pid: u32, library: Library, path: &str) {
        let file = host.path(format!("proc/{pid}/root{path}"));
        let places = self.places(&file, library);
        let mut room = MOST.saturating_sub(self.held());
        let Some(watched) = self.processes.get_mut(&pid) else { return };
        watched.done.push(path.to_owned());
        let places = match places {
            Ok(places) => places,
            Err(error) => {
                watched.failed = Some(format!("{path}: {}", error.message));
                return;
            }
        };
        let mut taken = Vec::new();
        for function in library.functions() {
            let Some(Place { offset, stepped }) = places.get(function.name).copied() else { continue };
            // Two names of one function are one place.
            if taken.contains(&offset) {
                continue;
            }
            taken.push(offset);
            if room < 2 {
                watched.left += 1;
                continue;
            }
            match pair(programs, &file, offset, function.cookie(), pid) {
                Ok(links) => {
                    room -= 2;
                    watched.links.push(Probed { call: function.call, stepped, _links: links });
                }
                Err(error) => watched.failed = Some(format!("{}: {}", function.name, error.message)),
            }
        }
    }

    fn places(&mut self, file: &Path, library: Library) -> Result<HashMap<String, Place>> {
        let failed = |cause: std::io::Error| Error::new(cause.to_string());
        let open = File::open(file).map_err(failed)?;
        let identity = open.metadata().map(|data| (data.dev(), data.ino())).map_err(failed)?;
        if let Some(known) = self.places.get(&identity) {
            return Ok(known.clone());
        }
        let mut read = |at: u64, length: usize| {
            let mut bytes = vec![0; length];
            open.read_exact_at(&mut bytes, at)?;
            Ok(bytes)
        };
        let names: Vec<&str> = library.functions().iter().map(|function| function.name).collect();
        let found = elf::functions(&mut read, &names)?;
        self.places.insert(identity, found.clone());
        Ok(found)
    }

    /// Takes the probes of a kind of call away from a process that calls it too often, those that
    /// cost most first.
    pub(super) fn shed(&mut self, pid: u32, call: Call, each_second: u64) {
        let Some(watched) = self.processes.get_mut(&pid) else { return };
        let before = watched.links.len();
        let goes = |probed: &Probed| probed.call == call && (probed.stepped || each_second > TOO_OFTEN);
        watched.links.retain(|probed| !goes(probed));
        if watched.links.len() < before {
            watched.shed.insert(call, each_second);
        }
    }

    /// Why something of a process's calls is not known; `None` where all is.
    pub(super) fn reasons(&self) -> impl Iterator<Item = (&Symbol, Option<String>)> {
        self.processes.values().map(|watched| (&watched.key, watched.reason()))
    }
}

impl Watched {
    fn reason(&self) -> Option<String> {
        if self.done.is_empty() {
            return Some("it has mapped no library of a device (libcuda, libcudart, libnccl)".into());
        }
        let shed = self.shed.iter().map(|(call, rate)| {
            format!("{} came {rate} times a second: its probes were taken away, to spare the job", call.name())
        });
        let left = (self.left > 0).then(|| format!("{} functions have no probe: {MOST} are the most", self.left));
        let all: Vec<String> = shed.chain(left).chain(self.failed.clone()).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// The two probes of a function: at its entry, and where it returns to. The return first, so that
/// no call is begun that nobody ends.
fn pair(programs: &mut Programs, file: &Path, offset: u64, cookie: u64, pid: u32) -> Result<[UProbeLink; 2]> {
    let pid = NonZeroU32::new(pid).ok_or_else(|| Error::new("process 0 has no library"))?;
    let mut one = |name: &str| {
        let program = programs.probe(name).ok_or_else(|| Error::new("the programs are not loaded"))?;
        let point = UProbeAttachPoint { location: UProbeAttachLocation::AbsoluteOffset(offset), cookie: Some(cookie) };
        let link = program.attach(point, file, UProbeScope::OneProcess(pid));
        link.and_then(|link| program.take_link(link)).map_err(|error| Error::new(why(&error)))
    };
    Ok([one("call_ends")?, one("call_begins")?])
}
