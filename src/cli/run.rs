//! `feedline run`: a command with exact timers in its Python, recorded.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use feedline_dashboards::report::{Report, ReportBuilder};
use feedline_traces::{Sink, drive};
use serde_json::json;
use tokio::sync::watch;

use super::{Failure, Outcome, output, runtime};
use crate::chain::{self, Place};
use crate::config::{Config, Options};
use crate::launch::{Hooks, Launched, Signals};

/// Arguments of `feedline run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The command keeps its input, output, environment and exit code, and gets the signals sent here.
What Feedline says goes to standard error; with --json its result is the last thing on standard output."
)]
pub(super) struct Args {
    /// The command, such as `-- python train.py`
    #[arg(value_name = "COMMAND", last = true, required = true)]
    command: Vec<OsString>,
    /// The run folder to write; it must not be there yet
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Where runs are kept, each in a folder of its own
    #[arg(long, value_name = "DIR", default_value = "runs", conflicts_with = "out")]
    runs: PathBuf,
    #[command(flatten)]
    options: Options,
}

/// How long the recording may take to see that the job has ended.
const LAST_LOOK: Duration = Duration::from_millis(2500);
/// In which a command that has ended is known to have.
const A_MOMENT: Duration = Duration::from_millis(100);

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        let mut config = Config::try_from(&self.options).map_err(Failure::Usage)?;
        config.settings.hooked = true;
        if let Some(out) = self.out.as_deref().filter(|out| out.join("run.json").exists()) {
            let error = feedline_traces::Error::new(format!("{}: holds a run already", out.display()));
            return Err(Failure::Usage(error.hint("name a folder that is not there yet")));
        }
        self.writable()?;
        let hooks = Hooks::write()?;
        let runtime = runtime()?;
        // Before the command is there: a signal that comes early must not leave it alone.
        let mut signals = runtime.block_on(async { Signals::catch() });
        let job =
            Launched::start(&self.command, hooks.environment(std::env::var_os("PYTHONPATH"), config.settings.kineto))?;
        let recorded = runtime.block_on(async {
            tokio::select! {
                recorded = self.record(&job, &config, json) => recorded,
                never = job.pass_signals(&mut signals) => match never {},
            }
        });
        // The job has ended by now, and how it did matters more than a report that failed.
        if let Err(error) = recorded {
            output::note(&format!("error: {error}"));
        }
        match job.code()? {
            0 => Ok(()),
            code => Err(Failure::Code(code)),
        }
    }

    /// Whether a run can be written where it is wanted: a job that runs for days should not start
    /// to find out.
    fn writable(&self) -> feedline_traces::Result<()> {
        use feedline_traces::Error;
        let place = self.out.as_ref().unwrap_or(&self.runs);
        if self.out.is_some() && place.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            let error = Error::new(format!("{}: the folder is not empty", place.display()));
            return Err(error.hint("name a folder that is not there yet"));
        }
        std::fs::create_dir_all(place).and_then(|()| tempfile::tempfile_in(place).map(drop)).map_err(|cause| {
            Error::io(place.display(), &cause).hint("--out names the run's folder, --runs where runs are kept")
        })
    }

    /// Records the job until it ends, and waits for that whatever happens to the recording.
    async fn record(&self, job: &Launched, config: &Config, json: bool) -> feedline_traces::Result<()> {
        let (stop, stopped) = watch::channel(false);
        let end = async {
            job.ended().await;
            tokio::time::sleep(LAST_LOOK).await;
            let _ = stop.send(true);
            std::future::pending::<Infallible>().await
        };
        let watch = async {
            let attached = chain::attach(&job.pid().to_string(), config)?;
            let report = ReportBuilder::new(format!("{} (pid {})", attached.job.name, attached.job.pid));
            let place = self.out.clone().map_or_else(|| Place::Under(self.runs.clone()), Place::At);
            let mut source = chain::live(&attached, config, stopped)?;
            let (dir, trace) = chain::trace(&attached, source.as_ref(), &place)?;
            if !json {
                output::note(&format!("recording {} into {}", attached.job.pid, dir.display()));
            }
            let mut sinks: Vec<Box<dyn Sink>> = vec![trace, Box::new(report.clone())];
            sinks.extend(chain::orders(&attached));
            drive(source.as_mut(), &mut sinks).await?;
            Ok((dir, report.report()))
        };
        let watched: feedline_traces::Result<(PathBuf, Report)> = tokio::select! {
            watched = watch => watched,
            never = end => match never {},
        };
        if let Err(error) = &watched {
            let going = tokio::time::timeout(A_MOMENT, job.ended()).await.is_err();
            let what = if going { "the job goes on, but is not recorded any more" } else { "the job ended unrecorded" };
            output::note(&format!("error: {what}: {}", if going { error.to_string() } else { error.message.clone() }));
        }
        job.ended().await;
        let Ok((dir, report)) = watched else { return Ok(()) };
        if json {
            return output::last_json(&json!({ "run": dir, "report": report }));
        }
        let hints = format!("feedline report {0} says more, feedline replay {0} shows it", dir.display());
        output::note(&format!("\n{}\nrun: {}\n     {hints}", output::verdict(&report), dir.display()));
        Ok(())
    }
}
