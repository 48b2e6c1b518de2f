//! `feedline record`: a run without a screen.

use std::path::PathBuf;
use std::time::Duration;

use feedline_dashboards::report::ReportBuilder;
use feedline_traces::run::{Retention, prune};
use feedline_traces::{Sink, drive};
use serde_json::json;

use super::{Failure, Outcome, output, progress, runtime};
use crate::chain::{self, Place};
use crate::config::{Config, Options};
use crate::stop;

/// Arguments of `feedline record`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Ends when the span has passed, the job is over, or on ctrl-C; the run is complete in each case."
)]
pub(super) struct Args {
    /// Pid or name of the job
    #[arg(value_name = "PID|NAME")]
    job: String,
    /// How long, such as 30s or 10m; without it until the job ends
    #[arg(long = "for", value_name = "SPAN", value_parser = super::span::parse)]
    span: Option<Duration>,
    /// The run folder to write; it must not be there yet
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Where runs are kept, each in a folder of its own
    #[arg(long, value_name = "DIR", default_value = "runs", conflicts_with = "out")]
    runs: PathBuf,
    /// Remove the oldest runs beyond this size in all, such as 2GiB
    #[arg(long, value_name = "SIZE", conflicts_with = "out")]
    keep: Option<bytesize::ByteSize>,
    /// Remove runs older than this, such as 7d
    #[arg(long, value_name = "SPAN", value_parser = humantime::parse_duration, conflicts_with = "out")]
    keep_for: Option<Duration>,
    #[command(flatten)]
    options: Options,
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        let config = Config::try_from(&self.options).map_err(Failure::Usage)?;
        let attached = chain::attach(&self.job, &config)?;
        let report = ReportBuilder::new(format!("{} (pid {})", attached.job.name, attached.job.pid));
        let runtime = runtime()?;
        let place = self.out.clone().map_or_else(|| Place::Under(self.runs.clone()), Place::At);
        let began = attached.context.clock.now();
        let dir = runtime.block_on(async {
            let (_stop, stopped) = stop::after(self.span);
            let mut source = chain::live(&attached, &config, stopped)?;
            let (dir, trace) = chain::trace(&attached, source.as_ref(), &place)?;
            if !json {
                output::note(&format!("recording {} into {}", attached.job.pid, dir.display()));
            }
            let mut sinks: Vec<Box<dyn Sink>> = vec![trace, Box::new(report.clone())];
            sinks.extend(chain::orders(&attached));
            if !json {
                sinks.push(Box::new(progress::Ticking::over(self.span)));
            }
            drive(source.as_mut(), &mut sinks).await.map(|()| dir)
        })?;
        let report = report.report();
        let ended = attached.context.host.read(format!("proc/{}/stat", attached.job.pid)).is_err();
        if json {
            output::json(&json!({ "run": dir, "report": report, "job_ended": ended }))?;
        } else {
            if let (Some(span), true) = (self.span, ended) {
                let seen = attached.context.clock.now().seconds_since(began);
                output::note(&format!("the job ended after {seen:.0} s of {}", humantime::format_duration(span)));
            }
            output::text(&output::verdict(&report))?;
            let hints = format!("feedline report {0} says more, feedline replay {0} shows it", dir.display());
            output::text(&format!("\nrun: {}\n     {hints}", dir.display()))?;
        }
        // Last, because a run that may not be removed is no reason to withhold what was found.
        if self.keep.is_some() || self.keep_for.is_some() {
            let retention = Retention { max_bytes: self.keep.map(|k| k.0), max_age: self.keep_for };
            prune(&self.runs, &retention, attached.context.clock.now())?;
        }
        Ok(())
    }
}
