//! What holds for every job.

use proptest::prelude::*;

use crate::step_model::build;
use crate::step_model::engine::Engine;
use crate::step_model::{Dist, Job, Network, Order, Run, Storage, estimate, simulate};

fn amount(most: f64) -> impl Strategy<Value = Dist> {
    let mean = prop_oneof![Just(0.0), most * 1e-3..most];
    (mean, 0..4_u8, 0.0..3.0_f64).prop_map(|(mean, kind, scv)| match kind {
        0 => Dist::Constant(mean),
        1 => Dist::Exponential(mean),
        2 => Dist::Lognormal { mean, scv },
        _ => Dist::Quantiles([(0.0, 0.0), (0.5, mean / 2.0), (1.0, 3.0 * mean)].into()),
    })
}

prop_compose! {
    fn storage()(
        latency in amount(0.01),
        bandwidth in prop_oneof![Just(f64::INFINITY), 1e6..1e9_f64],
        stream in prop_oneof![Just(f64::INFINITY), 1e6..1e9_f64],
        depth in 0..6_u32,
        cpu in amount(1e-3),
    ) -> Storage {
        Storage { latency, bandwidth, stream, depth, cpu }
    }
}

prop_compose! {
    fn loader()(
        batch in 1..12_u32,
        workers in 0..7_u32,
        prefetch in 1..5_u32,
        strict in any::<bool>(),
        cores in 0.3..9.0_f64,
        samples_per_read in 1..4_u32,
        ahead in 0..3_u32,
    ) -> Job {
        let order = if strict { Order::Strict } else { Order::Ready };
        Job { batch, workers, prefetch, order, cores, samples_per_read, ahead, batch_bytes: 1e6, ..Job::default() }
    }
}

prop_compose! {
    fn any_job()(
        loader in loader(),
        storage in storage(),
        link in proptest::option::of((amount(0.003), 1e6..1e9_f64)),
        sample in amount(2e5),
        work in (amount(0.01), amount(0.01), amount(0.005), amount(0.01)),
        pin in proptest::option::of(amount(0.01)),
        copy in amount(0.01),
        step in 1e-3..0.1_f64,
    ) -> Job {
        let network = link.map(|(latency, bandwidth)| Network { latency, bandwidth });
        let (decode, collate, handover, host) = work;
        let step = Dist::Constant(step);
        Job { storage, network, sample, decode, collate, handover, host, pin, copy, step, ..loader }
    }
}

const SHORT: Run = Run { seed: 1, skipped: 5, steps: 40, grain: 0, limit: 1_000_000 };

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_seed_gives_the_same_run_bit_for_bit(job in any_job(), seed in any::<u64>()) {
        let run = Run { seed, ..SHORT };
        let text = |run: &Run| format!("{:?}", simulate(&job, run).unwrap());
        prop_assert_eq!(text(&run), text(&run));
    }

    #[test]
    fn littles_law_holds_at_every_station(job in any_job()) {
        let seen = simulate(&job, &SHORT).unwrap();
        for (area, stays) in seen.little {
            prop_assert!((area - stays).abs() <= 1e-6 * (1.0 + area), "{} {}", area, stays);
        }
    }

    #[test]
    fn shared_stations_do_the_work_that_is_asked_and_no_more_than_they_can(job in any_job()) {
        let (plan, _) = build::plan(&job, 5, 40, 0);
        let mut engine = Engine::new(plan, 1);
        engine.run(1_000_000);
        for share in &engine.shares {
            let asked = share.met - share.owed();
            prop_assert!((share.done - asked).abs() <= 1e-6 * (1e-9 + share.met), "{} of {}", share.done, asked);
            prop_assert!(share.done <= share.capacity * engine.span() * (1.0 + 1e-9));
        }
    }

    #[test]
    fn figures_are_shares_and_no_resource_is_used_beyond_itself(job in any_job()) {
        let seen = simulate(&job, &SHORT).unwrap();
        let u = &seen.usage;
        for share in [u.cores, u.bandwidth, u.depth, u.network, u.workers, u.pin, u.accelerator, seen.ready, seen.stall, seen.copy] {
            prop_assert!(share.is_nan() || (-1e-9..=1.0 + 1e-9).contains(&share), "{:?}", seen);
        }
        let most = f64::from(job.workers.max(1) * job.prefetch + 1) * job.batch_bytes;
        prop_assert!(seen.memory.1 <= most && seen.waits.p50 <= seen.waits.p99 && seen.samples_per_second > 0.0);
    }

    #[test]
    fn no_job_beats_its_slowest_part(job in any_job()) {
        let constant = |dist: &Dist| Dist::Constant(dist.mean());
        let job = Job {
            decode: constant(&job.decode),
            collate: constant(&job.collate),
            host: constant(&job.host),
            copy: constant(&job.copy),
            sample: constant(&job.sample),
            ..job
        };
        let seen = simulate(&job, &SHORT).unwrap();
        let batches = f64::from(SHORT.steps);
        // What lies ready when the count begins comes on top.
        let ready = f64::from(job.workers * (job.prefetch + 1));
        let most = |rate: f64| rate * (batches + ready) / batches * (1.0 + 1e-9);
        let rate = 1.0 / seen.period;
        let cpu = job.decode.mean() * f64::from(job.batch) + job.collate.mean() + job.host.mean();
        prop_assert!(rate <= most(job.cores / cpu), "cores: {} a second, at most {}", rate, job.cores / cpu);
        let bytes = job.sample.mean() * f64::from(job.batch);
        prop_assert!(rate <= most(job.storage.bandwidth / bytes), "bandwidth");
        let own = job.copy.mean() + job.host.mean() / job.cores.min(1.0);
        let own = if job.ahead > 0 { own } else { own + job.step.mean() };
        prop_assert!(rate <= (1.0 / own) * (1.0 + 1e-9), "the trainer: {} a second, at most {}", rate, 1.0 / own);
    }

    /// Without anything shared a loader is a recursion of `max` and `+`: batch `k` begins when its worker
    /// has made batch `k - n` and the trainer has taken batch `k - n·p`. So with the same draws more
    /// batches ahead, or twice the workers, can never make any batch later. (One worker more can: batch
    /// `k` then follows another batch, which may be a slow one.)
    #[test]
    fn with_nothing_shared_twice_the_workers_and_more_ahead_are_never_slower(
        decode in amount(0.01), latency in amount(0.01), workers in 1..6_u32, prefetch in 1..5_u32, step in 1e-3..0.1_f64,
    ) {
        let storage = Storage { latency, ..Storage::default() };
        let job = Job { workers, prefetch, decode, storage, cores: 64.0, step: Dist::Exponential(step), batch: 8, ..Job::default() };
        let run = Run { skipped: 0, ..SHORT };
        let now = simulate(&job, &run).unwrap().period;
        for more in [Job { workers: 2 * workers, ..job.clone() }, Job { prefetch: prefetch + 1, ..job.clone() }] {
            let then = simulate(&more, &run).unwrap().period;
            prop_assert!(then <= now * (1.0 + 1e-9), "{} after {}", then, now);
        }
    }

    /// Where cores or bandwidth are shared, a batch that comes earlier can slow down the one that is
    /// waited for (Graham's anomalies, 1966), so that more is never slower only up to a little.
    #[test]
    fn more_cores_and_more_bandwidth_with_the_same_draws_are_not_slower(job in any_job(), factor in 1.1..4.0_f64) {
        let run = Run { skipped: 0, ..SHORT };
        let now = simulate(&job, &run).unwrap().period;
        let storage = Storage { bandwidth: job.storage.bandwidth * factor, ..job.storage.clone() };
        for more in [Job { cores: job.cores * factor, ..job.clone() }, Job { storage, ..job.clone() }] {
            let then = simulate(&more, &run).unwrap().period;
            prop_assert!(then <= now * 1.05, "{} after {}", then, now);
        }
    }

    #[test]
    fn nothing_panics_and_what_is_given_is_finite(
        numbers in proptest::collection::vec(prop_oneof![Just(0.0), Just(1e-300), Just(1e9), Just(f64::INFINITY), Just(f64::NAN), Just(-1.0), 0.0..1e9_f64], 12),
        counts in proptest::collection::vec(prop_oneof![Just(0_u32), Just(1), Just(7), Just(4096), Just(u32::MAX)], 6),
    ) {
        let storage = Storage {
            latency: Dist::Exponential(numbers[0]),
            bandwidth: numbers[1],
            stream: numbers[2],
            depth: counts[0],
            cpu: Dist::Constant(numbers[3]),
        };
        let job = Job {
            batch: counts[1], workers: counts[2], prefetch: counts[3], samples_per_read: counts[4], ahead: counts[5],
            cores: numbers[4], storage,
            sample: Dist::Lognormal { mean: numbers[5], scv: numbers[6] },
            decode: Dist::Exponential(numbers[7]),
            step: Dist::Constant(numbers[8]),
            copy: Dist::Constant(numbers[9]),
            pin: Some(Dist::Constant(numbers[10])),
            batch_bytes: numbers[11],
            ..Job::default()
        };
        if let Ok(seen) = simulate(&job, &Run { limit: 20_000, steps: 20, grain: 4, ..Run::default() }) {
            prop_assert!(seen.period.is_finite() && seen.stall.is_finite() && seen.waits.most.is_finite());
        }
        if let Ok(near) = estimate(&job) {
            prop_assert!(near.period.is_finite() && near.period > 0.0 && (0.0..=1.0).contains(&near.stall), "{:?}", near);
        }
    }
}
