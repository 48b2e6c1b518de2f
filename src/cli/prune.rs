//! `feedline prune`: old runs go, by size and age.

use std::path::PathBuf;
use std::time::Duration;

use feedline_traces::run::{Retention, prune};
use feedline_traces::{Clock as _, Error, SystemClock};
use serde_json::json;

use super::{Failure, Outcome, output};

/// Arguments of `feedline prune`.
#[derive(Debug, clap::Args)]
#[command(after_help = "A run that is being written is never removed.")]
pub(super) struct Args {
    /// The folder of runs
    #[arg(default_value = "runs")]
    runs: PathBuf,
    /// Most size in all, such as 2GiB; the oldest runs go first
    #[arg(long, value_name = "SIZE")]
    keep: Option<bytesize::ByteSize>,
    /// Greatest age, such as 7d
    #[arg(long, value_name = "SPAN", value_parser = humantime::parse_duration)]
    keep_for: Option<Duration>,
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        if self.keep.is_none() && self.keep_for.is_none() {
            let error = Error::new("neither a size nor an age is given").hint("for example --keep 2GiB --keep-for 7d");
            return Err(Failure::Usage(error));
        }
        let retention = Retention { max_bytes: self.keep.map(|k| k.0), max_age: self.keep_for };
        let removed = prune(&self.runs, &retention, SystemClock::anchored_now().now())?;
        if json {
            return Ok(output::json(&json!({ "removed": removed }))?);
        }
        let lines: Vec<String> = removed.iter().map(|path| format!("removed {}", path.display())).collect();
        Ok(output::text(&if lines.is_empty() { "nothing to remove".to_owned() } else { lines.join("\n") })?)
    }
}
