//! What `run.json` says: whose run it is, on which machine, when, and of which tables.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::layout::{self, MANIFEST};
use super::utc;
use crate::clock::Ts;
use crate::error::{Error, Result};
use crate::table::Schema;

/// Version of the run folder that this code writes; it reads this one and earlier ones.
pub const FORMAT: u32 = 1;

/// Column names that every table has on disk, or that the folder layout takes.
const RESERVED: [&str; 3] = ["tick", "at", "table"];
const MAX_MANIFEST: u64 = 16 << 20;
const MAX_TABLES: usize = 1024;
const MAX_COLUMNS: usize = 1024;

/// What a run is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Version of the folder's format, [`FORMAT`] for a new run.
    pub format: u32,
    /// The Feedline that wrote it.
    pub feedline: String,
    /// When recording started.
    pub started: Ts,
    /// When recording ended; `None` while it goes on, and after a kill.
    pub ended: Option<Ts>,
    /// The job.
    pub job: Job,
    /// The machine.
    pub machine: Machine,
    /// The clock of all timestamps.
    pub clock: Anchor,
    /// What a reader should know, such as what a recovery found.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The job that was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Job {
    /// Its root process; `None` when there was none (an import, a whole machine).
    pub pid: Option<u32>,
    /// A short name for people.
    pub name: String,
    /// File names of the command line, without folders, options or values.
    #[serde(default)]
    pub command: Vec<String>,
}

/// The machine that was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// CPUs online; `None` when unknown.
    pub cpus: Option<u32>,
    /// Bytes of memory; `None` when unknown.
    pub memory: Option<u64>,
}

/// How timestamps relate to clocks: wall time at the anchor, monotonic from there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// Wall-clock time at which the run's clock was taken.
    pub wall: Ts,
    /// The clock that has counted since.
    pub source: String,
}

impl Meta {
    /// A new run of a job on this machine.
    #[must_use]
    pub fn of_this_machine(now: Ts, pid: u32, name: &str) -> Self {
        Self::new(now, Job { pid: Some(pid), name: name.to_owned(), command: Vec::new() }, Machine::this())
    }

    /// A new run.
    #[must_use]
    pub fn new(now: Ts, job: Job, machine: Machine) -> Self {
        Self {
            format: FORMAT,
            feedline: env!("CARGO_PKG_VERSION").to_owned(),
            started: now,
            ended: None,
            job,
            machine,
            clock: Anchor { wall: now, source: "boottime".to_owned() },
            notes: Vec::new(),
        }
    }

    /// The name of the run's folder: `<utc>-<host>-<job>`, so that names sort by time.
    #[must_use]
    pub fn folder(&self) -> String {
        format!("{}-{}-{}", utc::compact(self.started), safe(&self.machine.host), safe(&self.job.name))
    }
}

/// A name as part of a file name.
fn safe(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = name.chars().map(|c| if fits(c) { c } else { '_' }).take(40).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

impl Machine {
    /// The machine this runs on.
    #[must_use]
    pub fn this() -> Self {
        let names = rustix::system::uname();
        let memory = rustix::system::sysinfo();
        Self {
            host: names.nodename().to_string_lossy().into_owned(),
            kernel: names.release().to_string_lossy().into_owned(),
            cpus: std::fs::read_to_string("/sys/devices/system/cpu/online").ok().and_then(|text| count(text.trim())),
            memory: Some(u64::from(memory.mem_unit).saturating_mul(memory.totalram)).filter(|m| *m > 0),
        }
    }
}

/// The number of CPUs in a list such as `0-3,8`.
fn count(list: &str) -> Option<u32> {
    let mut cpus = 0_u32;
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        cpus = cpus.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(cpus)
}

/// The whole of `run.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Manifest {
    #[serde(flatten)]
    pub(super) meta: Meta,
    #[serde(serialize_with = "write_schema", deserialize_with = "read_schema")]
    pub(super) schema: Arc<Schema>,
}

fn write_schema<S: serde::Serializer>(schema: &Arc<Schema>, to: S) -> std::result::Result<S::Ok, S::Error> {
    Schema::serialize(schema, to)
}

fn read_schema<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Arc<Schema>, D::Error> {
    Schema::deserialize(from).map(Arc::new)
}

/// Only the version, which is looked at before anything else is believed.
#[derive(Deserialize)]
struct Version {
    format: u32,
    feedline: Option<String>,
}

impl Manifest {
    /// Reads `run.json` of a run folder.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(MANIFEST);
        let text = match layout::read_bounded(&path, MAX_MANIFEST) {
            Ok(text) => text,
            Err(error) => return Err(error.hint("a run is a folder with a `run.json`; feedline record PID makes one")),
        };
        Self::parse(&text).map_err(|error| error.at(path.display()))
    }

    fn parse(text: &[u8]) -> Result<Self> {
        let damaged = |error: serde_json::Error| {
            Error::new(error.to_string()).hint("the tables are still readable as Parquet, see docs/trace-format.md")
        };
        let version: Version = serde_json::from_slice(text).map_err(damaged)?;
        if version.format > FORMAT {
            let by = version.feedline.unwrap_or_else(|| "a later Feedline".to_owned());
            let message = format!("format {}, expected at most {FORMAT}", version.format);
            return Err(Error::new(message).hint(format!("it was written by {by}: update feedline")));
        }
        let manifest: Self = serde_json::from_slice(text).map_err(damaged)?;
        check(&manifest.schema)?;
        Ok(manifest)
    }

    /// Writes `run.json`, so that a reader finds the old one or the new one and nothing between.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(|e| Error::new(format!("{MANIFEST}: {e}")))?;
        layout::replace(&folder.join(layout::MANIFEST_TMP), &folder.join(MANIFEST), &text)?;
        layout::sync_folder(folder)
    }

    /// A number that changes with the schema, to tell segments of another run.
    pub(super) fn fingerprint(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        for table in &self.schema.tables {
            hasher.update(table.name.as_bytes());
            for column in &table.columns {
                hasher.update(format!("\n{} {:?}", column.name, column.kind).as_bytes());
            }
            hasher.update(b"\n\n");
        }
        hasher.finalize()
    }
}

/// Whether every name is fit to be a folder and a column, whoever wrote it.
pub(super) fn check(schema: &Schema) -> Result<()> {
    let named = |name: &str| {
        let word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        (1..=64).contains(&name.len()) && word
    };
    if schema.tables.len() > MAX_TABLES {
        return Err(Error::new(format!("{} tables, expected at most {MAX_TABLES}", schema.tables.len())));
    }
    for (index, table) in schema.tables.iter().enumerate() {
        if !named(&table.name) || table.name == layout::TICKS {
            return Err(Error::new(format!("table `{}` cannot have that name", table.name.escape_debug())));
        }
        if schema.tables[..index].iter().any(|t| t.name == table.name) {
            return Err(Error::new(format!("table `{}` is declared twice", table.name)));
        }
        if table.columns.len() > MAX_COLUMNS {
            return Err(Error::new(format!("table `{}` has {} columns", table.name, table.columns.len())));
        }
        for (index, column) in table.columns.iter().enumerate() {
            let twice = table.columns[..index].iter().any(|c| c.name == column.name);
            if twice || !named(&column.name) || RESERVED.contains(&column.name.as_ref()) {
                let path = format!("{}.{}", table.name, column.name.escape_debug());
                return Err(Error::new(format!("column `{path}` cannot have that name"))
                    .hint(format!("names are unique words of ASCII letters, digits and `_`; {RESERVED:?} are taken")));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::Unit;
    use crate::{Column, Kind, Origin, Table};

    fn manifest(table: &str, column: &str) -> String {
        let column = Column { name: column.to_owned().into(), kind: Kind::Key, unit: Unit::None, doc: "".into() };
        let table =
            Table { name: table.to_owned().into(), origin: Origin::Observed, doc: "".into(), columns: vec![column] };
        let meta = Meta::new(Ts(0), Job::default(), Machine::default());
        serde_json::to_string(&Manifest { meta, schema: Arc::new(Schema { tables: vec![table] }) }).unwrap()
    }

    #[test]
    fn names_that_would_leave_the_folder_are_refused() {
        assert!(Manifest::parse(manifest("disk", "device").as_bytes()).is_ok());
        for (table, column) in [("../../etc", "a"), ("", "a"), ("tick", "a"), ("disk", "at"), ("disk", "a/b")] {
            assert!(Manifest::parse(manifest(table, column).as_bytes()).is_err(), "{table} {column}");
        }
    }

    #[test]
    fn a_later_format_says_to_update() {
        let error = Manifest::parse(br#"{"format": 99, "feedline": "7.1.0", "anything": []}"#).unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("it was written by 7.1.0: update feedline"));
    }

    #[test]
    fn a_folder_name_sorts_by_time_and_is_one_word() {
        let mut meta = Meta::new(Ts(1_735_689_600_000_000_000), Job::default(), Machine::default());
        meta.machine.host = "node 7/a".to_owned();
        meta.job.name = "train.py".to_owned();
        assert_eq!(meta.folder(), "20250101T000000Z-node_7_a-train.py");
    }

    #[test]
    fn cpus_are_counted_from_their_list() {
        assert_eq!([count("0-3,8"), count("0"), count("x"), count("3-1")], [Some(5), Some(1), None, None]);
    }
}
