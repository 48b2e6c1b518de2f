//! Somebody else on the machine takes the cores or the disk that the job waits for.

use super::scene::{Process, Scene, mean};
use super::{Pattern, Seen, bytes, percent};

/// Share of time that the job's threads queue for a core.
const QUEUED: f64 = 0.2;
/// Share of time that some task of the machine waits for a core.
const PRESSED: f64 = 0.4;
/// The job uses less than this of its cores.
const SPARE: f64 = 0.7;
/// A quota that holds the job back explains the queueing.
const HELD: f64 = 0.05;
/// A disk is busy this share of the time, and the job moves less than this of its bytes.
const BUSY: f64 = 0.8;
const MINE: f64 = 0.3;
/// Share of their time that workers read.
const READING: f64 = 0.2;

#[derive(Debug)]
pub(super) struct NoisyNeighbour;

impl Pattern for NoisyNeighbour {
    fn kind(&self) -> &'static str {
        "noisy_neighbour"
    }

    fn look(&mut self, scene: &Scene, out: &mut Vec<Seen>) {
        out.extend(cores(scene).or_else(|| disk(scene)));
    }
}

fn cores(scene: &Scene) -> Option<Seen> {
    let of_job: Vec<&Process> =
        scene.processes.iter().map(|(_, p)| p).filter(|p| p.is("trainer") || p.is("worker")).collect();
    let queued = of_job.iter().filter_map(|p| p.run_queue.share()).reduce(f64::max)?.min(1.0);
    let average = mean(of_job.iter().map(|p| p.run_queue.share()).filter(Option::is_some))?;
    let cores = of_job.iter().filter_map(|p| p.cores).reduce(f64::max).or_else(|| scene.machine())?;
    let (used, pressure) = (scene.job_cpu()?, scene.memory.pressure.share()?);
    // A group without a quota counts no periods.
    let held = scene.groups.iter().filter_map(|(_, g)| Some(g.held.grown()? / g.periods.grown().filter(|n| *n > 0.0)?));
    // A job that may use few of the cores queues behind itself.
    let confined = scene.machine().is_some_and(|machine| cores + 0.5 < machine);
    let others = queued >= QUEUED
        && pressure >= PRESSED
        && used < SPARE * cores
        && !confined
        && held.reduce(f64::max).is_none_or(|held| held < HELD);
    others.then(|| Seen {
        process: scene.job(),
        severity: scene.worst("contention"),
        text: format!("Other processes take the cores: the job gets {used:.2} of {cores:.0} and queues for more."),
        advice: "Move the other load or the job, or give the job cores of its own (`cpuset`, `taskset`, a CPU request \
                 of the batch system)."
            .to_owned(),
        evidence: format!(
            "the job's threads queue for a core {} of their time (at most {}) while the job uses {used:.2} of {cores:.0} \
             cores; some task of the machine waits for one {} of the time",
            percent(average),
            percent(queued),
            percent(pressure)
        ),
    })
}

/// A disk that serves the job is busy with the bytes of others.
fn disk(scene: &Scene) -> Option<Seen> {
    let reading = scene.processes.iter().filter(|(_, p)| p.is("worker")).filter_map(|(_, p)| p.reading(scene.now));
    let reading = reading.reduce(f64::max).filter(|share| *share >= READING)?;
    let mine = scene.storage_read()?;
    let serves = |device: &str| scene.mounts.iter().any(|(_, mount)| mount.device.as_deref() == Some(device));
    let busy = scene.disks.iter().filter(|(device, _)| serves(device)).filter_map(|(device, disk)| {
        let (busy, all) = (disk.busy.share()?, disk.read.rate()? + disk.written.rate().unwrap_or(0.0));
        (busy >= BUSY && all > 0.0 && mine < MINE * all).then_some((device, busy, all))
    });
    let (device, busy, all) = busy.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Seen {
        process: scene.job(),
        severity: scene.worst("fetch.storage"),
        text: format!(
            "Other processes keep the disk {device} busy: only {} of its bytes are the job's.",
            percent(mine / all)
        ),
        advice:
            "Move the other load or the data set to a disk of its own, or copy the data set to local storage before \
                 the run."
                .to_owned(),
        evidence: format!(
            "{device} is busy {} of the time and moves {}/s, of which the job reads {}/s; workers read {} of their time",
            percent(busy),
            bytes(all),
            bytes(mine),
            percent(reading)
        ),
    })
}
