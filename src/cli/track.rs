//! `feedline track`: what was predicted of changes that were made, and what came of them.

use std::path::PathBuf;

use feedline_models::advise::track::{Entry, record};
use serde_json::json;

use super::{Outcome, output};
use crate::advise::{track_file, tracked};

/// Arguments of `feedline track`.
#[derive(Debug, clap::Args)]
#[command(after_help = "`feedline advise RUN --validate --after PID` adds an entry, once the change was made.")]
pub(super) struct Args {
    /// The record; without it the one of this user
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How many of the newest changes are shown
    #[arg(long, value_name = "N", default_value_t = 20)]
    last: usize,
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        let file = self.file.map_or_else(track_file, Ok)?;
        let entries = tracked(&file)?;
        let record = record(&entries);
        let newest = &entries[entries.len().saturating_sub(self.last)..];
        if json {
            return Ok(output::json(&json!({ "record": record, "entries": newest, "file": file }))?);
        }
        if entries.is_empty() {
            let hint = "feedline advise RUN --validate --after PID adds one after a change was made";
            return Ok(output::text(&format!("no change is on record in {}\n{hint}", file.display()))?);
        }
        let head = ["job", "change", "stall before", "predicted (80 %)", "measured", "speed", "predicted (80 %)", ""];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(newest.iter().map(row));
        let mut text = output::columns(&rows);
        let shown =
            |value: Option<f64>, unit: &str| value.map_or_else(|| "unknown".to_owned(), |v| format!("{v:.1}{unit}"));
        text.push_str(&format!(
            "\n{} changes, {} made the job faster; {} inside their 80 % interval\n",
            record.changes,
            record.faster,
            shown(record.interval_hits_pct, " %")
        ));
        text.push_str(&format!(
            "measured less predicted stall: {} on average, {} off; measured over predicted speed: {}\n",
            shown(record.stall_bias_points, " points"),
            shown(record.stall_error_points, " points"),
            shown(record.gain_bias_pct, " %")
        ));
        Ok(output::text(&text)?)
    }
}

fn row(entry: &Entry) -> Vec<String> {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let [guess, low, high] = entry.predicted;
    let [gain, least, most] = entry.gain;
    vec![
        entry.job.clone(),
        format!("{} {} → {}", entry.knob, entry.from, entry.to),
        percent(entry.stall_before),
        format!("{} ({:.1} to {:.1})", percent(guess), low * 100.0, high * 100.0),
        percent(entry.measured),
        entry.measured_gain.map_or_else(|| "–".to_owned(), |gain| format!("× {:.2}", 1.0 + gain)),
        format!("× {:.2} ({:.2} to {:.2})", 1.0 + gain, 1.0 + least, 1.0 + most),
        if entry.hit() { "hit" } else { "miss" }.to_owned(),
    ]
}
