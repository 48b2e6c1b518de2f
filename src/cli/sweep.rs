//! `feedline sweep`: real loaders in many configurations, to learn from.

use std::path::PathBuf;

use feedline_traces::{Error, SystemClock};
use serde_json::json;

use super::{Failure, Outcome, output};
use crate::sweep::plan::{Plan, Set};
use crate::sweep::{self, Options, setting};

/// Arguments of `feedline sweep`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Needs a Python with PyTorch. Some settings need root; they are skipped without it, with the \
reason. Everything that is made (files, mounts, control groups) is gone afterwards, also after ctrl-C; what was \
measured by then stays, and --resume goes on with it.")]
pub(super) struct Args {
    /// How much to run
    #[arg(long, value_enum, default_value_t = Set::Default)]
    set: Set,
    /// The same seed gives the same configurations in the same order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only settings whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// The folder for the plan, the rows and the table
    #[arg(long, value_name = "DIR", default_value = "sweep")]
    out: PathBuf,
    /// A folder on the disk to measure, for data sets while the sweep runs; without it the one of --out
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Go on with the sweep that is in --out
    #[arg(long)]
    resume: bool,
    /// Put the step model's rows beside the measured ones, marked as simulated
    #[arg(long)]
    simulated: bool,
    /// Say what would be run, and run nothing
    #[arg(long)]
    dry_run: bool,
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        let plan = Plan::new(self.set, self.seed, setting::machine_cores(), &self.only);
        if plan.rows.is_empty() {
            let names: Vec<&str> = setting::SETTINGS.iter().map(|setting| setting.name).collect();
            let error = Error::new(format!("--only {}: no setting of this set has that in its name", self.only));
            return Err(Failure::Usage(error.hint(format!("settings of --set full: {}", names.join(", ")))));
        }
        if self.dry_run {
            return self.tell(&plan, json);
        }
        let options = Options { out: self.out, scratch: self.scratch, resume: self.resume, simulated: self.simulated };
        let summary = sweep::run(&plan, &options, &SystemClock::anchored_now())?;
        if json {
            output::json(&summary)?
        } else {
            output::text(&sweep::show(&summary))?
        }
        if summary.rows == 0 { Err(Failure::No) } else { Ok(()) }
    }

    fn tell(&self, plan: &Plan, json: bool) -> Outcome {
        let folder = self.scratch.as_ref().unwrap_or(&self.out);
        let there = folder.ancestors().find(|path| path.is_dir()).unwrap_or(std::path::Path::new("."));
        let skipped = sweep::refused(plan, there);
        if json {
            return Ok(output::json(&json!({ "plan": plan, "skipped": skipped }))?);
        }
        let mut rows = vec![["setting", "rows", ""].map(str::to_owned).to_vec()];
        for setting in &setting::SETTINGS {
            let count = plan.rows.iter().filter(|row| row.setting == setting.name).count();
            if count > 0 {
                let why = skipped.get(setting.name).map_or_else(String::new, |why| format!("skipped: {why}"));
                rows.push(vec![setting.name.to_owned(), count.to_string(), why]);
            }
        }
        Ok(output::text(&output::columns(&rows))?)
    }
}
