//! `feedline recover`: a run whose writer was killed is closed, so that any tool sees all of it.

use std::path::PathBuf;

use feedline_traces::run::Run;
use serde_json::json;

use super::{Outcome, output};
use crate::chain;

/// Arguments of `feedline recover`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Feedline's own verbs read such a run as it is; this is for polars, DuckDB and the like.")]
pub(super) struct Args {
    /// The run folder; a folder of runs means the newest in it
    #[arg(default_value = "runs")]
    run: PathBuf,
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        let found = chain::find_run(&self.run)?;
        let before = Run::open(&found)?.recovery().clone();
        let run = Run::recover(&found)?;
        let (ticks, _) = run.extent()?;
        if json {
            let lost = before.torn_bytes;
            return Ok(output::json(
                &json!({ "run": found, "ticks": ticks, "closed": before.ticks, "lost_bytes": lost }),
            )?);
        }
        let lost = match before.torn_bytes {
            0 => "nothing was lost".to_owned(),
            bytes => format!("a torn tail of {bytes} bytes was lost"),
        };
        Ok(output::text(&format!(
            "{}: {ticks} ticks, {} of them closed just now; {lost}",
            found.display(),
            before.ticks
        ))?)
    }
}
