//! The estimate against the simulation.

use crate::step_model::dice::{Dice, unit};
use crate::step_model::{Dist, Job, Network, Order, Run, Storage, estimate, simulate};

/// A plausible job for each number: from starved to fed, bound by anything.
pub(crate) fn job(number: u64) -> Job {
    let dice = Dice::new(2026, 0);
    let u = |what: u64| unit(dice.bits(number, what));
    // Even in the logarithm.
    let between = |what: u64, low: f64, high: f64| low * (high / low).powf(u(what));
    let pick = |what: u64, of: &[u32]| of[(u(what) * of.len() as f64) as usize];
    let bytes = between(1, 4e3, 1e6);
    let local = u(2) < 0.5;
    let storage = Storage {
        latency: Dist::Lognormal { mean: between(3, 5e-5, if local { 1e-3 } else { 3e-2 }), scv: 2.0 * u(4) },
        bandwidth: between(5, 2e7, 2e9),
        stream: f64::INFINITY,
        depth: pick(22, &[0, 0, 2, 4, 16]),
        cpu: Dist::Constant(between(6, 1e-5, 2e-4)),
    };
    let link = Network { latency: Dist::Constant(between(7, 1e-4, 5e-3)), bandwidth: between(8, 2e7, 1e9) };
    Job {
        batch: pick(9, &[8, 16, 32, 64]),
        workers: pick(10, &[0, 1, 2, 4, 8, 12, 20, 40]),
        prefetch: pick(11, &[1, 2, 4]),
        order: if u(12) < 0.8 { Order::Strict } else { Order::Ready },
        cores: f64::from(pick(13, &[1, 2, 4, 8, 16])),
        storage,
        network: (!local).then_some(link),
        sample: Dist::Lognormal { mean: bytes, scv: u(14) },
        samples_per_read: pick(15, &[1, 1, 4]),
        decode: Dist::Lognormal { mean: between(16, 1e-5, 1e-2), scv: u(17) },
        collate: Dist::Constant(between(18, 1e-4, 2e-3)),
        handover: Dist::Constant(between(19, 5e-5, 5e-4)),
        copy: Dist::Constant(between(20, 1e-4, 5e-3)),
        step: Dist::Constant(between(21, 5e-3, 3e-1)),
        ..Job::default()
    }
}

#[test]
fn the_estimate_is_near_the_simulation() {
    let run = Run { steps: 100, skipped: 30, grain: 8, ..Run::default() };
    let mut errors = Vec::new();
    let mut stalls = Vec::new();
    for number in 0..150 {
        let job = job(number);
        let (near, seen) = (estimate(&job).unwrap(), simulate(&job, &run).unwrap());
        errors.push(((near.period / seen.period).ln().abs(), number));
        stalls.push((near.stall - seen.stall).abs());
    }
    errors.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean = stalls.iter().sum::<f64>() / stalls.len() as f64;
    let (middle, most) = (errors[75].0, errors[135].0);
    eprintln!("period: median {middle:.4}, 90th percentile {most:.4}; stall: mean {mean:.4}");
    assert!(middle < 0.005, "median error of the period {middle}");
    assert!(most < 0.06, "90th percentile {most}; the worst: {:?}", &errors[140..]);
    assert!(mean < 0.01, "mean error of the stall share {mean}");
}
