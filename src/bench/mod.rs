//! Feedline measured: each bench prints one object and keeps its raw rows in a file.

use std::fs;
use std::path::{Path, PathBuf};

use feedline_traces::{Error, Result};
use serde::Serialize;
use serde_json::{Map, Value, json};

pub mod advice;
pub mod attribution;
mod burden;
pub mod causes;
pub mod forecast;
mod jobs;
pub mod overhead;
pub mod store;

pub use jobs::Jobs;

/// What a bench found.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Its name.
    pub bench: &'static str,
    /// The figures, by name.
    pub figures: Map<String, Value>,
    /// The machine it ran on.
    pub machine: Value,
    /// Whether every figure is within its limit.
    pub pass: bool,
    /// The file with the raw rows, one JSON object a line.
    pub rows: PathBuf,
}

impl Outcome {
    /// Writes the raw rows beside the others and gives the outcome.
    ///
    /// # Errors
    /// When the file cannot be written.
    fn write(bench: &'static str, out: &Path, rows: &[Value], figures: Value, pass: bool) -> Result<Self> {
        fs::create_dir_all(out).map_err(|cause| Error::io(out.display(), &cause))?;
        let file = out.join(format!("{bench}.jsonl"));
        let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
        fs::write(&file, text).map_err(|cause| Error::io(file.display(), &cause))?;
        let Value::Object(figures) = figures else {
            return Err(Error::new(format!("bench {bench}: figures are no object")));
        };
        Ok(Self { bench, figures, machine: machine(), pass, rows: file })
    }
}

/// The machine, as far as figures depend on it. Names of hosts and users stay out.
fn machine() -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        text.lines().find_map(|l| l.strip_prefix(name)).map(|v| v.trim_start_matches([' ', '\t', ':']).to_owned())
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal:");
    json!({
        "cpu": field(&read("/proc/cpuinfo"), "model name"),
        "cores": std::thread::available_parallelism().map(usize::from).ok(),
        "memory": memory,
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "load": read("/proc/loadavg").split(' ').next().and_then(|l| l.parse::<f64>().ok()),
        "build": if cfg!(debug_assertions) { "dev" } else { "release" },
    })
}

/// Copies a run to where it is kept; what lies there already stays as it is.
fn keep(run: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        return Err(Error::new(format!("{}: exists already", to.display())).hint("name a new folder with --keep"));
    }
    copy_tree(run, to).map_err(|cause| Error::io(to.display(), &cause))
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)?.collect::<std::io::Result<Vec<_>>>()? {
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_tree(&entry.path(), &to)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// The middle of some numbers; `None` of none.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(sorted[n / 2]),
        _ => Some(f64::midpoint(sorted[n / 2 - 1], sorted[n / 2])),
    }
}

/// An outcome for reading: a figure a line.
#[must_use]
pub fn show(outcome: &Outcome) -> String {
    let verdict = if outcome.pass { "pass" } else { "FAIL" };
    let mut text = format!("{}: {verdict}\n", outcome.bench);
    for (name, value) in &outcome.figures {
        text.push_str(&format!("  {name:<24} {value}\n"));
    }
    text.push_str(&format!("  rows                     {}\n", outcome.rows.display()));
    text
}
