//! Regions that are measured inside the process.

use feedline_traces::Tick;

use super::tests::{More, count, decode, fetch, shares, step, workers};
use super::*;
use crate::attribute::State;
use crate::sim::plant::Grown;
use crate::sim::{DeviceCallRow, RegionRow, TRAINER, attribute, nanos};

/// The time that a region measured is what counts, and what it leaves is shared out anew.
#[test]
fn what_was_measured_in_the_process_takes_the_place_of_estimates() {
    let plant = workers(&[fetch(State::Disk, "", 400.0, Cause::FetchStorage)], &[step(50.0)]);
    let measured: More = |at, rows| {
        for (region, share) in [("data", 0.2), ("checkpoint", 0.1), ("step", 0.3)] {
            rows.push(RegionRow {
                process: TRAINER.into(),
                thread: "100".into(),
                region: region.into(),
                times: count(at * 10.0).into(),
                time: nanos(share * at),
            });
        }
    };
    let Grown { schema, ticks, .. } = plant.grow(3, &measured);
    let derived = attribute(&schema, &ticks);
    let got = shares(&schema, &derived);
    let data: f64 = got[..Cause::Contention as usize].iter().sum();
    assert!((data - 0.2).abs() < 0.01 && (got[Cause::Checkpoint as usize] - 0.1).abs() < 0.01, "{got:?}");
    let period = crate::sim::last(&schema, &derived, "step.period").unwrap();
    assert!((period / 1e6 - 100.0).abs() < 1.0, "{period}");
}

#[test]
fn what_a_region_took_before_it_was_first_told_of_counts() {
    let plant = workers(&[decode(20.0)], &[step(50.0)]);
    // The start of workers, two seconds long, is told of when it is over; the job has been watched for six.
    let started: More = |at, rows| {
        if at > 6.0 {
            for (region, seconds) in [("startup", 2.0), ("data", 0.1 * (at - 6.0))] {
                rows.push(RegionRow {
                    process: TRAINER.into(),
                    thread: "100".into(),
                    region: region.into(),
                    times: count(at).into(),
                    time: nanos(seconds),
                });
            }
        }
    };
    let Grown { schema, ticks, .. } = plant.grow(3, &started);
    let got = shares(&schema, &attribute(&schema, &ticks));
    let seconds = f64::from(u32::try_from(ticks.len()).unwrap());
    assert!((got[Cause::Startup as usize] - 2.0 / seconds).abs() < 0.01, "{got:?} of {seconds} s");
}

/// Every second tick comes with the next one, as after a reading that was late.
fn late(ticks: Vec<Tick>) -> Vec<Tick> {
    let mut late: Vec<Tick> = Vec::new();
    for (number, tick) in ticks.into_iter().enumerate() {
        match late.last_mut().filter(|_| number % 2 == 1) {
            Some(before) => {
                before.at = tick.at;
                tick.batches.into_iter().for_each(|batch| before.add(batch));
            }
            None => late.push(tick),
        }
    }
    late
}

#[test]
fn a_tick_that_brings_two_readings_counts_the_time_of_both() {
    let measured: More = |at, rows| {
        rows.push(RegionRow {
            process: TRAINER.into(),
            thread: "100".into(),
            region: "data".into(),
            times: count(at * 10.0).into(),
            time: nanos(0.2 * at),
        });
    };
    let waits = workers(&[fetch(State::Disk, "", 400.0, Cause::FetchStorage)], &[step(50.0)]);
    let Grown { schema, ticks, .. } = waits.grow(3, &measured);
    let derived = attribute(&schema, &late(ticks));
    let got = shares(&schema, &derived);
    let data: f64 = got[..Cause::Contention as usize].iter().sum();
    assert!((data - 0.2).abs() < 0.01, "{got:?}");
    let period = crate::sim::last(&schema, &derived, "step.period").unwrap();
    assert!((period / 1e6 - 100.0).abs() < 1.0, "{period}");
    let timed: More = |at, rows| {
        for call in ["copy_h2d", "copy_d2h"] {
            let (process, thread) = (TRAINER.into(), "100".into());
            rows.push(DeviceCallRow {
                process,
                thread,
                call: call.into(),
                time: nanos(0.2 * at),
                ..DeviceCallRow::default()
            });
        }
    };
    let Grown { schema, ticks, .. } = workers(&[decode(40.0)], &[step(70.0)]).grow(4, &timed);
    let got = shares(&schema, &attribute(&schema, &late(ticks)));
    assert!((got[Cause::Copy as usize] - 0.4).abs() < 0.02, "{got:?}");
}
