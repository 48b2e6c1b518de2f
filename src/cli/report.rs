//! `feedline report`: what a recorded run shows.

use std::path::PathBuf;

use clap::ValueEnum;
use feedline_dashboards::report::{Format, ReportBuilder};
use feedline_traces::drive;
use feedline_traces::run::Run;

use super::{Outcome, output, runtime};
use crate::chain;

/// Arguments of `feedline report`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The run folder; a folder of runs means the newest in it
    #[arg(default_value = "runs")]
    run: PathBuf,
    /// How to write it
    #[arg(long, value_enum, default_value_t = Style::Terminal)]
    format: Style,
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Style {
    /// For reading here
    Terminal,
    /// For an issue or a wiki
    Markdown,
    /// For programs
    Json,
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        let folder = chain::find_run(&self.run)?;
        let run = Run::open(&folder)?.leaving_out_damage();
        // Which one was meant is not known where the newest was asked for.
        let report = ReportBuilder::new(format!("{} in {}", chain::title(&run), folder.display()));
        run.recovery().notes.iter().for_each(|note| report.note(note));
        runtime()?.block_on(async {
            let mut source = chain::replay(&run)?;
            drive(source.as_mut(), &mut [Box::new(report.clone())]).await
        })?;
        run.losses().into_iter().for_each(|loss| report.note(loss));
        let format = match self.format {
            _ if json => Format::Json,
            Style::Terminal => Format::Text,
            Style::Markdown => Format::Markdown,
            Style::Json => Format::Json,
        };
        Ok(output::text(&report.report().render(format)?)?)
    }
}
