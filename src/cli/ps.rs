//! `feedline ps`: the training jobs on this machine.

use std::time::Duration;

use feedline_collectors::Host;
use feedline_collectors::job::{Job, find};

use super::{Outcome, output};

/// Arguments of `feedline ps`.
#[derive(Debug, clap::Args)]
#[command(after_help = "A process is listed when it shows signs of training: --why tells which.")]
pub(super) struct Args {
    /// Say what speaks for each
    #[arg(long)]
    why: bool,
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        let jobs = find(&Host::this());
        if json {
            return Ok(output::json(&jobs)?);
        }
        if jobs.is_empty() {
            return Ok(output::text("no training job found; feedline attach PID watches any process")?);
        }
        let head = ["PID", "JOB", "USER", "FRAMEWORK", "RANKS", "WORKERS", "AGE", "SURE"].map(str::to_owned).to_vec();
        let mut rows = vec![head];
        rows.extend(jobs.iter().map(line));
        let mut text = output::columns(&rows);
        if self.why {
            for job in &jobs {
                text.push_str(&format!("\n{}: {}\n", job.pid, job.why.join("; ")));
            }
        }
        Ok(output::text(&text)?)
    }
}

fn line(job: &Job) -> Vec<String> {
    let age = job.age.and_then(|age| Duration::try_from_secs_f64(age.floor()).ok());
    vec![
        job.pid.to_string(),
        job.name.clone(),
        job.user.clone(),
        job.framework.unwrap_or("–").to_owned(),
        job.trainers.len().to_string(),
        job.workers.to_string(),
        age.map_or_else(|| "–".to_owned(), |age| humantime::format_duration(age).to_string()),
        format!("{:.0} %", job.confidence * 100.0),
    ]
}
