//! A strict-order loader with workers beside a trainer, simulated batch by batch: each worker makes
//! every n-th batch, may be a few batches ahead, and the trainer takes them in order. What it costs
//! whom is known, because the program that plays it knows.

use feedline_traces::{Rows, Schema, Tick};
use std::sync::Arc;

use super::tables::{ActivityRow, ProcessRow, StackRow, ThreadRow, WaitRow, schema};
use super::{Dice, TRAINER, nanos, seconds};
use crate::attribute::cause::CAUSES;
use crate::attribute::{Cause, State};

/// A part of a batch or of a step: state, what it is on, site, task inside a loader, mean length in
/// seconds, coefficient of variation, how often it occurs, and what it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) state: State,
    pub(crate) on: &'static str,
    pub(crate) site: &'static str,
    pub(crate) task: &'static str,
    pub(crate) mean: f64,
    pub(crate) spread: f64,
    pub(crate) chance: f64,
    pub(crate) cause: Cause,
}

impl Piece {
    pub(crate) fn new(state: State, site: &'static str, mean: f64, cause: Cause) -> Self {
        Self { state, on: "", site, task: "", mean, spread: 0.2, chance: 1.0, cause }
    }

    pub(crate) fn on(self, on: &'static str) -> Self {
        Self { on, ..self }
    }

    pub(crate) fn task(self, task: &'static str) -> Self {
        Self { task, ..self }
    }

    pub(crate) fn at_times(self, chance: f64) -> Self {
        Self { chance, ..self }
    }

    pub(crate) fn spread(self, spread: f64) -> Self {
        Self { spread, ..self }
    }

    fn draw(&self, dice: &mut Dice) -> f64 {
        if dice.unit() >= self.chance {
            return 0.0;
        }
        let spread = (1.0 + self.spread * self.spread).ln();
        self.mean * (spread.sqrt() * dice.normal() - spread / 2.0).exp()
    }
}

/// The job.
#[derive(Debug, Clone)]
pub(crate) struct Plant {
    pub(crate) workers: usize,
    /// Batches that a worker may be ahead.
    pub(crate) prefetch: usize,
    /// What a worker does for a batch; without workers the trainer does it in the loader.
    pub(crate) batch: Vec<Piece>,
    /// What the trainer does with it.
    pub(crate) step: Vec<Piece>,
    /// State in which the trainer waits for a batch.
    pub(crate) waits: State,
    pub(crate) seconds: f64,
    /// Bytes a second of work: read, and from a device.
    pub(crate) read: f64,
    pub(crate) storage: f64,
    /// Of running time, the part in the kernel, and in the run queue.
    pub(crate) system: f64,
    pub(crate) queued: f64,
}

impl Default for Plant {
    fn default() -> Self {
        Self {
            workers: 4,
            prefetch: 2,
            batch: Vec::new(),
            step: Vec::new(),
            waits: State::Futex,
            seconds: 60.0,
            read: 2e6,
            storage: 0.0,
            system: 0.05,
            queued: 0.0,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Stretch {
    start: f64,
    end: f64,
    piece: Piece,
}

/// Ticks, and the true share of wall time by cause.
pub(crate) struct Grown {
    pub(crate) schema: Arc<Schema>,
    pub(crate) ticks: Vec<Tick>,
    pub(crate) truth: [f64; CAUSES],
}

impl Plant {
    /// Timelines of the trainer and of each worker.
    fn timelines(&self, dice: &mut Dice) -> Vec<Vec<Stretch>> {
        let mut lines: Vec<Vec<Stretch>> = vec![Vec::new(); self.workers + 1];
        let wait = Piece::new(self.waits, "loader", 0.0, Cause::Unknown).task("idle");
        let idle = Piece::new(State::Poll, "worker.idle", 0.0, Cause::Handoff).on("pipe");
        let mut free = vec![-0.2 * dice.unit(); self.workers];
        let mut taken: Vec<f64> = Vec::new();
        let mut ready: Vec<f64> = Vec::new();
        let mut now = 0.0;
        let ahead = self.workers * self.prefetch;
        while now < self.seconds {
            let batch = taken.len();
            while self.workers > 0 && ready.len() < batch + ahead.max(1) {
                let k = ready.len();
                let w = k % self.workers;
                let issued = if k < ahead { -0.1 } else { taken[k - ahead] };
                let mut at: f64 = free[w].max(issued);
                lines[w + 1].push(Stretch { start: free[w], end: at, piece: idle });
                for piece in &self.batch {
                    let length = piece.draw(dice);
                    lines[w + 1].push(Stretch { start: at, end: at + length, piece: *piece });
                    at += length;
                }
                free[w] = at;
                ready.push(at);
            }
            let mut at = now;
            if self.workers > 0 {
                at = at.max(ready[batch]);
                lines[0].push(Stretch { start: now, end: at, piece: wait });
            }
            let own = if self.workers == 0 { self.batch.as_slice() } else { &[] };
            for piece in own.iter().chain(&self.step) {
                let length = piece.draw(dice);
                lines[0].push(Stretch { start: at, end: at + length, piece: *piece });
                at += length;
            }
            taken.push(at);
            now = at;
        }
        lines
    }

    /// Where the trainer's time really goes, looked at each millisecond from the first tick on.
    fn truth(&self, lines: &[Vec<Stretch>]) -> [f64; CAUSES] {
        let mut truth = [0.0; CAUSES];
        let mut cursors = vec![0; lines.len()];
        let mut n = 0.0;
        let mut at = 1.0;
        while at < self.seconds {
            let pieces: Vec<Piece> = lines.iter().zip(&mut cursors).map(|(line, c)| find(line, c, at)).collect();
            let (main, workers) = (pieces[0], &pieces[1..]);
            if main.task == "idle" && self.workers > 0 {
                // Head of line: at least half of the other workers have nothing left to do.
                let busy: Vec<&Piece> = workers.iter().filter(|p| p.site != "worker.idle").collect();
                if busy.is_empty() || workers.len() > 1 && 2 * (busy.len() - 1) < workers.len() {
                    truth[Cause::Handoff as usize] += 1.0;
                } else {
                    busy.iter().for_each(|p| truth[p.cause as usize] += 1.0 / busy.len() as f64);
                }
            } else {
                truth[main.cause as usize] += 1.0;
            }
            n += 1.0;
            at += 0.001;
        }
        truth.map(|x| x / n)
    }

    /// Plays it from a seed, sampled as often as a session does by default. `more` adds rows of a
    /// tick that ends at a time.
    pub(crate) fn grow(&self, seed: u64, more: &dyn Fn(f64, &mut Rows<'_>)) -> Grown {
        let mut dice = Dice::new(seed);
        let lines = self.timelines(&mut dice);
        let truth = self.truth(&lines);
        let schema = schema();
        let mut ticks = Vec::new();
        let mut second = 0.0;
        while second < self.seconds {
            second += 1.0;
            let mut rows = Rows::new(&schema, seconds(second));
            for (i, line) in lines.iter().enumerate() {
                self.process(i, line, second, &mut rows);
                self.samples(i, &lines, second, &mut dice, &mut rows);
            }
            for s in lines[0].iter().filter(|s| s.end >= second - 1.0 && s.end < second) {
                if s.end - s.start >= 0.004 && s.piece.state != State::Running {
                    let row = WaitRow {
                        process: TRAINER.into(),
                        thread: "100".into(),
                        state: s.piece.state.name().into(),
                        duration: ((s.end - s.start) * 1e9).into(),
                    };
                    rows.push_at(seconds(s.end), row);
                }
            }
            more(second, &mut rows);
            ticks.push(Tick { at: seconds(second), batches: rows.finish() });
        }
        Grown { schema, ticks, truth }
    }

    /// Counters of a process and of its main thread.
    fn process(&self, i: usize, line: &[Stretch], to: f64, rows: &mut Rows<'_>) {
        let time = |pick: &dyn Fn(&Stretch) -> bool| -> f64 {
            line.iter().filter(|s| pick(s)).map(|s| (s.end.min(to) - s.start.max(0.0)).max(0.0)).sum()
        };
        let running = time(&|s| s.piece.state == State::Running);
        let loads = time(&|s| s.piece.site != "worker.idle" && (i > 0 || s.piece.site == "loader"));
        let loading = time(&|s| s.piece.state == State::Running && (i > 0 || s.piece.site == "loader"));
        let key = key(i);
        let bytes = |rate: f64| whole(rate * loads);
        rows.push(ProcessRow {
            process: key.as_str().into(),
            parent: if i > 0 { TRAINER } else { "" }.into(),
            role: if i > 0 { "worker" } else { "trainer" }.into(),
            cpu_user: nanos(running * (1.0 - self.queued) - loading * self.system),
            cpu_system: nanos(loading * self.system),
            read: bytes(self.read).into(),
            storage_read: bytes(self.storage).into(),
            read_calls: bytes(self.read / 1e6).into(),
            threads: 1.0.into(),
            cores_allowed: 8.0.into(),
            ..ProcessRow::default()
        });
        rows.push(ThreadRow {
            role: if i > 0 { "worker" } else { "main" }.into(),
            on_cpu: nanos(running * (1.0 - self.queued)),
            run_queue: nanos(running * self.queued),
            ..ThreadRow::new(&key)
        });
    }

    /// A second's samples of states and stacks, at random times.
    fn samples(&self, i: usize, lines: &[Vec<Stretch>], to: f64, dice: &mut Dice, rows: &mut Rows<'_>) {
        let (process, rates) = (key(i), if i == 0 { [100, 12] } else { [20, 1] });
        let thread = process.split('@').next().unwrap();
        for n in 0..rates[0] {
            let at = to - 1.0 + (f64::from(n) + dice.unit()) / f64::from(rates[0]);
            let piece = find(&lines[i], &mut 0, at);
            let beside = if i == 0 { "" } else { find(&lines[0], &mut 0, at).state.name() };
            rows.push(ActivityRow {
                process: process.as_str().into(),
                thread: thread.into(),
                state: piece.state.name().into(),
                beside: beside.into(),
                on: piece.on.into(),
                samples: 1.0.into(),
                episodes: 0.5.into(),
            });
        }
        for n in 0..rates[1] {
            let at = to - 1.0 + (f64::from(n) + dice.unit()) / f64::from(rates[1]);
            let piece = find(&lines[i], &mut 0, at);
            let missed = piece.state == State::Running && dice.unit() < 0.2;
            rows.push(StackRow {
                process: process.as_str().into(),
                thread: thread.into(),
                state: piece.state.name().into(),
                site: if missed { "unknown" } else { piece.site }.into(),
                task: if missed { "" } else { piece.task }.into(),
                samples: u64::from(!missed).into(),
                missed: u64::from(missed).into(),
                ..StackRow::default()
            });
        }
    }
}

fn key(i: usize) -> String {
    if i == 0 { TRAINER.to_owned() } else { format!("{}@{}", 100 + i, 7 + i) }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "test numbers are small")]
fn whole(x: f64) -> u64 {
    x.max(0.0) as u64
}

/// The piece at a time; a cursor that only moves forward saves the way.
fn find(line: &[Stretch], cursor: &mut usize, at: f64) -> Piece {
    if *cursor == 0 {
        *cursor = line.partition_point(|s| s.end <= at).min(line.len() - 1);
    }
    while line[*cursor].end <= at && *cursor + 1 < line.len() {
        *cursor += 1;
    }
    line[*cursor].piece
}
