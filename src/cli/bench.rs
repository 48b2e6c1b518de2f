//! `feedline bench`: Feedline measured on this machine.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::{Failure, Outcome, output};
use crate::bench::{self, advice, attribution, causes, forecast, overhead, store};

/// Arguments of `feedline bench`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What to measure
    #[arg(value_enum)]
    what: What,
    /// The real training jobs: the folder `tests/jobs` of the source
    #[arg(long, value_name = "DIR", default_value = "tests/jobs")]
    jobs: PathBuf,
    /// Which scenarios of `causes`
    #[arg(long, value_enum, default_value_t = causes::Set::All)]
    set: causes::Set,
    /// Keep what `causes`, `forecast` and `advice` have measured already
    #[arg(long)]
    resume: bool,
    /// Write the page of `causes`, with its confusion matrix, to this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Keep the runs that `causes`, `forecast` and `advice` record in this folder, one a scenario; without
    /// it `forecast` keeps them beside its rows
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Only jobs whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// How long each job is recorded; without it 40s, 30s for `causes`, 62s for `forecast`, 12s for `advice`, and windows of 6s for `overhead`
    #[arg(long = "for", value_name = "SPAN", value_parser = super::span::parse)]
    span: Option<Duration>,
    /// How long each setting of `advice` is run
    #[arg(long, value_name = "SPAN", default_value = "4s", value_parser = super::span::parse)]
    each: Duration,
    /// The seed of `advice`: the order of settings, and the advice itself
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Pairs with and without Feedline
    #[arg(long, default_value_t = 50)]
    pairs: usize,
    /// Seeds of each kind of `forecast`
    #[arg(long, default_value_t = 2)]
    seeds: u64,
    /// Record nothing: `forecast` judges the runs that are in the folder of --keep
    #[arg(long)]
    judge: bool,
    /// `overhead` as root with the programs in the kernel
    #[arg(long)]
    kernel: bool,
    /// Where raw rows go
    #[arg(long, value_name = "DIR", default_value = "bench")]
    out: PathBuf,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Estimated against true data wait, on real training jobs
    Attribution,
    /// Estimated against true causes, on real jobs in which a cause is injected
    Causes,
    /// What a watched job loses, and what Feedline uses
    Overhead,
    /// Forecast against true data wait, on real jobs whose surroundings change
    Forecast,
    /// Writing, size, querying and replaying of traces
    Store,
    /// What was advised against the best setting there is, on real jobs
    Advice,
    /// All of them
    All,
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        let jobs = || bench::Jobs::at(&self.jobs, &self.only);
        let mut passed = true;
        let span = |usual| self.span.unwrap_or(Duration::from_secs(usual));
        for what in [What::Store, What::Attribution, What::Causes, What::Overhead, What::Forecast, What::Advice] {
            if self.what != what && self.what != What::All {
                continue;
            }
            let outcome = match what {
                What::Attribution => attribution::run(&jobs()?, span(40), &self.out)?,
                What::Causes => {
                    let jobs = bench::Jobs::listed(&self.jobs, self.set.list(), &self.only)?;
                    let (page, keep) = (self.write.clone(), self.keep.clone());
                    let plan = causes::Plan { set: self.set, span: span(30), resume: self.resume, page, keep };
                    causes::run(&jobs, &plan, &self.out)?
                }
                What::Forecast => {
                    let keep = self.keep.clone().unwrap_or_else(|| self.out.join("forecast-runs"));
                    let (seeds, resume, judge) = (self.seeds, self.resume, self.judge);
                    let plan = forecast::Plan { span: span(62), seeds, keep, resume, judge };
                    forecast::run(|| bench::Jobs::listed(&self.jobs, forecast::LIST, &self.only), &plan, &self.out)?
                }
                What::Overhead => {
                    let plan = overhead::Plan { pairs: self.pairs, span: span(6), kernel: self.kernel };
                    overhead::run(&jobs()?, &plan, &self.out)?
                }
                What::Advice => {
                    let jobs = bench::Jobs::listed(&self.jobs, "advice.json", &self.only)?;
                    let plan = advice::Plans {
                        span: span(12),
                        each: self.each,
                        resume: self.resume,
                        keep: self.keep.clone(),
                        seed: self.seed,
                    };
                    advice::run(&jobs, &plan, &self.out)?
                }
                _ => store::run(&jobs()?, &self.out)?,
            };
            passed &= outcome.pass;
            if json { output::json_line(&outcome)? } else { output::text(&bench::show(&outcome))? }
        }
        if passed { Ok(()) } else { Err(Failure::No) }
    }
}
