//! The one place that builds a chain: source, derivations, sinks. Live, recorded and replayed
//! runs go through here, so that none can lack what another has.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use feedline_collectors::job::{self, Job};
use feedline_collectors::kineto::Trigger;
use feedline_collectors::{Context, Host, Live, all, rights};
use feedline_models::advise::Advise;
use feedline_models::attribute::Attribute;
use feedline_models::finding::Find;
use feedline_models::forecast::Forecast;
use feedline_traces::run::{Meta, Run, RunWriter};
use feedline_traces::{Clock, Derive as _, Derived, Error, Result, Schema, Sink, Source, SystemClock, Ts};
use tokio::sync::watch;

use crate::config::Config;
use crate::train;

/// A job found, and the clock that its run will keep.
pub struct Attached {
    /// The job that was asked for.
    pub job: Job,
    /// What the collectors are built from.
    pub context: Context,
    /// What `run.json` says of job and machine.
    pub meta: Meta,
}

/// Finds the job that a pid or a name stands for, and sees that it may be read.
///
/// # Errors
/// When there is none, or several, or the right to read it is missing and partial evidence was not
/// asked for; the hint says what works.
pub fn attach(wanted: &str, config: &Config) -> Result<Attached> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::anchored_now());
    let mut context = Context::new(Host::this(), Arc::clone(&clock));
    let job = job::resolve(&context.host, wanted)?;
    if !config.partial {
        rights::readable(&context.host, job.pid).map_err(|error| {
            let how = if rustix::process::geteuid().is_root() {
                "not even root may here: a container without CAP_SYS_PTRACE, or a process that the kernel shields"
            } else {
                "run as the job's user or as root"
            };
            error.hint(format!("{how}; --partial records what needs no right: CPU, disks, network, pressure"))
        })?;
    }
    context.settings = config.settings.clone();
    context.root = Some(job.pid);
    let meta = Meta::of_this_machine(clock.now(), job.pid, &job.name);
    Ok(Attached { job, context, meta })
}

/// The running job as a source, with everything that is derived from it. Call it within a tokio
/// runtime; `stop` ends it.
///
/// # Errors
/// When the job cannot be read.
pub fn live(attached: &Attached, config: &Config, stop: watch::Receiver<bool>) -> Result<Box<dyn Source>> {
    let context = attached.context.clone();
    let scheduled = all(&context);
    derived(Box::new(Live::start(context, scheduled, config.tick, stop)?), attached.meta.machine.cpus)
}

/// A recorded run as a source. What was derived is derived anew, so that a later Feedline judges
/// an old trace by what it knows now.
///
/// # Errors
/// When the run cannot be read.
pub fn replay(run: &Run) -> Result<Box<dyn Source>> {
    derived(Box::new(run.replay()?), run.meta().machine.cpus)
}

/// A recorded run as a source of these observed tables alone, and the causes and findings that can be
/// concluded from them; no other table is read.
///
/// # Errors
/// When the run cannot be read.
pub fn replay_only(run: &Run, tables: &[&str]) -> Result<Box<dyn Source>> {
    judged(Box::new(run.replay()?.only(tables)?), run.meta().machine.cpus)
}

/// A recorded run as a source that begins at a time.
///
/// # Errors
/// When the run cannot be read.
pub fn replay_from(run: &Run, at: Ts) -> Result<Box<dyn Source>> {
    let mut replay = run.replay()?;
    replay.seek(at)?;
    derived(Box::new(replay), run.meta().machine.cpus)
}

/// A run that is being written as a source: its last minutes first, then what comes.
///
/// # Errors
/// When the run cannot be read.
pub fn follow(run: &Run) -> Result<Box<dyn Source>> {
    derived(Box::new(run.follow()?), run.meta().machine.cpus)
}

/// A source with the derivations, in order; `cores` is what the machine has, where that is known.
fn derived(source: Box<dyn Source>, cores: Option<u32>) -> Result<Box<dyn Source>> {
    let source = judged(source, cores)?;
    let advise = Advise::bind(source.schema(), cores);
    Ok(Box::new(Derived::new(source, Box::new(advise))?))
}

/// The same without advice: causes and findings.
fn judged(source: Box<dyn Source>, cores: Option<u32>) -> Result<Box<dyn Source>> {
    let attribute = Attribute::bind(source.schema())?.on_machine(cores);
    let source = Box::new(Derived::new(source, Box::new(attribute))?);
    let forecast = Forecast::bind(source.schema(), train::forecaster());
    let source = Box::new(Derived::new(source, Box::new(forecast))?);
    let find = Find::bind(source.schema()).on_machine(cores);
    Ok(Box::new(Derived::new(source, Box::new(find))?))
}

/// Every table that a live run has: what the collectors fill and what is derived from it.
///
/// # Errors
/// When two tables have one name.
pub fn schema(context: &Context) -> Result<Schema> {
    let mut schema = feedline_collectors::schema(&all(context))?;
    let attribute = Attribute::bind(&schema)?;
    for table in attribute.tables() {
        schema.add(table)?;
    }
    for table in Forecast::bind(&schema, train::forecaster()).tables() {
        schema.add(table)?;
    }
    for table in Find::bind(&schema).tables() {
        schema.add(table)?;
    }
    for table in Advise::bind(&schema, None).tables() {
        schema.add(table)?;
    }
    Ok(schema)
}

/// Where it was asked for, the sink that orders Kineto traces from trainers that begin to stall.
#[must_use]
pub fn orders(attached: &Attached) -> Option<Box<dyn Sink>> {
    let context = &attached.context;
    context.settings.kineto.then(|| Box::new(Trigger::new(context.orders.clone())) as Box<dyn Sink>)
}

/// Where a run is written.
#[derive(Debug, Clone)]
pub enum Place {
    /// In a folder of its own under this one.
    Under(PathBuf),
    /// In this folder.
    At(PathBuf),
}

/// The trace as a sink: a new run folder.
///
/// # Errors
/// When it cannot be created, or is there already.
pub fn trace(attached: &Attached, source: &dyn Source, place: &Place) -> Result<(PathBuf, Box<dyn Sink>)> {
    let create = |dir: &Path| RunWriter::create(dir, attached.meta.clone(), source.schema());
    let (dir, writer) = match place {
        Place::At(dir) => (dir.clone(), create(dir)?),
        Place::Under(runs) => {
            // Recorders that start in the same second, one a rank, each get a folder of their own.
            let name = attached.meta.folder();
            let numbered = |n: u32| runs.join(if n == 0 { name.clone() } else { format!("{name}-{n}") });
            let free = (0..100)
                .map(numbered)
                .find(|dir| !dir.exists() && std::fs::create_dir_all(runs).is_ok() && std::fs::create_dir(dir).is_ok());
            let dir = free.unwrap_or_else(|| numbered(0));
            let writer = create(&dir)?;
            (dir, writer)
        }
    };
    Ok((dir, Box::new(writer)))
}

/// What a run is of, in a line.
#[must_use]
pub fn title(run: &Run) -> String {
    let job = &run.meta().job;
    job.pid.map_or_else(|| job.name.clone(), |pid| format!("{} (pid {pid})", job.name))
}

/// The run folder that a person means: a run, or a folder of runs, where the newest is meant.
///
/// # Errors
/// When there is none.
pub fn find_run(path: &Path) -> Result<PathBuf> {
    let started = |dir: &PathBuf| Run::open(dir).map(|run| run.meta().started).unwrap_or_default();
    find_runs(path)?.into_iter().max_by_key(started).ok_or_else(|| no_run(path))
}

/// All runs of a folder, or the one run that the folder is.
///
/// # Errors
/// When there is none.
pub fn find_runs(path: &Path) -> Result<Vec<PathBuf>> {
    let is_run = |path: &PathBuf| path.join("run.json").is_file();
    let path_buf = path.to_path_buf();
    if is_run(&path_buf) {
        return Ok(vec![path_buf]);
    }
    let entries = std::fs::read_dir(path).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::PermissionDenied => {
            Error::io(path.display(), &cause).hint("read it as its owner or as root")
        }
        _ => no_run(path),
    })?;
    let mut runs: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_run).collect();
    runs.sort();
    if runs.is_empty() { Err(no_run(path)) } else { Ok(runs) }
}

fn no_run(path: &Path) -> Error {
    Error::new(format!("no run in `{}`", path.display())).hint("feedline record PID makes one under `runs/`")
}
