//! What is said of a trainer whose loader is Python threads of its own, from rows to causes.

use super::*;
use crate::sim::{ActivityRow, ProcessRow, StackRow, TRAINER, ThreadRow, attribute, last_text, nanos, schema, seconds};

/// A thread: its name and role, and the state, what it is on, the share beside a waiting trainer and
/// beside one in its step, and the site of each thing that it does.
struct Thread {
    name: &'static str,
    role: &'static str,
    does: &'static [(State, &'static str, f64, f64, &'static str)],
}

/// Shares of time by cause of a trainer that waits on a lock half of the time, and the sentence.
fn judged(threads: &[Thread]) -> (Vec<(String, f64)>, String) {
    let schema = schema();
    let mut ticks = Vec::new();
    for second in 1..=20_u32 {
        let at = f64::from(second);
        let mut rows = Rows::new(&schema, seconds(at));
        rows.push(ProcessRow {
            process: TRAINER.into(),
            role: "trainer".into(),
            cores_allowed: 8.0.into(),
            cpu_user: nanos(0.2 * at),
            cpu_system: nanos(0.05 * at),
            ..ProcessRow::default()
        });
        rows.push(ThreadRow {
            role: "main".into(),
            on_cpu: nanos(0.0),
            run_queue: nanos(0.0),
            ..ThreadRow::new(TRAINER)
        });
        for (state, site) in [(State::Futex, "loader"), (State::Sleep, "host")] {
            let (process, thread, state): (_, _, feedline_traces::Key) =
                (TRAINER.into(), "100".into(), state.name().into());
            rows.push(ActivityRow {
                process,
                thread,
                state: state.clone(),
                samples: 50.0.into(),
                episodes: 5.0.into(),
                ..ActivityRow::default()
            });
            rows.push(StackRow {
                process: TRAINER.into(),
                thread: "100".into(),
                state,
                site: site.into(),
                samples: 6.0.into(),
                ..StackRow::default()
            });
        }
        for (number, thread) in threads.iter().enumerate() {
            thread.rows(&(200 + number).to_string(), at, &mut rows);
        }
        ticks.push(Tick { at: seconds(at), batches: rows.finish() });
    }
    let derived = attribute(&schema, &ticks);
    let (name, share) = (schema.find("cause.cause").unwrap(), schema.find("cause.run").unwrap());
    let batch = derived.iter().rev().find_map(|tick| tick.batch(name.table)).unwrap();
    let row = |row| {
        let (name, share) = (&batch.columns[name.column], &batch.columns[share.column]);
        (name.text(row).unwrap().to_string(), share.number(row).unwrap())
    };
    let shares = (0..batch.len()).map(row).collect();
    (shares, last_text(&schema, &derived, "verdict.text").unwrap())
}

impl Thread {
    fn rows(&self, thread: &str, at: f64, rows: &mut Rows<'_>) {
        let running = |pick: fn(&(State, &str, f64, f64, &str)) -> f64| -> f64 {
            self.does.iter().filter(|does| does.0 == State::Running).map(pick).sum()
        };
        rows.push(ThreadRow {
            process: TRAINER.into(),
            thread: thread.into(),
            name: self.name.into(),
            role: self.role.into(),
            on_cpu: nanos((running(|does| does.2) + running(|does| does.3)) / 2.0 * at),
            run_queue: nanos(0.0),
            samples: 40.0.into(),
        });
        for (state, on, waiting, stepping, site) in self.does {
            for (beside, share) in [(State::Futex, *waiting), (State::Sleep, *stepping)] {
                rows.push(ActivityRow {
                    process: TRAINER.into(),
                    thread: thread.into(),
                    state: state.name().into(),
                    beside: beside.name().into(),
                    on: (*on).into(),
                    samples: (share * 20.0).into(),
                    episodes: 1.0.into(),
                });
            }
            rows.push(StackRow {
                process: TRAINER.into(),
                thread: thread.into(),
                state: state.name().into(),
                site: (*site).into(),
                samples: ((waiting + stepping) * 2.0).into(),
                ..StackRow::default()
            });
        }
    }
}

const READS: &[(State, &str, f64, f64, &str)] = &[
    (State::Read, "socket", 0.9, 0.9, "worker.fetch"),
    (State::Running, "", 0.05, 0.05, "worker.decode"),
    (State::Futex, "", 0.05, 0.05, "worker.fetch"),
];
const DECODES: &[(State, &str, f64, f64, &str)] =
    &[(State::Running, "", 0.6, 0.6, "worker.decode"), (State::Futex, "", 0.4, 0.4, "worker.decode")];
const IDLES: &[(State, &str, f64, f64, &str)] = &[(State::Futex, "", 1.0, 1.0, "worker.idle")];

fn pool(does: &'static [(State, &'static str, f64, f64, &'static str)]) -> Vec<Thread> {
    ["prefetch_0", "prefetch_1", "prefetch_2"].map(|name| Thread { name, role: "loader", does }).into()
}

fn of(shares: &[(String, f64)], cause: &str) -> f64 {
    shares.iter().find(|(name, _)| name == cause).map_or(0.0, |(_, share)| *share)
}

#[test]
fn a_trainer_waits_for_what_its_own_threads_are_at() {
    let (shares, said) = judged(&pool(READS));
    assert!((of(&shares, "fetch.network") - 0.475).abs() < 0.02 && of(&shares, "unknown") < 0.01, "{shares:?}");
    assert!(said.contains("its 3 loader threads are waiting for the network 90 %"), "{said}");
    // Waiting for the interpreter's lock is part of the work.
    let (shares, _) = judged(&pool(DECODES));
    assert!((of(&shares, "decode") - 0.5).abs() < 0.02, "{shares:?}");
}

#[test]
fn the_busiest_stage_speaks_and_threads_that_load_nothing_do_not() {
    let asleep: &[_] = &[(State::Sleep, "", 1.0, 1.0, "host")];
    let mut threads = pool(READS);
    threads.push(Thread { name: "collate", role: "loader", does: IDLES });
    threads.push(Thread { name: "heartbeat", role: "other", does: asleep });
    let (shares, said) = judged(&threads);
    assert!((of(&shares, "fetch.network") - 0.475).abs() < 0.02 && of(&shares, "handoff") < 0.01, "{shares:?}");
    assert!(said.contains("its 3 loader threads"), "{said}");
}

#[test]
fn a_lock_in_the_loader_without_threads_that_can_be_seen_is_no_loading_of_its_own() {
    let (shares, said) = judged(&[]);
    assert!(of(&shares, "fetch.network") < 0.01, "{shares:?}");
    assert!(said.contains("in a queue that threads of its own fill"), "{said}");
}
