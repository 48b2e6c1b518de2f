//! How fast the step model is: events a second of the simulation, and time of an estimate.
//!
//! `cargo bench -p feedline-models --bench step_model --profile dev` uses the everyday profile.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use feedline_models::step_model::{Dist, Job, Run, Storage, estimate, simulate};

/// Workers that read, decode and share cores and a disk, with measured-like spread.
fn job(workers: u32) -> Job {
    Job {
        batch: 64,
        workers,
        cores: 4.0,
        storage: Storage {
            latency: Dist::Lognormal { mean: 1e-3, scv: 1.0 },
            bandwidth: 300e6,
            depth: 16,
            cpu: Dist::Constant(3e-5),
            ..Storage::default()
        },
        sample: Dist::Lognormal { mean: 110e3, scv: 0.2 },
        decode: Dist::Lognormal { mean: 4e-3, scv: 0.3 },
        collate: Dist::Constant(1e-3),
        handover: Dist::Constant(2e-4),
        copy: Dist::Constant(2e-3),
        step: Dist::Constant(5e-2),
        ..Job::default()
    }
}

fn events(c: &mut Criterion) {
    let mut group = c.benchmark_group("simulate");
    for workers in [2, 8, 32] {
        let job = job(workers);
        let run = Run { steps: 200, grain: 0, ..Run::default() };
        let events = simulate(&job, &run).map_or(1, |seen| seen.events);
        group.throughput(Throughput::Elements(events));
        group.bench_with_input(BenchmarkId::new("events", workers), &job, |b, job| {
            b.iter(|| simulate(black_box(job), &run));
        });
    }
    group.finish();
}

fn estimates(c: &mut Criterion) {
    let mut group = c.benchmark_group("estimate");
    for workers in [0, 2, 8, 32] {
        let job = job(workers);
        group
            .bench_with_input(BenchmarkId::new("workers", workers), &job, |b, job| b.iter(|| estimate(black_box(job))));
    }
    group.finish();
}

criterion_group!(benches, events, estimates);
criterion_main!(benches);
