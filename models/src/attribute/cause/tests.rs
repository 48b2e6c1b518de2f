//! The split into causes against jobs whose truth is known: each cause at two severities, and decoys
//! in which the obvious suspect is innocent.

use feedline_traces::{Rows, Schema, Tick};

use super::*;
use crate::attribute::State;
use crate::sim::plant::{Grown, Piece, Plant};
use crate::sim::{
    AcceleratorRow, ActivityRow, CgroupRow, DeviceCallRow, LoopRow, MountRow, PressureRow, ProcessRow, StackRow,
    TRAINER, ThreadRow, attribute, last_text, nanos,
};

pub(super) type More = fn(f64, &mut Rows<'_>);

fn nothing(_: f64, _: &mut Rows<'_>) {}

fn piece(state: State, site: &'static str, millis: f64, cause: Cause) -> Piece {
    Piece::new(state, site, millis / 1e3, cause)
}

/// A step of a CPU trainer, in milliseconds.
pub(super) fn step(millis: f64) -> Piece {
    piece(State::Running, "host", millis, Cause::Compute)
}

pub(super) fn fetch(state: State, on: &'static str, millis: f64, cause: Cause) -> Piece {
    piece(state, "worker.fetch", millis, cause).on(on).spread(0.4)
}

pub(super) fn decode(millis: f64) -> Piece {
    piece(State::Running, "worker.decode", millis, Cause::Decode)
}

/// A job of four workers, each batch as long as its pieces.
pub(super) fn workers(batch: &[Piece], step: &[Piece]) -> Plant {
    Plant { batch: batch.to_vec(), step: step.to_vec(), ..Plant::default() }
}

/// A job without workers.
fn alone(batch: &[Piece], step: &[Piece]) -> Plant {
    Plant { workers: 0, ..workers(batch, step) }
}

fn fuse(at: f64, rows: &mut Rows<'_>) {
    let _ = at;
    rows.push(MountRow { mount: "/data".into(), kind: "fuse.slow".into(), class: "fuse".into() });
}

fn throttled(at: f64, rows: &mut Rows<'_>) {
    rows.push(CgroupRow {
        cgroup: "/job".into(),
        cpu_limit: 2.0.into(),
        periods: count(at * 10.0).into(),
        throttled_periods: count(at * 6.0).into(),
    });
}

fn crowded(at: f64, rows: &mut Rows<'_>) {
    rows.push(PressureRow { scope: "host".into(), resource: "cpu".into(), some: nanos(0.95 * at) });
}

/// An accelerator that works for this share of the time.
fn accelerator(rows: &mut Rows<'_>, busy: f64) {
    rows.push(AcceleratorRow {
        device: "GPU-a".into(),
        index: 0_u64.into(),
        busy: busy.into(),
        sm_active: busy.into(),
        ..AcceleratorRow::default()
    });
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "test numbers are small")]
pub(super) fn count(x: f64) -> u64 {
    x as u64
}

/// Shares over the run by cause, from the last tick.
pub(super) fn shares(schema: &Schema, derived: &[Tick]) -> [f64; CAUSES] {
    let column = |name: &str| schema.find(name).unwrap();
    let (cause, run) = (column("cause.cause"), column("cause.run"));
    let batch = derived.last().unwrap().batch(cause.table).unwrap();
    let mut out = [0.0; CAUSES];
    for row in 0..batch.len() {
        let name = batch.columns[cause.column].text(row).unwrap();
        let i = Cause::ALL.iter().position(|c| c.name() == name.as_ref()).unwrap();
        out[i] = batch.columns[run.column].number(row).unwrap();
    }
    out
}

struct Case {
    name: &'static str,
    plant: Plant,
    more: More,
    verdict: Cause,
}

fn case(name: &'static str, verdict: Cause, more: More, plant: Plant) -> Case {
    Case { name, plant, more, verdict }
}

/// Loads that workers cause, each so that four of them nearly or not at all keep up.
fn loads() -> Vec<Case> {
    use State::{Disk, Poll, Read, Sleep};
    let mut all = Vec::new();
    for (mild, scale) in [(true, 1.0), (false, 2.2)] {
        let f = |state, on, ms: f64, cause| fetch(state, on, ms * scale, cause);
        let name = |a: &'static str, b: &'static str| if mild { a } else { b };
        let of_disk = |plant: Plant| Plant { read: 60e6, storage: 58e6, ..plant };
        all.push(case(
            name("storage, mild", "storage, severe"),
            Cause::FetchStorage,
            nothing,
            of_disk(workers(&[f(Disk, "", 230.0, Cause::FetchStorage), decode(40.0)], &[step(50.0)])),
        ));
        all.push(case(
            name("FUSE, mild", "FUSE, severe"),
            Cause::FetchNetwork,
            fuse,
            workers(&[f(Read, "remote", 230.0, Cause::FetchNetwork), decode(40.0)], &[step(50.0)]),
        ));
        all.push(case(
            name("object store, mild", "object store, severe"),
            Cause::FetchNetwork,
            nothing,
            workers(&[f(Poll, "socket", 230.0, Cause::FetchNetwork), decode(40.0)], &[step(50.0)]),
        ));
        all.push(case(
            name("decoding, mild", "decoding, severe"),
            Cause::Decode,
            nothing,
            workers(&[f(Disk, "", 20.0, Cause::FetchStorage), decode(250.0 * scale)], &[step(50.0)]),
        ));
        let cached = Plant { read: 3e9, system: 0.97, ..Plant::default() };
        let copy = piece(State::Running, "worker.fetch", 270.0 * scale, Cause::FetchCache);
        all.push(case(
            name("page cache, mild", "page cache, severe"),
            Cause::FetchCache,
            nothing,
            Plant { batch: vec![copy], step: vec![step(50.0)], ..cached },
        ));
        let slow = fetch(Sleep, "", 900.0 * scale, Cause::Handoff).at_times(0.06);
        all.push(case(
            name("one slow sample, mild", "one slow sample, severe"),
            Cause::Handoff,
            nothing,
            workers(&[slow, decode(60.0)], &[step(50.0)]),
        ));
        let unpickle = piece(State::Running, "loader", 15.0 * scale, Cause::Handoff);
        all.push(case(
            name("unpickling, mild", "unpickling, severe"),
            Cause::Handoff,
            nothing,
            workers(&[decode(100.0)], &[unpickle, step(60.0)]),
        ));
    }
    all
}

/// Causes that need no workers, or lie outside the loader.
fn others() -> Vec<Case> {
    use State::{Disk, Futex, Poll, Running, Sleep};
    let own = |site: &'static str, ms: f64, state, cause| piece(state, site, ms, cause);
    let mut all = Vec::new();
    for (i, ms) in [12.0, 60.0].into_iter().enumerate() {
        let fed = |pieces: &[Piece]| workers(&[decode(40.0)], &[&[step(70.0)], pieces].concat());
        let name = |a: &'static str, b: &'static str| if i == 0 { a } else { b };
        let one = |a, b, verdict, state, site| {
            case(name(a, b), verdict, nothing as More, fed(&[own(site, ms, state, verdict)]))
        };
        all.push(one("copies, mild", "copies, severe", Cause::Copy, Running, "copy"));
        all.push(one("offload, mild", "offload, severe", Cause::Offload, Disk, "offload"));
        all.push(one("bubble, mild", "bubble, severe", Cause::Bubble, Poll, "pipeline"));
        all.push(one("collective alone, mild", "collective alone, severe", Cause::Collective, Poll, "collective"));
        all.push(one("embedding, mild", "embedding, severe", Cause::Embedding, Running, "embedding"));
        all.push(one("io, mild", "io, severe", Cause::Io, Disk, "io"));
        all.push(one("startup, mild", "startup, severe", Cause::Startup, State::Read, "startup"));
        all.push(one("collection of garbage, mild", "collection of garbage, severe", Cause::Host, Running, "gc"));
        let save = own("checkpoint", ms * 20.0, Disk, Cause::Checkpoint).at_times(0.05);
        all.push(case(name("checkpoint, mild", "checkpoint, severe"), Cause::Checkpoint, nothing, fed(&[save])));
        let load = |task, ms: f64, cause| own("loader", ms, Running, cause).task(task);
        let disk = own("loader", 8.0 + ms, Disk, Cause::FetchStorage).task("fetch");
        let read = Plant { read: 80e6, storage: 79e6, ..Plant::default() };
        all.push(case(
            name("no workers, storage, mild", "no workers, storage, severe"),
            Cause::FetchStorage,
            nothing,
            Plant { workers: 0, batch: vec![disk, load("decode", 6.0, Cause::Decode)], step: vec![step(70.0)], ..read },
        ));
        let decodes = alone(&[load("decode", 8.0 + ms, Cause::Decode)], &[step(70.0)]);
        all.push(case(
            name("no workers, decoding, mild", "no workers, decoding, severe"),
            Cause::Decode,
            nothing,
            decodes,
        ));
        let sleeps = own("host", 70.0, Sleep, Cause::Compute);
        let device = own("device", 30.0, Futex, Cause::Compute);
        let queued = Plant { queued: [0.55, 0.7][i], ..workers(&[decode(450.0)], &[sleeps, device]) };
        all.push(case(name("quota, mild", "quota, severe"), Cause::Contention, throttled, queued.clone()));
        all.push(case(name("neighbours, mild", "neighbours, severe"), Cause::Contention, crowded, queued));
    }
    all
}

/// Jobs in which the obvious suspect is innocent.
fn decoys() -> Vec<Case> {
    use State::{Disk, Futex, Read, Running, Sleep};
    let slow_disk = fetch(Disk, "", 150.0, Cause::FetchStorage);
    let reads = Plant { read: 60e6, storage: 58e6, ..Plant::default() };
    let sync = piece(Futex, "device", 60.0, Cause::Compute);
    let cached = piece(Running, "worker.fetch", 60.0, Cause::FetchCache);
    vec![
        case(
            "slow disk, loader far ahead",
            Cause::Compute,
            nothing,
            Plant { batch: vec![slow_disk], step: vec![step(60.0), sync], ..reads.clone() },
        ),
        case("a sync that only moves the wait", Cause::Compute, |_, rows| accelerator(rows, 0.97), {
            workers(&[decode(60.0)], &[step(20.0), sync])
        }),
        case(
            "high CPU, fed device",
            Cause::Compute,
            |_, rows| accelerator(rows, 0.95),
            Plant { queued: 0.2, ..workers(&[decode(230.0)], &[step(15.0), sync]) },
        ),
        case(
            "cache reads that look like I/O, loader ahead",
            Cause::Compute,
            nothing,
            Plant { read: 3e9, system: 0.97, batch: vec![cached], step: vec![step(70.0)], ..Plant::default() },
        ),
        case("a step that sleeps", Cause::Compute, nothing, {
            workers(&[decode(60.0)], &[piece(Sleep, "host", 80.0, Cause::Compute)])
        }),
        case("workers in reads, always ahead", Cause::Compute, fuse, {
            workers(&[fetch(Read, "remote", 90.0, Cause::FetchNetwork)], &[step(70.0)])
        }),
        case(
            "a pause for garbage",
            Cause::Host,
            nothing,
            workers(&[decode(40.0)], &[step(70.0), piece(Running, "gc", 400.0, Cause::Host).at_times(0.05)]),
        ),
        case("a lock that is no queue", Cause::Compute, nothing, {
            Plant {
                waits: Futex,
                ..workers(&[decode(100.0)], &[step(20.0), piece(Futex, "device", 50.0, Cause::Compute)])
            }
        }),
    ]
}

/// Estimated and true shares by cause, the verdict's cause, and the ticks they came from.
type Points = (Vec<(Cause, f64, f64)>, Option<String>, Schema, Vec<Tick>);

fn points(case: &Case, seed: u64) -> Points {
    let Grown { schema, ticks, mut truth } = case.plant.grow(seed, &case.more);
    if case.verdict == Cause::Contention {
        // Queueing has no stretches of its own: it is a part of all running time.
        let queued = truth[Cause::Decode as usize] * case.plant.queued;
        truth[Cause::Contention as usize] += queued;
        truth[Cause::Decode as usize] -= queued;
    }
    let derived = attribute(&schema, &ticks);
    let got = shares(&schema, &derived);
    assert!((got.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{}: {}", case.name, got.iter().sum::<f64>());
    let all = Cause::ALL.into_iter().map(|c| (c, got[c as usize], truth[c as usize])).collect();
    let verdict = last_text(&schema, &derived, "verdict.cause");
    (all, verdict, Schema::new(schema.tables.clone()).unwrap(), derived)
}

#[test]
fn causes_are_found_within_five_points_and_decoys_blame_nobody() {
    let mut errors = Vec::new();
    let mut wrong = Vec::new();
    for case in loads().iter().chain(&others()).chain(&decoys()) {
        for seed in [1, 2] {
            let (all, verdict, ..) = points(case, seed);
            let worst = all.iter().map(|(_, got, truth)| (got - truth).abs()).fold(0.0, f64::max);
            errors.push(worst * 100.0);
            if worst > 0.05 || verdict.as_deref() != Some(case.verdict.name()) {
                let list: Vec<String> = all
                    .iter()
                    .filter(|x| x.1 > 0.01 || x.2 > 0.01)
                    .map(|(c, got, truth)| format!("{} {:.1} of {:.1}", c.name(), got * 100.0, truth * 100.0))
                    .collect();
                wrong.push(format!("{} ({seed}): {verdict:?}, {}", case.name, list.join(", ")));
            }
        }
    }
    errors.sort_by(f64::total_cmp);
    println!(
        "{} runs: median {:.2}, worst {:.2} points",
        errors.len(),
        errors[errors.len() / 2],
        errors[errors.len() - 1]
    );
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_rounds_of_a_loop_are_its_steps_whether_or_not_it_waits() {
    let fed: More = |at, rows| {
        rows.push(LoopRow { process: TRAINER.into(), variable: "t.py:train:i".into(), rounds: count(at * 8.0).into() });
    };
    let Grown { schema, ticks, .. } = workers(&[decode(10.0)], &[step(125.0)]).grow(5, &fed);
    let derived = attribute(&schema, &ticks);
    let told = |column| crate::sim::last(&schema, &derived, column).unwrap();
    assert!((told("step.period") / 1e6 - 125.0).abs() < 1.0 && told("step.confidence") >= 0.9);
}

#[test]
fn copies_that_the_driver_timed_are_no_compute() {
    let plant = workers(&[decode(40.0)], &[step(70.0)]);
    let timed: More = |at, rows| {
        rows.push(DeviceCallRow {
            process: TRAINER.into(),
            thread: "100".into(),
            call: "copy_h2d".into(),
            calls: count(at * 14.0).into(),
            time: nanos(0.25 * at),
            bytes: count(at * 4e9).into(),
        });
    };
    let Grown { schema, ticks, .. } = plant.grow(4, &timed);
    let got = shares(&schema, &attribute(&schema, &ticks));
    assert!((got[Cause::Copy as usize] - 0.25).abs() < 0.01, "{got:?}");
}

#[test]
fn a_busy_accelerator_hides_waits_and_an_idle_one_shows_a_slow_host() {
    let waits = workers(&[decode(330.0)], &[step(50.0)]);
    let hidden: More = |_, rows| accelerator(rows, 0.97);
    let Grown { schema, ticks, .. } = waits.grow(5, &hidden);
    let got = shares(&schema, &attribute(&schema, &ticks));
    let lost: f64 = Cause::ALL.into_iter().filter(|c| c.stalls()).map(|c| got[c as usize]).sum();
    assert!(lost < 0.07, "{got:?}");
    let slow: More = |_, rows| accelerator(rows, 0.4);
    let Grown { schema, ticks, .. } = workers(&[decode(40.0)], &[step(70.0)]).grow(6, &slow);
    let derived = attribute(&schema, &ticks);
    let got = shares(&schema, &derived);
    assert!((got[Cause::Host as usize] - 0.57).abs() < 0.04, "{got:?}");
    assert_eq!(last_text(&schema, &derived, "verdict.cause").as_deref(), Some("host"));
}

/// Threads of a Python trainer are not sampled: their CPU time and bytes are all there is.
#[test]
fn threads_that_cannot_be_seen_are_judged_by_what_their_process_does() {
    use State::{Futex, Running};
    let waits = piece(Futex, "loader", 60.0, Cause::Unknown).task("idle");
    let plant = |read, storage| Plant {
        workers: 0,
        batch: vec![waits],
        step: vec![piece(Running, "host", 40.0, Cause::Compute)],
        read,
        storage,
        ..Plant::default()
    };
    let (far, disk, still) = (plant(5e6, 0.0), plant(5e6, 5e6), plant(0.0, 0.0));
    let cases: [(Plant, More, Cause); 4] = [
        (far.clone(), nothing, Cause::FetchNetwork),
        (far, crowded, Cause::Unknown),
        (disk, nothing, Cause::FetchStorage),
        (still, nothing, Cause::Unknown),
    ];
    for (plant, more, cause) in cases {
        let Grown { schema, ticks, .. } = plant.grow(8, &more);
        let got = shares(&schema, &attribute(&schema, &ticks));
        assert!((got[cause as usize] - 0.6).abs() < 0.03, "{}: {got:?}", cause.name());
    }
}

#[test]
fn evidence_names_calls_mounts_and_numbers_of_workers() {
    let mut said = Vec::new();
    for case in loads().iter().filter(|case| case.name.ends_with("severe")) {
        let (_, _, schema, derived) = points(case, 7);
        let (cause, evidence) = (schema.find("cause.cause").unwrap(), schema.find("cause.evidence").unwrap());
        let batch = derived.last().unwrap().batch(cause.table).unwrap();
        for row in 0..batch.len() {
            let name = batch.columns[cause.column].text(row).unwrap();
            if let Some(text) =
                batch.columns[evidence.column].text(row).filter(|_| name.as_ref() == case.verdict.name())
            {
                said.push(format!("{}: {name}: {text}", case.name));
            }
        }
    }
    insta::assert_snapshot!(said.join("\n"));
}

/// Three ranks of one job, each waiting in collectives for the slowest, which waits for its storage.
#[test]
fn the_slow_rank_keeps_its_cause_and_the_others_wait_for_it() {
    let schema = crate::sim::schema();
    let mut ticks = Vec::new();
    let ranks = [("100@7", 0.45), ("200@8", 0.05), ("300@9", 0.40)];
    for second in 1..=30_i32 {
        let at = f64::from(second);
        let mut rows = Rows::new(&schema, crate::sim::seconds(at));
        for (rank, (key, collective)) in ranks.iter().enumerate() {
            let slow = *key == "200@8";
            let states = [("running", "host", "", 0.5), ("poll", "collective", "", *collective)];
            let waits = ("disk", "loader", "fetch", 0.5 - collective);
            let own = ("running", "host", "", 0.5 - collective);
            rows.push(ProcessRow {
                process: (*key).into(),
                role: "trainer".into(),
                rank: (rank as u64).into(),
                world: 3_u64.into(),
                read: count(at * 50e6).into(),
                storage_read: count(at * 49e6).into(),
                ..ProcessRow::default()
            });
            let on_cpu = nanos(at * (0.5 + if slow { 0.0 } else { own.3 }));
            rows.push(ThreadRow { role: "main".into(), on_cpu, run_queue: 0_u64.into(), ..ThreadRow::new(key) });
            for (state, site, task, share) in states.into_iter().chain([if slow { waits } else { own }]) {
                let (process, thread) = ((*key).into(), key.split('@').next().unwrap().into());
                rows.push(StackRow {
                    process,
                    thread,
                    state: state.into(),
                    site: site.into(),
                    task: task.into(),
                    samples: (share * 12.0).into(),
                    ..StackRow::default()
                });
                let (process, thread) = ((*key).into(), key.split('@').next().unwrap().into());
                rows.push(ActivityRow {
                    process,
                    thread,
                    state: state.into(),
                    samples: (share * 100.0).into(),
                    episodes: 5.0.into(),
                    ..ActivityRow::default()
                });
            }
        }
        ticks.push(Tick { at: crate::sim::seconds(at), batches: rows.finish() });
    }
    let derived = attribute(&schema, &ticks);
    let column = |name: &str| schema.find(name).unwrap();
    let batch = derived.last().unwrap().batch(column("cause.run").table).unwrap();
    let get = |process: &str, cause: Cause| {
        let text = |name: &str, row: usize| batch.columns[column(name).column].text(row).unwrap().clone();
        let is = |row: &usize| *text("cause.process", *row) == *process && *text("cause.cause", *row) == *cause.name();
        let row = (0..batch.len()).find(is).unwrap();
        let evidence = batch.columns[column("cause.evidence").column].text(row).map(|s| s.to_string());
        (batch.columns[column("cause.run").column].number(row).unwrap(), evidence.unwrap_or_default())
    };
    for (rank, excess) in [("100@7", 0.40), ("300@9", 0.35)] {
        let (imbalance, evidence) = get(rank, Cause::Imbalance);
        assert!((imbalance - excess).abs() < 0.02, "{rank}: {imbalance}");
        assert!(evidence.contains("waits for rank 1") && evidence.contains("fetch.storage"), "{evidence}");
        assert!((get(rank, Cause::Collective).0 - 0.05).abs() < 0.02);
        assert!(get(rank, Cause::FetchStorage).0 < 0.01);
    }
    assert!((get("200@8", Cause::FetchStorage).0 - 0.45).abs() < 0.02);
    assert!(get("200@8", Cause::Imbalance).0 < 0.01);
}
