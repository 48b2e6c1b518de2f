//! What happens inside the trainers: their other threads, what the main one is blocked in and for how
//! long at a time, and how often it saves; bounded by limits.

use std::collections::BTreeMap;

use feedline_traces::unit::Unit;
use feedline_traces::{Schema, Tick, Ts};

use super::page::Block;
use super::rows::{RowsOf, keep};
use super::stat::{Stat, whole};
use super::wording::{mix, percent, table, table_of, trainer, unit};
use super::{Report, Saves, ThreadTime, Waits};
use crate::bind::MISSING;

/// Innermost functions of one thread that are kept.
const FUNCTIONS: usize = 64;

/// What is kept of the run so far.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    threads: BTreeMap<(String, String), Times>,
    waits: BTreeMap<(String, String), Stat>,
    saves: BTreeMap<String, Saved>,
}

#[derive(Debug, Default)]
struct Times {
    name: Option<String>,
    role: String,
    /// The last reading of the counter, and what was counted over how many seconds.
    reading: Option<(Ts, f64)>,
    on_cpu: f64,
    seconds: f64,
    states: BTreeMap<String, f64>,
    functions: BTreeMap<String, f64>,
}

#[derive(Debug, Default)]
struct Saved {
    stacks: f64,
    saving: f64,
    times: f64,
    first: Option<Ts>,
    last: Ts,
}

impl Inside {
    pub(crate) fn accept(&mut self, schema: &Schema, tick: &Tick) {
        self.threads(schema, tick);
        self.states(schema, tick);
        self.stacks(schema, tick);
        if let Some(rows) = RowsOf::of(schema, tick, "wait") {
            for row in 0..rows.len() {
                let (Some((process, thread)), Some(state)) = (whose(&rows, row), rows.text(row, "state")) else {
                    continue;
                };
                if is_main(&process, &thread) {
                    let length = rows.number(row, "duration").unwrap_or(f64::NAN);
                    keep(&mut self.waits, (process, state), |stat: &mut Stat| stat.add(length, 1.0));
                }
            }
        }
    }

    fn threads(&mut self, schema: &Schema, tick: &Tick) {
        let Some(rows) = RowsOf::of(schema, tick, "thread") else { return };
        for row in 0..rows.len() {
            let Some((process, thread)) = whose(&rows, row).filter(|(process, thread)| !is_main(process, thread))
            else {
                continue;
            };
            keep(&mut self.threads, (process, thread), |times: &mut Times| {
                times.name = rows.text(row, "name").or(times.name.take());
                times.role = rows.text(row, "role").unwrap_or_default();
                let Some(now) = rows.number(row, "on_cpu") else { return };
                if let Some((at, before)) = times.reading.replace((tick.at, now)).filter(|(_, before)| now >= *before) {
                    times.on_cpu += (now - before) / 1e9;
                    times.seconds += tick.at.seconds_since(at);
                }
            });
        }
    }

    fn states(&mut self, schema: &Schema, tick: &Tick) {
        let Some(rows) = RowsOf::of(schema, tick, "activity") else { return };
        for row in 0..rows.len() {
            let (Some(key), Some(state)) = (whose(&rows, row), rows.text(row, "state")) else { continue };
            if let Some(times) = self.threads.get_mut(&key) {
                let samples = rows.number(row, "samples").unwrap_or(0.0).max(0.0);
                keep(&mut times.states, state, |sum| *sum += samples);
            }
        }
    }

    fn stacks(&mut self, schema: &Schema, tick: &Tick) {
        let Some(rows) = RowsOf::of(schema, tick, "stack") else { return };
        for row in 0..rows.len() {
            let Some(key) = whose(&rows, row) else { continue };
            let samples = rows.number(row, "samples").unwrap_or(0.0).max(0.0);
            if is_main(&key.0, &key.1) {
                let saves = rows.text(row, "site").as_deref() == Some("checkpoint");
                let times = rows.number(row, "runs").unwrap_or(0.0).max(0.0);
                keep(&mut self.saves, key.0, |saved: &mut Saved| {
                    saved.stacks += samples;
                    saved.saving += if saves { samples } else { 0.0 };
                    saved.times += if saves { times } else { 0.0 };
                    saved.first.get_or_insert(tick.at);
                    saved.last = tick.at;
                });
            } else if let (Some(times), Some(leaf)) = (self.threads.get_mut(&key), rows.text(row, "leaf"))
                && (times.functions.len() < FUNCTIONS || times.functions.contains_key(&leaf))
            {
                *times.functions.entry(leaf).or_default() += samples;
            }
        }
    }

    /// The threads of a process beside its main one, those that used a CPU most first.
    pub(crate) fn threads_of(&self, process: &str) -> Vec<ThreadTime> {
        let mine = self.threads.iter().filter(|((of, _), _)| of == process);
        let mut threads: Vec<ThreadTime> = mine
            .map(|((_, thread), times)| {
                let total: f64 = times.states.values().sum();
                let share = |(state, sum): (&String, &f64)| (state.clone(), sum / total);
                let most = times.functions.iter().max_by(|a, b| a.1.total_cmp(b.1));
                ThreadTime {
                    thread: thread.clone(),
                    name: times.name.clone(),
                    role: times.role.clone(),
                    cpu: (times.seconds > 0.0).then(|| times.on_cpu / times.seconds),
                    states: if total > 0.0 { times.states.iter().map(share).collect() } else { BTreeMap::new() },
                    function: most.map(|(leaf, _)| leaf.clone()),
                }
            })
            .collect();
        threads.sort_by(|a, b| b.cpu.unwrap_or(-1.0).total_cmp(&a.cpu.unwrap_or(-1.0)));
        threads
    }

    /// What its main thread was blocked in, the most in all first.
    pub(crate) fn waits_of(&self, process: &str) -> Vec<Waits> {
        let mine = self.waits.iter().filter(|((of, _), _)| of == process);
        let mut waits: Vec<Waits> = mine
            .map(|((_, state), stat)| Waits {
                state: state.clone(),
                times: whole(stat.weight),
                mean: stat.mean(),
                longest: stat.peak,
            })
            .collect();
        #[expect(clippy::cast_precision_loss, reason = "for an order")]
        let total = |waits: &Waits| waits.times as f64 * waits.mean.unwrap_or(0.0);
        waits.sort_by(|a, b| total(b).total_cmp(&total(a)));
        waits
    }

    /// How often it saved, as far as stacks tell: a save between two of them is not seen.
    pub(crate) fn saves_of(&self, process: &str) -> Option<Saves> {
        let saved = self.saves.get(process).filter(|saved| saved.times >= 1.0 && saved.stacks > 0.0)?;
        let seconds = saved.last.seconds_since(saved.first?);
        let (times, time) = (saved.times, saved.saving / saved.stacks * seconds);
        Some(Saves { times: whole(times), length: (time > 0.0).then(|| time / times * 1e9) })
    }
}

fn whose(rows: &RowsOf<'_>, row: usize) -> Option<(String, String)> {
    rows.text(row, "process").zip(rows.text(row, "thread"))
}

/// The main thread's id is its process's.
pub(crate) fn is_main(process: &str, thread: &str) -> bool {
    process.split('@').next() == Some(thread)
}

/// What the threads inside the trainers did, beside their main ones; nothing at all where none is known.
pub(crate) fn threads(report: &Report, out: &mut Vec<Block>) {
    let mut rows = Vec::new();
    for (one, thread) in report.trainers.iter().flat_map(|t| t.threads.iter().map(move |thread| (t, thread))) {
        let does = match thread.role.as_str() {
            "loader" | "worker" => "feeds it",
            "pin" => "pins memory",
            _ => "something else",
        };
        rows.push(vec![
            trainer(report, &one.process).to_owned(),
            thread.thread.clone(),
            thread.name.clone().unwrap_or(MISSING.to_owned()),
            does.to_owned(),
            percent(thread.cpu),
            mix(&thread.states),
            thread.function.clone().unwrap_or(MISSING.to_owned()),
        ]);
    }
    if rows.is_empty() {
        return;
    }
    out.push(Block::Heading("Threads inside the trainers".to_owned()));
    let heads = ["trainer", "thread", "name", "does", "cpu", "state %", "most often in"];
    let right = heads.iter().map(|head| *head == "cpu").collect();
    table_of(&heads, right, rows, out);
}

/// What main threads were blocked in, and for how long at a time.
pub(crate) fn waits(report: &Report, out: &mut Vec<Block>) {
    let waits = report.trainers.iter().flat_map(|t| t.waits.iter().map(move |waits| (t, waits)));
    let rows: Vec<Vec<String>> = waits
        .map(|(one, waits)| {
            vec![
                trainer(report, &one.process).to_owned(),
                waits.state.clone(),
                waits.times.to_string(),
                unit(Unit::Nanos, waits.mean),
                unit(Unit::Nanos, waits.longest),
            ]
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    out.push(Block::Line("Times of 2 ms or more that the main thread was blocked in one state:".to_owned()));
    table(&["trainer", "state", "times", "mean", "longest"], 2, rows, out);
}
