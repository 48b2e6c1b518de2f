//! `feedline advise`: what to change in a job, and what it will gain.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use feedline_models::advise::{Advised, Facts, Options, advise, page, short, track::Entry};
use feedline_traces::{Clock as _, Error, SystemClock};
use serde_json::json;

use super::{Failure, Outcome, output, progress};
use crate::advise::{self as known, Known};
use crate::launch::Launched;

/// Arguments of `feedline advise`.
#[derive(Debug, clap::Args)]
#[command(after_help = "For example:
  feedline advise                                          of the newest run
  feedline advise runs/20261130-101500-host-train
  feedline advise 4242 --seconds 60
  feedline advise --config job.toml                        before any run
  feedline advise runs/before --validate --after 4343      after the change was made
  feedline advise runs/before --validate -- python train.py --workers 4")]
pub(super) struct Args {
    /// A run folder, or pid or name of a running job; without it the newest run under `runs`
    #[arg(value_name = "RUN|PID|NAME")]
    target: Option<String>,
    /// A job that has not run yet, as a file (docs/advice.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "validate"])]
    config: Option<PathBuf>,
    /// Seconds for which a running job is watched
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(5..=3600))]
    seconds: u64,
    /// The loader's `prefetch_factor`; without it 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    prefetch: Option<u32>,
    /// Samples of a batch
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    batch: Option<u32>,
    /// Size of the data set, such as 120GiB, where it cannot be seen
    #[arg(long, value_name = "SIZE")]
    dataset: Option<bytesize::ByteSize>,
    /// The same seed gives the same figures
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// After the change: watch the job again and keep the outcome in the track record
    #[arg(long)]
    validate: bool,
    /// Pid or name of the job after the change
    #[arg(long, value_name = "PID|NAME", requires = "validate", conflicts_with = "command")]
    after: Option<String>,
    /// Which of the plans was made, as they are numbered
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "validate")]
    made: usize,
    /// Seconds that a job started by `--validate` is given before it is watched
    #[arg(long, value_name = "N", default_value_t = 10)]
    warm_up: u64,
    /// The job after the change, to be started
    #[arg(last = true, value_name = "CMD", requires = "validate")]
    command: Vec<OsString>,
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        if self.validate && self.after.is_none() && self.command.is_empty() {
            let error = Error::new("--validate: the job after the change is not named");
            return Err(Failure::Usage(error.hint("--after PID watches it, -- CMD starts it")));
        }
        let found = self.known()?;
        let facts = self.told(found.most()?);
        let options = Options { seed: self.seed, ..Options::default() };
        let before = advise(&facts, &options)?;
        if !self.validate {
            return show(&found.job, &facts, &before, json);
        }
        let plan = before.plans.get(self.made.wrapping_sub(1)).ok_or_else(|| {
            Error::new(format!("--made {}: {} plans were found for {}", self.made, before.plans.len(), found.job))
                .hint("feedline advise with the same target lists them")
        })?;
        if !json {
            output::note(&format!("was predicted: {}", short(plan)));
        }
        let (name, after) = self.again(&options)?;
        let now = SystemClock::anchored_now().now().0 / 1_000_000_000;
        let entry = Entry::of(now, &name, (&before, plan), &after);
        let file = known::track_file()?;
        known::track(&file, &entry)?;
        if json {
            return Ok(output::json(&json!({ "entry": entry, "hit": entry.hit(), "track": file }))?);
        }
        Ok(output::text(&outcome(&entry, &file))?)
    }

    fn known(&self) -> Result<Known, Error> {
        if let Some(file) = &self.config {
            return known::of_config(file);
        }
        let target = self.target.as_deref().unwrap_or("runs");
        // A name of a process has no slash: what has one is a folder, there or not.
        if self.target.is_none() || Path::new(target).is_dir() || target.contains('/') {
            return known::of_run(Path::new(target));
        }
        known::of_job(target, Duration::from_secs(self.seconds))
            .map_err(|error| if error.hint.is_some() { error } else { error.hint("or name a run folder") })
    }

    /// The facts, with what the user adds to them.
    fn told(&self, facts: &Facts) -> Facts {
        let mut facts = facts.clone();
        facts.setting.prefetch = self.prefetch.or(facts.setting.prefetch);
        facts.setting.batch = self.batch.or(facts.setting.batch);
        facts.reads.dataset = self.dataset.map(|size| bytes(size.0)).or(facts.reads.dataset);
        facts
    }

    /// Watches the job after the change.
    fn again(&self, options: &Options) -> Result<(String, Advised), Failure> {
        let span = Duration::from_secs(self.seconds);
        let watched = |job: &str| -> Result<(String, Advised), Error> {
            let found = known::of_job(job, span)?;
            let after = advise(&self.told(found.most()?), options)?;
            Ok((found.job, after))
        };
        if let Some(job) = &self.after {
            return Ok(watched(job)?);
        }
        let started = Launched::start(&self.command, Vec::new())?;
        let bar = progress::spinner("warming up");
        std::thread::sleep(Duration::from_secs(self.warm_up));
        bar.finish_and_clear();
        let seen = watched(&started.pid().to_string());
        if let Some(pid) = i32::try_from(started.pid()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = started.code();
        Ok(seen?)
    }
}

fn show(job: &str, facts: &Facts, advised: &Advised, json: bool) -> Outcome {
    if json {
        return Ok(output::json(&json!({ "job": job, "advised": advised, "facts": facts }))?);
    }
    output::text(&format!("{job}\n{}", page(advised)))?;
    if !advised.plans.is_empty() {
        let hint =
            "change one thing at a time; afterwards `feedline advise … --validate --after PID` keeps what it gained";
        output::text(&format!("\n{hint}"))?;
    }
    Ok(())
}

fn outcome(entry: &Entry, file: &Path) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let [guess, low, high] = entry.predicted;
    let gain = entry.measured_gain.map_or_else(String::new, |gain| {
        format!(
            "speed        × {:.2}, predicted × {:.2} ({:.2} to {:.2})\n",
            1.0 + gain,
            1.0 + entry.gain[0],
            1.0 + entry.gain[1],
            1.0 + entry.gain[2]
        )
    });
    format!(
        "{} {} → {}\nstall        {} → {}, predicted {} ({} to {})\n{gain}{} the 80 % interval; kept in {}",
        entry.knob,
        entry.from,
        entry.to,
        percent(entry.stall_before),
        percent(entry.measured),
        percent(guess),
        percent(low),
        percent(high),
        if entry.hit() { "inside" } else { "outside" },
        file.display()
    )
}

#[expect(clippy::cast_precision_loss, reason = "the size of a data set, of which two digits matter")]
fn bytes(size: u64) -> f64 {
    size as f64
}
