//! The real training jobs of `tests/jobs`, started as a user without rights.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use feedline_traces::{Error, Result};
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use crate::demo::photos::{self, Photos};
use crate::demo::python::{self, PROGRAMS};
use crate::demo::start::Running;

/// The user of jobs and recorders when the bench is run by root: nobody.
const NOBODY: &str = "65534";
/// The name of a run in the folder made for it.
const RUN: &str = "run";
/// Longer than anything that is recorded.
const SECONDS: &str = "900";

/// A setting: knobs and their values.
pub(super) type Knobs = BTreeMap<String, String>;

/// One job of the list.
#[derive(Debug, Clone, Deserialize)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it is, in a line.
    pub what: String,
    /// `short` for the everyday set, `long` for those that only the bench runs, `bench` for those
    /// that other benches use, `causes` and `heldout` for those with a cause, `regimes` for those whose
    /// surroundings change.
    pub set: String,
    /// Whether its loader is always ahead.
    #[serde(default)]
    pub ahead: bool,
    /// The cause that is injected.
    #[serde(default)]
    pub cause: Option<String>,
    /// `mild` or `strong`.
    #[serde(default)]
    pub severity: Option<String>,
    /// Whether its obvious suspect is innocent.
    #[serde(default)]
    pub decoy: bool,
    /// Whether it is of the few that stand for all.
    #[serde(default)]
    pub quick: bool,
    /// Whether what it injects, or what it takes to see it, needs root.
    #[serde(default)]
    pub root: bool,
    /// Whether nothing can be gained by setting its loader another way.
    #[serde(default)]
    pub healthy: bool,
    /// What of it can be set from outside, by the names of advice.
    #[serde(default)]
    pub knobs: Vec<String>,
    /// Settings among which the best is sought, beside the present one.
    #[serde(default)]
    pub(super) grid: Vec<Knobs>,
    needs: Vec<String>,
    argv: Vec<String>,
    /// More arguments of the recorder.
    #[serde(default)]
    record: Vec<String>,
}

impl Scenario {
    /// The same under a seed: what it draws differs, and so does its name.
    #[must_use]
    pub fn seeded(&self, seed: u64) -> Self {
        let argv = self.argv.iter().map(|arg| arg.replace("{seed}", &seed.to_string())).collect();
        Self { name: format!("{}-{seed}", self.name), argv, ..self.clone() }
    }
}

#[derive(Debug, Deserialize)]
struct List {
    version: u32,
    scenarios: Vec<Scenario>,
}

/// The jobs, copied to a place that every user can read, with photographs to train on.
pub struct Jobs {
    dir: TempDir,
    list: Vec<Scenario>,
    python: Option<PathBuf>,
    as_nobody: bool,
}

impl Jobs {
    /// The jobs of a folder whose name contains `only`.
    ///
    /// # Errors
    /// When the folder holds no list of jobs, or the copies cannot be made.
    pub fn at(folder: &Path, only: &str) -> Result<Self> {
        Self::listed(folder, "jobs.json", only)
    }

    /// The same, of a list in that folder by its name.
    ///
    /// # Errors
    /// When the folder holds no such list, or the copies cannot be made.
    pub fn listed(folder: &Path, list: &str, only: &str) -> Result<Self> {
        let file = folder.join(list);
        let text = fs::read_to_string(&file).map_err(|cause| {
            Error::io(file.display(), &cause)
                .hint("run it from Feedline's source folder, or name its tests/jobs with --jobs")
        })?;
        let list: List =
            serde_json::from_str(&text).map_err(|cause| Error::new(format!("{}: {cause}", file.display())))?;
        if list.version != 1 {
            return Err(Error::new(format!("{}: expected version 1, found {}", file.display(), list.version)));
        }
        let place = |cause: std::io::Error| Error::io("temporary folder", &cause);
        let dir = tempfile::Builder::new().prefix("feedline-bench-").tempdir().map_err(place)?;
        open_to_all(dir.path(), 0o777)?;
        for entry in fs::read_dir(folder).map_err(place)?.flatten().filter(|e| e.path().is_file()) {
            copy(&entry.path(), &dir.path().join(entry.file_name()), 0o755)?;
        }
        // The management library of the collectors' own tests stands in for an accelerator's.
        let stub = folder.join("../../collectors/src/accelerator/testdata/stub_nvml.c");
        if stub.is_file() {
            copy(&stub, &dir.path().join("stub_nvml.c"), 0o644)?;
        }
        let me = std::env::current_exe().map_err(|cause| Error::io("this program", &cause))?;
        copy(&me, &dir.path().join("feedline"), 0o755)?;
        photos::make(&dir.path().join("photos"), &Photos::default(), &|_| ())?;
        let python = python::find(PROGRAMS).map(|python| python.program);
        let list = list.scenarios.into_iter().filter(|s| s.name.contains(only)).collect();
        Ok(Self { dir, list, python, as_nobody: rustix::process::geteuid().is_root() })
    }

    /// The jobs of the sets named.
    pub fn scenarios(&self, sets: &[&str]) -> impl Iterator<Item = &Scenario> {
        self.list.iter().filter(move |scenario| sets.contains(&scenario.set.as_str()))
    }

    /// The job of a name.
    ///
    /// # Errors
    /// When the list has none.
    pub fn find(&self, name: &str) -> Result<&Scenario> {
        let found = self.list.iter().find(|scenario| scenario.name == name);
        found.ok_or_else(|| Error::new(format!("tests/jobs/jobs.json: no job `{name}`")))
    }

    /// Whether jobs and recorders run as a user without rights.
    pub fn unprivileged(&self) -> bool {
        self.as_nobody || !rustix::process::geteuid().is_root()
    }

    /// Starts a job and waits until it is warm.
    ///
    /// # Errors
    /// When it lacks a Python module, or ends before it is warm.
    pub fn start(&self, scenario: &Scenario) -> Result<Running> {
        self.start_with(scenario, &[])
    }

    /// The same with further arguments, which take the place of earlier ones.
    ///
    /// # Errors
    /// When it lacks a Python module, or ends before it is warm.
    pub fn start_with(&self, scenario: &Scenario, more: &[String]) -> Result<Running> {
        if scenario.root && !rustix::process::geteuid().is_root() {
            return Err(Error::new(format!("job `{}` needs root", scenario.name)));
        }
        let own = self.fresh(&format!("{}-truth", scenario.name))?;
        let truth = own.join("truth.jsonl");
        let python = self.python.clone().unwrap_or_else(|| PathBuf::from("python3"));
        if self.python.is_none() && !scenario.needs.is_empty() {
            let needs = scenario.needs.join(", ");
            return Err(Error::new(format!("job `{}` needs Python with {needs}", scenario.name))
                .hint("apt-get install python3-torch python3-pil python3-numpy"));
        }
        let dir = self.dir.path();
        let photos = dir.join("photos");
        let filled = scenario.argv.iter().chain(more).map(|arg| {
            let places: [(&str, &Path); 6] = [
                ("{gpu}", &own),
                ("{python}", &python),
                ("{jobs}", dir),
                ("{data}", &photos),
                ("{truth}", &truth),
                ("{feedline}", &dir.join("feedline")),
            ];
            places
                .iter()
                .fold(arg.replace("{seconds}", SECONDS), |arg, (name, path)| arg.replace(name, &path.to_string_lossy()))
        });
        Running::warm(self.command(filled, scenario.root), truth.clone())
    }

    /// Records a job by its pid alone, as the job's user, and gives what `record --json` says.
    ///
    /// # Errors
    /// When the recorder fails; its own words are passed on.
    pub fn record(&self, job: &Running, span: Duration) -> Result<(PathBuf, Value)> {
        self.finish(self.recorder(job, Some(span), Path::new(RUN)))
    }

    /// The same with the rights and the further arguments that a scenario needs.
    ///
    /// # Errors
    /// When the recorder fails; its own words are passed on.
    pub fn record_as(&self, scenario: &Scenario, job: &Running, span: Duration) -> Result<(PathBuf, Value)> {
        let own = job.truth.parent().unwrap_or(Path::new(".")).to_string_lossy();
        let more = scenario.record.iter().map(|arg| arg.replace("{gpu}", &own)).collect();
        self.finish(self.recorder_with(job, Some(span), Path::new(RUN), more, scenario.root))
    }

    fn finish(&self, mut recorder: Command) -> Result<(PathBuf, Value)> {
        let at = self.fresh("run")?;
        let run = at.join(RUN);
        let output = recorder.current_dir(&at).output().map_err(|cause| Error::io("recorder", &cause))?;
        if !output.status.success() {
            return Err(Error::new(format!("recorder: {}", String::from_utf8_lossy(&output.stderr).trim())));
        }
        let said = serde_json::from_slice(&output.stdout).map_err(|cause| Error::new(format!("recorder: {cause}")))?;
        Ok((run, said))
    }

    /// A recorder that has not been started.
    pub fn recorder(&self, job: &Running, span: Option<Duration>, run: &Path) -> Command {
        self.recorder_with(job, span, run, Vec::new(), false)
    }

    /// The same as root, with one further argument.
    pub fn recorder_as_root(&self, job: &Running, run: &Path, more: &str) -> Command {
        self.recorder_with(job, None, run, vec![more.to_owned()], true)
    }

    fn recorder_with(
        &self,
        job: &Running,
        span: Option<Duration>,
        run: &Path,
        more: Vec<String>,
        as_root: bool,
    ) -> Command {
        let mut args = vec![
            self.dir.path().join("feedline").to_string_lossy().into_owned(),
            "record".to_owned(),
            job.pid.to_string(),
            "--json".to_owned(),
            "--out".to_owned(),
            run.to_string_lossy().into_owned(),
        ];
        if let Some(span) = span {
            args.extend(["--for".to_owned(), humantime::format_duration(span).to_string()]);
        }
        args.extend(more);
        self.command(args.into_iter(), as_root)
    }

    /// A new folder that jobs and recorders can write to.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn fresh(&self, name: &str) -> Result<PathBuf> {
        let made = tempfile::Builder::new().prefix(name).tempdir_in(self.dir.path());
        let path = made.map_err(|cause| Error::io("temporary folder", &cause))?.keep();
        open_to_all(&path, 0o777)?;
        Ok(path)
    }

    fn command(&self, mut argv: impl Iterator<Item = String>, as_root: bool) -> Command {
        let mut command = if self.as_nobody && !as_root {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]);
            command
        } else {
            Command::new(argv.next().unwrap_or_default())
        };
        command
            .args(argv)
            .current_dir(self.dir.path())
            .env("HOME", self.dir.path())
            .stderr(std::process::Stdio::piped());
        command
    }
}

fn open_to_all(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|cause| Error::io(path.display(), &cause))
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    fs::copy(from, to).map_err(|cause| Error::io(from.display(), &cause))?;
    open_to_all(to, mode)
}
