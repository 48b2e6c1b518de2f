//! Advice against the best setting there is, on real jobs.
//!
//! Each job is recorded once at a bad setting and advised from that record alone. Then every setting
//! of its grid is run, in random order, and the one that the first plan names: what was advised is
//! held against the best that was found.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use feedline_models::advise::{Advised, Options, Plan, advise};
use feedline_models::learn::random::Random;
use feedline_traces::{Error, Result};
use serde_json::{Value, json};

use super::jobs::{Knobs, Scenario};
use super::{Jobs, Outcome, causes, median};
use crate::advise::of_run;
use crate::cli::progress;
use crate::demo::truth::Truth;

/// How near to the best counts as having found it.
const NEAR: f64 = 0.05;
/// Steps that a job takes before it says that it is warm.
const WARM: usize = 5;

/// How the bench is run.
#[derive(Debug, Clone)]
pub struct Plans {
    /// How long each job is recorded.
    pub span: Duration,
    /// How long each setting of the grid is run.
    pub each: Duration,
    /// Whether jobs that an earlier run left in the file are kept and counted.
    pub resume: bool,
    /// The folder to keep what was recorded in.
    pub keep: Option<PathBuf>,
    /// The seed of the order of settings, and of the advice.
    pub seed: u64,
}

/// Runs it.
///
/// # Errors
/// When no job could be run, or rows cannot be written.
pub fn run(jobs: &Jobs, plan: &Plans, out: &Path) -> Result<Outcome> {
    fs::create_dir_all(out).map_err(|cause| Error::io(out.display(), &cause))?;
    let file = out.join("advice.jsonl");
    let mut rows = if plan.resume { causes::earlier(&file) } else { Vec::new() };
    let mut log = fs::File::create(&file).map_err(|cause| Error::io(file.display(), &cause))?;
    let mut keep = |row: &Value| writeln!(log, "{row}").map_err(|cause| Error::io(file.display(), &cause));
    rows.iter().try_for_each(&mut keep)?;
    let scenarios: Vec<&Scenario> = jobs.scenarios(&["advice"]).collect();
    let bar = progress::bar("advising", scenarios.iter().map(|s| 1 + s.grid.len() as u64).sum());
    for scenario in scenarios {
        bar.set_message(scenario.name.clone());
        if !rows.iter().any(|row| row["job"] == scenario.name.as_str()) {
            let row = one(jobs, scenario, plan, &|| bar.inc(1)).unwrap_or_else(
                |error| json!({ "job": scenario.name, "healthy": scenario.healthy, "left_out": error.to_string() }),
            );
            bar.suspend(|| crate::cli::output::note(&line(&row)));
            keep(&row)?;
            rows.push(row);
        }
    }
    bar.finish_and_clear();
    let (figures, pass) = summary(&rows);
    if figures["jobs"] == 0 && figures["healthy"] == 0 {
        return Err(Error::new("no job could be run").hint("the rows above say why each was left out"));
    }
    Outcome::write("advice", out, &rows, figures, pass)
}

/// Records and advises one job, and where it is slow runs its grid.
fn one(jobs: &Jobs, scenario: &Scenario, plan: &Plans, tell: &dyn Fn()) -> Result<Value> {
    let mut job = jobs.start(scenario)?;
    let (folder, _) = jobs.record_as(scenario, &job, plan.span)?;
    job.stop();
    tell();
    if let Some(keep) = &plan.keep {
        super::keep(&folder, &keep.join(&scenario.name))?;
    }
    let known = of_run(&folder)?;
    let advised = advise(known.most()?, &Options { seed: plan.seed, ..Options::default() })?;
    let first = advised.plans.first();
    let mut row = json!({
        "job": scenario.name,
        "what": scenario.what,
        "healthy": scenario.healthy,
        "stall": advised.stall,
        "advised": first.map(feedline_models::advise::short),
        "plans": advised.plans,
        "nothing": advised.nothing,
        "facts": known.most()?,
    });
    if scenario.healthy {
        return Ok(row);
    }
    let swept = sweep(jobs, scenario, (plan, first), tell)?;
    judge(&mut row, &swept, &advised);
    Ok(row)
}

/// Steps a second of settings, by their name.
#[derive(Debug, Default)]
struct Swept {
    rates: BTreeMap<String, Vec<f64>>,
    /// The name of the present setting, and of the advised one where it can be set.
    now: String,
    advised: Option<String>,
}

impl Swept {
    fn rate(&self, name: &str) -> Option<f64> {
        self.rates.get(name).and_then(|rates| median(rates))
    }

    fn best(&self) -> Option<(&str, f64)> {
        let all = self.rates.keys().filter_map(|name| Some((name.as_str(), self.rate(name)?)));
        all.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

fn sweep(jobs: &Jobs, scenario: &Scenario, (plan, first): (&Plans, Option<&Plan>), tell: &dyn Fn()) -> Result<Swept> {
    let wanted = first.and_then(|plan| settable(scenario, plan));
    let mut settings: Vec<Knobs> = vec![Knobs::new()];
    settings.extend(scenario.grid.iter().cloned());
    settings.extend(wanted.clone());
    settings.sort();
    settings.dedup();
    let mut swept = Swept { now: name(&Knobs::new()), advised: wanted.as_ref().map(name), ..Swept::default() };
    Random::new(plan.seed, scenario.grid.len() as u64).shuffle(&mut settings);
    let measure = |knobs: &Knobs, swept: &mut Swept| -> Result<()> {
        let rate = rate(jobs, scenario, knobs, plan.each)?;
        swept.rates.entry(name(knobs)).or_default().push(rate);
        Ok(())
    };
    for knobs in &settings {
        let needed = knobs.is_empty() || Some(knobs) == wanted.as_ref();
        match measure(knobs, &mut swept) {
            // A setting of the grid at which the job does not run is none that could be the best.
            Err(error) if !needed => crate::cli::output::note(&format!("{}: {error}", scenario.name)),
            outcome => outcome?,
        }
        tell();
    }
    // The best of many noisy runs is too good by chance: it is run again, and what it is held against.
    let best = swept.best().map(|(name, _)| name.to_owned());
    let again = |knobs: &&Knobs| {
        let name = name(knobs);
        name == swept.now || Some(&name) == swept.advised.as_ref() || Some(&name) == best.as_ref()
    };
    let again: Vec<Knobs> = settings.iter().filter(again).cloned().collect();
    for knobs in &again {
        measure(knobs, &mut swept)?;
    }
    Ok(swept)
}

/// The setting that a plan asks for, where all of it can be set from outside.
fn settable(scenario: &Scenario, plan: &Plan) -> Option<Knobs> {
    let mut knobs = Knobs::new();
    for step in &plan.steps {
        scenario.knobs.iter().find(|known| *known == step.knob)?;
        let to = match step.knob {
            "cpu_affinity" => "-1".to_owned(),
            _ => step.to.clone(),
        };
        knobs.insert(step.knob.to_owned(), to);
    }
    Some(knobs)
}

fn name(knobs: &Knobs) -> String {
    let list: Vec<String> = knobs.iter().map(|(knob, value)| format!("{knob}={value}")).collect();
    if list.is_empty() { "as it is".to_owned() } else { list.join(" ") }
}

/// Steps a second of a job at a setting, by its own log.
fn rate(jobs: &Jobs, scenario: &Scenario, knobs: &Knobs, span: Duration) -> Result<f64> {
    let mut job = jobs.start_with(scenario, &arguments(knobs)?)?;
    std::thread::sleep(span);
    job.stop();
    let steps = Truth::read(&job.truth)?.steps;
    let steps = steps.get(WARM..).unwrap_or_default();
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
        return Err(Error::new(format!("{}: no step at {}", scenario.name, name(knobs))));
    };
    let seconds = Duration::from_nanos((last.fetch_start - first.fetch_start).unsigned_abs()).as_secs_f64();
    let count = u32::try_from(steps.len() - 1).unwrap_or(u32::MAX);
    if seconds <= 0.0 || count < 2 {
        return Err(Error::new(format!("{}: {count} steps in {seconds:.1} s at {}", scenario.name, name(knobs))));
    }
    Ok(f64::from(count) / seconds)
}

/// The arguments of `tests/jobs/job.py` that set some knobs.
fn arguments(knobs: &Knobs) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (knob, value) in knobs {
        let name = match knob.as_str() {
            "num_workers" => "--workers",
            "prefetch_factor" => "--prefetch",
            "worker_threads" => "--worker-threads",
            "cpu_affinity" => "--worker-core",
            "persistent_workers" => {
                found.push(if value == "True" { "--keep-workers" } else { "--restart" }.to_owned());
                continue;
            }
            other => return Err(Error::new(format!("no argument of the job sets `{other}`"))),
        };
        found.extend([name.to_owned(), value.clone()]);
    }
    Ok(found)
}

/// What came of the advice.
fn judge(row: &mut Value, swept: &Swept, advised: &Advised) {
    let first = advised.plans.first();
    let now = swept.rate(&swept.now);
    // What cannot be set, or was not advised, leaves the job as it is.
    let reached = swept.advised.as_ref().map_or(now, |name| swept.rate(name));
    let best = swept.best();
    let gain = reached.zip(now).map(|(reached, now)| reached / now - 1.0);
    row["rates"] = json!(swept.rates);
    row["best"] = best.map(|(name, _)| name).into();
    row["best_gain"] = best.zip(now).map(|((_, best), now)| best / now - 1.0).into();
    row["setting"] = swept.advised.clone().into();
    row["gain"] = gain.into();
    row["regret"] = best.zip(reached).map(|((_, best), reached)| 1.0 - reached / best).into();
    row["within"] = best.zip(reached).is_some_and(|((_, best), reached)| reached >= (1.0 - NEAR) * best).into();
    row["hit"] = match (first, gain.filter(|_| swept.advised.is_some())) {
        (Some(plan), Some(gain)) => plan.gain.holds(gain).into(),
        _ => Value::Null,
    };
}

fn summary(rows: &[Value]) -> (Value, bool) {
    let judged: Vec<&Value> = rows.iter().filter(|row| row["left_out"].is_null()).collect();
    let count = |what: &str, healthy: bool| {
        judged.iter().filter(|row| row["healthy"] == healthy && (what.is_empty() || row[what] == true)).count()
    };
    let healthy_advised = judged.iter().filter(|row| row["healthy"] == true && !row["advised"].is_null()).count();
    let (slow, within, healthy) = (count("", false), count("within", false), count("", true));
    let told = judged.iter().filter(|row| row["healthy"] == false && !row["hit"].is_null()).count();
    let regrets: Vec<f64> = judged.iter().filter_map(|row| row["regret"].as_f64()).collect();
    let hits = percent(count("hit", false), told);
    let figures = json!({
        "jobs": slow,
        "within_5pct": within,
        "interval_hits_pct": hits,
        "healthy": healthy,
        "healthy_advised": healthy_advised,
        "left_out": rows.len() - judged.len(),
        "regret_median_pct": median(&regrets).map(|r| 100.0 * r),
        "regret_worst_pct": regrets.iter().copied().reduce(f64::max).map(|r| 100.0 * r),
    });
    let pass = slow >= 12
        && within * 12 >= slow * 10
        && hits.is_some_and(|hits| hits >= 75.0)
        && healthy >= 4
        && healthy_advised == 0;
    (figures, pass && rows.len() == judged.len())
}

#[expect(clippy::cast_precision_loss, reason = "there are not that many jobs")]
fn percent(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

fn line(row: &Value) -> String {
    let name = row["job"].as_str().unwrap_or_default();
    if let Some(why) = row["left_out"].as_str() {
        return format!("{name:<20} left out: {why}");
    }
    let advised = row["advised"].as_str().unwrap_or("nothing");
    let number = |key: &str| row[key].as_f64().map_or_else(|| "–".to_owned(), |v| format!("{:.0} %", 100.0 * v));
    if row["healthy"] == true {
        return format!("{name:<20} healthy; advised: {advised}");
    }
    let mark = if row["within"] == true { "ok" } else { "FAR" };
    let hit = match row["hit"].as_bool() {
        Some(true) => "inside",
        Some(false) => "OUTSIDE",
        None => "no interval",
    };
    format!(
        "{name:<20} {mark:<3} advised {advised}; measured gain {} ({hit}), best {} {}, regret {}",
        number("gain"),
        row["best"].as_str().unwrap_or("–"),
        number("best_gain"),
        number("regret")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knobs(pairs: &[(&str, &str)]) -> Knobs {
        pairs.iter().map(|(knob, value)| ((*knob).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn knobs_become_arguments_of_the_job() {
        let all = knobs(&[("num_workers", "4"), ("persistent_workers", "True"), ("prefetch_factor", "8")]);
        let expected = ["--workers", "4", "--keep-workers", "--prefetch", "8"];
        assert_eq!(arguments(&all).unwrap(), expected);
        assert!(arguments(&knobs(&[("format", "shards")])).unwrap_err().message.contains("format"));
        assert_eq!(
            (name(&all).as_str(), name(&Knobs::new()).as_str()),
            ("num_workers=4 persistent_workers=True prefetch_factor=8", "as it is")
        );
    }

    #[test]
    fn regret_is_what_the_advised_setting_lacks_to_the_best() {
        let swept = Swept {
            rates: [("as it is", vec![10.0]), ("a", vec![19.0, 19.4]), ("b", vec![20.0])]
                .map(|(name, rates)| (name.to_owned(), rates))
                .into(),
            now: "as it is".to_owned(),
            advised: Some("a".to_owned()),
        };
        let advised = Advised {
            trainer: String::new(),
            stall: 0.5,
            plans: Vec::new(),
            nothing: None,
            elsewhere: None,
            refused: Vec::new(),
            assumed: Vec::new(),
            fitted: None,
        };
        let mut row = json!({ "job": "x", "healthy": false });
        judge(&mut row, &swept, &advised);
        assert!((row["regret"].as_f64().unwrap() - 0.04).abs() < 1e-9 && row["within"] == true, "{row}");
        let far = Swept { advised: None, ..swept };
        judge(&mut row, &far, &advised);
        assert!((row["regret"].as_f64().unwrap() - 0.5).abs() < 1e-9 && row["within"] == false, "{row}");
        let (figures, pass) = summary(&[row, json!({ "job": "y", "healthy": true, "advised": "more" })]);
        assert_eq!(
            (&figures["jobs"], &figures["within_5pct"], &figures["healthy_advised"]),
            (&json!(1), &json!(0), &json!(1))
        );
        assert!(!pass);
    }
}
