//! What is said of a trainer with worker processes, from rows to the sentence.

use super::*;
use crate::sim::{
    ActivityRow, CgroupRow, PressureRow, ProcessRow, StackRow, TRAINER, ThreadRow, WaitRow, attribute, last, last_text,
    nanos, schema, seconds,
};

/// A trainer that waits for its two workers half of the time; each of their states has a share, a
/// site and a part of the workers' queueing.
struct Crowd {
    states: &'static [(State, f64, &'static str)],
    queued: f64,
    pressure: f64,
    throttled: u64,
}

fn of_process(key: &str, role: &str, parent: &str) -> ProcessRow {
    ProcessRow {
        process: key.into(),
        role: role.into(),
        parent: parent.into(),
        cores_allowed: 8.0.into(),
        ..ProcessRow::default()
    }
}

fn of_thread(rows: &mut Rows<'_>, key: &str, states: &[(State, f64, &'static str)], queued: f64, at: f64) {
    let thread = key.split('@').next().unwrap();
    let running: f64 = states.iter().filter(|s| s.0 == State::Running).map(|s| s.1).sum();
    rows.push(ThreadRow {
        role: if key == TRAINER { "main" } else { "worker" }.into(),
        on_cpu: nanos((running - queued) * at),
        run_queue: nanos(queued * at),
        ..ThreadRow::new(key)
    });
    for (state, share, site) in states {
        rows.push(ActivityRow {
            process: key.into(),
            thread: thread.into(),
            state: state.name().into(),
            samples: (share * 250.0).into(),
            episodes: 5.0.into(),
            ..ActivityRow::default()
        });
        rows.push(StackRow {
            process: key.into(),
            thread: thread.into(),
            state: state.name().into(),
            site: (*site).into(),
            leaf: "gen.py:work".into(),
            samples: (share * 20.0).into(),
            ..StackRow::default()
        });
    }
}

impl Crowd {
    fn derived(&self) -> (std::sync::Arc<Schema>, Vec<Tick>) {
        let schema = schema();
        let mut ticks = Vec::new();
        for second in 1..=20_u32 {
            let at = f64::from(second);
            let mut rows = Rows::new(&schema, seconds(at));
            let cpu_user = nanos(0.9 * at);
            rows.push(ProcessRow { cpu_user, ..of_process(TRAINER, "trainer", "") });
            of_thread(&mut rows, TRAINER, &[(State::Poll, 0.5, "loader"), (State::Running, 0.5, "host")], 0.0, at);
            for key in ["200@8", "201@8"] {
                rows.push(of_process(key, "worker", TRAINER));
                of_thread(&mut rows, key, self.states, self.queued, at);
            }
            rows.push(PressureRow { scope: "host".into(), resource: "cpu".into(), some: nanos(self.pressure * at) });
            rows.push(CgroupRow {
                cgroup: "/job".into(),
                periods: (u64::from(second) * 10).into(),
                throttled_periods: (u64::from(second) * self.throttled).into(),
                ..CgroupRow::default()
            });
            for wait in 0..4 {
                let end = seconds(at - 0.25 * f64::from(wait));
                rows.push_at(
                    end,
                    WaitRow {
                        process: TRAINER.into(),
                        thread: "100".into(),
                        state: "poll".into(),
                        duration: 125e6.into(),
                    },
                );
            }
            ticks.push(Tick { at: seconds(at), batches: rows.finish() });
        }
        let derived = attribute(&schema, &ticks);
        (schema, derived)
    }

    fn said(&self) -> String {
        let (schema, derived) = self.derived();
        let text = |path: &str| last_text(&schema, &derived, path).unwrap();
        format!("{} {}", text("verdict.text"), text("verdict.advice"))
    }
}

const QUEUEING: Crowd = Crowd {
    states: &[(State::Running, 0.9, "worker.decode"), (State::Poll, 0.1, "worker.idle")],
    queued: 0.7,
    pressure: 0.99,
    throttled: 0,
};

#[test]
fn sleep_in_a_fetch_is_no_storage_and_names_its_place() {
    let states = &[(State::Sleep, 0.99, "worker.fetch"), (State::Running, 0.01, "worker.fetch")];
    let said = Crowd { states, queued: 0.0, ..QUEUEING }.said();
    assert!(said.contains("its 2 workers are asleep 99 % of theirs (a timed sleep"), "{said}");
    assert!(said.contains("gen.py:work") && !said.contains("waiting for storage"), "{said}");
}

#[test]
fn a_socket_polled_in_a_fetch_is_the_network_and_a_queue_polled_is_idle() {
    let states = &[(State::Poll, 0.9, "worker.fetch"), (State::Running, 0.1, "worker.decode")];
    let said = Crowd { states, queued: 0.0, ..QUEUEING }.said();
    assert!(said.contains("waiting for the network 90 %"), "{said}");
    let states = &[(State::Poll, 0.9, "worker.idle"), (State::Running, 0.1, "worker.decode")];
    let said = Crowd { states, queued: 0.0, ..QUEUEING }.said();
    assert!(said.contains("idle 90 %") && !said.contains("network 90"), "{said}");
    let states = &[(State::Futex, 0.9, "worker.fetch"), (State::Running, 0.1, "worker.decode")];
    let said = Crowd { states, queued: 0.0, ..QUEUEING }.said();
    assert!(!said.contains("waiting for storage"), "{said}");
}

#[test]
fn pressure_and_throttling_reach_the_advice() {
    let (schema, derived) = QUEUEING.derived();
    assert_eq!(last_text(&schema, &derived, "verdict.cause").as_deref(), Some("contention"));
    let crowded = QUEUEING.said();
    assert!(crowded.contains("queueing for a core 70 %, on a CPU 20 %, idle 10 % of theirs"), "{crowded}");
    assert!(crowded.contains("Other processes use the cores (some task waits for one 99 %"), "{crowded}");
    assert!(crowded.contains("the job uses 0.9 of 8 cores") || crowded.contains("the job uses 1.0 of 8"), "{crowded}");
    let held = Crowd { throttled: 4, ..QUEUEING }.said();
    assert!(held.contains("cpu.max") && held.contains("40 % of its periods"), "{held}");
}

#[test]
fn a_period_that_may_be_a_multiple_of_the_step_is_null() {
    let (schema, derived) = QUEUEING.derived();
    assert_eq!(last(&schema, &derived, "step.period"), None);
    assert!(last(&schema, &derived, "step.confidence").unwrap() < 0.7);
}
