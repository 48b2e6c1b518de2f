//! A job of the step model that behaves as the one that was seen: its distributions are the measured
//! ones, and what is left is scaled so that the model reproduces the measured step.
//!
//! A batch is the unit: what a worker spends on one is its share of time times workers times the
//! period, since each of `n` workers makes every `n`th batch. Starts of workers and checkpoints lie
//! outside of the model and are added to its step.

use feedline_traces::Result;

use super::draw::Draw;
use super::facts::Facts;
use crate::step_model::{Dist, Job, Order, estimate};

/// Seconds of a step where no period is known; shares do not depend on it.
const UNKNOWN_PERIOD: f64 = 0.1;
/// Pieces that the work of a batch is told in where the batch is not known.
const PIECES: u32 = 16;
/// Squared coefficient of variation of a step.
const STEP_SPREAD: f64 = 0.01;
/// The same of what one piece of a batch takes.
const PIECE_SPREAD: f64 = 0.5;
/// Workers idle this much while the trainer waits: it is order that it waits for, not their work.
const IDLE: f64 = 0.25;
/// Job and model agree where their steps differ by no more than this.
const AGREE: f64 = 2e-3;
/// How far the measured work may be scaled.
const SCALES: (f64, f64) = (0.25, 4.0);
/// How wide batches may be spread.
const SPREADS: (f64, f64) = (0.02, 60.0);

/// What a step spends outside of the model, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Outside {
    /// Waiting for workers that start.
    pub(super) startup: f64,
    /// Checkpoints.
    pub(super) save: f64,
    /// The main thread ready to run, kept from a core outside of the loader.
    pub(super) kept: f64,
}

impl Outside {
    fn sum(self) -> f64 {
        self.startup + self.save + self.kept
    }

    pub(super) fn times(self, factor: f64) -> Self {
        Self { startup: self.startup * factor, save: self.save * factor, kept: self.kept * factor }
    }
}

/// A job as it is, and what it would be.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fit {
    /// The job of the step model.
    pub(super) job: Job,
    /// What lies outside of it.
    pub(super) outside: Outside,
    /// Batches a second at most, whatever the workers do: what storage gives.
    pub(super) cap: f64,
    /// By how much the measured work had to be scaled for the model to reproduce the measured step.
    pub(super) scale: f64,
    /// Whether the loader is the main thread's, so that handing over comes new with a first worker.
    pub(super) alone: bool,
    /// Bytes of a batch as it is handed over; a guess where nobody tells.
    pub(super) batch_bytes: f64,
    /// How many of the present batches one batch is.
    pub(super) per: f64,
}

/// What a setting gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Given {
    /// Seconds from step to step.
    pub(super) period: f64,
    /// Share of time that is no step: waiting for data, for workers that start, in copies, in
    /// checkpoints, or kept from a core.
    pub(super) stall: f64,
}

impl Fit {
    /// Fits a job to facts under one draw of what is not known exactly.
    ///
    /// # Errors
    /// Where nothing of the job takes any time.
    pub(super) fn of(facts: &Facts, draw: &Draw) -> Result<Self> {
        let period = facts.period.filter(|p| *p > 1e-6 && p.is_finite()).unwrap_or(UNKNOWN_PERIOD);
        let wait = draw.wait(&facts.wait).clamp(0.0, 0.995);
        let outside = outside(facts, period, wait);
        let mut fit = Self::measured(facts, period, wait, outside);
        fit.settle(facts, period);
        fit.job.check()?;
        Ok(fit)
    }

    /// The job by its measured parts alone.
    fn measured(facts: &Facts, period: f64, wait: f64, outside: Outside) -> Self {
        let core = (period - outside.startup - outside.save).max(1e-6);
        let waited = (wait * period - outside.startup).clamp(0.0, core);
        let own = core - waited;
        let host = (facts.host * period).clamp(0.0, own - outside.kept.min(own));
        let copy = (facts.cause("copy") * period).clamp(0.0, (own - host - outside.kept).max(0.0));
        let step = (own - host - copy - outside.kept).max(0.0);
        let workers = facts.workers();
        let batch = facts.setting.batch.unwrap_or(PIECES).clamp(1, 4096);
        let pieces = f64::from(batch);
        let (latency, cpu) = work(facts, period, waited);
        let handover = if workers == 0 { 0.0 } else { (facts.burnt * period).min(waited) };
        let strict = facts.by_processes() && facts.setting.framework.as_deref() != Some("tensorflow");
        let piece = |total: f64| Dist::Lognormal { mean: (total / pieces).max(0.0), scv: PIECE_SPREAD };
        let mut job = Job {
            batch,
            workers,
            prefetch: facts.prefetch().0,
            order: if strict { Order::Strict } else { Order::Ready },
            cores: cores(facts),
            decode: piece(cpu),
            handover: Dist::Constant(handover),
            copy: Dist::Constant(copy),
            host: Dist::Lognormal { mean: host, scv: STEP_SPREAD },
            step: Dist::Lognormal { mean: step.max(1e-7), scv: STEP_SPREAD },
            ..Job::default()
        };
        job.storage.latency = piece(latency);
        let batch_bytes = facts.batch_bytes().0;
        Self { job, outside, cap: f64::INFINITY, scale: 1.0, alone: workers == 0, batch_bytes, per: 1.0 }
    }

    /// Scales what was measured until the model's step is the one that was seen.
    fn settle(&mut self, facts: &Facts, period: f64) {
        let target = period - self.outside.sum();
        let off = |fit: &Self| fit.core().map_or(0.0, |found| found / target - 1.0);
        if off(self).abs() <= AGREE {
            return;
        }
        if off(self) < 0.0 && facts.crew.idle >= IDLE && self.job.workers > 1 {
            // Workers idle and the trainer waits: batches differ, and are awaited in order.
            let spread = bisect(SPREADS, |spread| off(&self.spread(spread)));
            *self = self.spread(spread);
        }
        if off(self).abs() > AGREE {
            self.scale = bisect(SCALES, |scale| off(&self.scaled(scale)));
            *self = Self { scale: self.scale, ..self.scaled(self.scale) };
        }
        let left = off(self);
        if left < -AGREE {
            // Nothing that was measured explains the rest of the wait: it stays whatever is changed.
            let rest = -left * target;
            let handover = self.job.handover.mean() + rest;
            self.job.handover = Dist::Constant(handover);
        }
    }

    /// The same with the work of workers multiplied.
    pub(super) fn scaled(&self, factor: f64) -> Self {
        let mut fit = self.clone();
        fit.job.decode = times(&self.job.decode, factor);
        fit.job.collate = times(&self.job.collate, factor);
        fit.job.storage.latency = times(&self.job.storage.latency, factor);
        fit
    }

    /// The same with pieces of another spread.
    fn spread(&self, scv: f64) -> Self {
        let mut fit = self.clone();
        let with = |dist: &Dist| Dist::Lognormal { mean: dist.mean(), scv: scv * f64::from(self.job.batch) };
        fit.job.decode = with(&self.job.decode);
        fit.job.storage.latency = with(&self.job.storage.latency);
        fit
    }

    /// The same with so many workers; the first brings handing over with it, of so many seconds a batch
    /// on either side.
    pub(super) fn workers(&self, workers: u32, handing: f64) -> Self {
        let mut fit = self.clone();
        fit.job.workers = workers;
        if self.alone && workers > 0 {
            fit.job.handover = Dist::Constant(handing);
            fit.job.collate = Dist::Constant(self.job.collate.mean() + handing);
        }
        if !self.alone && workers == 0 {
            fit.job.handover = Dist::ZERO;
        }
        // Workers start one after the other.
        let before = f64::from(self.job.workers);
        if before > 0.0 && workers > 0 {
            fit.outside.startup = self.outside.startup * (0.5 + 0.5 * f64::from(workers) / before);
        }
        fit
    }

    /// Cores that its parts need a second at its present speed.
    pub(super) fn demand(&self, period: f64) -> f64 {
        let job = &self.job;
        let batch = job.decode.mean() * f64::from(job.batch) + job.collate.mean();
        (batch + job.handover.mean() + job.host.mean()) / period.max(1e-9)
    }

    /// Seconds from step to step by the closed forms, without what lies outside.
    fn core(&self) -> Result<f64> {
        Ok(estimate(&self.job)?.period.max(1.0 / self.cap))
    }

    /// Of a period what lies within the model.
    pub(super) fn within(&self, period: f64) -> f64 {
        (period * self.per - self.outside.sum()).max(1e-9)
    }

    /// What it gives, by the closed forms.
    ///
    /// # Errors
    /// Where the job is refused.
    pub(super) fn estimated(&self) -> Result<Given> {
        Ok(self.given(self.core()?))
    }

    /// What it gives where the model says that its core takes so long.
    pub(super) fn given(&self, core: f64) -> Given {
        let core = core.max(1.0 / self.cap);
        let period = core + self.outside.sum();
        let needed = self.job.step.mean() + self.job.host.mean();
        Given { period: period / self.per, stall: (1.0 - needed / period).clamp(0.0, 1.0) }
    }
}

/// What a step spends outside of the model.
fn outside(facts: &Facts, period: f64, wait: f64) -> Outside {
    let startup = (facts.cause("startup") * period).min(wait * period);
    let data = ["fetch.storage", "fetch.cache", "fetch.network", "decode", "handoff", "startup"];
    let known: f64 = data.iter().map(|cause| facts.cause(cause)).sum();
    let contention = facts.cause("contention");
    // Queueing for cores inside the loader is a part of the wait; the rest of it is in the step.
    let inside = (wait - known).clamp(0.0, contention);
    let own = (1.0 - wait - facts.cause("checkpoint")).max(0.0);
    let kept = ((contention - inside).min(own) * period).max(0.0);
    Outside { startup, save: facts.cause("checkpoint").min(1.0 - wait) * period, kept }
}

/// Seconds of waiting for storage, and of CPU, that a batch takes.
fn work(facts: &Facts, period: f64, waited: f64) -> (f64, f64) {
    let workers = f64::from(facts.workers());
    if workers == 0.0 {
        let fetch = (facts.cause("fetch.storage") + facts.cause("fetch.network")) * period;
        let latency = fetch.min(waited);
        return (latency, waited - latency);
    }
    let crew = &facts.crew;
    let each = workers * period;
    let starting = facts.cause("startup") >= 0.05;
    let shares = crew.cache + crew.decode + crew.collate;
    // What new workers use to start is none of a batch's.
    let cpu = crew.cpu.filter(|_| facts.by_processes() && !starting).map_or(shares, |cpu| cpu.max(shares));
    // In a fetch a worker waits, but it also copies and calls; that part is CPU and counted there.
    let waits = (crew.storage + crew.remote - (cpu - shares)).max(0.1 * (crew.storage + crew.remote));
    // What is none of the known parts waits for something that is no core, unless it is a start.
    let other = if starting { 0.0 } else { crew.other.max(0.0) };
    ((waits + other) * each, cpu.max(0.0) * each)
}

/// Cores that the job has now: those that it was granted, and where others take them those that it got.
fn cores(facts: &Facts) -> f64 {
    let m = &facts.machine;
    let ranks = m.ranks.max(1.0);
    let narrow = m.workers_allowed.filter(|few| m.allowed.is_some_and(|all| *few + 0.5 < all));
    // Beside narrow workers the trainer has cores of its own.
    let granted = narrow.map_or(facts.cores(), |few| (few + facts.host + facts.burnt).min(facts.cores() * ranks));
    let crew = &facts.crew;
    let (runs, queues) = if facts.workers() > 0 {
        (crew.cache + crew.decode + crew.collate, crew.queued)
    } else {
        (facts.burnt + facts.host, facts.cause("contention"))
    };
    let starved = queues > 0.1 || facts.cause("contention") > 0.05;
    match m.used.map(|used| used / ranks) {
        // Who queues beside idle or foreign cores gets of each what the scheduler leaves.
        Some(used) if starved && used < 0.85 * granted => {
            let left = runs / (runs + queues).max(1e-9);
            (1.02 * used).max(left * granted).clamp(0.05, granted.max(0.05))
        }
        _ => granted.max(0.05),
    }
}

/// Where a rising function crosses 0, on a logarithmic scale; the nearer end where it does not.
fn bisect((low, high): (f64, f64), off: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (low, high);
    if off(low) >= 0.0 {
        return low;
    }
    if off(high) <= 0.0 {
        return high;
    }
    for _ in 0..30 {
        let middle = (low * high).sqrt();
        if off(middle) < 0.0 { low = middle } else { high = middle }
    }
    (low * high).sqrt()
}

/// A distribution with all of its amounts multiplied.
pub(super) fn times(dist: &Dist, factor: f64) -> Dist {
    match dist {
        Dist::Constant(value) => Dist::Constant(value * factor),
        Dist::Exponential(mean) => Dist::Exponential(mean * factor),
        Dist::Lognormal { mean, scv } => Dist::Lognormal { mean: mean * factor, scv: *scv },
        Dist::Quantiles(pairs) => Dist::Quantiles(pairs.iter().map(|&(p, value)| (p, value * factor)).collect()),
    }
}
