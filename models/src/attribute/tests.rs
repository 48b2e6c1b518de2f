//! Attribution against trainers whose truth is known, and against what a source may lack.

use super::*;
use crate::sim::{
    AcceleratorRow, ActivityRow, Job, Phase, Played, ProcessRow, StackRow, TRAINER, ThreadRow, attribute, last,
    last_text, nanos, play, schema, seconds,
};
use feedline_traces::Row as _;

/// Jobs as they occur, with the name of what is special about them.
fn jobs() -> Vec<(&'static str, Job)> {
    use State::{Disk, Futex, Poll, Read, Running, Sleep};
    let host = Phase(Running, "host", 0.030, 0.3, 1.0);
    let mut starved_sampler =
        Job::new(&[Phase(Futex, "loader", 0.040, 0.6, 1.0), Phase(Running, "loader", 0.008, 0.3, 1.0), host]);
    starved_sampler.starved = 0.3;
    vec![
        (
            "starved, pin thread",
            Job::new(&[
                Phase(Futex, "loader", 0.060, 0.5, 1.0),
                Phase(Running, "loader", 0.004, 0.3, 1.0),
                Phase(Running, "host", 0.080, 0.1, 1.0),
            ]),
        ),
        (
            "unpickling on the main thread",
            Job::new(&[
                Phase(Poll, "loader", 0.010, 0.8, 1.0),
                Phase(Running, "loader", 0.025, 0.3, 1.0),
                Phase(Running, "host", 0.060, 0.2, 1.0),
                Phase(Futex, "device", 0.020, 0.4, 1.0),
            ]),
        ),
        (
            "no workers, slow reads",
            Job::new(&[
                Phase(Disk, "loader", 0.030, 0.9, 1.0),
                Phase(Read, "loader", 0.010, 0.9, 1.0),
                Phase(Running, "loader", 0.050, 0.2, 1.0),
                Phase(Running, "host", 0.090, 0.2, 1.0),
            ]),
        ),
        (
            "device waits share the futex with the loader",
            Job::new(&[
                Phase(Futex, "loader", 0.050, 0.7, 0.6),
                Phase(Running, "host", 0.020, 0.2, 1.0),
                Phase(Futex, "device", 0.070, 0.2, 1.0),
                Phase(Disk, "io", 0.300, 0.2, 0.02),
            ]),
        ),
        (
            "a loader always ahead",
            Job::new(&[
                Phase(Running, "loader", 0.0003, 0.5, 1.0),
                Phase(Running, "host", 0.050, 0.1, 1.0),
                Phase(Sleep, "host", 0.050, 0.05, 1.0),
            ]),
        ),
        (
            "fast steps",
            Job::new(&[
                Phase(Futex, "loader", 0.003, 0.8, 1.0),
                Phase(Running, "loader", 0.001, 0.3, 1.0),
                Phase(Running, "host", 0.006, 0.3, 1.0),
            ]),
        ),
        ("a sampler that loses samples while the trainer runs", starved_sampler),
    ]
}

/// Estimate, interval and truth of the data share over a run.
fn measured(job: &Job, seed: u64) -> (f64, f64, f64, f64) {
    let Played { schema, ticks, data, .. } = play(job, seed);
    let derived = attribute(&schema, &ticks);
    let get = |path: &str| last(&schema, &derived, path).unwrap();
    (get("verdict.data"), get("verdict.low"), get("verdict.high"), data)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn runs_of_half_a_minute_are_right_within_the_target() {
    let mut all = Vec::new();
    for (name, job) in jobs() {
        let mut errors = Vec::new();
        for seed in 0..40 {
            let (got, _, _, truth) = measured(&job, seed);
            errors.push((got - truth).abs() * 100.0);
        }
        let worst = errors.iter().copied().fold(0.0, f64::max);
        println!("{name}: median {:.2}, worst {worst:.2} points", median(errors.clone()));
        let limit = if job.starved > 0.0 { 5.0 } else { 4.0 };
        assert!(worst <= limit, "{name}: worst {worst:.2} points");
        if name == "a loader always ahead" {
            assert!(worst <= 1.0, "{name}: worst {worst:.2} points");
        }
        all.extend(errors);
    }
    assert!(median(all.clone()) <= 1.5, "median {:.2} points", median(all));
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    let (mut held, mut n) = (0, 0);
    for (name, job) in jobs() {
        let mut mine = 0;
        let mut width = 0.0;
        for seed in 1000..1100 {
            let (_, low, high, truth) = measured(&job, seed);
            mine += usize::from(low <= truth && truth <= high);
            width += high - low;
        }
        println!("{name}: {mine} % held, mean width {width:.2} points");
        assert!(mine >= 88, "{name}: {mine} % of the intervals hold the truth");
        assert!(width <= 10.0, "{name}: intervals of {width:.1} points say nothing");
        held += mine;
        n += 100;
    }
    assert!(held * 100 >= n * 94, "{held} of {n} intervals hold the truth");
}

#[test]
fn windows_of_ten_seconds_hold_the_truth_too() {
    for (name, job) in jobs() {
        let (mut held, mut errors) = (0, Vec::new());
        for seed in 2000..2060 {
            let played = play(&job, seed);
            let derived = attribute(&played.schema, &played.ticks);
            let batch = derived.last().unwrap().batch(played.schema.find_table("stall").unwrap()).unwrap();
            let get = |path: &str| batch.columns[played.schema.find(path).unwrap().column].number(0).unwrap();
            held += usize::from(get("stall.low") <= played.lately && played.lately <= get("stall.high"));
            errors.push((get("stall.share") - played.lately).abs() * 100.0);
        }
        println!("{name}: {held} of 60 windows held, median error {:.2} points", median(errors));
        assert!(held >= 54, "{name}: {held} of 60");
    }
}

#[test]
fn windows_follow_a_change_and_the_run_does_not_forget() {
    let starved = Job { seconds: 40.0, ..jobs()[0].1.clone() };
    let ahead = Job { seconds: 40.0, ..jobs()[4].1.clone() };
    let (first, second) = (play(&starved, 1), play(&ahead, 2));
    let shift = seconds(40.0).since(seconds(0.0));
    let on = first.schema.find("thread.on_cpu").unwrap();
    let offset = last(&first.schema, &first.ticks, "thread.on_cpu").unwrap();
    let mut ticks = first.ticks.clone();
    for mut tick in second.ticks {
        tick.at = Ts(tick.at.0 + shift);
        for batch in &mut tick.batches {
            batch.at.iter_mut().for_each(|at| at.0 += shift);
            if batch.table == on.table
                && let feedline_traces::Values::Counter(v) = &mut batch.columns[on.column]
            {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "test times are small")]
                v.iter_mut().flatten().for_each(|x| *x += offset as u64);
            }
        }
        ticks.push(tick);
    }
    let derived = attribute(&first.schema, &ticks);
    let stall = first.schema.find("stall.share").unwrap();
    let window = derived.last().unwrap().batch(stall.table).unwrap().columns[stall.column].number(0).unwrap();
    assert!(window < 0.05, "{window}");
    let run = last(&first.schema, &derived, "verdict.data").unwrap();
    let truth = f64::midpoint(first.data, second.data);
    assert!((run - truth).abs() < 0.05, "{run} of {truth}");
}

#[test]
fn steps_are_found_where_each_waits_and_refused_where_none_does() {
    let starved = play(&jobs()[0].1, 5);
    let derived = attribute(&starved.schema, &starved.ticks);
    let period = last(&starved.schema, &derived, "step.period").unwrap();
    assert!((period / 1e6 - 144.0).abs() < 20.0, "{period}");
    let ahead = play(&jobs()[4].1, 5);
    let derived = attribute(&ahead.schema, &ahead.ticks);
    assert_eq!(last(&ahead.schema, &derived, "step.period"), None);
}

#[test]
fn shares_of_a_tick_add_up_to_one_for_every_job() {
    for (name, job) in jobs() {
        let played = play(&job, 9);
        check_rows(&played.schema, &attribute(&played.schema, &played.ticks), name);
    }
}

/// Shares in range, adding up to one by trainer, inside their intervals.
pub(super) fn check_rows(schema: &Schema, derived: &[Tick], name: &str) {
    let find = |path: &str| schema.find(path).unwrap();
    let (process, share, low, high) =
        (find("stall.process"), find("stall.share"), find("stall.low"), find("stall.high"));
    let confidence = find("stall.confidence");
    for tick in derived {
        let Some(batch) = tick.batch(share.table) else { continue };
        let mut sums: BTreeMap<Symbol, f64> = BTreeMap::new();
        for row in 0..batch.len() {
            let get = |c: feedline_traces::ColumnRef| batch.columns[c.column].number(row).unwrap();
            let (s, l, h, c) = (get(share), get(low), get(high), get(confidence));
            assert!((0.0..=1.0 + 1e-12).contains(&s) && (0.0..=1.0).contains(&c), "{name}: {s} {c}");
            assert!(l <= s + 1e-12 && s <= h + 1e-12 && l >= 0.0 && h <= 1.0, "{name}: {l} {s} {h}");
            *sums.entry(batch.columns[process.column].text(row).unwrap().clone()).or_default() += s;
        }
        for (key, sum) in sums {
            assert!((sum - 1.0).abs() < 1e-9, "{name}: {key} adds up to {sum}");
        }
    }
}

/// Ticks of a native trainer: its main thread and two threads of its loader, by state and share.
fn native(
    main: &[(State, f64)],
    loader: &[(State, f64)],
    decode: &[(State, f64)],
) -> (std::sync::Arc<Schema>, Vec<Tick>) {
    let schema = schema();
    let mut ticks = Vec::new();
    for second in 1..=20_i32 {
        let at = f64::from(second);
        let mut rows = Rows::new(&schema, seconds(at));
        rows.push(ProcessRow { process: TRAINER.into(), role: "trainer".into(), ..ProcessRow::default() });
        for (thread, role, states) in [("100", "main", main), ("101", "worker", loader), ("102", "worker", decode)] {
            let running: f64 = states.iter().filter(|s| s.0 == State::Running).map(|s| s.1).sum();
            rows.push(ThreadRow {
                process: TRAINER.into(),
                thread: thread.into(),
                role: role.into(),
                on_cpu: nanos(running * at),
                run_queue: 0_u64.into(),
                ..ThreadRow::default()
            });
            for (state, share) in states {
                rows.push(ActivityRow {
                    process: TRAINER.into(),
                    thread: thread.into(),
                    state: state.name().into(),
                    samples: (share * 250.0).into(),
                    episodes: 10.0.into(),
                    ..ActivityRow::default()
                });
            }
        }
        ticks.push(Tick { at: seconds(at), batches: rows.finish() });
    }
    (schema, ticks)
}

#[test]
fn a_native_job_is_judged_by_what_its_loader_threads_do() {
    use State::{Disk, Futex, Running, Sleep};
    let main = [(Futex, 0.4), (Running, 0.6)];
    let idle = [(Futex, 0.95), (Running, 0.05)];
    let cases = [
        ("decode thread busy", native(&main, &idle, &[(Running, 0.97), (Futex, 0.03)]), 0.4),
        ("reader in storage", native(&main, &[(Disk, 0.9), (Futex, 0.1)], &idle), 0.4),
        ("reader throttled by sleeps", native(&main, &[(Sleep, 0.9), (Futex, 0.1)], &idle), 0.4),
        ("both idle", native(&main, &idle, &idle), 0.0),
        ("main sleeps", native(&[(Sleep, 0.9), (Running, 0.1)], &idle, &idle), 0.0),
    ];
    let mut said = Vec::new();
    for (name, (schema, ticks), data) in cases {
        let derived = attribute(&schema, &ticks);
        let got = last(&schema, &derived, "verdict.data").unwrap();
        assert!((got - data).abs() < 0.01, "{name}: {got}");
        let confidence = last(&schema, &derived, "verdict.confidence").unwrap();
        assert!(confidence <= CAP_NATIVE, "{name}: {confidence}");
        let text = |path: &str| last_text(&schema, &derived, path).unwrap();
        said.push(format!("{name}: {} {}", text("verdict.text"), text("verdict.advice")));
    }
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn evidence_names_states_stacks_and_frames() {
    let played = play(&jobs()[0].1, 3);
    let derived = attribute(&played.schema, &played.ticks);
    let stall = played.schema.find("stall.evidence").unwrap();
    let batch = derived.last().unwrap().batch(stall.table).unwrap();
    let evidence: Vec<String> = (0..batch.len())
        .map(|row| {
            let cause = batch.columns[1].text(row).unwrap();
            format!("{cause}: {}", batch.columns[stall.column].text(row).map_or("–", |s| s))
        })
        .collect();
    insta::assert_snapshot!(evidence.join("\n"));
}

/// Two ranks, of which only the second waits; each has a device of its own.
#[test]
fn ranks_are_judged_one_by_one_beside_their_own_device() {
    let schema = schema();
    let mut ticks = Vec::new();
    for second in 1..=12_i32 {
        let at = f64::from(second);
        let mut rows = Rows::new(&schema, seconds(at));
        for (rank, (key, site)) in [("100@7", "host"), ("200@8", "loader")].into_iter().enumerate() {
            let thread = key.split('@').next().unwrap();
            rows.push(ProcessRow {
                process: key.into(),
                role: "trainer".into(),
                local_rank: (rank as u64).into(),
                ..ProcessRow::default()
            });
            rows.push(ThreadRow { role: "main".into(), on_cpu: nanos(0.5 * at), ..ThreadRow::new(key) });
            for state in ["running", "futex"] {
                let (process, thread) = (key.into(), thread.into());
                rows.push(ActivityRow {
                    process,
                    thread,
                    state: state.into(),
                    samples: 125.0.into(),
                    episodes: 9.0.into(),
                    ..ActivityRow::default()
                });
            }
            for (state, site) in [("running", "host"), ("futex", site)] {
                rows.push(StackRow {
                    process: key.into(),
                    thread: thread.into(),
                    state: state.into(),
                    site: site.into(),
                    samples: 10.0.into(),
                    ..StackRow::default()
                });
            }
            let busy = if rank == 0 { 0.9 } else { 0.2 };
            let device = if rank == 0 { "GPU-a" } else { "GPU-b" };
            rows.push(AcceleratorRow {
                device: device.into(),
                index: (rank as u64).into(),
                busy: busy.into(),
                ..AcceleratorRow::default()
            });
        }
        ticks.push(Tick { at: seconds(at), batches: rows.finish() });
    }
    let derived = attribute(&schema, &ticks);
    let verdict = derived.last().unwrap().batch(schema.find_table("verdict").unwrap()).unwrap();
    let get = |row, path: &str| verdict.columns[schema.find(path).unwrap().column].number(row).unwrap();
    assert!(get(0, "verdict.data") < 0.01 && (get(1, "verdict.data") - 0.5).abs() < 0.01);
    assert!((get(0, "verdict.accelerator_idle") - 0.1).abs() < 1e-9);
    assert!((get(1, "verdict.accelerator_idle") - 0.8).abs() < 1e-9);
}

#[test]
fn a_trainer_that_vanishes_is_forgotten() {
    let played = play(&jobs()[0].1, 1);
    let mut attribute = Attribute::bind(&played.schema).unwrap();
    for tick in &played.ticks {
        attribute.derive(tick, &mut Rows::new(&played.schema, tick.at)).unwrap();
    }
    assert_eq!((attribute.trainers.len(), attribute.roles.len()), (1, 1));
    for second in 40..200_i32 {
        let at = seconds(f64::from(second));
        let mut rows = Rows::new(&played.schema, at);
        rows.push(ProcessRow { process: "9@9".into(), role: "helper".into(), ..ProcessRow::default() });
        let tick = Tick { at, batches: rows.finish() };
        attribute.derive(&tick, &mut Rows::new(&played.schema, at)).unwrap();
    }
    assert_eq!((attribute.trainers.len(), attribute.roles.len(), attribute.processes.len()), (0, 0, 1));
}

#[test]
fn too_many_trainers_are_left_out_and_counted() {
    let schema = schema();
    let mut attribute = Attribute::bind(&schema).unwrap();
    let mut rows = Rows::new(&schema, seconds(1.0));
    for pid in 0..TRAINERS + 5 {
        let process = format!("{pid}@1").as_str().into();
        rows.push(ProcessRow { process, role: "trainer".into(), ..ProcessRow::default() });
    }
    let tick = Tick { at: seconds(1.0), batches: rows.finish() };
    attribute.derive(&tick, &mut Rows::new(&schema, tick.at)).unwrap();
    assert_eq!((attribute.trainers.len(), attribute.left_out()), (TRAINERS, 5));
}

#[test]
fn it_works_with_what_there_is_and_says_what_it_needs() {
    let played = play(&jobs()[0].1, 4);
    let without = |names: &[&str]| {
        let keep = |name: &str| !names.contains(&name);
        let mut tables: Vec<Table> = played.schema.tables.iter().map(|t| Table { ..t.clone() }).collect();
        for table in tables.iter_mut().filter(|t| !keep(&t.name)) {
            table.name = format!("hidden_{}", table.name).into();
        }
        Schema::new(tables).unwrap()
    };
    for (missing, least) in [
        (&["process", "wait", "accelerator"][..], 0.38),
        (&["thread"][..], 0.38),
        (&["activity"][..], 0.30),
        (&["activity", "thread", "process"][..], 0.30),
    ] {
        let schema = without(missing);
        let got = last(&schema, &attribute(&schema, &played.ticks), "verdict.data").unwrap();
        assert!(got > least && got < played.data + 0.08, "without {missing:?}: {got} of {}", played.data);
    }
    let schema = without(&["stack"]);
    let unknown = last_text(&schema, &attribute(&schema, &played.ticks), "verdict.cause");
    assert_eq!(unknown.as_deref(), Some("unknown"), "a futex without stacks or workers says nothing");
    let error = Attribute::bind(&without(&["stack", "thread", "activity"])).unwrap_err();
    assert!(error.hint.is_some(), "{error}");
}

#[test]
fn a_table_without_a_needed_column_is_refused_with_a_hint() {
    let mut table = ActivityRow::table();
    table.columns.iter_mut().filter(|c| c.name == "samples").for_each(|c| c.name = "sample".into());
    let error = Attribute::bind(&Schema::new(vec![table]).unwrap()).unwrap_err();
    assert_eq!(error.message, "no column `activity.samples`");
    assert_eq!(error.hint.as_deref(), Some("did you mean `activity.sample`?"));
}

#[test]
fn a_summary_gathers_the_last_verdict_and_mean_shares() {
    let played = play(&jobs()[0].1, 8);
    let derived = attribute(&played.schema, &played.ticks);
    let mut summaries = crate::verdict::Summaries::bind(&played.schema).unwrap();
    derived.iter().for_each(|tick| summaries.accept(tick));
    let all = summaries.finish();
    assert_eq!((all.len(), all[0].process.as_str()), (1, TRAINER));
    assert!((all[0].data.unwrap() - played.data).abs() < 0.04);
    assert!((all[0].shares.iter().map(|s| s.1).sum::<f64>() - 1.0).abs() < 1e-9);
}
