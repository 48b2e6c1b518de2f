//! `feedline train`: the forecast, from recorded runs.

use std::fs;
use std::path::PathBuf;

use feedline_models::forecast::{By, Lived, Scores, Training, train as fit, unseen};
use feedline_traces::{Error, Result};
use serde_json::json;

use super::{Outcome, output, progress};
use crate::chain;
use crate::train;

/// Arguments of `feedline train`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Runs are left out in turn to say how good the forecast is where it has not been; then it is \
trained on all of them. Without --out it is kept where `attach`, `record` and `replay` look first: \
~/.local/share/feedline/forecast.json. Remove that file to go back to the one that comes with the program.")]
pub(super) struct Args {
    /// Recorded runs, or folders of them
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Where the trained forecast goes
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The seed of fits and folds
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Train without saying how good it is
    #[arg(long)]
    no_score: bool,
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        let place = self
            .out
            .clone()
            .or_else(train::place)
            .ok_or_else(|| Error::new("no home folder to keep the forecast in").hint("name a file with --out"))?;
        let runs = self.lived()?;
        let how = Training { seed: self.seed, ..Training::default() };
        let scores = (!self.no_score).then(|| unseen(&runs, By::Run, 6, &how)).transpose()?;
        let scores = scores.map(|scored| Scores::of(&scored));
        let forecaster = fit(&runs.iter().collect::<Vec<_>>(), &how)?;
        let text = forecaster.save()?;
        let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.map_or(Ok(()), fs::create_dir_all).map_err(|cause| Error::io(place.display(), &cause))?;
        fs::write(&place, &text).map_err(|cause| Error::io(place.display(), &cause))?;
        if json {
            let learnt: Vec<bool> = forecaster.ahead.iter().map(|ahead| ahead.share.is_some()).collect();
            let said = json!({
                "file": place,
                "bytes": text.len(),
                "runs": forecaster.runs,
                "seconds": forecaster.rows,
                "models": learnt,
                "scores": scores,
            });
            output::json(&said)?;
        } else {
            let head =
                format!("trained on {} runs, {} seconds: {}\n", forecaster.runs, forecaster.rows, place.display());
            output::text(&(head + &scores.map_or_else(String::new, |scores| table(&scores))))?;
        }
        Ok(())
    }

    fn lived(&self) -> Result<Vec<Lived>> {
        let mut folders = Vec::new();
        for path in &self.runs {
            folders.extend(chain::find_runs(path)?);
        }
        let bar = progress::bar("reading runs", folders.len() as u64);
        let mut runs = Vec::new();
        for folder in folders {
            runs.extend(train::lived(&folder)?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(runs)
    }
}

/// The scores for reading.
fn table(scores: &Scores) -> String {
    let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| format!("{v:.2}"));
    let head = ["horizon", "off by (points)", "best naive", "% of it", "interval holds %", "onset AUROC"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for one in &scores.horizons {
        let naive = format!("{} ({})", shown(one.naive_mae_points), one.naive);
        let percent = shown(one.mae_vs_best_naive_pct);
        let held = shown(one.coverage_80_pct);
        rows.push(vec![one.horizon.to_owned(), shown(one.mae_points), naive, percent, held, shown(one.auroc)]);
    }
    format!("on runs that were left out:\n\n{}", output::columns(&rows))
}
