//! Jobs whose figures can be worked out by hand.

use crate::step_model::{Binding, Dist, Job, Network, Order, Run, Storage, simulate};

/// 4 workers on 8 cores, 32 samples of 10 ms and a step of 50 ms: 80 ms a batch.
fn job() -> Job {
    Job {
        workers: 4,
        cores: 8.0,
        decode: Dist::Constant(0.010),
        step: Dist::Constant(0.050),
        batch_bytes: 1e6,
        ..Job::default()
    }
}

fn storage(latency: f64, bandwidth: f64) -> Storage {
    Storage { latency: Dist::Constant(latency), bandwidth, ..Storage::default() }
}

#[track_caller]
fn takes(job: &Job, period: f64, binding: Binding) {
    let seen = simulate(job, &Run::default()).unwrap();
    assert!((seen.period / period - 1.0).abs() < 0.03, "{} s a step, expected {period}: {seen:?}", seen.period);
    assert_eq!(seen.binding, binding, "{seen:?}");
}

#[test]
fn each_resource_binds_where_it_is_the_slowest_and_is_named() {
    let no_decode = Job { decode: Dist::ZERO, ..job() };
    takes(&job(), 0.080, Binding::Workers);
    takes(&Job { workers: 8, ..job() }, 0.050, Binding::Step);
    takes(&Job { cores: 2.0, ..job() }, 0.160, Binding::Cores);
    takes(&Job { storage: storage(0.020, f64::INFINITY), ..no_decode.clone() }, 0.160, Binding::Workers);
    let slow = Job { sample: Dist::Constant(1e6), storage: storage(0.0, 200e6), ..no_decode.clone() };
    takes(&slow, 0.160, Binding::Bandwidth);
    let link = Some(Network { latency: Dist::ZERO, bandwidth: 100e6 });
    takes(&Job { network: link, storage: storage(0.0, f64::INFINITY), ..slow }, 0.320, Binding::Network);
    let narrow = Storage { depth: 2, ..storage(0.010, f64::INFINITY) };
    takes(&Job { storage: narrow, ..no_decode.clone() }, 0.160, Binding::Depth);
    takes(&Job { pin: Some(Dist::Constant(0.120)), ..no_decode.clone() }, 0.120, Binding::Pin);
    takes(&Job { handover: Dist::Constant(0.030), ..no_decode.clone() }, 0.080, Binding::Handover);
    takes(&Job { copy: Dist::Constant(0.070), ..no_decode }, 0.120, Binding::Copy);
}

#[test]
fn more_of_what_binds_helps_and_more_of_the_rest_does_not() {
    let base = Job {
        workers: 10,
        cores: 3.0,
        sample: Dist::Constant(100e3),
        // Not constant: workers whose times are all the same march in step, and meet at each station.
        decode: Dist::Exponential(0.010),
        storage: Storage { depth: 16, latency: Dist::Exponential(0.002), ..storage(0.0, 60e6) },
        pin: Some(Dist::Constant(0.002)),
        ..job()
    };
    let rate = |job: &Job| simulate(job, &Run::default()).unwrap().samples_per_second;
    let now = simulate(&base, &Run::default()).unwrap();
    assert_eq!(now.binding, Binding::Cores, "{now:?}");
    assert!(rate(&Job { cores: 3.6, ..base.clone() }) > 1.12 * now.samples_per_second);
    let storage = Storage { bandwidth: 72e6, ..base.storage.clone() };
    assert!(rate(&Job { storage, ..base.clone() }) < 1.02 * now.samples_per_second);
    assert!(rate(&Job { workers: 14, ..base.clone() }) < 1.05 * now.samples_per_second);
    assert!(rate(&Job { prefetch: 4, ..base }) < 1.02 * now.samples_per_second);
}

#[test]
fn a_loader_without_workers_adds_its_time_to_each_step() {
    let alone = Job { workers: 0, storage: storage(0.001, f64::INFINITY), ..job() };
    let seen = simulate(&alone, &Run::default()).unwrap();
    assert!((seen.period - (32.0 * 0.011 + 0.050)).abs() < 1e-9);
    assert!((seen.stall - 0.352 / 0.402).abs() < 1e-9 && (seen.usage.accelerator - 0.050 / 0.402).abs() < 1e-9);
    assert!(seen.ready.is_nan() && seen.usage.workers.is_nan(), "there is no queue and no worker");
    assert_eq!(seen.memory.1, 1e6);
}

#[test]
fn waits_are_those_of_a_round_of_workers() {
    // Four batches come together every 320 ms; three steps of 50 ms find theirs, one waits 120 ms more.
    let seen = simulate(&job(), &Run::default()).unwrap();
    assert!((seen.waits.mean - 0.030).abs() < 1e-3 && seen.waits.p50 < 1e-9, "{:?}", seen.waits);
    assert!((seen.waits.most - 0.120).abs() < 1e-9 && (seen.stall - 0.375).abs() < 0.01);
}

#[test]
fn no_more_batches_are_in_memory_than_may_be_ahead() {
    let fed = Job { step: Dist::Constant(1.0), prefetch: 3, ..job() };
    let seen = simulate(&fed, &Run::default()).unwrap();
    assert_eq!(seen.memory.1, 13e6, "4 workers with 3 batches each, and the one in use");
    assert!(seen.memory.0 > 12e6 && seen.ready > 0.9 && seen.binding == Binding::Step, "{seen:?}");
}

#[test]
fn strict_order_costs_where_batches_differ_and_more_ahead_wins_it_back() {
    let uneven =
        Job { decode: Dist::Lognormal { mean: 0.010, scv: 40.0 }, step: Dist::Constant(0.001), prefetch: 1, ..job() };
    let rate = |job: &Job| simulate(job, &Run { steps: 2000, ..Run::default() }).unwrap().samples_per_second;
    let (strict, ready) = (rate(&uneven), rate(&Job { order: Order::Ready, ..uneven.clone() }));
    assert!(ready > 1.15 * strict, "{ready} as they are ready, {strict} in order");
    assert!(rate(&Job { prefetch: 8, ..uneven }) > 1.1 * strict);
}

#[test]
fn a_trainer_that_may_be_ahead_hides_its_own_work_behind_the_accelerator() {
    let own = Job { host: Dist::Constant(0.030), workers: 8, ..job() };
    let each = simulate(&own, &Run::default()).unwrap();
    let ahead = simulate(&Job { ahead: 2, ..own }, &Run::default()).unwrap();
    assert!(
        (each.period - 0.080).abs() < 1e-3 && (ahead.period - 0.050).abs() < 1e-3,
        "{} {}",
        each.period,
        ahead.period
    );
    assert!(ahead.usage.accelerator > 0.99, "{:?}", ahead.usage);
}

#[test]
fn coarser_pieces_give_nearly_the_same_figures_with_fewer_events() {
    let busy = Job {
        batch: 256,
        workers: 6,
        cores: 3.0,
        decode: Dist::Exponential(0.001),
        storage: Storage { latency: Dist::Exponential(0.002), ..Storage::default() },
        ..job()
    };
    let fine = simulate(&busy, &Run { grain: 0, ..Run::default() }).unwrap();
    let coarse = simulate(&busy, &Run { grain: 16, ..Run::default() }).unwrap();
    assert!(coarse.events * 10 < fine.events, "{} {}", coarse.events, fine.events);
    assert!((coarse.period / fine.period - 1.0).abs() < 0.03, "{} {}", coarse.period, fine.period);
}

#[test]
fn reads_that_bring_many_samples_pay_latency_once() {
    let files = Job { decode: Dist::ZERO, storage: storage(0.010, f64::INFINITY), ..job() };
    let shards = Job { samples_per_read: 16, ..files.clone() };
    let (files, shards) = (simulate(&files, &Run::default()).unwrap(), simulate(&shards, &Run::default()).unwrap());
    assert!(
        (files.period - 0.080).abs() < 0.002 && (shards.period - 0.050).abs() < 1e-6,
        "{} {}",
        files.period,
        shards.period
    );
}

#[test]
fn what_cannot_be_simulated_is_refused_with_the_place_and_the_value() {
    let cases: [(Job, &str); 6] = [
        (Job { batch: 0, ..job() }, "batch"),
        (Job { workers: 1 << 20, ..job() }, "workers"),
        (Job { prefetch: 0, ..job() }, "prefetch"),
        (Job { cores: 0.0, ..job() }, "cores"),
        (Job { decode: Dist::Constant(f64::NAN), ..job() }, "decode"),
        (Job { storage: storage(0.0, f64::NAN), ..job() }, "storage.bandwidth"),
    ];
    for (job, place) in cases {
        let error = simulate(&job, &Run::default()).unwrap_err();
        assert!(error.message.starts_with(place), "{error}");
    }
    assert!(simulate(&Job::default(), &Run::default()).unwrap_err().message.contains("takes any time"));
    let few = simulate(&job(), &Run { limit: 3, ..Run::default() }).unwrap_err();
    assert!(few.message.contains("no step was over") && few.hint.is_some(), "{few}");
}
