//! What is said of a change: its values, the line to change, and the facts it rests on.

use feedline_traces::unit::Unit;

use super::change::Change;
use super::facts::{Facts, USUAL_PREFETCH};
use crate::verdict::percent;

/// What a knob is now and what it is to be.
pub(super) fn values(change: Change, facts: &Facts) -> (String, String) {
    let said = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    match change {
        Change::Workers(n) => (facts.workers().to_string(), n.to_string()),
        Change::Prefetch(n) => {
            let (now, guessed) = facts.prefetch();
            (if guessed { format!("{now} (assumed)") } else { now.to_string() }, n.to_string())
        }
        Change::Persistent => said("False", "True"),
        Change::Pin => said("False", "True"),
        Change::Threads => {
            (facts.crew.os_threads.map_or_else(|| "many".to_owned(), |n| format!("{n:.0}")), "1".to_owned())
        }
        Change::AnyOrder => said("True", "False"),
        Change::Batch => match facts.setting.batch {
            Some(batch) => (batch.to_string(), (2 * batch).to_string()),
            None => said("as it is", "twice that"),
        },
        Change::Shards => said("small files", "shards read in order"),
        Change::InMemory => said(place(facts), "memory"),
        Change::LocalDisk => said(place(facts), "a local disk"),
        Change::ReadAhead => said("none", "the next samples"),
        Change::SmallDecode => said("whole pictures", "scaled while decoding"),
        Change::SaveLess => match facts.saves {
            Some(saves) => (every(saves.every), every(2.0 * saves.every)),
            None => said("as it is", "half as often"),
        },
        Change::SaveBeside => said("in the training loop", "beside it"),
        Change::Affinity => {
            let cores = |n: Option<f64>| n.map_or_else(|| "unknown".to_owned(), |n| format!("{n:.0} cores"));
            (cores(facts.machine.workers_allowed.or(facts.machine.allowed)), cores(facts.machine.cores))
        }
        Change::Quota(n) => (
            facts.machine.quota.map_or_else(|| "unknown".to_owned(), |q| format!("{q:.1} cores")),
            format!("{n} cores"),
        ),
    }
}

fn every(seconds: f64) -> String {
    format!("every {}", Unit::Nanos.show(seconds * 1e9))
}

fn place(facts: &Facts) -> &'static str {
    match facts.reads.class.as_deref() {
        Some("network" | "fuse") => "a network mount",
        Some("disk" | "overlay") if facts.cause("fetch.network") <= facts.cause("fetch.storage") => "a disk",
        _ if facts.cause("fetch.network") > facts.cause("fetch.storage") => "the network",
        _ => "where it is",
    }
}

/// The lines to change. Arguments of one loader stand in one line.
pub(super) fn lines(changes: &[Change], facts: &Facts) -> String {
    let mut arguments = Vec::new();
    let mut rest = Vec::new();
    for change in changes {
        match argument(*change, facts) {
            Some(argument) => arguments.push(argument),
            None => rest.push(line(*change, facts)),
        }
    }
    if !arguments.is_empty() {
        rest.insert(0, format!("DataLoader(..., {})", arguments.join(", ")));
    }
    rest.join("\n")
}

/// The argument of a loader that a change is.
fn argument(change: Change, facts: &Facts) -> Option<String> {
    let torch = facts.setting.framework.as_deref() == Some("pytorch");
    if !facts.by_processes() || !torch {
        return None;
    }
    match change {
        Change::Workers(n) if facts.workers() == 0 => Some(format!("num_workers={n}, persistent_workers=True")),
        Change::Workers(n) => Some(format!("num_workers={n}")),
        Change::Prefetch(n) => Some(format!("prefetch_factor={n}")),
        Change::Persistent => Some("persistent_workers=True".to_owned()),
        Change::AnyOrder => Some("in_order=False".to_owned()),
        Change::Batch => facts.setting.batch.map(|batch| format!("batch_size={}", 2 * batch)),
        Change::Pin => Some("pin_memory=True".to_owned()),
        _ => None,
    }
}

fn line(change: Change, facts: &Facts) -> String {
    let pid = facts.pid.map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
    match change {
        Change::Workers(n) => {
            let what = if facts.by_processes() { "worker processes" } else { "threads" };
            format!("the loader's {what}: {n} instead of {}", facts.workers())
        }
        Change::Prefetch(n) => format!("the loader's queue: {n} batches a worker"),
        Change::Persistent => "DataLoader(..., persistent_workers=True), one loader for all epochs".to_owned(),
        Change::Pin => "batch.to(device, non_blocking=True) from pinned memory".to_owned(),
        Change::Threads => "OMP_NUM_THREADS=1 in the job's environment, and in worker_init_fn: \
                            torch.set_num_threads(1); cv2.setNumThreads(0)"
            .to_owned(),
        Change::AnyOrder => "take batches as they are ready, not in the order they were asked for".to_owned(),
        Change::Batch => "batch_size: twice as many samples, the learning rate adapted".to_owned(),
        Change::Shards => {
            "pack samples into shards of 100 MB and more, for example webdataset.ShardWriter, and read them \
                           with webdataset.WebDataset(urls).shuffle(1000)"
                .to_owned()
        }
        Change::InMemory => {
            "cp -r DATASET /dev/shm/dataset, and read it from there (or `vmtouch -t DATASET` once, to have \
                             it in the page cache)"
                .to_owned()
        }
        Change::LocalDisk => "rsync -a DATASET /local/dataset before the run, and read it from there".to_owned(),
        Change::ReadAhead => {
            "os.posix_fadvise(fd, offset, length, os.POSIX_FADV_WILLNEED) for the samples that come next".to_owned()
        }
        Change::SmallDecode => {
            "Image.open(path).draft(\"RGB\", (size, size)) before .convert(\"RGB\"): JPEGs are decoded \
                                at 1/2, 1/4 or 1/8"
                .to_owned()
        }
        Change::SaveLess => "save every 2 × N steps instead of every N".to_owned(),
        Change::SaveBeside => {
            "torch.distributed.checkpoint.async_save(state, checkpoint_id=path), or copy the state to \
                               memory and write it from a thread"
                .to_owned()
        }
        Change::Affinity => format!(
            "taskset -a -cp 0-{} {pid} (and no os.sched_setaffinity in worker_init_fn)",
            super::facts::whole(facts.machine.cores.unwrap_or(1.0)).max(1) - 1
        ),
        Change::Quota(n) => {
            format!("echo \"{n}00000 100000\" > cpu.max of its control group (docker: --cpus={n})")
        }
    }
}

/// The facts that some changes rest on.
pub(super) fn evidence(changes: &[Change], facts: &Facts) -> String {
    let mut said = vec![waits(facts)];
    for change in changes {
        for fact in fact(*change, facts) {
            if !said.contains(&fact) {
                said.push(fact);
            }
        }
    }
    said.join("; ")
}

fn waits(facts: &Facts) -> String {
    let step = facts.period.map(|p| format!(" (a step takes {})", Unit::Nanos.show(p * 1e9))).unwrap_or_default();
    let wait = &facts.wait;
    if wait.high > wait.low {
        let low = percent(wait.low);
        let low = low.trim_end_matches(" %");
        format!("waits {} ({low} to {}) for data{step}", percent(wait.share), percent(wait.high).trim_end_matches(" %"))
    } else {
        format!("waits {} for data{step}", percent(wait.share))
    }
}

fn fact(change: Change, facts: &Facts) -> Vec<String> {
    let crew = &facts.crew;
    let share = |name: &str, what: &str| vec![format!("{what} {} of its time", percent(facts.cause(name)))];
    match change {
        Change::Workers(_) | Change::Prefetch(_) | Change::AnyOrder | Change::Threads => {
            let mut said = workers(facts);
            if matches!(change, Change::Threads) {
                said.extend(crew.os_threads.map(|n| format!("a worker has {n:.0} threads")));
            }
            said
        }
        Change::Persistent => share("startup", "starting workers takes"),
        Change::Pin => share("copy", "copies take"),
        Change::Batch => share("host", "work of the host takes"),
        Change::SmallDecode => share("decode", "decoding takes"),
        Change::SaveLess | Change::SaveBeside => {
            let mut said = share("checkpoint", "checkpoints take");
            said.extend(
                facts
                    .saves
                    .map(|saves| format!("one of {} {}", Unit::Nanos.show(saves.each * 1e9), every(saves.every))),
            );
            said
        }
        Change::Shards | Change::InMemory | Change::LocalDisk | Change::ReadAhead => {
            let mut said = workers(facts);
            said.extend(facts.reads.bytes.map(|bytes| format!("a read brings {}", Unit::Bytes.show(bytes))));
            said.extend(facts.reads.dataset.map(|bytes| format!("the data set has {}", Unit::Bytes.show(bytes))));
            said
        }
        Change::Affinity | Change::Quota(_) => {
            let mut said = workers(facts);
            said.extend(share("contention", "it is kept from a core"));
            said
        }
    }
}

/// What workers do, the largest parts, and the cores that the job uses.
fn workers(facts: &Facts) -> Vec<String> {
    let crew = &facts.crew;
    let mut said = Vec::new();
    if facts.workers() == 0 {
        said.push("all loading is done by the main thread".to_owned());
    } else {
        let mut parts = [
            ("waiting for storage", crew.storage),
            ("waiting for the network", crew.remote),
            ("reading from memory", crew.cache),
            ("decoding", crew.decode),
            ("collating", crew.collate),
            ("handing over", crew.put),
            ("idle", crew.idle),
            ("queueing for a core", crew.queued),
        ];
        parts.sort_by(|a, b| b.1.total_cmp(&a.1));
        let list: Vec<String> = parts
            .iter()
            .take(3)
            .filter(|p| p.1 >= 0.05)
            .map(|(what, share)| format!("{what} {}", percent(*share)))
            .collect();
        let count = facts.workers();
        let who = if count == 1 { "its worker is".to_owned() } else { format!("its {count} workers are") };
        if !list.is_empty() {
            said.push(format!("{who} {}", list.join(", ")));
        }
    }
    said.extend(
        facts
            .machine
            .used
            .map(|used| format!("the job uses {used:.1} of {:.1} cores", facts.cores() * facts.machine.ranks.max(1.0))),
    );
    said
}

/// What was taken for granted.
pub(super) fn assumed(facts: &Facts) -> Vec<String> {
    let mut said = Vec::new();
    if facts.setting.prefetch.is_none() && facts.workers() > 0 {
        said.push(format!("prefetch_factor is {USUAL_PREFETCH}, PyTorch's own; --prefetch N tells it"));
    }
    if facts.period.is_none() {
        said.push("no period was seen, so that costs by the step are taken for a step of 100 ms".to_owned());
    }
    if facts.seconds == 0.0 {
        said.push("the present is predicted too: nothing has run yet".to_owned());
    }
    if facts.batch_bytes().1 {
        said.push("a batch has 18 MiB (32 pictures of 224 × 224 in floats), which prices memory".to_owned());
    }
    said
}

/// Why nothing is to be gained from a loader that keeps up.
pub(super) fn fed(facts: &Facts, stall: f64) -> String {
    let most = if facts.wait.high > facts.wait.low {
        format!(" (at most {})", percent(facts.wait.high))
    } else {
        String::new()
    };
    let else_lost = (stall - facts.wait.share).max(0.0);
    let beside = if else_lost >= 0.01 {
        format!(", and loses {} to copies, checkpoints and waits for cores", percent(else_lost))
    } else {
        String::new()
    };
    format!("Nothing to gain here: it waits {}{most} of its time for data{beside}.", percent(facts.wait.share))
}

/// Why nothing that can be set helps.
pub(super) fn no_gain(facts: &Facts, stall: f64, binds: &str) -> String {
    let limit = match binds {
        "cores" => "cores are what it is short of".to_owned(),
        "handover" => "the main thread itself takes batches over, and that is what it waits for".to_owned(),
        "bandwidth" | "depth" | "network" => "storage gives no more".to_owned(),
        "step" => "the step sets the pace".to_owned(),
        other => format!("what binds it is `{other}`"),
    };
    let lost = percent(stall);
    format!(
        "No setting gains {} here, although {lost} of its time is no step: {limit}. It uses {} workers.",
        percent(super::WORTH),
        facts.workers()
    )
}
