//! Facts for advice: from a recorded run, a running job or a configuration file; and the track record.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use feedline_models::advise::track::{Entry, KEPT};
use feedline_models::advise::{Errors, Facts, Gather, TABLES, config, residual};
use feedline_traces::run::Run;
use feedline_traces::{Error, Result, Schema, Sink, Tick, drive};

use crate::chain;
use crate::cli::progress;
use crate::config::Config;
use crate::runtime::runtime;
use crate::score::from_parquet;
use crate::stop;

/// A job, and what is known of each of its trainers, the one that waits most first.
#[derive(Debug)]
pub struct Known {
    /// Its name.
    pub job: String,
    /// At least one.
    pub facts: Vec<Facts>,
}

impl Known {
    /// The trainer that waits most.
    ///
    /// # Errors
    /// When none was seen.
    pub fn most(&self) -> Result<&Facts> {
        self.facts.first().ok_or_else(nothing)
    }
}

/// The facts of a recorded run. Only the tables that they rest on are read, and what is derived is
/// derived anew.
///
/// # Errors
/// When the run cannot be read, or no trainer was seen in it.
pub fn of_run(path: &Path) -> Result<Known> {
    let run = Run::open(chain::find_run(path)?)?.leaving_out_damage();
    let mut source = chain::replay_only(&run, &TABLES)?;
    let gather = Gathering::of(source.schema(), run.meta().machine.cpus);
    let runtime = runtime()?;
    runtime.block_on(drive(source.as_mut(), &mut [Box::new(gather.clone())]))?;
    gather.known(chain::title(&run)).map_err(|error| error.at(path.display()))
}

/// Watches a running job, with a bar where there is a terminal.
///
/// # Errors
/// When the job cannot be read, or no trainer was seen.
pub fn of_job(job: &str, span: Duration) -> Result<Known> {
    let config = Config::default();
    let attached = chain::attach(job, &config)?;
    let runtime = runtime()?;
    let gather = runtime.block_on(async {
        let (_stop, stopped) = stop::after(Some(span));
        let mut source = chain::live(&attached, &config, stopped)?;
        let gather = Gathering::of(source.schema(), attached.meta.machine.cpus);
        let bar = progress::Ticking::over(Some(span));
        let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(gather.clone()), Box::new(bar)];
        drive(source.as_mut(), &mut sinks).await.map(|()| gather)
    })?;
    let name = format!("{} (pid {})", attached.job.name, attached.job.pid);
    let mut known = gather.known(name).map_err(|error| error.at(job))?;
    for facts in &mut known.facts {
        // What a recording does not hold, and a feasible plan needs.
        facts.machine.fds = facts.pid.and_then(descriptors);
    }
    Ok(known)
}

/// The facts that a configuration file stands for, before any run.
///
/// # Errors
/// When the file cannot be read, or says something that is not known or out of range.
pub fn of_config(file: &Path) -> Result<Known> {
    let text = fs::read_to_string(file).map_err(|cause| Error::io(file.display(), &cause))?;
    let config: config::Config = toml::from_str(&text).map_err(|cause| {
        Error::new(format!("{}: {}", file.display(), cause.to_string().trim()))
            .hint("docs/advice.md has an example; times are in milliseconds, sizes in bytes")
    })?;
    let facts = config.facts().map_err(|error| error.at(file.display()))?;
    let job = file.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(Known { job, facts: vec![facts] })
}

/// How far the step model is off on the observations of a sweep; `None` where they are too few.
///
/// # Errors
/// When the file cannot be read, or is no table of observations.
pub fn measured_errors(file: &Path) -> Result<Option<Errors>> {
    let table = from_parquet(file)?;
    let found = residual::residuals(&table).map_err(|error| error.at(file.display()))?;
    Ok(Errors::measured(&found, "pairs of observations in models/data/observations"))
}

/// Open files of a process, and how many it may have.
fn descriptors(pid: u64) -> Option<(f64, f64)> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let most: f64 = line.split_whitespace().next()?.parse().ok()?;
    let open = u32::try_from(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count()).ok()?;
    Some((f64::from(open), most))
}

fn nothing() -> Error {
    Error::new("no trainer was seen for long enough to judge it")
        .hint("record or watch the job for 20 s and more, once its steps have begun")
}

/// Gathers facts as a sink; its clones share what they gather.
#[derive(Debug, Clone)]
struct Gathering(Arc<Mutex<Gather>>);

impl Gathering {
    fn of(schema: &Schema, cores: Option<u32>) -> Self {
        Self(Arc::new(Mutex::new(Gather::bind(schema, cores))))
    }

    fn known(&self, job: String) -> Result<Known> {
        let facts = self.0.lock().unwrap_or_else(PoisonError::into_inner).facts();
        if facts.is_empty() { Err(nothing()) } else { Ok(Known { job, facts }) }
    }
}

impl Sink for Gathering {
    fn accept(&mut self, _: &Schema, tick: &Tick) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).accept(tick);
        Ok(())
    }
}

/// The track record's file: below `$XDG_DATA_HOME`, or `~/.local/share`.
///
/// # Errors
/// When neither is known.
pub fn track_file() -> Result<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")));
    let data = data.ok_or_else(|| {
        Error::new("no place for the track record: neither XDG_DATA_HOME nor HOME is set").hint("set one of them")
    })?;
    Ok(data.join("feedline/track.jsonl"))
}

/// The entries of a track record, oldest first; none where there is no file. Lines that are no entry,
/// as one that a power loss cut, are left out.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn tracked(file: &Path) -> Result<Vec<Entry>> {
    let text = match fs::read_to_string(file) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.map_err(|cause| Error::io(file.display(), &cause))?,
    };
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Adds an entry to a track record, in one write under a lock; beyond [`KEPT`] the oldest go.
///
/// # Errors
/// When the file cannot be written.
pub fn track(file: &Path, entry: &Entry) -> Result<()> {
    let wrong = |cause: &std::io::Error| Error::io(file.display(), cause);
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|cause| wrong(&cause))?;
    let lock = File::create(folder.join("track.lock")).map_err(|cause| wrong(&cause))?;
    lock.lock().map_err(|cause| wrong(&cause))?;
    let line = serde_json::to_string(entry).map_err(|cause| Error::new(format!("track record: {cause}")))?;
    let mut entries = tracked(file)?;
    if entries.len() < KEPT {
        let torn = fs::read(file).is_ok_and(|bytes| bytes.last().is_some_and(|last| *last != b'\n'));
        let mut out = File::options().create(true).append(true).open(file).map_err(|cause| wrong(&cause))?;
        let start = if torn { "\n" } else { "" };
        return out.write_all(format!("{start}{line}\n").as_bytes()).map_err(|cause| wrong(&cause));
    }
    entries.drain(..entries.len() + 1 - KEPT);
    let mut text = String::new();
    for kept in &entries {
        text.push_str(&serde_json::to_string(kept).map_err(|cause| Error::new(format!("track record: {cause}")))?);
        text.push('\n');
    }
    text.push_str(&line);
    text.push('\n');
    let mut new = tempfile::NamedTempFile::new_in(folder).map_err(|cause| wrong(&cause))?;
    new.write_all(text.as_bytes()).and_then(|()| new.as_file().sync_all()).map_err(|cause| wrong(&cause))?;
    new.persist(file).map(|_| ()).map_err(|cause| wrong(&cause.error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at: i64) -> Entry {
        Entry {
            at,
            job: "train.py".to_owned(),
            knob: "num_workers".to_owned(),
            from: "0".to_owned(),
            to: "4".to_owned(),
            stall_before: 0.5,
            predicted: [0.02, 0.0, 0.1],
            measured: 0.03,
            gain: [0.9, 0.7, 1.0],
            measured_gain: Some(0.88),
            confidence: 0.8,
        }
    }

    #[test]
    fn a_track_record_grows_by_a_line_and_keeps_the_newest() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("data/feedline/track.jsonl");
        assert_eq!(tracked(&file).unwrap(), []);
        track(&file, &entry(1)).unwrap();
        let mut text = fs::read_to_string(&file).unwrap();
        text.push_str("{\"at\": 2, \"jo");
        fs::write(&file, text).unwrap();
        track(&file, &entry(3)).unwrap();
        assert_eq!(tracked(&file).unwrap().iter().map(|e| e.at).collect::<Vec<_>>(), [1, 3], "a torn line is left out");
        let many: String = (0..KEPT).map(|i| serde_json::to_string(&entry(i as i64)).unwrap() + "\n").collect();
        fs::write(&file, many).unwrap();
        track(&file, &entry(-7)).unwrap();
        let kept = tracked(&file).unwrap();
        assert_eq!((kept.len(), kept[0].at, kept[KEPT - 1].at), (KEPT, 1, -7));
    }

    #[test]
    fn a_configuration_file_is_read_before_any_run_and_a_wrong_one_names_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("job.toml");
        fs::write(&file, include_str!("../tests/data/advise/job.toml")).unwrap();
        let known = of_config(&file).unwrap();
        assert_eq!((known.job.as_str(), known.most().unwrap().workers()), ("job", 2));
        fs::write(&file, "[loader]\nworkers = \"two\"\nbatch = 8\n").unwrap();
        let error = of_config(&file).unwrap_err();
        assert!(error.message.contains("job.toml") && error.message.contains("workers"), "{error}");
    }
}
