//! `feedline attach`: a running job on the screen.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use feedline_dashboards::report::ReportBuilder;
use feedline_dashboards::{Command, Mode, Screen, channel, run as show};
use feedline_traces::{Result, Sink, drive};

use super::{Failure, Outcome, output, runtime};
use crate::chain::{self, Place};
use crate::config::{Config, Options};
use crate::stop;

/// Arguments of `feedline attach`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Keys: ? shows them, q leaves. The job goes on as before.")]
pub(super) struct Args {
    /// Pid or name of the job
    #[arg(value_name = "PID|NAME")]
    job: String,
    /// Record what is shown too, into this new folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        let config = Config::try_from(&self.options).map_err(Failure::Usage)?;
        let attached = chain::attach(&self.job, &config)?;
        let runtime = runtime()?;
        let (stop, stopped) = runtime.block_on(async { stop::after(None) });
        let mut source = runtime.block_on(async { chain::live(&attached, &config, stopped) })?;
        let title = format!("{} (pid {})", attached.job.name, attached.job.pid);
        let report = ReportBuilder::new(title.clone());
        let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(report.clone())];
        sinks.extend(chain::orders(&attached));
        if let Some(dir) = &self.out {
            sinks.push(chain::trace(&attached, source.as_ref(), &Place::At(dir.clone()))?.1);
        }
        if json {
            sinks.push(Box::new(output::Lines));
            return Ok(runtime.block_on(drive(source.as_mut(), &mut sinks))?);
        }
        let schema = Arc::clone(source.schema());
        let (feed, messages) = channel();
        sinks.push(Box::new(feed));
        let driver = runtime.spawn(async move { drive(source.as_mut(), &mut sinks).await });
        let (commands, _asked) = mpsc::channel::<Command>();
        let screen = Screen { mode: Mode::Live, title, colour: output::colour() };
        let shown = show(screen, &schema, &messages, &commands, attached.context.clock.as_ref());
        let _ = stop.send(true);
        // The recording, where there is one, is finished before the program ends.
        let driven: Result<()> = runtime.block_on(driver).unwrap_or(Ok(()));
        shown?;
        driven?;
        let over = attached.context.target.ended();
        if over {
            output::text(&format!("the job has ended: {} (pid {})", attached.job.name, attached.job.pid))?;
        }
        output::text(&output::verdict(&report.report()))?;
        Ok(output::text(&match &self.out {
            Some(dir) => format!("\nrun: {0} (feedline replay {0} shows it again)", dir.display()),
            None if over => {
                "\nnothing was kept; next time feedline record, or attach --out DIR, keeps a run".to_owned()
            }
            None => format!("\nnothing was kept; feedline record {} --for 60s keeps a run", self.job),
        })?)
    }
}
