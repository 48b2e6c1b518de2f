//! Attribution against ticks that make no sense: no panic, and shares that still add up.

use proptest::prelude::*;

use super::tests::check_rows;
use crate::sim::{
    AcceleratorRow, ActivityRow, CgroupRow, DeviceCallRow, Dice, MountRow, PressureRow, ProcessRow, RegionRow,
    StackRow, ThreadRow, WaitRow, attribute, schema, seconds,
};
use feedline_traces::{Batch, Rows, Schema, Text, Tick, Ts};

const KEYS: [&str; 6] = ["100@7", "200@8", "300@9", "@", "", "100"];
const TIDS: [&str; 5] = ["100", "200", "300", "101", ""];
const ROLES: [&str; 7] = ["trainer", "worker", "main", "pin", "loader", "helper", ""];
const STATES: [&str; 8] = ["running", "futex", "poll", "disk", "sleep", "unreadable", "??", ""];
const SITES: [&str; 10] =
    ["loader", "host", "io", "device", "worker.fetch", "worker.idle", "collective", "checkpoint", "gc", ""];
const ONS: [&str; 5] = ["pipe", "file", "remote", "??", ""];
const TASKS: [&str; 4] = ["fetch", "idle", "??", ""];
const CALLS: [&str; 3] = ["copy_h2d", "sync", ""];
const REGIONS: [&str; 4] = ["data", "step", "checkpoint", "mine"];
const NUMBERS: [f64; 10] = [0.0, 1.0, 3.0, -5.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, 250.0, 1e-300];
const COUNTS: [Option<u64>; 4] = [Some(0), None, Some(u64::MAX), Some(77)];

fn pick<T: Copy, const N: usize>(dice: &mut Dice, from: [T; N]) -> T {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small index")]
    let i = (dice.unit() * N as f64) as usize;
    from[i.min(N - 1)]
}

/// A row of the machine's: a group or its pressure.
fn machine(dice: &mut Dice, at: Ts, rows: &mut Rows<'_>) {
    let some = pick(dice, COUNTS).into();
    rows.push_at(at, PressureRow { scope: "host".into(), resource: "cpu".into(), some });
    rows.push_at(
        at,
        CgroupRow {
            cgroup: pick(dice, KEYS).into(),
            cpu_limit: pick(dice, NUMBERS).into(),
            periods: pick(dice, COUNTS).into(),
            throttled_periods: pick(dice, COUNTS).into(),
        },
    );
}

/// Rows of what is measured by others, and a mount.
fn measured(dice: &mut Dice, at: Ts, rows: &mut Rows<'_>) {
    let (process, thread) = (pick(dice, KEYS), pick(dice, TIDS));
    rows.push_at(
        at,
        DeviceCallRow {
            process: process.into(),
            thread: thread.into(),
            call: pick(dice, CALLS).into(),
            calls: pick(dice, COUNTS).into(),
            time: pick(dice, COUNTS).into(),
            bytes: pick(dice, COUNTS).into(),
        },
    );
    rows.push_at(
        at,
        RegionRow {
            process: process.into(),
            thread: thread.into(),
            region: pick(dice, REGIONS).into(),
            times: pick(dice, COUNTS).into(),
            time: pick(dice, COUNTS).into(),
        },
    );
    let class = pick(dice, ["fuse", "disk", ""]).into();
    rows.push_at(at, MountRow { mount: pick(dice, KEYS).into(), kind: Text::default(), class });
}

/// A row of any table with anything in it.
fn row(dice: &mut Dice, at: Ts, rows: &mut Rows<'_>) {
    let (process, thread) = (pick(dice, KEYS), pick(dice, TIDS));
    let at = Ts(at.0 - pick(dice, [0, 1, -1_000_000_000, 5_000_000_000]));
    // The trainer's own row is rarely spoilt, or it would never live to have a past.
    let spare = process == "100@7" && dice.unit() < 0.95;
    match pick(dice, [if spare { 1 } else { 0 }, 1, 2, 3, 4, 5, 6, 7, 8]) {
        0 => rows.push_at(
            at,
            ProcessRow {
                process: process.into(),
                parent: pick(dice, KEYS).into(),
                role: pick(dice, ROLES).into(),
                rank: pick(dice, COUNTS).into(),
                local_rank: pick(dice, COUNTS).into(),
                world: pick(dice, COUNTS).into(),
                cpu_user: pick(dice, COUNTS).into(),
                cpu_system: pick(dice, COUNTS).into(),
                read: pick(dice, COUNTS).into(),
                storage_read: pick(dice, COUNTS).into(),
                read_calls: pick(dice, COUNTS).into(),
                threads: pick(dice, NUMBERS).into(),
                cores_allowed: pick(dice, NUMBERS).into(),
            },
        ),
        1 => rows.push_at(
            at,
            ThreadRow {
                process: process.into(),
                thread: thread.into(),
                name: pick(dice, ROLES).into(),
                role: pick(dice, ROLES).into(),
                on_cpu: pick(dice, COUNTS).into(),
                run_queue: pick(dice, COUNTS).into(),
                samples: pick(dice, NUMBERS).into(),
            },
        ),
        2 => rows.push_at(
            at,
            ActivityRow {
                process: process.into(),
                thread: thread.into(),
                state: pick(dice, STATES).into(),
                beside: pick(dice, STATES).into(),
                on: pick(dice, ONS).into(),
                samples: pick(dice, NUMBERS).into(),
                episodes: pick(dice, NUMBERS).into(),
            },
        ),
        3 => rows.push_at(
            at,
            StackRow {
                process: process.into(),
                thread: thread.into(),
                state: pick(dice, STATES).into(),
                site: pick(dice, SITES).into(),
                task: pick(dice, TASKS).into(),
                frame: Text::default(),
                leaf: pick(dice, SITES).into(),
                samples: pick(dice, NUMBERS).into(),
                missed: pick(dice, NUMBERS).into(),
            },
        ),
        4 => rows.push_at(
            at,
            WaitRow {
                process: process.into(),
                thread: thread.into(),
                state: pick(dice, STATES).into(),
                duration: pick(dice, NUMBERS).into(),
            },
        ),
        5 | 6 => machine(dice, at, rows),
        7 => measured(dice, at, rows),
        _ => accelerator(dice, process, at, rows),
    }
}

fn accelerator(dice: &mut Dice, process: &str, at: Ts, rows: &mut Rows<'_>) {
    rows.push_at(
        at,
        AcceleratorRow {
            device: process.into(),
            index: pick(dice, COUNTS).into(),
            busy: pick(dice, NUMBERS).into(),
            sm_active: pick(dice, NUMBERS).into(),
            pcie_read: pick(dice, NUMBERS).into(),
        },
    );
}

fn tick(dice: &mut Dice, schema: &Schema, at: Ts) -> Vec<Batch> {
    let mut rows = Rows::new(schema, at);
    // A trainer that is really there now and then, so that the nonsense has somebody to hit.
    if dice.unit() < 0.7 {
        rows.push(ProcessRow { process: "100@7".into(), role: "trainer".into(), ..ProcessRow::default() });
    }
    for _ in 0..30 {
        row(dice, at, &mut rows);
    }
    rows.finish()
}

/// Forty ticks of nonsense, attributed and checked; whether any row came of them.
fn survives(seed: u64) -> bool {
    let schema = schema();
    let mut dice = Dice::new(seed);
    let mut at = 0.0;
    let mut ticks = Vec::new();
    for _ in 0..40 {
        at += pick(&mut dice, [1.0, 1.0, 1.0, 0.0, -1.0, 0.1, 1.0, 90.0]);
        ticks.push(Tick { at: seconds(at), batches: tick(&mut dice, &schema, seconds(at)) });
    }
    let derived = attribute(&schema, &ticks);
    check_rows(&schema, &derived, "nonsense");
    derived.iter().any(|t| t.rows() > 0)
}

#[test]
fn nonsense_mostly_reaches_the_estimate() {
    let hits = (0..50).filter(|seed| survives(*seed)).count();
    assert!(hits >= 25, "{hits} of 50 runs of nonsense give rows");
}

proptest! {
    #[test]
    fn nonsense_gives_shares_that_add_up_and_no_panic(seed in any::<u64>()) {
        survives(seed);
    }
}
