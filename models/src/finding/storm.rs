//! Thread storms: each process starts as many compute threads (OpenMP, MKL, OpenCV) as the machine
//! has cores, and together they want far more cores than there are.

use super::scene::{Process, Scene, mean};
use super::{Pattern, Seen, percent};

/// Threads for each core from which there are too many.
const TIMES: f64 = 2.0;
/// Threads of a process that has more than its own and a helper or two.
const MANY: f64 = 4.0;
/// Share of their time that main threads queue for a core.
const QUEUED: f64 = 0.15;
/// Cores that the threads beside the main ones use, of those there are: idle pools harm nobody.
const ACTIVE: f64 = 0.2;
/// Part of the cores in use.
const FULL: f64 = 0.7;

#[derive(Debug)]
pub(super) struct ThreadStorm;

impl Pattern for ThreadStorm {
    fn kind(&self) -> &'static str {
        "thread_storm"
    }

    fn look(&mut self, scene: &Scene, out: &mut Vec<Seen>) {
        for (key, trainer) in scene.trainers() {
            let crew: Vec<&Process> = scene.crew(key).into_iter().map(|(_, worker)| worker).collect();
            let workers = storm(scene, trainer, &crew).map(|facts| ("workers", facts));
            let Some((who, (threads, cores, queued, beside))) =
                workers.or_else(|| Some(("trainer", storm(scene, trainer, &[trainer])?)))
            else {
                continue;
            };
            let processes = if who == "workers" { crew.len() } else { 1 };
            out.push(Seen {
                process: key.clone(),
                severity: trainer.cause("contention"),
                text: format!("Its {who} run {threads:.0} threads on {cores:.0} cores."),
                advice: "Limit the threads of each process: `OMP_NUM_THREADS=1` (or a few), `torch.set_num_threads(1)` \
                         and `cv2.setNumThreads(0)` in `worker_init_fn`; the workers themselves are the parallelism."
                    .to_owned(),
                evidence: format!(
                    "{threads:.0} threads in {processes} processes; main threads queue for a core {} of their time while \
                     other threads of theirs use {beside:.1} cores",
                    percent(queued)
                ),
            });
        }
    }
}

/// Threads, cores, share of time queued and cores used beside the main threads, where these
/// processes are a storm.
fn storm(scene: &Scene, trainer: &Process, processes: &[&Process]) -> Option<(f64, f64, f64, f64)> {
    let quota = scene.groups.iter().filter_map(|(_, group)| group.limit).reduce(f64::min);
    let cores = trainer.cores.or_else(|| scene.machine())?.min(quota.unwrap_or(f64::INFINITY)).max(1.0);
    let threads: f64 = processes.iter().map(|p| p.threads).sum::<Option<f64>>()?;
    let each = mean(processes.iter().map(|p| p.threads))?;
    let queued = mean(processes.iter().map(|p| p.run_queue.share()))?;
    let beside: f64 = processes.iter().map(|p| p.beside()).sum::<Option<f64>>()?;
    let stormy = each >= MANY
        && threads >= TIMES * cores
        && queued >= QUEUED
        && beside >= ACTIVE * cores
        && scene.job_cpu()? >= FULL * cores;
    stormy.then_some((threads, cores, queued, beside))
}
