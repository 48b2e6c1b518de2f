//! The programs in the kernel: loaded, attached, their maps, and why a part is not there.

use std::collections::BTreeMap;
use std::hash::Hash;

use aya::maps::{Array, HashMap, Map, MapData};
use aya::programs::{Program, ProgramError, RawTracePoint, UProbe};
use aya::{Btf, Ebpf, EbpfLoader, Pod};
use feedline_traces::{Error, Result};

use crate::Host;
use crate::rights::parse::is_first_pid_namespace;

/// Built from `bpf/kernel.bpf.c` by `make bpf`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("bpf/kernel.bpf.o");

/// A part that works or fails by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Block,
    Off,
    Files,
    Calls,
}

impl Part {
    pub(super) const ALL: [Self; 4] = [Self::Block, Self::Off, Self::Files, Self::Calls];

    /// The table it fills.
    pub(super) fn table(self) -> &'static str {
        match self {
            Self::Block => "block_latency",
            Self::Off => "off_cpu",
            Self::Files => "file_io",
            Self::Calls => "device_call",
        }
    }
}

/// The programs' maps. Keys and sums are arrays of words; `layout` says what they mean.
pub(super) struct Maps {
    pub(super) watched: HashMap<MapData, u32, u8>,
    pub(super) block: HashMap<MapData, [u32; 2], [u64; 2]>,
    pub(super) off: HashMap<MapData, [u32; 3], [u64; 2]>,
    pub(super) off_now: HashMap<MapData, u32, [u64; 4]>,
    pub(super) file_now: HashMap<MapData, u32, [u64; 3]>,
    pub(super) files: HashMap<MapData, [u32; 3], [u64; 3]>,
    pub(super) calls: HashMap<MapData, [u32; 4], [u64; 3]>,
    pub(super) call_now: HashMap<MapData, u32, [u64; 5]>,
    pub(super) lost: Array<MapData, u64>,
}

/// Programs at work; dropping them detaches and unloads every one.
pub(super) struct Programs {
    ebpf: Ebpf,
    pub(super) maps: Maps,
    /// Parts that are not there, and why.
    pub(super) refused: BTreeMap<Part, String>,
}

impl Programs {
    /// Loads the object, and attaches whatever of it this kernel takes.
    ///
    /// # Errors
    /// When nothing at all can be loaded: no type information, no right.
    pub(super) fn load(host: &Host) -> Result<Self> {
        let types = Btf::from_sys_fs()
            .map_err(|error| Error::new(format!("this kernel gives no type information (BTF): {}", why(&error))))?;
        let namespace = namespace(host)?;
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&types))
            .override_global("pid_namespace", &namespace, true)
            .load(OBJECT)
            .map_err(|error| Error::new(why(&error)))?;
        let maps = maps(&mut ebpf)?;
        let mut refused = BTreeMap::new();
        for part in Part::ALL {
            if let Err(error) = attach(&mut ebpf, part) {
                refused.insert(part, why(&error));
            }
        }
        Ok(Self { ebpf, maps, refused })
    }

    /// Time that the programs ran in all, as far as the kernel measured it, in nanoseconds.
    pub(super) fn run_time(&self) -> u64 {
        let times = self.ebpf.programs().filter_map(|(_, program)| Some(program.info().ok()?.run_time()));
        times.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)).sum()
    }

    /// The programs for calls in user space: at the entry, and at the return.
    pub(super) fn probe(&mut self, name: &str) -> Option<&mut UProbe> {
        self.ebpf.program_mut(name)?.try_into().ok()
    }
}

/// Inode of this process's pid namespace; 0 for the machine's first, which needs no translation.
fn namespace(host: &Host) -> Result<u32> {
    let link = host.link("proc/self/ns/pid")?.to_string_lossy().into_owned();
    if is_first_pid_namespace(&link) {
        return Ok(0);
    }
    let digits = link.trim_start_matches("pid:[").trim_end_matches(']');
    digits.parse().map_err(|_| Error::new(format!("proc/self/ns/pid: `{link}` is no namespace")))
}

fn maps(ebpf: &mut Ebpf) -> Result<Maps> {
    Ok(Maps {
        watched: hash(ebpf, "watched")?,
        block: hash(ebpf, "block")?,
        off: hash(ebpf, "off")?,
        off_now: hash(ebpf, "off_now")?,
        file_now: hash(ebpf, "file_now")?,
        files: hash(ebpf, "files")?,
        calls: hash(ebpf, "calls")?,
        call_now: hash(ebpf, "call_now")?,
        lost: Array::try_from(taken(ebpf, "lost")?).map_err(|error| Error::new(why(&error)))?,
    })
}

fn taken(ebpf: &mut Ebpf, name: &str) -> Result<Map> {
    ebpf.take_map(name).ok_or_else(|| Error::new(format!("the programs have no map `{name}`")))
}

fn hash<K: Pod, V: Pod>(ebpf: &mut Ebpf, name: &str) -> Result<HashMap<MapData, K, V>> {
    HashMap::try_from(taken(ebpf, name)?).map_err(|error| Error::new(format!("map `{name}`: {}", why(&error))))
}

/// The entries of a map, each key once: what the kernel removes meanwhile can make the walk begin
/// anew, so it has an end of its own.
pub(super) fn entries<K, V>(map: &HashMap<MapData, K, V>) -> std::collections::HashMap<K, V>
where
    K: Pod + Eq + Hash,
    V: Pod,
{
    const STEPS: usize = 1 << 16;
    map.iter().take(STEPS).filter_map(std::result::Result::ok).collect()
}

fn attach(ebpf: &mut Ebpf, part: Part) -> std::result::Result<(), ProgramError> {
    match part {
        Part::Block => {
            // Which argument the request is depends on the kernel, and only the right one attaches.
            if raw(ebpf, "block_issue_second", "block_rq_issue").is_err() {
                raw(ebpf, "block_issue", "block_rq_issue")?;
            }
            raw(ebpf, "block_complete", "block_rq_complete")
        }
        Part::Off => {
            raw(ebpf, "sched_wakeup", "sched_wakeup")?;
            raw(ebpf, "sched_switch", "sched_switch")
        }
        // The end first: a begin without an end would fill its map.
        Part::Files => {
            raw(ebpf, "call_leaves", "sys_exit")?;
            raw(ebpf, "call_enters", "sys_enter")
        }
        // They are attached once a process has a library.
        Part::Calls => ["call_begins", "call_ends"].into_iter().try_for_each(|name| {
            let program: &mut UProbe = named(ebpf, name)?.try_into()?;
            program.load()
        }),
    }
}

fn named<'a>(ebpf: &'a mut Ebpf, name: &str) -> std::result::Result<&'a mut Program, ProgramError> {
    ebpf.program_mut(name).ok_or(ProgramError::NotLoaded)
}

fn raw(ebpf: &mut Ebpf, name: &str, tracepoint: &str) -> std::result::Result<(), ProgramError> {
    let program: &mut RawTracePoint = named(ebpf, name)?.try_into()?;
    program.load()?;
    program.attach(tracepoint).map(drop)
}

/// An error in a line: the innermost cause, which is what the kernel said.
pub(super) fn why(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let system = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
    let line = |error: &dyn std::error::Error| {
        let text = error.to_string();
        text.lines().next().unwrap_or_default().chars().take(160).collect::<String>().trim_end_matches('.').to_owned()
    };
    match system {
        Some(libc::EPERM) => "the kernel refuses to load programs; run as root, or with CAP_BPF and CAP_PERFMON".into(),
        Some(_) => format!("{}: {}", line(error), line(cause)),
        None => line(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(std::io::Error);

    impl std::fmt::Display for Outer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the call failed\nwith a long log.")
        }
    }

    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_refusal_names_the_right_and_any_other_error_is_one_line() {
        let of = |number| why(&Outer(std::io::Error::from_raw_os_error(number)));
        assert!(of(libc::EPERM).contains("CAP_BPF"));
        assert!(of(libc::EINVAL).starts_with("the call failed: Invalid argument"));
    }

    #[test]
    fn every_program_and_map_that_is_named_here_is_in_the_object() {
        let names = ["pid_namespace", "watched", "off_now", "call_now", "call_begins", "call_ends", "sched_wakeup"];
        let programs =
            ["block_issue", "block_issue_second", "block_complete", "call_enters", "call_leaves", "sched_switch"];
        for name in names.into_iter().chain(programs) {
            let wanted: Vec<u8> = [b"\0", name.as_bytes(), b"\0"].concat();
            assert!(OBJECT.windows(wanted.len()).any(|window| window == wanted), "{name}");
        }
    }
}
