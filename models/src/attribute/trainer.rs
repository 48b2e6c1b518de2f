//! What is remembered of one trainer, and the rows it gives.

use std::collections::BTreeMap;

use feedline_traces::{Rows, Symbol, Ts};

use super::cause::{CAUSES, Cause, Demand, Origin, Spawns, Split, View, facts, reconcile, shortage};
use super::crew::{Crew, CrewUse, CrewView};
use super::evidence::{Evidence, Horizons, Meter, Pending};
use super::flow::Flow;
use super::kind::{GROUPS, Group, STATES, State};
use super::lately::WINDOW;
use super::machine::{Measured, Measures};
use super::rules::{Rules, Scene};
use super::share::{Estimate, estimate, estimate_sites};
use super::site::Site;
use super::slice::{Slice, Slices};
use super::stages::Stages;
use super::supply::Supply;
use super::top::Top;
use crate::step::{Period, Waits};
use crate::tables::{CauseRow, StallRow, StepRow, StepSeenRow, VerdictRow};
use crate::verdict::{Findings, Fine, judge};

/// Frames remembered, by trainer.
const FRAMES: usize = 64;
/// Parts of a cause smaller than this are left out of its evidence.
const SMALL: f64 = 0.005;
/// A period trusted less than this may be a multiple of the step: it is not published.
const KNOWN: f64 = 0.7;
/// Part of the time in a state that has to be for data for its waits to be steps.
const PURE: f64 = 0.9;
/// Trust in a period with several workers, whose batches may come together.
const SEVERAL: f64 = 0.6;

/// Some task of the machine waits for a core this often: threads that cannot be seen may queue.
const PRESSED: f64 = 0.3;

/// Part of the workers' time, of such as are seconds old, from which crews follow each other.
const RESPAWNED: f64 = 0.8;

/// One trainer.
#[derive(Debug, Default)]
pub(super) struct Trainer {
    meter: Meter,
    horizons: Horizons,
    pub(super) waits: Waits,
    pub(super) crew: Crew,
    /// Its own Python threads that feed it: what is looked at where it has no workers.
    pub(super) stages: Stages,
    pub(super) spawns: Spawns,
    pub(super) measures: Measures,
    /// What the main thread's calls were on.
    slices: Slices,
    frames: BTreeMap<(Site, Symbol), f64>,
    /// Innermost frames by group.
    pub(super) leaves: [Top; GROUPS],
    idle: Mean,
    pub(super) cores: Option<f64>,
    pub(super) local_rank: Option<u64>,
    pub(super) rank: Option<u64>,
    pub(super) world: Option<u64>,
    /// When it was first seen, and the job's CPU seconds then.
    pub(super) born: (Ts, f64),
    pub(super) seen: Ts,
    /// Process batches in which it was missing.
    pub(super) absences: u32,
}

/// A mean over time.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn get(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

impl Trainer {
    pub(super) fn born(at: Ts, job_cpu: f64) -> Self {
        Self { born: (at, job_cpu), seen: at, ..Self::default() }
    }

    /// Takes what a tick said about the main thread, and what its process read.
    pub(super) fn account(&mut self, now: Ts, pending: &Pending, flow: Flow) {
        let mut evidence = self.meter.account(now, pending);
        (evidence.switches, evidence.counted) = (flow.switches, flow.counted);
        self.slices.push(now, Slice::of(&pending.mix, &evidence, flow));
        self.horizons.push(now, evidence);
        self.seen = now;
    }

    /// Notes the frame that decided a site. When there is no room the rarest goes.
    pub(super) fn frame(&mut self, site: Site, frame: &Symbol, stacks: f64) {
        *self.frames.entry((site, frame.clone())).or_insert(0.0) += stacks;
        if self.frames.len() > FRAMES {
            let rarest = self.frames.iter().min_by(|a, b| a.1.total_cmp(b.1)).map(|(key, _)| key.clone());
            rarest.map(|key| self.frames.remove(&key));
        }
    }

    pub(super) fn accelerator(&mut self, idle: f64) {
        self.idle.sum += idle.clamp(0.0, 1.0);
        self.idle.count += 1.0;
    }

    /// Lets go of what is gone.
    pub(super) fn settle(&mut self, key: &Symbol, now: Ts) {
        self.crew.settle(key, now);
        self.stages.settle(key, now);
        self.waits.forget(now);
    }

    /// Where its time went over the last ten seconds and over the run.
    pub(super) fn judge(&self, now: Ts, around: &Surroundings<'_>) -> Judged {
        let usage = self.crew.usage();
        let scene = Scene {
            processes: usage.processes,
            threads: usage.threads,
            busiest: self.crew.busiest(),
            device_busy: self.idle.get().map(|idle| 1.0 - idle),
        };
        let rules = Rules::of(&scene);
        let window = self.horizons.window();
        let over = |evidence: &Evidence, history: Option<&Evidence>, lately: bool| {
            let sites = estimate_sites(evidence, history, &rules)?;
            let groups = self.measured(lately).exact().told(estimate(evidence, history, &rules)?, &sites);
            let (split, facts) = self.split(now, &sites, lately, around);
            // A lock in the loader is a wait for a thread too.
            let locked = sites.joint[State::Futex as usize][Site::Loader as usize];
            let idle = sites.share[Site::LoaderIdle as usize] + locked;
            let seen = scene.processes + scene.threads + self.stages.usage().threads > 0;
            let hidden = !seen && idle > 0.5 * groups.share[Group::Data as usize];
            Some(Horizon { groups, split, facts, hidden })
        };
        let recent = over(&window, Some(&self.horizons.history), true);
        Judged { recent, run: over(&self.horizons.run, None, false), window, rules }
    }

    /// What was measured over the last ten seconds, or the run.
    fn measured(&self, lately: bool) -> Measured {
        if lately { self.measures.window() } else { self.measures.run }
    }

    fn split(
        &self,
        now: Ts,
        sites: &Estimate<{ crate::attribute::site::SITES }>,
        lately: bool,
        around: &Surroundings<'_>,
    ) -> (Split, Vec<Option<String>>) {
        let slice = if lately { self.slices.window() } else { self.slices.run.clone() };
        let measured = self.measured(lately);
        let crew: Option<CrewView> = match self.crew.is_known() {
            true => self.crew.view(lately),
            false => self.stages.view(lately, slice.flow),
        };
        let always = crew.as_ref().is_some_and(|crew| crew.young >= RESPAWNED);
        let (first, time) = match lately {
            true => (self.spawns.lately(now, WINDOW, always), slice.mix.total()),
            false => (self.spawns.in_all(always), self.horizons.run.time),
        };
        let why = shortage(&around.supply, &self.demand(now, around));
        let flow = slice.flow;
        let cpu = if flow.seconds > 0.0 { (flow.user + flow.system) / flow.seconds } else { 0.0 };
        let own = if slice.exact > 0.0 { slice.on_cpu / slice.exact } else { 0.0 };
        let staged = crew.map(|crew| if crew.staged { CrewView { flow, ..crew } } else { crew });
        let view = View {
            sites,
            own: &slice.mix,
            queued: slice.queued(),
            crew: staged.as_ref(),
            flow,
            beside: (cpu - own).max(0.0),
            origin: around.origin,
            shortage: why.as_ref(),
            pressed: around.supply.pressure.is_some_and(|pressure| pressure > PRESSED),
            device: measured.device(),
            calls: measured.calls(),
            exact: measured.exact(),
            startup: if time > 0.0 { first / time } else { 0.0 },
        };
        let split = Split::of(&view);
        let facts = Cause::ALL.map(|cause| facts(cause, &split, &view, self.frame_of(cause)));
        (split, facts.into())
    }

    fn demand(&self, now: Ts, around: &Surroundings<'_>) -> Demand {
        let used = self.cores_used(now, around.job_cpu);
        let (cores, worker_cores, threads) = (self.cores, around.worker_cores, around.threads);
        let spread = self.crew.spread().unwrap_or_else(|| {
            let run = &self.slices.run;
            if run.on_cpu > 0.0 { (run.flow.user + run.flow.system) / run.on_cpu } else { 1.0 }
        });
        Demand { cores, worker_cores, used, threads, spread }
    }

    fn cores_used(&self, now: Ts, job_cpu: f64) -> Option<f64> {
        let elapsed = now.seconds_since(self.born.0);
        (elapsed > 0.0 && job_cpu > self.born.1).then(|| (job_cpu - self.born.1) / elapsed)
    }

    /// Rows for a tick that ended at `now`.
    pub(super) fn emit(&self, key: &Symbol, now: Ts, judged: &Judged, around: &Surroundings<'_>, out: &mut Rows<'_>) {
        if let Some(recent) = &judged.recent {
            self.stalls(key, &judged.window, &recent.groups, &judged.rules, out);
            self.step(key, &recent.groups, out);
        }
        self.crew.rows(key, None, around.origin, out);
        if !self.crew.is_known() {
            self.stages.rows(key, self.slices.window().flow, around.origin, out);
        }
        let Some(run) = &judged.run else { return };
        causes(key, judged.recent.as_ref(), run, out);
        self.verdict(key, now, run, (&judged.rules, around), out);
    }

    /// What its workers do, or its own threads where it has no workers.
    fn usage(&self) -> CrewUse {
        if self.crew.is_known() { self.crew.usage() } else { self.stages.usage() }
    }

    fn verdict(
        &self,
        key: &Symbol,
        now: Ts,
        judged: &Horizon,
        (rules, around): (&Rules, &Surroundings<'_>),
        out: &mut Rows<'_>,
    ) {
        let (run, shares) = (&self.horizons.run, judged.groups);
        let findings = Findings {
            shares,
            fine: Some(Fine { share: judged.split.share(), facts: judged.facts.clone() }),
            seconds: run.time,
            stacks: run.stacks_read(),
            usage: self.usage(),
            hidden: judged.hidden,
            cores: self.cores,
            cores_used: self.cores_used(now, around.job_cpu),
            frame: Group::ALL.map(|group| self.top_frame(group).map(|frame| frame.to_string())),
            leaf: Group::ALL.map(|group| named(&self.leaves[group as usize])),
            sleeper: named(&self.crew.sleepers).map(|(name, _)| name),
            queued: (run.exact > 0.0).then(|| run.run_queue / run.exact),
            supply: around.supply,
            accelerator_idle: self.idle.get(),
            rule: (run.stacks_read() < 1.0).then(|| rules.reason.clone()),
        };
        let verdict = judge(&findings);
        let data = Group::Data as usize;
        out.push(VerdictRow {
            process: key.clone().into(),
            cause: verdict.cause.name().into(),
            data: shares.share[data].into(),
            low: shares.low[data].into(),
            high: shares.high[data].into(),
            confidence: shares.confidence.into(),
            text: verdict.text.into(),
            advice: verdict.advice.map(|advice| advice.text).into(),
            accelerator_idle: self.idle.get().into(),
        });
    }

    fn stalls(&self, key: &Symbol, window: &Evidence, shares: &Estimate, rules: &Rules, out: &mut Rows<'_>) {
        for cause in Group::ALL {
            let c = cause as usize;
            out.push(StallRow {
                process: key.clone().into(),
                cause: cause.name().into(),
                share: shares.share[c].into(),
                low: shares.low[c].into(),
                high: shares.high[c].into(),
                confidence: shares.confidence.into(),
                evidence: self.facts(cause, window, shares, rules).into(),
            });
        }
    }

    /// Steps as they were counted; else the period of the waits in the state in which most data time is spent blocked.
    fn step(&self, key: &Symbol, shares: &Estimate, out: &mut Rows<'_>) {
        let window = self.measures.window();
        let data = Group::Data as usize;
        let blocked = State::ALL.into_iter().filter(|s| *s != State::Running);
        let state = blocked
            .filter(|s| shares.joint[*s as usize][data] > 0.5 * shares.states[*s as usize].max(f64::MIN_POSITIVE))
            .max_by(|a, b| shares.joint[*a as usize][data].total_cmp(&shares.joint[*b as usize][data]));
        if let Some((steps, period, trust)) = window.step() {
            let wait = window.exact().data.unwrap_or(shares.share[data]);
            out.push(StepRow {
                process: key.clone().into(),
                steps: steps.into(),
                period: (period * 1e9).into(),
                wait: (wait * period * 1e9).into(),
                confidence: trust.into(),
            });
            self.each_step(key, shares, (state, period), out);
            return;
        }
        let found: Option<Period> = state.and_then(|s| self.waits.period(s));
        let usage = self.usage();
        let several = usage.processes + usage.threads > 1;
        let confidence = found.map(|p| p.confidence.min(if several { SEVERAL } else { 0.95 }));
        let found = found.filter(|_| confidence.is_some_and(|c| c >= KNOWN));
        out.push(StepRow {
            process: key.clone().into(),
            steps: found.map(|p| p.steps).into(),
            period: found.map(|p| p.period * 1e9).into(),
            wait: found.map(|p| p.period * shares.share[data] * 1e9).into(),
            confidence: confidence.into(),
        });
        if let Some(found) = found {
            self.each_step(key, shares, (state, found.period), out);
        }
    }

    /// The steps that became known in this tick, where nearly all waits in the state are for data.
    fn each_step(&self, key: &Symbol, shares: &Estimate, (state, period): (Option<State>, f64), out: &mut Rows<'_>) {
        let of_data = |s: &State| shares.joint[*s as usize][Group::Data as usize] >= PURE * shares.states[*s as usize];
        for step in state.filter(of_data).map(|state| self.waits.steps(state, period)).unwrap_or_default() {
            out.push_at(
                step.end,
                StepSeenRow {
                    process: key.clone().into(),
                    duration: (step.duration * 1e9).into(),
                    wait: (step.wait * 1e9).into(),
                    steps: step.steps.into(),
                },
            );
        }
    }

    /// The facts behind a cause: the states it was in, and how many stacks say so.
    fn facts(&self, cause: Group, window: &Evidence, shares: &Estimate, rules: &Rules) -> Option<String> {
        let c = cause as usize;
        let by_group = window.by_group();
        let mut parts: Vec<(f64, String)> = Vec::new();
        for state in State::ALL {
            let s = state as usize;
            if shares.joint[s][c] < SMALL {
                continue;
            }
            let (time, read) = (shares.states[s] * 100.0, window.stacks_in(s));
            let seen = format!("{} {time:.0} % of the time, ", state.name());
            let told = if read + self.horizons.history.stacks_in(s) < 1.0 {
                "no stack read in it".to_owned()
            } else {
                format!("{} in {:.0} of {read:.0} stacks", cause.site(), by_group[s][c])
            };
            let missed =
                if window.missed[s] > 0.0 { format!(" ({:.0} missed)", window.missed[s]) } else { String::new() };
            parts.push((shares.joint[s][c], format!("{seen}{told}{missed}")));
        }
        parts.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut facts: Vec<String> = parts.into_iter().take(3).map(|(_, text)| text).collect();
        if cause == Group::Unknown {
            if let Some(distance) = shares.disagreement {
                facts.push(format!("thread states and stacks disagree by {:.0} % of the time", distance * 100.0));
            }
            if shares.unseen >= SMALL {
                facts.push(format!("no sample for {:.0} % of the time", shares.unseen * 100.0));
            }
        } else if let Some(frame) = self.top_frame(cause).filter(|_| shares.share[c] >= SMALL) {
            facts.push(format!("mostly {frame}"));
        }
        if window.stacks_read() + self.horizons.history.stacks_read() < 1.0 && shares.share[c] >= SMALL {
            facts.push(rules.reason.clone());
        }
        (!facts.is_empty()).then(|| facts.join("; "))
    }

    fn top_frame(&self, group: Group) -> Option<&Symbol> {
        let mine = self.frames.iter().filter(|((site, _), _)| site.group() == group);
        mine.max_by(|a, b| a.1.total_cmp(b.1)).map(|((_, frame), _)| frame)
    }

    /// The most frequent frame of the sites that a cause comes from by itself.
    fn frame_of(&self, cause: Cause) -> Option<&str> {
        let mine = self.frames.iter().filter(|((site, _), _)| Cause::of_site(*site) == cause);
        mine.max_by(|a, b| a.1.total_cmp(b.1)).map(|((_, frame), _)| frame.as_ref())
    }

    /// What it is called among ranks.
    fn called(&self, key: &Symbol) -> String {
        self.rank.map_or_else(|| key.to_string(), |rank| format!("rank {rank} ({key})"))
    }
}

/// What a trainer's split is made among.
pub(super) struct Surroundings<'a> {
    /// CPU seconds that the job used.
    pub(super) job_cpu: f64,
    pub(super) supply: Supply,
    /// Fewest cores that a worker may use.
    pub(super) worker_cores: Option<f64>,
    /// Threads of trainers and workers.
    pub(super) threads: f64,
    pub(super) origin: &'a Origin,
}

/// Where a trainer's time went over one horizon.
pub(super) struct Horizon {
    groups: Estimate,
    split: Split,
    /// Facts by cause, in the order of [`Cause::ALL`].
    facts: Vec<Option<String>>,
    /// Whether it mostly waits in a queue that nobody who can be seen fills.
    hidden: bool,
}

/// What is concluded about a trainer in one tick.
pub(super) struct Judged {
    recent: Option<Horizon>,
    run: Option<Horizon>,
    window: Evidence,
    rules: Rules,
}

/// Lets the ranks of a job speak about each other, on both horizons.
pub(super) fn among_ranks(trainers: &BTreeMap<Symbol, Trainer>, judged: &mut [(Symbol, Judged)]) {
    let pick: [fn(&mut Judged) -> Option<&mut Horizon>; 2] = [|j| j.recent.as_mut(), |j| j.run.as_mut()];
    for horizon in pick {
        let mut ranks = Vec::new();
        for (key, judged) in judged.iter_mut() {
            let Some(trainer) = trainers.get(key).filter(|t| t.rank.is_some()) else { continue };
            let Some(Horizon { split, facts, .. }) = horizon(judged) else { continue };
            ranks.push((trainer.called(key), split, facts));
        }
        reconcile(&mut ranks);
    }
}

fn causes(key: &Symbol, recent: Option<&Horizon>, run: &Horizon, out: &mut Rows<'_>) {
    let lately = recent.map_or([f64::NAN; CAUSES], |recent| recent.split.share());
    let share = run.split.share();
    for cause in Cause::ALL {
        let c = cause as usize;
        let facts = if share[c] >= SMALL { run.facts[c].as_ref() } else { None };
        let facts = facts.or_else(|| recent?.facts[c].as_ref());
        out.push(CauseRow {
            process: key.clone().into(),
            cause: cause.name().into(),
            share: lately[c].into(),
            run: share[c].into(),
            low: run.split.low[c].min(share[c]).into(),
            high: run.split.high[c].max(share[c]).into(),
            confidence: run.split.confidence.into(),
            evidence: facts.cloned().into(),
        });
    }
}

fn named(top: &Top) -> Option<(String, f64)> {
    top.first().map(|(name, share)| (name.to_string(), share))
}

/// Arrays are indexed by the numbers of the enums.
const _: () = assert!(State::ALL.len() == STATES && Group::ALL.len() == GROUPS);
