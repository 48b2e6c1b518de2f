//! The command line: one file a verb, each of them wiring.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use feedline_traces::Error;

pub(crate) use crate::runtime::runtime;

mod advise;
mod attach;
mod bench;
mod completions;
mod demo;
mod demo_job;
mod doctor;
mod export;
mod man;
pub mod output;
pub mod progress;
mod prune;
mod ps;
mod query;
mod record;
mod recover;
mod replay;
mod report;
mod run;
mod score;
mod span;
mod sweep;
mod track;
mod train;

/// Why are the GPUs of this training job waiting, and what should change?
///
/// Feedline attaches to a running, unmodified training job and says how much of its time it waits
/// for data, and where. It only observes: the job is never stopped and nothing of it is changed.
#[derive(Debug, Parser)]
#[command(name = "feedline", version, arg_required_else_help = true, max_term_width = 100, after_help = START)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
    /// Print results as JSON
    #[arg(long, global = true)]
    json: bool,
}

const START: &str = "Start here:
  feedline demo          see it work on a small training job of its own
  feedline ps            list the training jobs on this machine
  feedline attach PID    watch one
  feedline run -- CMD    start one with exact timers, and record it
  feedline doctor        what can be measured here, and how to get the rest";

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the training jobs on this machine
    Ps(ps::Args),
    /// Watch a running training job
    Attach(attach::Args),
    /// Record a running training job, without a screen
    Record(record::Args),
    /// Start a job with exact timers in its Python, and record it
    Run(run::Args),
    /// Watch a recorded run again
    Replay(replay::Args),
    /// Say what a recorded run shows
    Report(report::Args),
    /// Say what to change in a job, and what it will gain
    Advise(advise::Args),
    /// Show what was predicted of changes that were made, and what came of them
    Track(track::Args),
    /// Ask a recorded run in SQL
    Query(query::Args),
    /// Write a recorded run's tables as CSV, JSON lines, Parquet or Arrow
    Export(export::Args),
    /// Remove old runs by size and age
    Prune(prune::Args),
    /// Close a run whose writer was killed, so that any tool sees all of it
    Recover(recover::Args),
    /// Say what can be measured here, and how to get the rest
    Doctor(doctor::Args),
    /// See it work on a small training job of its own
    Demo(demo::Args),
    /// Measure Feedline itself
    Bench(bench::Args),
    /// Score the learners: predictions of groups they have not seen
    Score(score::Args),
    /// Train the forecast on recorded runs, and say how good it is
    Train(train::Args),
    /// Measure real loaders on this machine in many configurations, to learn from
    Sweep(sweep::Args),
    /// Print a shell's completions
    Completions(completions::Args),
    /// Print the manual page
    Man(man::Args),
    /// The training job of the demo, where PyTorch is missing
    #[command(hide = true)]
    DemoJob(crate::demo::job::Job),
}

/// Why a verb did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// It was asked wrongly: exit code 2.
    Usage(Error),
    /// It could not: exit code 1.
    Failed(Error),
    /// It did, and the answer is no (a bench that does not pass): exit code 1 without a message.
    No,
    /// The command that was run ended with this exit code, which is passed on.
    Code(u8),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The result of a verb.
pub type Outcome = std::result::Result<(), Failure>;

/// Parses the arguments, runs the verb, prints the error and gives the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.json;
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::No) => ExitCode::FAILURE,
        Err(Failure::Code(code)) => ExitCode::from(code),
        Err(Failure::Usage(error)) => complain(&error, json, 2),
        Err(Failure::Failed(error)) => complain(&error, json, 1),
    }
}

fn complain(error: &Error, json: bool, code: u8) -> ExitCode {
    if json {
        output::note(&serde_json::json!({ "error": error.message, "hint": error.hint }).to_string());
    } else {
        output::note(&format!("error: {error}"));
    }
    ExitCode::from(code)
}

impl Cli {
    fn run(self) -> Outcome {
        let json = self.json;
        match self.verb {
            Verb::Ps(args) => args.run(json),
            Verb::Attach(args) => args.run(json),
            Verb::Record(args) => args.run(json),
            Verb::Run(args) => args.run(json),
            Verb::Replay(args) => args.run(json),
            Verb::Report(args) => args.run(json),
            Verb::Advise(args) => args.run(json),
            Verb::Track(args) => args.run(json),
            Verb::Query(args) => args.run(json),
            Verb::Export(args) => args.run(json),
            Verb::Prune(args) => args.run(json),
            Verb::Recover(args) => args.run(json),
            Verb::Doctor(args) => args.run(json),
            Verb::Demo(args) => args.run(json),
            Verb::Bench(args) => args.run(json),
            Verb::Score(args) => args.run(json),
            Verb::Train(args) => args.run(json),
            Verb::Sweep(args) => args.run(json),
            Verb::Completions(args) => args.run(&mut Self::command()),
            Verb::Man(args) => args.run(Self::command()),
            Verb::DemoJob(job) => demo_job::run(&job),
        }
    }
}
