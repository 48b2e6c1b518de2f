//! What to change in a job, and what it will gain.
//!
//! [`Facts`] say what was measured of a trainer and its loader ([`Gather`] makes them from ticks,
//! [`config`] from a file written before any run). A job of the [step model](crate::step_model) is
//! fitted to them so that it behaves as the job does, and every knob is turned in it, one at a time
//! and in pairs. What a change gives is judged in many worlds, drawn from what is not known exactly,
//! and its interval is theirs; the figures shown are simulated. `docs/advice.md` says how it is done
//! and how well it does.

mod change;
pub mod config;
mod derive;
mod draw;
mod facts;
mod feasible;
mod gather;
mod model;
mod page;
mod price;
pub mod residual;
mod search;
mod table;
#[cfg(test)]
mod tests;
pub mod track;
mod words;

use feedline_traces::Result;
use serde::Serialize;

pub use change::Effort;
pub use derive::Advise;
pub use draw::Errors;
pub use facts::{Crew, Facts, Machine, Pattern, Reads, Said, Saves, Setting, Share, USUAL_PREFETCH};
pub use gather::{Gather, TABLES};
pub use page::{page, short};
pub use price::Price;
pub use table::{AdviceRow, row};

use search::Search;

/// Gain in speed below which a change is not worth making.
pub const WORTH: f64 = 0.03;
/// Share of time that is no step below which nothing is to be gained.
pub const FED: f64 = 0.05;

/// How advice is sought.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The same seed gives the same figures.
    pub seed: u64,
    /// How far the step model is off.
    pub errors: Errors,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 1, errors: Errors::default() }
    }
}

/// A range in which eight of ten outcomes are expected, and the best guess.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Range {
    /// Best guess.
    pub guess: f64,
    /// Lower end of the 80 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Range {
    /// Whether a value lies in it.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// One thing to set, from what to what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The knob, such as `num_workers`.
    pub knob: &'static str,
    /// What it is now.
    pub from: String,
    /// What it is to be.
    pub to: String,
}

/// A change and what it is expected to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// What to set: one thing, or a pair that does more than either.
    pub steps: Vec<Step>,
    /// Share of time that is no step, now.
    pub stall_before: f64,
    /// The same afterwards.
    pub stall: Range,
    /// Steps a second afterwards over those now, less one.
    pub gain: Range,
    /// What it takes of the machine.
    pub price: Price,
    /// How much work it is.
    pub effort: Effort,
    /// How far it can be trusted, 0 to 1: a rating, no probability.
    pub confidence: f64,
    /// The facts it rests on.
    pub evidence: String,
    /// The line to change.
    pub line: String,
}

/// A change that was looked at and is not advised: it cannot be made, or may gain nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// What would have been set.
    pub step: Step,
    /// Why it is not.
    pub reason: String,
}

/// How the model was fitted to the job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fitted {
    /// Seconds from step to step, measured; null where no period was seen.
    pub period: Option<f64>,
    /// Cores that it reckons with.
    pub cores: f64,
    /// By how much the measured work was scaled to reproduce the measured step; 1: not at all.
    pub scale: f64,
    /// What binds the job, as the step model says it.
    pub binds: &'static str,
    /// Pairs of observations that the model's error was measured on; 0: it is assumed.
    pub error_pairs: u64,
}

/// What is advised.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advised {
    /// The trainer, `PID@START`.
    pub trainer: String,
    /// Share of its time that is no step: waiting for data and for workers that start, in copies, in
    /// checkpoints, or kept from a core.
    pub stall: f64,
    /// What to change, the first thing first; empty where nothing is to be gained.
    pub plans: Vec<Plan>,
    /// Why nothing, or nothing more, is to be gained from the loader.
    pub nothing: Option<String>,
    /// The cause and what to do about it, where it lies elsewhere than in what can be set.
    pub elsewhere: Option<Said>,
    /// What was looked at and is not advised.
    pub refused: Vec<Refused>,
    /// What was taken for granted, for want of facts.
    pub assumed: Vec<String>,
    /// How the model was fitted; null where there was nothing to fit it to.
    pub fitted: Option<Fitted>,
}

/// Seeks what to change.
///
/// # Errors
/// Where facts and model cannot be brought together, which says what of them is wrong.
pub fn advise(facts: &Facts, options: &Options) -> Result<Advised> {
    let search = Search::new(facts, options)?;
    let stall = search.now.stall;
    let elsewhere = facts.verdict.as_ref().filter(|said| lies_elsewhere(&said.cause)).cloned();
    let mut advised = Advised {
        trainer: facts.trainer.clone(),
        stall,
        plans: Vec::new(),
        nothing: None,
        elsewhere,
        refused: Vec::new(),
        assumed: words::assumed(facts),
        fitted: Some(search.fitted()),
    };
    if stall < FED {
        advised.nothing = Some(words::fed(facts, stall));
        return Ok(advised);
    }
    let (plans, refused) = search.plans()?;
    (advised.plans, advised.refused) = (plans, refused);
    if facts.verdict.as_ref().is_some_and(|said| said.cause == "contention") && !frees_cores(&advised.plans) {
        // Cores that others take are not given back by the loader's settings.
        advised.elsewhere = facts.verdict.clone();
    }
    if advised.plans.is_empty() {
        advised.nothing = Some(words::no_gain(facts, stall, search.fitted().binds));
        // Nobody says it better than the verdict: one place decides what to say for a cause.
        advised.elsewhere = advised.elsewhere.or_else(|| facts.verdict.clone());
    }
    Ok(advised)
}

/// Whether one of some plans gives a job more of the cores.
fn frees_cores(plans: &[Plan]) -> bool {
    let knobs = ["worker_threads", "cpu_affinity", "cpu_quota"];
    plans.iter().flat_map(|plan| &plan.steps).any(|step| knobs.contains(&step.knob))
}

/// Whether a cause is one that no knob of a loader, a device copy or a checkpoint reaches.
fn lies_elsewhere(cause: &str) -> bool {
    let reached = [
        "fetch.storage",
        "fetch.cache",
        "fetch.network",
        "decode",
        "handoff",
        "startup",
        "contention",
        "copy",
        "checkpoint",
        "compute",
        "unknown",
        "",
    ];
    !reached.contains(&cause)
}
