//! The search: every change in every world, the cheapest of those that do about as well as the best,
//! and the figures of what is shown, simulated.

use feedline_traces::Result;

use super::change::{self, Change, Effort};
use super::draw::{DRAWS, Draw};
use super::facts::Facts;
use super::feasible::{lacking, refused};
use super::model::{Fit, Given};
use super::price::{self, Price};
use super::{Fitted, Options, Plan, Range, Refused, Step, WORTH, words};
use crate::step_model::{Run, estimate, simulate};

/// Settings that come this near to the best are as good as it; the cheapest of them is taken.
const NEAR: f64 = 0.025;
/// By how much a pair has to be better than the better one of the two alone.
const PAIR: f64 = 0.06;
/// Part of the best gain (on a logarithmic scale) from which what is easy goes first.
const EASY: f64 = 0.4;
/// Changes that pairs are made of.
const PAIRED: usize = 8;
/// Plans that are shown.
const SHOWN: usize = 5;
/// Steps simulated for a figure that is shown, after those in which queues fill.
const STEPS: u32 = 300;

/// A job in all its worlds.
pub(super) struct Search<'a> {
    facts: &'a Facts,
    options: &'a Options,
    middle: Fit,
    /// What the job gives now, in the middle of everything.
    pub(super) now: Given,
    worlds: Vec<World>,
}

struct World {
    draw: Draw,
    fit: Fit,
    now: Given,
}

/// What some changes together do.
#[derive(Debug, Clone)]
struct Tried {
    changes: Vec<Change>,
    /// Geometric mean of the gain over all worlds: what is on the edge of enough is not as good as what is beyond it.
    mean: f64,
    gain: Range,
    stall: Range,
    /// Part of the worlds in which anything is gained.
    sure: f64,
    price: Price,
    cost: f64,
}

impl<'a> Search<'a> {
    pub(super) fn new(facts: &'a Facts, options: &'a Options) -> Result<Self> {
        let middle = Fit::of(facts, &Draw::MIDDLE)?;
        let now = middle.estimated()?;
        let world = |draw: Draw| {
            let mut fit = Fit::of(facts, &draw)?;
            let now = fit.estimated()?;
            if let Some(times) = draw.cap(facts) {
                fit.cap = times / fit.within(now.period);
            }
            Ok(World { draw, fit, now })
        };
        let worlds = Draw::all(options.seed, DRAWS).into_iter().map(world).collect::<Result<_>>()?;
        Ok(Self { facts, options, middle, now, worlds })
    }

    pub(super) fn fitted(&self) -> Fitted {
        Fitted {
            period: self.facts.period,
            cores: self.middle.job.cores,
            scale: self.middle.scale,
            binds: estimate(&self.middle.job).map_or("unknown", |found| found.binding.name()),
            error_pairs: self.options.errors.pairs,
        }
    }

    /// The plans that are worth making, and what cannot be made.
    pub(super) fn plans(&self) -> Result<(Vec<Plan>, Vec<Refused>)> {
        let (mut possible, mut impossible) = (Vec::new(), Vec::new());
        for change in change::all(self.facts, &self.middle) {
            match refused(change, &self.middle, self.facts) {
                None => possible.push(change),
                Some(reason) => impossible.push(Refused { step: self.step(change), reason }),
            }
        }
        // Of a row of numbers that are too large the first says enough.
        impossible
            .dedup_by(|later, first| later.step.knob == first.step.knob && kind(&later.reason) == kind(&first.reason));
        let mut tried: Vec<Tried> = possible.into_iter().map(|change| self.tried(&[change])).collect::<Result<_>>()?;
        tried.retain(|tried| tried.gain.guess >= WORTH);
        let chosen = self.chosen(tried)?;
        let plans = chosen.into_iter().map(|tried| self.plan(&tried)).collect::<Result<Vec<_>>>()?;
        // What the simulation does not bear out is not advised.
        let plans: Vec<Plan> = plans.into_iter().filter(|plan| plan.gain.guess >= WORTH).collect();
        Ok(without_the_unsure(plans, impossible))
    }

    /// One plan a knob, the first to be made first; a pair where it does much more.
    fn chosen(&self, tried: Vec<Tried>) -> Result<Vec<Tried>> {
        let mut knobs: Vec<Tried> = Vec::new();
        let mut names: Vec<&str> = tried.iter().map(|t| t.changes[0].knob()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let of_knob = tried.iter().filter(|t| t.changes[0].knob() == name).cloned();
            knobs.extend(cheapest(of_knob.collect()));
        }
        let best = knobs.iter().map(|t| t.mean.ln_1p()).fold(0.0, f64::max);
        // What costs an argument is tried before what costs a rewrite, where it gains a good part of it.
        let easy = |t: &&Tried| effort(&t.changes) == Effort::Argument && t.mean.ln_1p() >= EASY * best;
        let first = cheapest(knobs.iter().filter(easy).cloned().collect()).or_else(|| cheapest(knobs.clone()));
        let mut order: Vec<Tried> = first.into_iter().collect();
        let mut rest: Vec<Tried> =
            knobs.into_iter().filter(|t| order.first().is_none_or(|first| first.changes != t.changes)).collect();
        rest.sort_by(|a, b| b.gain.guess.total_cmp(&a.gain.guess));
        order.extend(rest);
        order.truncate(SHOWN);
        if let Some(pair) = self.pair(&tried, &order)? {
            // A pair of arguments goes first; one that is more work comes right after what is less.
            let at = usize::from(effort(&pair.changes) != Effort::Argument).min(order.len());
            order.insert(at, pair);
        }
        Ok(order)
    }

    /// The best pair of two knobs, where it does much more than either alone.
    fn pair(&self, tried: &[Tried], order: &[Tried]) -> Result<Option<Tried>> {
        let Some(best) = order.iter().map(|t| t.gain.guess).reduce(f64::max) else { return Ok(None) };
        let mut alone: Vec<&Tried> = tried.iter().collect();
        alone.sort_by(|a, b| b.gain.guess.total_cmp(&a.gain.guess));
        let mut changes: Vec<Change> = alone.iter().map(|t| t.changes[0]).take(PAIRED).collect();
        changes.extend(order.iter().map(|t| t.changes[0]));
        let mut pairs = Vec::new();
        for (i, one) in changes.iter().enumerate() {
            for other in &changes[i + 1..] {
                if one.knob() != other.knob() {
                    pairs.push([*one, *other]);
                }
            }
        }
        pairs.truncate(64);
        let mut found = Vec::new();
        for pair in pairs {
            let pair = self.tried(&pair)?;
            if pair.gain.guess >= (1.0 + best) * (1.0 + PAIR) - 1.0 && self.fits(&pair.price) {
                found.push(pair);
            }
        }
        Ok(cheapest(found))
    }

    /// Whether the machine has what a pair takes.
    fn fits(&self, price: &Price) -> bool {
        lacking(price, &self.facts.machine).is_none()
    }

    /// What some changes do, by the closed forms, in every world.
    fn tried(&self, changes: &[Change]) -> Result<Tried> {
        let (mut gains, mut stalls) = (Vec::with_capacity(DRAWS), Vec::with_capacity(DRAWS));
        for world in &self.worlds {
            let given = self.changed(changes, world)?.estimated()?;
            let again = world.draw.again();
            gains.push(world.now.period / (given.period * again) - 1.0);
            stalls.push((1.0 - (1.0 - given.stall) / again).clamp(0.0, 1.0));
        }
        let changed = applied(changes, &self.middle, self.facts, &Draw::MIDDLE);
        let after = changed.estimated()?;
        let cores = changed.demand(after.period * changed.per) - self.middle.demand(self.now.period);
        let price = Price { cores, ..price::of(changes, &self.middle, self.facts) };
        let cost = price::cost(changes, &price, &self.middle, self.facts);
        let all = f64::from(u32::try_from(gains.len()).unwrap_or(u32::MAX));
        let mean = (gains.iter().map(|gain| gain.ln_1p()).sum::<f64>() / all).exp_m1();
        let sure = gains.iter().map(|gain| if *gain > 0.0 { 1.0 } else { 0.0 }).sum::<f64>() / all;
        Ok(Tried { changes: changes.to_vec(), mean, gain: range(gains), stall: range(stalls), sure, price, cost })
    }

    /// The job after some changes in one world.
    fn changed(&self, changes: &[Change], world: &World) -> Result<Fit> {
        let changed = applied(changes, &world.fit, self.facts, &world.draw);
        let reached = changed.estimated()?.period * changed.per;
        let of_loader = |change: &Change| !matches!(change, Change::SaveLess | Change::SaveBeside | Change::Pin);
        if !changes.iter().any(of_loader) {
            return Ok(changed);
        }
        Ok(changed.in_world(&world.fit, reached, &world.draw, &self.options.errors))
    }

    /// The figures of a plan: its guess by simulation, its interval by the worlds around it.
    fn plan(&self, tried: &Tried) -> Result<Plan> {
        let changed = applied(&tried.changes, &self.middle, self.facts, &Draw::MIDDLE);
        let (simulated, estimated) =
            (self.ratio(&changed)?, self.middle.estimated()?.period / changed.estimated()?.period);
        // The simulation knows what the closed forms do not; what it says moves the whole range.
        let moved = (simulated / estimated).clamp(0.5, 2.0);
        let gain = |gain: f64| (1.0 + gain) * moved - 1.0;
        let gain = Range { guess: gain(tried.gain.guess), low: gain(tried.gain.low), high: gain(tried.gain.high) };
        let stall = |stall: f64| (1.0 - (1.0 - stall) * moved).clamp(0.0, 1.0);
        let (low, high) = (stall(tried.stall.low), stall(tried.stall.high));
        let stall = Range { guess: stall(tried.stall.guess), low, high };
        let trust = tried.changes.iter().map(|change| change.trust()).product::<f64>();
        Ok(Plan {
            steps: tried.changes.iter().map(|change| self.step(*change)).collect(),
            stall_before: self.now.stall,
            stall,
            gain,
            price: tried.price,
            effort: effort(&tried.changes),
            confidence: (trust * tried.sure * self.evidence()).clamp(0.0, 1.0),
            evidence: words::evidence(&tried.changes, self.facts),
            line: words::lines(&tried.changes, self.facts),
        })
    }

    /// Steps a second of a changed job over those of the present one, both simulated with the same
    /// draws.
    fn ratio(&self, changed: &Fit) -> Result<f64> {
        let (mut before, mut after) = (0.0, 0.0);
        for seed in [self.options.seed, self.options.seed ^ 0x5eed] {
            let run = Run { seed, steps: STEPS, ..Run::default() };
            before += self.middle.given(simulate(&self.middle.job, &run)?.period).period;
            after += changed.given(simulate(&changed.job, &run)?.period).period;
        }
        Ok(before / after)
    }

    /// How good the facts are, 0 to 1.
    fn evidence(&self) -> f64 {
        let watched = if self.facts.seconds > 0.0 { (self.facts.seconds / 15.0).min(1.0) } else { 0.6 };
        let period = if self.facts.period.is_some() { 1.0 } else { 0.9 };
        watched.sqrt() * period * (-self.middle.scale.ln().abs()).exp()
    }

    fn step(&self, change: Change) -> Step {
        let (from, to) = words::values(change, self.facts);
        Step { knob: change.knob(), from, to }
    }
}

/// Where there are plans that surely gain something, those that may gain nothing are not advised beside
/// them; where there are none they are all there is to say.
fn without_the_unsure(plans: Vec<Plan>, mut refused: Vec<Refused>) -> (Vec<Plan>, Vec<Refused>) {
    if plans.iter().all(|plan| plan.gain.low <= 0.0) {
        return (plans, refused);
    }
    let (sure, unsure): (Vec<Plan>, Vec<Plan>) = plans.into_iter().partition(|plan| plan.gain.low > 0.0);
    let kept = |step: &Step| sure.iter().any(|plan| plan.steps.contains(step));
    for plan in unsure.iter().filter(|plan| plan.steps.len() == 1 && !kept(&plan.steps[0])) {
        let (low, high) = (1.0 + plan.gain.low, 1.0 + plan.gain.high);
        let reason = format!("unsure: speed × {low:.2} to {high:.2}, so that it may gain nothing");
        refused.push(Refused { step: plan.steps[0].clone(), reason });
    }
    (sure, refused)
}

fn applied(changes: &[Change], fit: &Fit, facts: &Facts, draw: &Draw) -> Fit {
    changes.iter().fold(fit.clone(), |fit, change| change.apply(&fit, facts, draw))
}

/// The most work that any of some changes is.
fn effort(changes: &[Change]) -> Effort {
    changes.iter().map(|change| change.effort()).max().unwrap_or(Effort::Argument)
}

/// Of those that come near to the best the cheapest.
fn cheapest(tried: Vec<Tried>) -> Option<Tried> {
    let best = tried.iter().map(|t| t.mean).reduce(f64::max)?;
    let near = tried.into_iter().filter(|t| 1.0 + t.mean >= (1.0 + best) * (1.0 - NEAR));
    near.min_by(|a, b| a.cost.total_cmp(&b.cost).then_with(|| b.mean.total_cmp(&a.mean)))
}

/// What stands in the way, without the figures.
fn kind(reason: &str) -> &str {
    reason.split(':').next().unwrap_or(reason)
}

/// Median, and the range of eight in ten.
fn range(mut values: Vec<f64>) -> Range {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let at = |tenths: usize| values.get((last * tenths + 5) / 10).copied().unwrap_or(f64::NAN);
    Range { guess: at(5), low: at(1), high: at(9) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(knob: &'static str, low: f64) -> Plan {
        Plan {
            steps: vec![Step { knob, from: "1".to_owned(), to: "2".to_owned() }],
            stall_before: 0.5,
            stall: Range::default(),
            gain: Range { guess: 0.2, low, high: 0.3 },
            price: Price::NOTHING,
            effort: Effort::Argument,
            confidence: 0.5,
            evidence: String::new(),
            line: String::new(),
        }
    }

    #[test]
    fn what_may_gain_nothing_is_refused_beside_what_surely_gains_and_is_all_there_is_to_say_otherwise() {
        let (plans, refused) = without_the_unsure(vec![plan("a", -0.1), plan("b", 0.1)], Vec::new());
        assert_eq!((plans.len(), plans[0].steps[0].knob), (1, "b"));
        assert_eq!(refused[0].step.knob, "a");
        assert!(refused[0].reason.contains("0.90 to 1.30"), "{refused:?}");
        let (plans, refused) = without_the_unsure(vec![plan("a", -0.1), plan("b", 0.0)], Vec::new());
        assert_eq!((plans.len(), refused.len()), (2, 0));
    }
}
