//! Test support: a trainer whose truth is known, and the ticks a source would give of it. The
//! observed tables are in `tables`, a loader with workers is in `plant`.

pub(crate) mod plant;
mod tables;

use std::sync::Arc;

use feedline_traces::unit::Nanos;
use feedline_traces::{Counter, Derive, Rows, Schema, Text, Tick, Ts};

use crate::attribute::{Attribute, State};
pub(crate) use tables::*;

/// Random numbers from a seed (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xfeed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// Part of a step: state, site, mean length in seconds, coefficient of variation, and how often it
/// occurs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Phase(pub(crate) State, pub(crate) &'static str, pub(crate) f64, pub(crate) f64, pub(crate) f64);

/// A trainer that repeats its phases.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) phases: Vec<Phase>,
    pub(crate) seconds: f64,
    /// Chance that a stack is missed while running, and while blocked.
    pub(crate) missed: [f64; 2],
    /// How much of its samples a sampler loses while the trainer runs: it shares the cores.
    pub(crate) starved: f64,
}

impl Job {
    pub(crate) fn new(phases: &[Phase]) -> Self {
        Self { phases: phases.to_vec(), seconds: 30.0, missed: [0.25, 0.02], starved: 0.0 }
    }
}

/// A stretch of the trainer's time.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    start: f64,
    end: f64,
    state: State,
    site: &'static str,
}

/// What a job gives: its ticks, and the share of time in the loader.
pub(crate) struct Played {
    pub(crate) schema: Arc<Schema>,
    pub(crate) ticks: Vec<Tick>,
    pub(crate) data: f64,
    /// The same over the last ten seconds.
    pub(crate) lately: f64,
}

pub(crate) const TRAINER: &str = "100@7";

pub(crate) fn seconds(at: f64) -> Ts {
    #[expect(clippy::cast_possible_truncation, reason = "test times are small")]
    Ts(1_700_000_000_000_000_000 + (at * 1e9) as i64)
}

fn timeline(job: &Job, dice: &mut Dice) -> Vec<Stretch> {
    let mut all = Vec::new();
    // Recording starts somewhere within a step.
    let mut at = -dice.unit() * job.phases.iter().map(|p| p.2).sum::<f64>();
    while at < job.seconds {
        for Phase(state, site, mean, variation, chance) in &job.phases {
            if dice.unit() >= *chance {
                continue;
            }
            let spread = (1.0 + variation * variation).ln();
            let length = mean * (spread.sqrt() * dice.normal() - spread / 2.0).exp();
            all.push(Stretch { start: at, end: at + length, state: *state, site });
            at += length;
        }
    }
    all
}

/// The stretch at a time: the cursor only moves forward.
fn at<'a>(timeline: &'a [Stretch], cursor: &mut usize, time: f64) -> &'a Stretch {
    while timeline[*cursor].end <= time && *cursor + 1 < timeline.len() {
        *cursor += 1;
    }
    &timeline[*cursor]
}

/// Time within `[from, to)` that a predicate picks.
fn within(timeline: &[Stretch], from: f64, to: f64, pick: impl Fn(&Stretch) -> bool) -> f64 {
    timeline.iter().filter(|s| pick(s)).map(|s| (s.end.min(to) - s.start.max(from)).max(0.0)).sum()
}

/// Plays a job from a seed: states at 250 Hz, stacks at 20 Hz, a tick a second.
pub(crate) fn play(job: &Job, seed: u64) -> Played {
    let mut dice = Dice::new(seed);
    let timeline = timeline(job, &mut dice);
    let schema = schema();
    let mut ticks = Vec::new();
    let (mut fast, mut slow) = (Sampler::new(1.0 / 250.0), Sampler::new(1.0 / 20.0));
    let mut last = None;
    let mut second = 0.0;
    while second < job.seconds {
        let (from, to) = (second, second + 1.0);
        let mut rows = Rows::new(&schema, seconds(to));
        rows.push(ProcessRow { process: TRAINER.into(), role: "trainer".into(), ..ProcessRow::default() });
        let cpu = within(&timeline, 0.0, to, |s| s.state == State::Running);
        rows.push(ThreadRow {
            on_cpu: nanos(cpu),
            run_queue: 0_u64.into(),
            role: "main".into(),
            ..ThreadRow::new(TRAINER)
        });
        fast.activity(job, &timeline, to, &mut last, &mut dice, &mut rows);
        slow.stacks(job, &timeline, to, &mut dice, &mut rows);
        for s in timeline.iter().filter(|s| s.end >= from && s.end < to && s.state != State::Running) {
            let duration = (s.end - s.start) * 1e9;
            if duration >= 4e6 {
                rows.push_at(
                    seconds(s.end),
                    WaitRow {
                        process: TRAINER.into(),
                        thread: "100".into(),
                        state: s.state.name().into(),
                        duration: duration.into(),
                    },
                );
            }
        }
        ticks.push(Tick { at: seconds(to), batches: rows.finish() });
        second = to;
    }
    let data = within(&timeline, 1.0, second, |s| s.site == "loader") / (second - 1.0);
    let lately = within(&timeline, second - 10.0, second, |s| s.site == "loader") / 10.0;
    Played { schema, ticks, data, lately }
}

/// A sampler with its own time: an interval with some jitter, as a sleeping thread has.
struct Sampler {
    interval: f64,
    at: f64,
    cursor: usize,
}

impl Sampler {
    fn new(interval: f64) -> Self {
        Self { interval, at: 0.0, cursor: 0 }
    }

    fn step<'a>(&mut self, timeline: &'a [Stretch], to: f64, dice: &mut Dice) -> Option<&'a Stretch> {
        if self.at >= to {
            return None;
        }
        let found = at(timeline, &mut self.cursor, self.at.max(0.0));
        self.at += self.interval * (0.9 + 0.2 * dice.unit());
        Some(found)
    }

    fn activity(
        &mut self,
        job: &Job,
        timeline: &[Stretch],
        to: f64,
        last: &mut Option<State>,
        dice: &mut Dice,
        rows: &mut Rows<'_>,
    ) {
        let mut counts = [(0_u64, 0_u64); 11];
        while let Some(found) = self.step(timeline, to, dice) {
            if found.state == State::Running && dice.unit() < job.starved {
                continue;
            }
            let count = &mut counts[found.state as usize];
            count.0 += 1;
            count.1 += u64::from(*last != Some(found.state));
            *last = Some(found.state);
        }
        for state in State::ALL {
            let (samples, episodes) = counts[state as usize];
            if samples > 0 {
                rows.push(ActivityRow {
                    process: TRAINER.into(),
                    thread: "100".into(),
                    state: state.name().into(),
                    samples: samples.into(),
                    episodes: episodes.into(),
                    ..ActivityRow::default()
                });
            }
        }
    }

    fn stacks(&mut self, job: &Job, timeline: &[Stretch], to: f64, dice: &mut Dice, rows: &mut Rows<'_>) {
        while let Some(found) = self.step(timeline, to, dice) {
            let running = found.state == State::Running;
            if running && dice.unit() < job.starved {
                continue;
            }
            let missed = dice.unit() < job.missed[usize::from(!running)];
            rows.push(StackRow {
                process: TRAINER.into(),
                thread: "100".into(),
                state: found.state.name().into(),
                site: if missed { "" } else { found.site }.into(),
                frame: if missed { Text::default() } else { format!("job.py:{}", found.site).into() },
                leaf: Text::default(),
                samples: u64::from(!missed).into(),
                missed: u64::from(missed).into(),
                ..StackRow::default()
            });
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "test times are small")]
pub(crate) fn nanos(seconds: f64) -> Counter<Nanos> {
    ((seconds * 1e9) as u64).into()
}

/// Runs attribution over ticks; each comes back with its derived rows only.
pub(crate) fn attribute(schema: &Schema, ticks: &[Tick]) -> Vec<Tick> {
    let mut attribute = Attribute::bind(schema).unwrap();
    let derive = |tick: &Tick| {
        let mut rows = Rows::new(schema, tick.at);
        attribute.derive(tick, &mut rows).unwrap();
        assert!(rows.undeclared().is_empty());
        Tick { at: tick.at, batches: rows.finish() }
    };
    ticks.iter().map(derive).collect()
}

/// A number in the last row of a table.
pub(crate) fn last(schema: &Schema, ticks: &[Tick], path: &str) -> Option<f64> {
    let column = schema.find(path).unwrap();
    let batch = ticks.iter().rev().find_map(|t| t.batch(column.table))?;
    batch.columns[column.column].number(batch.len() - 1)
}

/// A text in the last row of a table.
pub(crate) fn last_text(schema: &Schema, ticks: &[Tick], path: &str) -> Option<String> {
    let column = schema.find(path).unwrap();
    let batch = ticks.iter().rev().find_map(|t| t.batch(column.table))?;
    batch.columns[column.column].text(batch.len() - 1).map(|s| s.to_string())
}
