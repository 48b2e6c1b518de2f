//! Which runs, and which tables they have.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use feedline_traces::{Error, Result, Schema};
use tempfile::TempDir;

use crate::frames::Tables;
use crate::refusal::quietly;
use crate::{Answer, MOST_ROWS};

/// Most runs in one query.
const MOST_RUNS: usize = 10_000;

/// One or more runs to ask.
#[derive(Debug, Clone)]
pub struct Runs {
    pub(crate) runs: Vec<Run>,
    /// Whether tables have a column `run`: more than one run was asked for, or a folder of runs.
    pub(crate) named: bool,
}

/// A run folder.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// What the column `run` says: the folder's name, or its path where two have that name.
    pub(crate) name: String,
    /// Where the closed parts are.
    pub(crate) folder: PathBuf,
    /// The tables that the run declares, those without a row included.
    pub(crate) declared: Option<Arc<Schema>>,
    /// Of a run that is being written, or was killed: the folder in which its rows are closed.
    _snapshot: Option<Arc<TempDir>>,
}

impl Run {
    fn open(name: String, folder: &Path) -> Result<Self> {
        if !folder.join("run.json").is_file() {
            return Ok(Self { name, folder: folder.to_owned(), declared: None, _snapshot: None });
        }
        let run = feedline_traces::run::Run::open(folder)?;
        let declared = Some(Arc::clone(run.schema()));
        if !has_open_rows(folder) {
            return Ok(Self { name, folder: folder.to_owned(), declared, _snapshot: None });
        }
        let place = tempfile::Builder::new().prefix("feedline-query-").tempdir();
        let place = place.map_err(|cause| Error::io(std::env::temp_dir().display(), &cause))?;
        run.snapshot(place.path())?;
        Ok(Self { name, folder: place.path().to_owned(), declared, _snapshot: Some(Arc::new(place)) })
    }
}

/// Whether some rows are in an open segment rather than in parts.
fn has_open_rows(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_str().is_some_and(|name| name.ends_with(".segment")))
}

/// What a table holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Name of the table.
    pub table: String,
    /// Rows, over all runs.
    pub rows: u64,
    /// Names and types (`time`, `text`, `whole`, `number`) of the columns.
    pub columns: Vec<(String, String)>,
}

impl Runs {
    /// The runs of a list of folders, each a run or a folder of runs.
    ///
    /// # Errors
    /// When a folder is neither.
    pub fn open<P: AsRef<Path>>(folders: &[P]) -> Result<Self> {
        let mut found = Vec::new();
        let mut named = folders.len() > 1;
        for folder in folders.iter().map(AsRef::as_ref) {
            if is_run(folder) {
                found.push(folder.to_owned());
                continue;
            }
            named = true;
            let runs = runs_in(folder)?;
            if runs.is_empty() {
                return Err(Error::new(format!("{}: no run here", folder.display()))
                    .hint("a run is a folder with `run.json`, as `feedline record` makes it"));
            }
            found.extend(runs);
        }
        if found.len() > MOST_RUNS {
            return Err(Error::new(format!("{} runs, of which at most {MOST_RUNS} can be asked at once", found.len())));
        }
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        for folder in &found {
            *names.entry(short(folder)).or_default() += 1;
        }
        let name = |folder: &Path| match short(folder) {
            name if names.get(&name) == Some(&1) => name,
            _ => folder.display().to_string(),
        };
        let runs = found.iter().map(|folder| Run::open(name(folder), folder)).collect::<Result<_>>()?;
        Ok(Self { runs, named })
    }

    /// The tables of the runs, by name.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub fn tables(&self) -> Result<Vec<Contents>> {
        quietly(|| Tables::find(self).contents())
    }

    /// The answer to a SQL query: one `SELECT`, common table expressions and joins included.
    ///
    /// # Errors
    /// When the query is not understood or a table cannot be read.
    pub fn sql(&self, query: &str) -> Result<Answer> {
        quietly(|| Tables::find(self).sql(query, MOST_ROWS))
    }
}

fn is_run(folder: &Path) -> bool {
    folder.join("run.json").is_file() || table_names(folder).next().is_some()
}

/// Names of the tables that have closed parts.
pub(crate) fn table_names(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_prefix("table=")?.to_owned()))
}

fn runs_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|cause| {
        let error = Error::io(folder.display(), &cause);
        if cause.kind() == std::io::ErrorKind::NotFound { error.hint("`feedline record` makes a run") } else { error }
    })?;
    let mut runs: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).filter(|path| is_run(path)).collect();
    runs.sort();
    Ok(runs)
}

fn short(folder: &Path) -> String {
    let whole = folder.canonicalize();
    let name = whole.as_deref().unwrap_or(folder).file_name();
    name.map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned())
}
