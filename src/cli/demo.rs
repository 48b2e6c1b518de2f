//! `feedline demo`: a small training job with a loader too slow for it, watched by pid as a
//! stranger would watch it, and the verdict beside what the job measured of itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use feedline_dashboards::report::{Report, ReportBuilder};
use feedline_traces::run::Run;
use feedline_traces::{Error, Result, Sink, drive};
use serde_json::json;

use super::{Failure, Outcome, output, progress, runtime};
use crate::chain::{self, Place};
use crate::config::Config;
use crate::demo::photos::{self, Photos};
use crate::demo::start::{Kind, Running};
use crate::demo::truth::{Told, Truth};
use crate::stop;

/// Arguments of `feedline demo`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How long the job is watched
    #[arg(long = "for", value_name = "SPAN", default_value = "30s", value_parser = super::span::parse)]
    span: Duration,
    /// Use the embedded job even where PyTorch is there
    #[arg(long)]
    embedded: bool,
    /// Keep the run in this new folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        if self.span < Duration::from_secs(5) {
            let error = Error::new("--for: less than 5s is too short for a verdict").hint("the default is 30s");
            return Err(Failure::Usage(error));
        }
        let dir = tempfile::tempdir().map_err(|cause| Error::io("temporary folder", &cause))?;
        let photos = make_photos(dir.path())?;
        let kind = if self.embedded { Kind::Embedded } else { Kind::best() };
        output::note(&format!("job: {}", kind.describe()));
        if matches!(kind, Kind::Embedded) && !self.embedded {
            output::note("     (no Python here imports torch, numpy and PIL)");
        }
        let waiting = progress::spinner("starting the job");
        let mut job = Running::start(&kind, &photos, dir.path())?;
        waiting.finish_and_clear();
        let folder = self.out.clone().unwrap_or_else(|| dir.path().join("run"));
        let report = watch(&job, self.span, &folder)?;
        job.stop();
        let run = Run::open(&folder)?;
        let until = run.extent()?.1.map_or(run.meta().started, |(_, last)| last);
        let told = Truth::read(&job.truth)?.window(run.meta().started, until);
        let told =
            told.ok_or_else(|| Error::new("the job logged no step while it was watched").hint("try --for 60s"))?;
        let verdict = report.verdict.as_ref().ok_or_else(|| Failure::Failed(Error::new("no verdict was reached")))?;
        if json {
            let truth = json!({ "data": told.share, "steps": told.steps, "covered": told.covered });
            return Ok(output::json(&json!({ "job": kind.describe(), "verdict": verdict, "truth": truth }))?);
        }
        output::text(&conclusion(&report, &told))?;
        let kept = match &self.out {
            Some(out) => format!("run: {0} (feedline replay {0} shows it again)", out.display()),
            None => "nothing was kept; --out DIR keeps the run".to_owned(),
        };
        Ok(output::text(&format!("{kept}\nnext: feedline ps lists your own jobs, feedline attach PID watches one"))?)
    }
}

fn make_photos(dir: &Path) -> Result<PathBuf> {
    let photos = Photos::default();
    let bar = progress::bar("making photographs", photos.count as u64);
    let place = dir.join("photos");
    photos::make(&place, &photos, &|made| bar.set_position(made as u64))?;
    bar.finish_and_clear();
    Ok(place)
}

/// Attaches to the job by its pid alone and records it.
fn watch(job: &Running, span: Duration, folder: &Path) -> Result<Report> {
    let config = Config::default();
    let attached = chain::attach(&job.pid.to_string(), &config)?;
    output::note(&format!("attached to pid {}, knowing nothing of the job but that number", job.pid));
    let report = ReportBuilder::new(format!("{} (pid {})", attached.job.name, attached.job.pid));
    runtime()?.block_on(async {
        let (_stop, stopped) = stop::after(Some(span));
        let mut source = chain::live(&attached, &config, stopped)?;
        let (_, trace) = chain::trace(&attached, source.as_ref(), &Place::At(folder.to_path_buf()))?;
        let ticking = progress::Ticking::over(Some(span));
        let mut sinks: Vec<Box<dyn Sink>> = vec![trace, Box::new(report.clone()), Box::new(ticking)];
        drive(source.as_mut(), &mut sinks).await
    })?;
    Ok(report.report())
}

fn conclusion(report: &Report, told: &Told) -> String {
    let percent = |share: Option<f64>| share.map_or_else(|| "unknown".to_owned(), |s| format!("{:.1} %", s * 100.0));
    let verdict = report.verdict.as_ref();
    let data = verdict.and_then(|v| v.data);
    let (low, high) = (verdict.and_then(|v| v.low), verdict.and_then(|v| v.high));
    let off = data.map_or_else(String::new, |data| format!(", {:.1} points apart", (data - told.share).abs() * 100.0));
    let text = |text: Option<&String>| text.cloned().unwrap_or_else(|| "unknown".to_owned());
    format!(
        "\nverdict: {}\nadvice:  {}\n\nwaiting for data\n  Feedline, from outside      {} (95 % interval {} to {})\n  \
         the job, by its own timer   {}{off}\n\nFeedline used {} of one core and {} of memory; it takes no hold of the job (no ptrace)\n",
        text(verdict.and_then(|v| v.text.as_ref())),
        text(verdict.and_then(|v| v.advice.as_ref())),
        percent(data),
        percent(low),
        percent(high),
        percent(Some(told.share)),
        percent(report.own.cpu),
        report.own.rss_peak.map_or_else(|| "unknown".to_owned(), |b| feedline_traces::unit::Unit::Bytes.show(b)),
    )
}
