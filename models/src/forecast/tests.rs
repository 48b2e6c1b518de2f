//! The forecast as a whole: rows, what may be looked at, learning, and files.

use std::sync::Arc;

use feedline_traces::{Batch, Derive as _, Rows, Schema, Tick, Ts};

use super::signals::{NOTHING, Signal};
use super::*;
use crate::learn::random::Random;
use crate::sim::{ActivityRow, ProcessRow, StackRow, ThreadRow};
use crate::tables::StallRow;

const TRAINER: &str = "100@7";

fn second(second: i64) -> Ts {
    Ts(1_700_000_000_000_000_000 + second * 1_000_000_000)
}

fn schema() -> Schema {
    let tables =
        vec![ProcessRow::table(), ThreadRow::table(), ActivityRow::table(), StackRow::table(), StallRow::table()];
    Schema::new(tables).unwrap()
}

/// A tick in which the trainer was found waiting in this share of its samples.
fn tick(schema: &Schema, at: i64, share: f64) -> Tick {
    let mut rows = Rows::new(schema, second(at));
    rows.push(ProcessRow { process: TRAINER.into(), role: "trainer".into(), ..ProcessRow::default() });
    rows.push(ThreadRow::new(TRAINER));
    let main = || ("100".into(), TRAINER.into());
    for (state, samples, site) in [("poll", share * 100.0, "loader"), ("futex", (1.0 - share) * 100.0, "device")] {
        let (thread, process) = main();
        let activity =
            ActivityRow { process, thread, state: state.into(), samples: samples.into(), ..ActivityRow::default() };
        rows.push(activity);
        let (thread, process) = main();
        let stack = StackRow {
            process,
            thread,
            state: state.into(),
            site: site.into(),
            samples: 10.0.into(),
            ..StackRow::default()
        };
        rows.push(stack);
    }
    rows.push(StallRow { process: TRAINER.into(), cause: "data".into(), share: share.into(), ..StallRow::default() });
    let mut tick = Tick { at: second(at), batches: Vec::new() };
    rows.finish().into_iter().for_each(|batch| tick.add(batch));
    tick
}

fn number(batch: &Batch, table: &Table, column: &str, row: usize) -> Option<f64> {
    batch.columns[table.columns.iter().position(|c| c.name == column).unwrap()].number(row)
}

/// Rows of the forecast for shares second by second: the last tick's batch.
fn derived(shares: &[f64], forecaster: &Arc<Forecaster>) -> Batch {
    let schema = schema();
    let mut forecast = Forecast::bind(&schema, Arc::clone(forecaster));
    let own = Schema::new(forecast.tables()).unwrap();
    let mut last = None;
    for (at, share) in (0..).zip(shares) {
        let tick = tick(&schema, at, *share);
        let mut rows = Rows::new(&own, tick.at);
        forecast.derive(&tick, &mut rows).unwrap();
        last = rows.finish().pop();
    }
    last.unwrap()
}

#[test]
fn each_second_has_a_row_for_each_horizon_and_says_what_came_of_the_last() {
    let shares: Vec<f64> = (0..100).map(|s| if s < 90 { 0.2 } else { 0.6 }).collect();
    let batch = derived(&shares, &Arc::new(Forecaster::untrained()));
    let table = ForecastRow::table();
    assert_eq!(batch.len(), AHEAD);
    let of = |column: &str, row: usize| number(&batch, &table, column, row);
    for (row, seconds) in HORIZONS.iter().enumerate() {
        assert_eq!(of("ahead", row), Some(crate::learn::stats::count(*seconds) * 1e9));
        assert_eq!(of("share", row), of("baseline", row));
        assert!(of("low", row).is_none() && of("onset", row).is_none(), "an interval from nothing");
    }
    // At the end ten of the last sixty seconds waited longer.
    let came = |row: usize| of("came", row).unwrap();
    assert!((came(0) - 0.6).abs() < 0.02 && (came(4) - (50.0 * 0.2 + 10.0 * 0.6) / 60.0).abs() < 0.02, "{}", came(4));
    assert!((of("told", 4).unwrap() - 0.2).abs() < 0.02);
    let text = |column: &str| {
        let at = table.columns.iter().position(|c| c.name == column).unwrap();
        batch.columns[at].text(0).unwrap().to_string()
    };
    assert_eq!(text("model"), "ewma 0.50");
    assert!(text("why").contains("feedline train"), "{}", text("why"));
}

#[test]
fn inputs_know_nothing_of_what_comes_later() {
    let schema = schema();
    let mut random = Random::new(4, 0);
    let shares: Vec<f64> = (0..60).map(|_| random.unit()).collect();
    let points = |shares: &[f64]| {
        let mut points = Points::bind(&schema);
        let each = |(at, share): (i64, &f64)| points.account(&tick(&schema, at, *share));
        (0..).zip(shares).flat_map(each).map(|(_, point)| point.x).collect::<Vec<_>>()
    };
    let bits = |rows: &[Vec<f64>]| rows.iter().flatten().map(|v| v.to_bits()).collect::<Vec<_>>();
    let (all, short) = (points(&shares), points(&shares[..40]));
    assert_eq!(bits(&all[..short.len()]), bits(&short));
}

/// A run in which the workers' rest and the reserve go before the stall comes: the onset is seen
/// seconds before it hurts, and the stall lasts for as long as the disk is slow.
fn run(name: &str, seed: u64, length: i32) -> Lived {
    let mut random = Random::new(seed, 9);
    let mut past = Past::default();
    let (mut points, mut truth) = (Vec::new(), Vec::new());
    let (mut left, mut slow) = (10.0_f64, false);
    let mut change = 10 + i32::try_from(random.below(20)).unwrap();
    for at in 0..length {
        if at == change {
            slow = !slow;
            change = at + 12 + i32::try_from(random.below(20)).unwrap();
        }
        left = if slow { (left - 1.0).max(0.0) } else { (left + 2.0).min(10.0) };
        let share = if left > 0.0 { 0.01 } else { 0.6 };
        truth.push(share);
        let mut values = NOTHING;
        values[Signal::Share as usize] = (share + 0.02 * random.normal()).clamp(0.0, 1.0);
        values[Signal::WorkerResting as usize] = if slow { 0.02 } else { 0.7 } + 0.02 * random.unit();
        values[Signal::Shm as usize] = 1e6 * (left + 1.0);
        past.push(second(i64::from(at)), values);
        points.push(Point {
            at: second(i64::from(at)),
            x: features::row(&past),
            said: naive::said(&past),
            share: values[Signal::Share as usize],
            on: past.on,
        });
    }
    // What came is the truth, not what was seen.
    let exact: Vec<Point> = points.iter().zip(&truth).map(|(p, share)| Point { share: *share, ..p.clone() }).collect();
    Lived::of(name, "reserve", points, &estimated(&exact))
}

const QUICK: Training = Training { seed: 1, trees: 12, folds: 2 };

fn fresh() -> Forecaster {
    let runs: Vec<Lived> = (0..5).map(|seed| run(&format!("run {seed}"), seed, 100)).collect();
    train(&runs.iter().collect::<Vec<_>>(), &QUICK).unwrap()
}

fn trained() -> Arc<Forecaster> {
    static HELD: std::sync::OnceLock<Arc<Forecaster>> = std::sync::OnceLock::new();
    Arc::clone(HELD.get_or_init(|| Arc::new(fresh())))
}

#[test]
fn what_announces_a_stall_is_learnt_and_unseen_runs_are_told_better_than_by_any_naive_forecast() {
    let forecaster = trained();
    let scored: Vec<Scored> = (100..103).map(|seed| Scored::of(&run("unseen", seed, 120), &forecaster)).collect();
    let scores = Scores::of(&scored);
    let ten = &scores.horizons[2];
    assert!(ten.mae_vs_best_naive_pct.unwrap() < 75.0, "{ten:?}");
    assert!(ten.auroc.unwrap() > 0.9 && ten.auroc > ten.naive_auroc, "{ten:?}");
    assert!((60.0..=99.5).contains(&ten.coverage_80_pct.unwrap()), "{ten:?}");
    assert!(scores.events.announced * 10 >= scores.events.onsets * 7, "{:?}", scores.events);
    assert!(scores.events.median_lead_s.unwrap() >= 3.0, "{:?}", scores.events);
}

#[test]
fn a_file_says_what_was_saved_and_the_seed_alone_decides_what_is() {
    let before = trained();
    let text = before.save().unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert!(text == pool.install(fresh).save().unwrap(), "another number of threads, another model");
    let after = Arc::new(Forecaster::load(&text).unwrap());
    let one = run("other", 77, 60);
    let shares = |forecaster: &Arc<Forecaster>| {
        let scored = Scored::of(&one, forecaster);
        scored.said.iter().flatten().map(|said| said.share.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(shares(&before), shares(&after));
    let said = &Scored::of(&one, &after).said;
    assert!(said.iter().any(|said| said[2].why.is_none() && said[2].model == "boosted trees"));
}

#[test]
fn files_of_others_are_refused_with_a_next_step() {
    let text = Forecaster::untrained().save().unwrap();
    assert!(!Forecaster::load(&text).unwrap().is_trained());
    let cases = [
        ("", "forecast model"),
        ("{}", "missing field"),
        (&text.replace("feedline-forecast", "forecast"), "`forecast` version 1"),
        (&text.replace("\"version\":1", "\"version\":9"), "version 9"),
        (&text.replace("share_1\"", "share_0\""), "other inputs"),
        (&text.replace("\"seconds\":5,", "\"seconds\":6,"), "horizons"),
    ];
    for (text, said) in cases {
        let error = Forecaster::load(text).unwrap_err();
        assert!(error.message.contains(said), "{error}");
        assert!(error.to_string().contains("feedline train"), "{error}");
    }
}

#[test]
fn the_models_that_come_with_the_program_can_be_used_and_are_small() {
    let text = include_str!("../../data/forecast/forecast.json");
    let forecaster = Forecaster::load(text).unwrap();
    assert!(text.len() <= 1 << 20, "{} bytes", text.len());
    assert_eq!(Forecaster::bundled().runs, forecaster.runs);
}

#[test]
fn noise_teaches_nothing_and_too_few_runs_are_an_error() {
    let noise = |seed: u64| {
        let mut random = Random::new(seed, 1);
        let mut past = Past::default();
        let mut points = Vec::new();
        for at in 0..90 {
            let mut values = NOTHING;
            values[Signal::Share as usize] = 0.4 + 0.2 * random.unit();
            past.push(second(at), values);
            let (x, said) = (features::row(&past), naive::said(&past));
            points.push(Point { at: second(at), x, said, share: values[Signal::Share as usize], on: past.on });
        }
        let truth = estimated(&points);
        Lived::of(&format!("noise {seed}"), "noise", points, &truth)
    };
    let runs: Vec<Lived> = (0..4).map(noise).collect();
    let forecaster = train(&runs.iter().collect::<Vec<_>>(), &QUICK).unwrap();
    assert!(forecaster.ahead.iter().all(|ahead| ahead.onset.is_none()), "a stall that is on cannot begin");
    for ahead in &forecaster.ahead {
        // The best that can be known is the mean, and a slow mean of the past is nearly that.
        assert!(ahead.share.is_none() || ahead.errors[1] < ahead.errors[0], "{:?}", ahead.errors);
    }
    let error = train(&[&runs[0]], &QUICK).unwrap_err();
    assert!(error.to_string().contains("at least two recorded runs"), "{error}");
}

#[test]
fn a_job_unlike_all_that_were_learnt_from_gets_the_baseline_and_the_reason() {
    let forecaster = trained();
    let mut teller = Teller::of(&forecaster);
    let mut point = run("other", 5, 40).points.pop().unwrap();
    point.x.iter_mut().for_each(|x| *x = if x.is_nan() { 1e9 } else { *x });
    let said = teller.tell(&point);
    let told =
        said.iter().find(|told| told.why.as_ref().is_some_and(|why| why.contains("nothing was learnt"))).unwrap();
    assert_eq!(told.share.to_bits(), told.baseline.to_bits());
    assert!(told.onset.is_nan());
}

#[test]
fn whatever_a_trace_says_shares_stay_shares() {
    let schema = schema();
    let mut forecast = Forecast::bind(&schema, trained());
    let own = Schema::new(forecast.tables()).unwrap();
    let table = ForecastRow::table();
    let mut random = Random::new(8, 0);
    let odd = [f64::INFINITY, -5.0, 1e300, f64::NAN, 0.0, 0.5, 2.0];
    for at in 0..120 {
        let share = odd[random.below(odd.len())];
        // Clocks that stand still or run back, too.
        let tick = tick(&schema, if random.unit() < 0.1 { at - 3 } else { at }, share);
        let mut rows = Rows::new(&own, tick.at);
        forecast.derive(&tick, &mut rows).unwrap();
        for batch in rows.finish() {
            for row in 0..batch.len() {
                for column in ["share", "low", "high", "onset", "baseline", "told", "came"] {
                    let value = number(&batch, &table, column, row);
                    assert!(value.is_none_or(|v| (0.0..=1.0).contains(&v)), "{column} is {value:?}");
                }
            }
        }
    }
}
