//! From the rows of ticks to seconds: what each trainer and its machine did, a value a signal.

use std::collections::BTreeMap;

use feedline_traces::{Schema, Symbol, Tick, Ts};

use super::sampled::Sampled;
use super::signals::{Gather, NOTHING, Signal, Values, quotient, rates};
use super::tables::Tables;

/// Trainers followed at once; more are left out and counted.
const TRAINERS: usize = 256;
/// Workers and counters remembered at once, each.
const REMEMBERED: usize = 16_384;
/// Seconds after which what sends nothing is gone.
const GONE: f64 = 25.0;
/// Ticks are put together until they make at least this many seconds.
const SECOND: f64 = 0.9;
/// Seconds for which a gauge that comes seldom counts as current.
const CURRENT: f64 = 12.0;

/// Gauges that collectors read every few seconds only.
const SELDOM: [Signal; 2] = [Signal::Resident, Signal::Rtt];

/// Sums that become rates once the second is over.
const RATES: [Signal; 22] = [
    Signal::JobRead,
    Signal::JobStorage,
    Signal::JobCpu,
    Signal::JobFaults,
    Signal::Refaults,
    Signal::DiskRead,
    Signal::DiskWrite,
    Signal::DiskReads,
    Signal::DiskTime,
    Signal::DiskBusy,
    Signal::RemoteCalls,
    Signal::RemoteTime,
    Signal::NetReceived,
    Signal::Retransmits,
    Signal::CpuPressure,
    Signal::IoPressure,
    Signal::MemoryPressure,
    Signal::Periods,
    Signal::Held,
    Signal::OnCpu,
    Signal::Queued,
    Signal::Steps,
];

/// What a trainer's second was like.
#[derive(Debug, Clone)]
pub(crate) struct Second {
    /// The trainer.
    pub(crate) trainer: Symbol,
    /// Its end.
    pub(crate) at: Ts,
    /// A value a signal.
    pub(crate) values: Values,
}

/// A trainer while its second is gathered.
#[derive(Debug, Clone, Default)]
pub(super) struct Trainer {
    pub(super) gather: Gather,
    pub(super) sampled: Sampled,
    /// Time in marked regions that wait for data, in seconds; none where there are no marks.
    pub(super) marked: Option<f64>,
    seen: Ts,
}

/// A worker while its second is gathered.
#[derive(Debug, Clone, Default)]
pub(super) struct Worker {
    pub(super) trainer: Option<Symbol>,
    /// Samples on a CPU, reading, resting, and all.
    pub(super) samples: [f64; 4],
    seen: Ts,
}

/// The job and the machine, as far as their rows were seen.
#[derive(Debug, Default)]
pub(super) struct Job {
    pub(super) trainers: BTreeMap<Symbol, Trainer>,
    pub(super) workers: BTreeMap<Symbol, Worker>,
    pub(super) machine: Gather,
    counters: BTreeMap<(&'static str, Symbol, Symbol), (Ts, u64)>,
    pub(super) left_out: u64,
}

impl Job {
    /// The increase of a counter since it was last read; none at first, and after a reset.
    pub(super) fn grown(
        &mut self,
        what: (&'static str, &Symbol, Option<&Symbol>),
        at: Ts,
        value: Option<u64>,
    ) -> Option<f64> {
        Some(self.since(what, at, value)?.0)
    }

    /// The same a second: for counters that are not read once a second.
    pub(super) fn rate(
        &mut self,
        what: (&'static str, &Symbol, Option<&Symbol>),
        at: Ts,
        value: Option<u64>,
    ) -> Option<f64> {
        let (grown, seconds) = self.since(what, at, value)?;
        (seconds > 0.0).then(|| grown / seconds)
    }

    /// The increase of a counter, and the seconds since it was last read.
    #[expect(clippy::cast_precision_loss, reason = "differences of a second")]
    fn since(
        &mut self,
        what: (&'static str, &Symbol, Option<&Symbol>),
        at: Ts,
        value: Option<u64>,
    ) -> Option<(f64, f64)> {
        let value = value?;
        let key = (what.0, what.1.clone(), what.2.cloned().unwrap_or_else(|| Symbol::from("")));
        if self.counters.len() >= REMEMBERED && !self.counters.contains_key(&key) {
            self.left_out += 1;
            return None;
        }
        let before = self.counters.insert(key, (at, value))?;
        (value >= before.1).then(|| ((value - before.1) as f64, at.seconds_since(before.0)))
    }

    pub(super) fn trainer(&mut self, key: &Symbol, now: Ts) -> Option<&mut Trainer> {
        if !self.trainers.contains_key(key) && self.trainers.len() >= TRAINERS {
            self.left_out += 1;
            return None;
        }
        let trainer = self.trainers.entry(key.clone()).or_default();
        trainer.seen = now;
        Some(trainer)
    }

    /// A worker, and whether it is new.
    pub(super) fn worker(&mut self, key: &Symbol, now: Ts) -> Option<(&mut Worker, bool)> {
        let new = !self.workers.contains_key(key);
        if new && self.workers.len() >= REMEMBERED {
            self.left_out += 1;
            return None;
        }
        let worker = self.workers.entry(key.clone()).or_default();
        worker.seen = now;
        Some((worker, new))
    }

    /// The trainer that a worker feeds: the one it names, else the only one.
    pub(super) fn owner(&self, worker: &Worker) -> Option<Symbol> {
        let named = worker.trainer.clone().filter(|t| self.trainers.contains_key(t));
        named.or_else(|| (self.trainers.len() == 1).then(|| self.trainers.keys().next().cloned()).flatten())
    }

    fn forget(&mut self, now: Ts) {
        self.trainers.retain(|_, trainer| now.seconds_since(trainer.seen) < GONE);
        self.workers.retain(|_, worker| now.seconds_since(worker.seen) < GONE);
        self.counters.retain(|_, (seen, _)| now.seconds_since(*seen) < GONE);
    }
}

/// Reads ticks. The same code serves training and the live run.
#[derive(Debug)]
pub(crate) struct Watch {
    tables: Tables,
    job: Job,
    /// When the second at hand began.
    since: Option<Ts>,
    seldom: [(Ts, f64); SELDOM.len()],
    /// Whether workers that come are new: not in the first second.
    pub(super) settled: bool,
}

impl Watch {
    pub(crate) fn bind(schema: &Schema) -> Self {
        let seldom = [(Ts::default(), f64::NAN); SELDOM.len()];
        Self { tables: Tables::bind(schema), job: Job::default(), since: None, seldom, settled: false }
    }

    /// How often something was left out because there was too much.
    pub(crate) fn left_out(&self) -> u64 {
        self.job.left_out
    }

    /// Takes a tick. Gives the seconds that ended with it, one a trainer.
    pub(crate) fn account(&mut self, tick: &Tick) -> Vec<Second> {
        self.tables.take(tick, &mut self.job, self.settled);
        let Some(since) = self.since else {
            // What lies before the first tick is no second, and its length is not known.
            self.since = Some(tick.at);
            self.close(tick.at, 1.0);
            return Vec::new();
        };
        let seconds = tick.at.seconds_since(since);
        if seconds < SECOND {
            return Vec::new();
        }
        self.settled = true;
        self.since = Some(tick.at);
        self.close(tick.at, seconds)
    }

    fn close(&mut self, now: Ts, seconds: f64) -> Vec<Second> {
        let mut machine = self.job.machine.take();
        for (held, signal) in self.seldom.iter_mut().zip(SELDOM) {
            let value = &mut machine[signal as usize];
            if value.is_nan() {
                *value = if now.seconds_since(held.0) <= CURRENT { held.1 } else { f64::NAN };
            } else {
                *held = (now, *value);
            }
        }
        self.rest();
        let mut ended = Vec::new();
        for (key, trainer) in &mut self.job.trainers {
            if trainer.seen != now {
                continue;
            }
            let mut values = merged(&machine, &trainer.gather.take());
            rates(&mut values, &RATES, seconds);
            quotient(&mut values, Signal::DiskLatency, Signal::DiskTime, Signal::DiskReads);
            quotient(&mut values, Signal::RemoteLatency, Signal::RemoteTime, Signal::RemoteCalls);
            quotient(&mut values, Signal::Throttled, Signal::Held, Signal::Periods);
            let marked = trainer.marked.take().map(|time| (time / seconds).clamp(0.0, 1.0));
            let share = marked.or_else(|| trainer.sampled.close()).unwrap_or(values[Signal::Share10 as usize]);
            values[Signal::Share as usize] = share;
            ended.push(Second { trainer: key.clone(), at: now, values });
        }
        self.job.forget(now);
        ended
    }

    /// What the workers of each trainer did in this second.
    fn rest(&mut self) {
        let mut sums: BTreeMap<Symbol, [f64; 5]> = BTreeMap::new();
        for worker in self.job.workers.values() {
            let Some(owner) = self.job.owner(worker) else { continue };
            let [running, reading, resting, all] = worker.samples;
            if all <= 0.0 {
                continue;
            }
            let sum = sums.entry(owner).or_insert([0.0, 0.0, 0.0, 0.0, 1.0]);
            for (to, share) in sum.iter_mut().zip([running / all, reading / all, resting / all, 1.0]) {
                *to += share;
            }
            sum[4] = sum[4].min(resting / all);
        }
        self.job.workers.values_mut().for_each(|worker| worker.samples = [0.0; 4]);
        for (key, [running, reading, resting, count, least]) in sums {
            let Some(trainer) = self.job.trainers.get_mut(&key) else { continue };
            let known = [
                (Signal::WorkerRunning, running / count),
                (Signal::WorkerReading, reading / count),
                (Signal::WorkerResting, resting / count),
                (Signal::WorkerResting1, least),
                (Signal::Workers, count),
            ];
            known.into_iter().for_each(|(signal, value)| trainer.gather.set(signal, Some(value)));
        }
    }
}

/// The trainer's own values before the machine's.
fn merged(machine: &Values, own: &Values) -> Values {
    let mut values = NOTHING;
    for ((to, machine), own) in values.iter_mut().zip(machine).zip(own) {
        *to = if own.is_nan() { *machine } else { *own };
    }
    values
}
