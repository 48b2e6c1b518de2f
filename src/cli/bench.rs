//! `feedline bench`: Feedline measured on this machine.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::{Failure, Outcome, output};
use crate::bench::{self, attribution, overhead, store};

/// Arguments of `feedline bench`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What to measure
    #[arg(value_enum)]
    what: What,
    /// The real training jobs: the folder `tests/jobs` of the source
    #[arg(long, value_name = "DIR", default_value = "tests/jobs")]
    jobs: PathBuf,
    /// Only jobs whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// How long each job is recorded
    #[arg(long = "for", value_name = "SPAN", default_value = "40s", value_parser = humantime::parse_duration)]
    span: Duration,
    /// Pairs with and without Feedline
    #[arg(long, default_value_t = 9)]
    pairs: usize,
    /// Where raw rows go
    #[arg(long, value_name = "DIR", default_value = "bench")]
    out: PathBuf,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Estimated against true data wait, on real training jobs
    Attribution,
    /// What a watched job loses, and what Feedline uses
    Overhead,
    /// Writing, size, querying and replaying of traces
    Store,
    /// All of them
    All,
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        let jobs = || bench::Jobs::at(&self.jobs, &self.only);
        let mut passed = true;
        for what in [What::Store, What::Attribution, What::Overhead] {
            if self.what != what && self.what != What::All {
                continue;
            }
            let outcome = match what {
                What::Attribution => attribution::run(&jobs()?, self.span, &self.out)?,
                What::Overhead => overhead::run(&jobs()?, self.pairs, self.span, &self.out)?,
                _ => store::run(&jobs()?, &self.out)?,
            };
            passed &= outcome.pass;
            if json { output::json_line(&outcome)? } else { output::text(&bench::show(&outcome))? }
        }
        if passed { Ok(()) } else { Err(Failure::No) }
    }
}
