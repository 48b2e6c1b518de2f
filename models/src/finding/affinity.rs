//! Workers that all run on few of the machine's cores: a library reset the affinity when it was
//! imported, or the launcher bound the whole job to one core.

use super::scene::{Scene, mean};
use super::{Pattern, Seen, percent};

/// The machine has this many times the cores that the workers may use; of one core, twice is enough.
const TIMES: f64 = 4.0;
/// Share of their time that workers queue for a core.
const QUEUED: f64 = 0.2;
/// Workers that are bound to the same cores use no more than these; with room for rounding.
const ROOM: f64 = 1.1;

#[derive(Debug)]
pub(super) struct NarrowAffinity;

impl Pattern for NarrowAffinity {
    fn kind(&self) -> &'static str {
        "narrow_affinity"
    }

    fn look(&mut self, scene: &Scene, out: &mut Vec<Seen>) {
        let Some(machine) = scene.machine() else { return };
        for (key, trainer) in scene.trainers() {
            let crew = scene.crew(key);
            let cores: Option<Vec<f64>> = crew.iter().map(|(_, worker)| worker.cores).collect();
            let Some(allowed) = cores.and_then(|cores| cores.into_iter().reduce(f64::max)) else { continue };
            #[expect(clippy::cast_precision_loss, reason = "a number of workers")]
            let many = crew.len() as f64;
            let lists: Vec<_> = crew.iter().map(|(_, worker)| worker.allowed.as_deref()).collect();
            let same = lists.windows(2).all(|pair| pair[0] == pair[1]);
            let times = if allowed < 1.5 { 2.0 } else { TIMES };
            if many < 2.0 || many <= allowed || allowed * times > machine || !same {
                continue;
            }
            let used: Option<f64> = crew.iter().map(|(_, worker)| worker.cpu()).sum();
            let queued = mean(crew.iter().map(|(_, worker)| worker.run_queue.share()));
            let (Some(used), Some(queued)) = (used, queued) else { continue };
            if used > allowed * ROOM || queued < QUEUED {
                continue;
            }
            let which = match (lists.first().copied().flatten(), allowed < 1.5) {
                (Some(list), true) => format!("core {list}"),
                (Some(list), false) => format!("cores {list}"),
                (None, _) => format!("{allowed:.0} core{}", if allowed < 1.5 { "" } else { "s" }),
            };
            out.push(Seen {
                process: key.clone(),
                severity: trainer.cause("contention"),
                text: format!("All {many:.0} workers share {which} of {machine:.0}."),
                advice: "Give the workers all cores: look for what narrows the affinity (an import of a numerical \
                         library, `OMP_PROC_BIND`, `GOMP_CPU_AFFINITY`, `taskset`, the batch system's binding), and \
                         call `os.sched_setaffinity(0, range(os.cpu_count()))` in `worker_init_fn` until it is gone."
                    .to_owned(),
                evidence: format!(
                    "each may run on {which}; together they use {used:.2} cores and queue for a core {} of their time",
                    percent(queued)
                ),
            });
        }
    }
}
