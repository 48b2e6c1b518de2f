//! `feedline score`: how far predictions of what was never seen are off.

use std::fs;
use std::path::PathBuf;

use feedline_traces::{Error, SystemClock};

use super::{Outcome, output, progress};
use crate::score::{self, page, timing};

/// Arguments of `feedline score`.
#[derive(Debug, clap::Args)]
#[command(after_help = "For example:
  feedline score --only mlperf
  feedline score --write docs/models.md")]
pub(super) struct Args {
    /// The data sets: declarations (TOML) beside files of rows
    #[arg(long, value_name = "DIR", default_value = "models/data")]
    data: PathBuf,
    /// Only data sets whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// The seed of fits and folds
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the page with every leaderboard to this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Measure too what a prediction and training on 100,000 rows cost here
    #[arg(long)]
    timing: bool,
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        let mut sets = score::sets(&self.data)?;
        sets.retain(|set| set.declared.name.contains(&self.only));
        if sets.is_empty() {
            let error = Error::new(format!("{}: no data set named like `{}`", self.data.display(), self.only));
            return Err(error.hint("leave `--only` out to score all").into());
        }
        let bar = progress::bar("scoring", score::steps(&sets));
        let mut scores = score::run(&sets, self.seed, &|| bar.inc(1))?;
        if self.timing {
            scores.timing = Some(timing::measure(&SystemClock::anchored_now(), self.seed)?);
        }
        bar.finish_and_clear();
        if let Some(file) = &self.write {
            fs::write(file, page::markdown(&scores)).map_err(|cause| Error::io(file.display(), &cause))?;
        }
        if json {
            output::json(&scores)?;
        } else {
            let head = format!(
                "{} real observations, groups left out, the learner chosen in the fold:\n\n",
                scores.observations
            );
            output::text(&(head + &output::columns(&page::short(&scores))))?;
        }
        Ok(())
    }
}
