//! What is remembered of one trainer, and of the processes of its job.

use std::collections::BTreeMap;

use feedline_traces::{Symbol, Ts};

use crate::advise::facts::{Crew, Pattern, Said, Saves};

/// The increase of a counter from first to last; what falls was reset and starts anew.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Grown {
    pub(super) last: Option<(Ts, u64)>,
    pub(super) sum: f64,
    pub(super) seconds: f64,
}

impl Grown {
    /// Takes a reading, and gives the increase since the last one.
    #[expect(clippy::cast_precision_loss, reason = "differences of a second")]
    pub(super) fn read(&mut self, at: Ts, value: Option<u64>) -> f64 {
        let Some(value) = value else { return 0.0 };
        let before = self.last.replace((at, value));
        let Some((then, before)) = before.filter(|(then, before)| *before <= value && *then < at) else { return 0.0 };
        let grown = (value - before) as f64;
        self.sum += grown;
        self.seconds += at.seconds_since(then);
        grown
    }

    pub(super) fn rate(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.sum / self.seconds)
    }
}

/// A process of the job.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) role: Option<Symbol>,
    pub(super) parent: Option<Symbol>,
    pub(super) cpu: [Grown; 2],
    pub(super) read: Grown,
    pub(super) calls: Grown,
    pub(super) allowed: Option<f64>,
    pub(super) threads: Option<f64>,
    pub(super) rss: Option<f64>,
    pub(super) fds: Option<f64>,
    pub(super) seen: Ts,
}

/// A trainer.
#[derive(Debug, Default)]
pub(super) struct Trainer {
    pub(super) pid: Option<u64>,
    pub(super) verdict: [Option<f64>; 3],
    pub(super) said: Said,
    pub(super) causes: BTreeMap<String, f64>,
    /// Sum over ticks of a step's period weighted by trust, and the sum of the weights.
    pub(super) period: (f64, f64),
    pub(super) on_cpu: Grown,
    /// Samples by state of the main thread, and stacks by state: all, and in the loader.
    pub(super) states: BTreeMap<Symbol, f64>,
    pub(super) stacks: BTreeMap<Symbol, [f64; 2]>,
    pub(super) pins: bool,
    pub(super) crew: BTreeMap<&'static str, f64>,
    /// Worker rows, and ticks that had any: processes and threads apart.
    pub(super) rows: [f64; 3],
    pub(super) rate: (f64, f64),
    pub(super) findings: BTreeMap<String, (f64, Pattern)>,
    pub(super) saving: Saving,
    pub(super) written: Grown,
}

/// Checkpoints by ticks, and exactly where the process says so.
#[derive(Debug, Default)]
pub(super) struct Saving {
    pub(super) on: bool,
    pub(super) seen: f64,
    /// Ticks in which stacks were read, and those with any at a checkpoint.
    pub(super) ticks: [f64; 2],
    pub(super) times: Grown,
}

impl Trainer {
    /// Shares of time on a CPU inside the loader and outside of it. Stacks say where, states and the
    /// scheduler's own count how much (`docs/attribution.md`).
    pub(super) fn split(&self) -> (f64, f64) {
        let all: f64 = self.states.values().sum();
        let sampled = self.states.get("running").copied().unwrap_or(0.0) / all.max(1e-9);
        let running = self.on_cpu.rate().map_or(sampled, |nanos| nanos / 1e9).clamp(0.0, 1.0);
        let [stacks, inside] = self.stacks.get("running").copied().unwrap_or_default();
        let part = if stacks > 0.0 { inside / stacks } else { 0.0 };
        (running * part, running * (1.0 - part))
    }

    pub(super) fn crew(&self, about: Crew) -> Crew {
        let [processes, threads, ticks] = self.rows;
        let rows = (processes + threads).max(1.0);
        let part = |name: &str| self.crew.get(name).copied().unwrap_or(0.0) / rows;
        Crew {
            processes: processes / ticks.max(1.0),
            threads: threads / ticks.max(1.0),
            storage: part("storage"),
            remote: part("remote"),
            cache: part("cache"),
            decode: part("decode"),
            collate: part("collate"),
            put: part("put"),
            idle: part("idle"),
            queued: part("queued"),
            other: part("other"),
            ..about
        }
    }

    pub(super) fn saves(&self, seconds: f64) -> Option<Saves> {
        let share = self.causes.get("checkpoint").copied().filter(|share| *share > 0.0)?;
        let exact = self.saving.times.sum;
        // Where most ticks have one, several lie in a tick, and the number is not known.
        let told = self.saving.ticks[1] <= 0.5 * self.saving.ticks[0];
        let seen = if exact > 0.0 { exact } else { self.saving.seen };
        if exact == 0.0 && !told {
            return None;
        }
        let bytes = (self.written.sum > 0.0).then(|| self.written.sum / seen.max(1.0));
        (seen >= 1.0).then(|| Saves { seen, each: share * seconds / seen, every: seconds / seen, bytes })
    }

    pub(super) fn findings(&self, ticks: f64) -> BTreeMap<String, Pattern> {
        let held = |(count, pattern): &(f64, Pattern)| Pattern { held: count / ticks.max(1.0), ..pattern.clone() };
        self.findings.iter().map(|(kind, found)| (kind.clone(), held(found))).collect()
    }
}

pub(super) fn is(process: &Process, role: &str) -> bool {
    process.role.as_deref() == Some(role)
}

/// Cores that one of these processes uses.
pub(super) fn cpu(processes: &[&Process]) -> Option<f64> {
    let sum = |pick: fn(&Grown) -> f64| processes.iter().flat_map(|p| &p.cpu).map(pick).sum::<f64>();
    // Both halves of a process's time are counted over the same seconds.
    let (nanos, seconds) = (sum(|g| g.sum), sum(|g| g.seconds) / 2.0);
    (seconds > 0.0).then(|| nanos / 1e9 / seconds)
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / real(values.len()))
}

#[expect(clippy::cast_precision_loss, reason = "a number of processes")]
pub(super) fn real(n: usize) -> f64 {
    n as f64
}
