//! The cases: worlds in which a pattern holds, and what is close to them.

use super::world::{Does, Second, first_fetch, healthy};

pub(super) type World = Box<dyn Fn(usize) -> Second>;

pub(super) fn always(change: impl Fn(&mut Second) + 'static) -> World {
    Box::new(move |_| {
        let mut second = healthy();
        change(&mut second);
        second
    })
}

pub(super) fn pinned(s: &mut Second) {
    s.worker = Does { cores: 1.0, allowed: "0", cpu: 0.24, on_cpu: 0.24, queued: 0.7, ..s.worker };
    s.pressure = 0.9;
}

fn storm(s: &mut Second) {
    s.worker = Does { threads: 9.0, cpu: 1.6, on_cpu: 0.6, queued: 0.3, ..s.worker };
    s.pressure = 0.9;
}

fn reading(s: &mut Second) {
    s.worker = Does { storage: 20e6, disk: 0.6, on_cpu: 0.1, cpu: 0.1, ..s.worker };
    s.data = 0.5;
}

fn remote(s: &mut Second) {
    s.worker.remote = 0.6;
    s.data = 0.4;
}

fn neighbours(s: &mut Second) {
    s.worker = Does { cpu: 0.4, on_cpu: 0.4, queued: 0.4, ..s.worker };
    s.pressure = 0.95;
}

fn alone(s: &mut Second) {
    s.workers = 0;
    s.data = 0.6;
    s.trainer = Does { cpu: 0.98, on_cpu: 0.97, ..s.trainer };
}

/// Pattern, what is close to it, and the two worlds: in the first it is said, in the second not.
pub(super) type Case = (&'static str, &'static str, World, World);

pub(super) fn cases() -> Vec<Case> {
    [of_cores(), of_reading(), of_mounts(), of_memory(), of_time(), of_starts(), of_neighbours()]
        .into_iter()
        .flatten()
        .collect()
}

fn of_cores() -> Vec<Case> {
    vec![
        (
            "narrow_affinity",
            "each worker on a core of its own",
            always(pinned),
            always(|s| {
                pinned(s);
                s.worker = Does { cpu: 0.9, on_cpu: 0.9, queued: 0.3, ..s.worker };
            }),
        ),
        (
            "narrow_affinity",
            "one core that is enough",
            always(pinned),
            always(|s| {
                pinned(s);
                s.worker.queued = 0.05;
            }),
        ),
        (
            "narrow_affinity",
            "a single worker",
            always(pinned),
            Box::new(|_| {
                let mut s = healthy();
                pinned(&mut s);
                s.workers = 1;
                s
            }),
        ),
        (
            "thread_storm",
            "pools of threads that idle",
            always(storm),
            always(|s| {
                storm(s);
                s.worker = Does { cpu: 0.65, on_cpu: 0.6, ..s.worker };
                s.trainer.cpu = 4.0;
            }),
        ),
        (
            "thread_storm",
            "many threads on cores that are free",
            always(storm),
            always(|s| {
                storm(s);
                s.worker.queued = 0.02;
            }),
        ),
        (
            "cpu_quota",
            "a quota that is hardly met",
            always(|s| s.quota = Some((2.0, 0.6))),
            always(|s| s.quota = Some((2.0, 0.05))),
        ),
    ]
}

fn of_reading() -> Vec<Case> {
    let restarting = |every: usize| -> World { Box::new(move |s| Second { crew: s / every, ..healthy() }) };
    vec![
        (
            "worker_respawn",
            "one that was replaced",
            restarting(9),
            Box::new(|s| {
                let mut second = healthy();
                second.crew = usize::from(s > 20);
                second
            }),
        ),
        (
            "cache_thrash",
            "a first epoch",
            always(|s| {
                reading(s);
                s.refaults = 15_000.0;
            }),
            always(|s| {
                reading(s);
                s.cache_growth = 70e6;
            }),
        ),
        (
            "cache_thrash",
            "refaults of somebody else",
            always(|s| {
                reading(s);
                s.refaults = 15_000.0;
            }),
            always(|s| s.refaults = 15_000.0),
        ),
        (
            "cold_cache",
            "reads that do not stay in memory",
            always(|s| {
                reading(s);
                s.cache_growth = 70e6;
            }),
            always(reading),
        ),
        (
            "cold_cache",
            "a loader that is ahead",
            always(|s| {
                reading(s);
                s.cache_growth = 70e6;
            }),
            always(|s| {
                reading(s);
                s.cache_growth = 70e6;
                s.data = 0.01;
            }),
        ),
    ]
}

fn of_mounts() -> Vec<Case> {
    vec![
        (
            "small_remote_reads",
            "large files",
            always(|s| {
                remote(s);
                s.files = Some((20.0, 40.0, 1.2e6));
            }),
            always(|s| {
                remote(s);
                s.files = Some((20.0, 400.0, 90e6));
            }),
        ),
        (
            "small_remote_reads",
            "small reads that nobody waits for",
            always(|s| {
                remote(s);
                s.nfs = Some((90.0, 30.0, 2e6));
            }),
            always(|s| {
                remote(s);
                s.worker.remote = 0.05;
                s.nfs = Some((90.0, 30.0, 2e6));
            }),
        ),
        (
            "small_remote_reads",
            "large reads without a trace",
            always(|s| {
                remote(s);
                s.worker = Does { read: 6e6, calls: 300.0, ..s.worker };
            }),
            always(|s| {
                remote(s);
                s.worker = Does { read: 60e6, calls: 60.0, ..s.worker };
            }),
        ),
    ]
}

fn of_memory() -> Vec<Case> {
    vec![
        (
            "pageable_copy",
            "copies as fast as the bus",
            always(|s| s.copies = Some((30.0, 0.2, 0.9e9))),
            always(|s| s.copies = Some((30.0, 0.2, 4.4e9))),
        ),
        (
            "pageable_copy",
            "a thread that pins",
            always(|s| s.copies = Some((30.0, 0.2, 0.9e9))),
            always(|s| {
                (s.copies, s.pins) = (Some((30.0, 0.2, 0.9e9)), true);
            }),
        ),
        (
            "one_core_decode",
            "a main thread that computes",
            always(alone),
            always(|s| {
                alone(s);
                s.data = 0.02;
            }),
        ),
        (
            "one_core_decode",
            "no core to spare",
            always(alone),
            always(|s| {
                alone(s);
                s.trainer = Does { cores: 1.0, allowed: "0", ..s.trainer };
            }),
        ),
        (
            "one_core_decode",
            "two workers",
            always(|s| {
                (s.workers, s.data) = (1, 0.5);
                s.worker = Does { cpu: 0.95, on_cpu: 0.95, ..s.worker };
            }),
            always(|s| {
                (s.workers, s.data) = (2, 0.5);
                s.worker = Does { cpu: 0.95, on_cpu: 0.95, ..s.worker };
            }),
        ),
        ("shm_full", "half full", always(|s| s.shm = Some((63e6, 64e6))), always(|s| s.shm = Some((40e6, 64e6)))),
    ]
}

fn of_time() -> Vec<Case> {
    let saving = |every: usize| -> World {
        Box::new(move |s| {
            let sites = if s % every < 2 { vec![("checkpoint", 12.0)] } else { healthy().sites };
            Second { sites, ..healthy() }
        })
    };
    let files = |file: fn(usize, usize, usize) -> usize| always(move |s| (s.ranks, s.file) = (2, Some(file)));
    vec![
        (
            "gc_pause",
            "a rare collection",
            always(|s| s.sites = vec![("host", 9.0), ("gc", 1.0)]),
            always(|s| s.sites = vec![("host", 10.0), ("gc", 0.1)]),
        ),
        (
            "gc_pause",
            "measured and short",
            always(|s| s.gc_region = Some(0.07)),
            always(|s| {
                (s.sites, s.gc_region) = (vec![("host", 9.0), ("gc", 1.0)], Some(0.01));
            }),
        ),
        (
            "sync_checkpoint",
            "one short stack",
            saving(12),
            Box::new(|s| {
                let sites = if s == 20 { vec![("checkpoint", 3.0)] } else { healthy().sites };
                Second { sites, ..healthy() }
            }),
        ),
        (
            "same_samples",
            "each rank its part",
            files(|_, worker, s| 10 * s + worker),
            files(|rank, worker, s| 1000 * rank + 10 * s + worker),
        ),
        ("same_samples", "one large file for all", files(|_, worker, s| 10 * s + worker), files(|_, _, _| 7)),
    ]
}

fn of_starts() -> Vec<Case> {
    vec![
        (
            "slow_first_batch",
            "a first batch like the others",
            Box::new(|s| first_fetch(s, 20, vec![("loader", 9.0), ("startup", 3.0)], 0.02)),
            Box::new(|s| first_fetch(s, 12, vec![("loader", 12.0)], 3.0)),
        ),
        (
            "starting",
            "a starved loop",
            Box::new(|s| first_fetch(s, 100, vec![("startup", 8.0), ("loader", 3.0)], 0.0)),
            always(|s| (s.sites, s.data) = (vec![("loader", 12.0)], 0.97)),
        ),
        (
            "starting",
            "a starved loop that starts its workers anew",
            Box::new(|s| first_fetch(s, 100, vec![("loader", 12.0)], 0.0)),
            Box::new(|s| Second { sites: vec![("loader", 8.0), ("startup", 5.0)], crew: s / 6, ..healthy() }),
        ),
        (
            "starting",
            "a loader without workers",
            Box::new(|s| first_fetch(s, 100, vec![("loader", 12.0)], 0.0)),
            Box::new(|s| Second { workers: 0, ..first_fetch(s, 100, vec![("loader", 12.0)], 0.0) }),
        ),
        (
            "slow_first_batch",
            "a starved loop that Feedline came to",
            Box::new(|s| first_fetch(s, 20, vec![("loader", 12.0)], 0.02)),
            Box::new(|s| {
                let sites = if s <= 20 { vec![("loader", 12.0)] } else { healthy().sites };
                Second { sites, wait: Some(0.02), ..healthy() }
            }),
        ),
        (
            "starting",
            "a loop that trained before",
            always(|s| s.sites = vec![("startup", 8.0), ("loader", 3.0)]),
            Box::new(|s| Second { sites: vec![(if s < 25 { "device" } else { "startup" }, 12.0)], ..healthy() }),
        ),
    ]
}

fn of_neighbours() -> Vec<Case> {
    vec![
        (
            "noisy_neighbour",
            "the job fills the cores itself",
            always(neighbours),
            always(|s| {
                neighbours(s);
                s.worker = Does { cpu: 1.5, on_cpu: 0.9, ..s.worker };
            }),
        ),
        (
            "noisy_neighbour",
            "a quota",
            always(neighbours),
            always(|s| {
                neighbours(s);
                s.quota = Some((2.0, 0.5));
            }),
        ),
        (
            "noisy_neighbour",
            "a disk that the job keeps busy",
            always(|s| {
                reading(s);
                (s.worker.storage, s.disk) = (2e6, (90e6, 0.97));
            }),
            always(|s| {
                reading(s);
                s.disk = (85e6, 0.97);
            }),
        ),
    ]
}
