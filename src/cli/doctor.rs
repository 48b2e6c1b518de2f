//! `feedline doctor`: what can be measured here, and how to get the rest.

use feedline_collectors::rights::{Check, State, checks};
use feedline_collectors::{Host, job};

use super::{Outcome, output};

/// Arguments of `feedline doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "With a pid it says what can be read of that job by you.")]
pub(super) struct Args {
    /// Pid or name of a job
    #[arg(value_name = "PID|NAME")]
    job: Option<String>,
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        let host = Host::this();
        let pid = self.job.as_deref().map(|wanted| job::resolve(&host, wanted)).transpose()?.map(|job| job.pid);
        let found = checks(&host, pid);
        if json {
            return Ok(output::json(&found)?);
        }
        let mut rows = vec![["", "EVIDENCE", "RUNG", "HERE"].map(str::to_owned).to_vec()];
        rows.extend(found.iter().map(line));
        let mut text = output::columns(&rows);
        let missing: Vec<&Check> = found.iter().filter(|check| check.how_to_get.is_some()).collect();
        if !missing.is_empty() {
            text.push_str("\nTo get the rest:\n");
        }
        for check in missing {
            let how = check.how_to_get.unwrap_or_default();
            text.push_str(&format!("  {}: {how}\n", check.name));
        }
        Ok(output::text(&text)?)
    }
}

fn line(check: &Check) -> Vec<String> {
    let mark = match check.state {
        State::Works => "ok",
        State::Degraded => "part",
        State::Missing => "no",
    };
    vec![mark.to_owned(), check.name.to_string(), check.rung.to_string(), check.detail.to_string()]
}
