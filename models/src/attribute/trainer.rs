//! What is remembered of one trainer, and the rows it gives.

use std::collections::BTreeMap;

use feedline_traces::{Rows, Symbol, Ts};

use super::crew::Crew;
use super::evidence::{Evidence, Horizons, Meter, Pending};
use super::kind::{CAUSES, Cause, STATES, State};
use super::rules::{Rules, Scene};
use super::share::{Estimate, estimate};
use super::supply::Supply;
use super::top::Top;
use crate::step::{Period, Waits};
use crate::tables::{StallRow, StepRow, VerdictRow};
use crate::verdict::{Findings, judge};

/// Frames remembered, by trainer.
const FRAMES: usize = 64;
/// Parts of a cause smaller than this are left out of its evidence.
const SMALL: f64 = 0.005;
/// A period trusted less than this may be a multiple of the step: it is not published.
const KNOWN: f64 = 0.7;
/// Trust in a period with several workers, whose batches may come together.
const SEVERAL: f64 = 0.6;

/// One trainer.
#[derive(Debug, Default)]
pub(super) struct Trainer {
    meter: Meter,
    horizons: Horizons,
    pub(super) waits: Waits,
    pub(super) crew: Crew,
    frames: BTreeMap<(usize, Symbol), f64>,
    /// Innermost frames by cause.
    pub(super) leaves: [Top; CAUSES],
    idle: Mean,
    pub(super) cores: Option<f64>,
    pub(super) local_rank: Option<u64>,
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

    /// Takes what a tick said about the main thread.
    pub(super) fn account(&mut self, now: Ts, pending: &Pending) {
        let evidence = self.meter.account(now, pending);
        self.horizons.push(now, evidence);
        self.seen = now;
    }

    /// Notes the frame that decided a site. When there is no room the rarest goes.
    pub(super) fn frame(&mut self, cause: Cause, frame: &Symbol, stacks: f64) {
        *self.frames.entry((cause as usize, frame.clone())).or_insert(0.0) += stacks;
        if self.frames.len() > FRAMES {
            let rarest = self.frames.iter().min_by(|a, b| a.1.total_cmp(b.1)).map(|(key, _)| key.clone());
            rarest.map(|key| self.frames.remove(&key));
        }
    }

    pub(super) fn accelerator(&mut self, idle: f64) {
        self.idle.sum += idle.clamp(0.0, 1.0);
        self.idle.count += 1.0;
    }

    /// Rows for a tick that ended at `now`, by which the job had used `job_cpu` seconds of
    /// the cores that there are.
    pub(super) fn emit(&mut self, key: &Symbol, now: Ts, (job_cpu, supply): (f64, Supply), out: &mut Rows<'_>) {
        self.crew.settle(key, now);
        self.waits.forget(now);
        let usage = self.crew.usage();
        let scene = Scene {
            processes: usage.processes,
            threads: usage.threads,
            busiest: self.crew.busiest(),
            device_busy: self.idle.get().map(|idle| 1.0 - idle),
        };
        let rules = Rules::of(&scene);
        let window = self.horizons.window();
        if let Some(shares) = estimate(&window, Some(&self.horizons.history), &rules) {
            self.stalls(key, &window, &shares, &rules, out);
            self.step(key, &shares, out);
        }
        let run = &self.horizons.run;
        let Some(shares) = estimate(run, None, &rules) else { return };
        let elapsed = now.seconds_since(self.born.0);
        let findings = Findings {
            shares,
            seconds: run.time,
            stacks: run.stacks_read(),
            usage,
            cores: self.cores,
            cores_used: (elapsed > 0.0 && job_cpu > self.born.1).then(|| (job_cpu - self.born.1) / elapsed),
            frame: [Cause::Data, Cause::Io, Cause::Device, Cause::Host, Cause::Unknown]
                .map(|cause| self.top_frame(cause).map(|frame| frame.to_string())),
            leaf: Cause::ALL.map(|cause| named(&self.leaves[cause as usize])),
            sleeper: named(&self.crew.sleepers).map(|(name, _)| name),
            queued: (run.exact > 0.0).then(|| run.run_queue / run.exact),
            supply,
            accelerator_idle: self.idle.get(),
            rule: (run.stacks_read() < 1.0).then(|| rules.reason.clone()),
        };
        let verdict = judge(&findings);
        let data = Cause::Data as usize;
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
        for cause in Cause::ALL {
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

    /// The period of the waits in the state in which most data time is spent blocked.
    fn step(&self, key: &Symbol, shares: &Estimate, out: &mut Rows<'_>) {
        let data = Cause::Data as usize;
        let blocked = State::ALL.into_iter().filter(|s| *s != State::Running);
        let state = blocked
            .filter(|s| shares.joint[*s as usize][data] > 0.5 * shares.states[*s as usize].max(f64::MIN_POSITIVE))
            .max_by(|a, b| shares.joint[*a as usize][data].total_cmp(&shares.joint[*b as usize][data]));
        let found: Option<Period> = state.and_then(|s| self.waits.period(s));
        let several = self.crew.usage().processes > 1;
        let confidence = found.map(|p| p.confidence.min(if several { SEVERAL } else { 0.95 }));
        let found = found.filter(|_| confidence.is_some_and(|c| c >= KNOWN));
        out.push(StepRow {
            process: key.clone().into(),
            steps: found.map(|p| p.steps).into(),
            period: found.map(|p| p.period * 1e9).into(),
            wait: found.map(|p| p.period * shares.share[data] * 1e9).into(),
            confidence: confidence.into(),
        });
    }

    /// The facts behind a cause: the states it was in, and how many stacks say so.
    fn facts(&self, cause: Cause, window: &Evidence, shares: &Estimate, rules: &Rules) -> Option<String> {
        let c = cause as usize;
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
                format!("{} in {:.0} of {read:.0} stacks", cause.site(), window.stacks[s][c])
            };
            let missed =
                if window.missed[s] > 0.0 { format!(" ({:.0} missed)", window.missed[s]) } else { String::new() };
            parts.push((shares.joint[s][c], format!("{seen}{told}{missed}")));
        }
        parts.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut facts: Vec<String> = parts.into_iter().take(3).map(|(_, text)| text).collect();
        if cause == Cause::Unknown {
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

    fn top_frame(&self, cause: Cause) -> Option<&Symbol> {
        let mine = self.frames.iter().filter(|((c, _), _)| *c == cause as usize);
        mine.max_by(|a, b| a.1.total_cmp(b.1)).map(|((_, frame), _)| frame)
    }
}

fn named(top: &Top) -> Option<(String, f64)> {
    top.first().map(|(name, share)| (name.to_string(), share))
}

/// Arrays are indexed by the numbers of the enums.
const _: () = assert!(State::ALL.len() == STATES && Cause::ALL.len() == CAUSES);
