//! `feedline score`: how far predictions of what was never seen are off.

use std::fs;
use std::path::PathBuf;

use feedline_models::learn::blend::TOGETHER;
use feedline_traces::{Clock as _, Error, SystemClock};

use super::{Outcome, output, progress};
use crate::score::{self, Which, page, timing};

/// Arguments of `feedline score`.
#[derive(Debug, clap::Args)]
#[command(after_help = "For example:
  feedline score --only mlperf
  feedline score --data sweep               what `feedline sweep` left
  feedline score --write docs/models.md")]
pub(super) struct Args {
    /// The data sets: declarations (TOML) beside files of rows, or what a sweep left
    #[arg(long, value_name = "DIR", default_value = "models/data")]
    data: PathBuf,
    /// Only data sets whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Only a few learners that take little time, and no closer look at the best
    #[arg(long, conflicts_with = "write")]
    quick: bool,
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
        let score::Found { mut sets, absent } = score::sets(&self.data)?;
        sets.retain(|set| set.declared.name.contains(&self.only));
        for path in absent {
            output::note(&format!("{} is not there; `feedline sweep` makes such rows", path.display()));
        }
        if sets.is_empty() {
            let error = Error::new(format!("{}: no data set named like `{}`", self.data.display(), self.only));
            return Err(error.hint("leave `--only` out to score all").into());
        }
        let which = if self.quick { Which::Quick } else { Which::All };
        let clock = SystemClock::anchored_now();
        let began = clock.now();
        let bar = progress::bar("scoring", score::steps(&sets, which));
        let mut scores = score::run(&sets, which, self.seed, &|| bar.inc(1))?;
        let seconds = clock.now().seconds_since(began);
        if self.timing {
            scores.timing = Some(timing::measure(&clock, self.seed)?);
        }
        bar.finish_and_clear();
        if let Some(file) = &self.write {
            fs::write(file, page::markdown(&scores)).map_err(|cause| Error::io(file.display(), &cause))?;
        }
        if json {
            output::json(&scores)?;
        } else {
            let head = format!(
                "{} real observations, groups left out, the mean of the {} learners that did best in each fold's inner \
                 folds; {seconds:.0} s:\n\n",
                scores.observations, TOGETHER
            );
            output::text(&(head + &output::columns(&page::short(&scores))))?;
        }
        Ok(())
    }
}
