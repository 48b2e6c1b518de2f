//! `/dev/shm`, through which workers hand batches over, is nearly full.

use super::scene::Scene;
use super::{Pattern, Seen, bytes, percent};

/// Part in use from which it is about to fail.
const FULL: f64 = 0.9;

#[derive(Debug)]
pub(super) struct ShmFull;

impl Pattern for ShmFull {
    fn kind(&self) -> &'static str {
        "shm_full"
    }

    fn hold(&self) -> f64 {
        3.0
    }

    fn look(&mut self, scene: &Scene, out: &mut Vec<Seen>) {
        let [Some(used), Some(total)] = scene.memory.shm else { return };
        if total <= 0.0 || used < FULL * total {
            return;
        }
        out.push(Seen {
            process: scene.job(),
            severity: None,
            text: format!("`/dev/shm` is {} full: {} of {}.", percent(used / total), bytes(used), bytes(total)),
            advice: "Make it larger (`docker run --shm-size`, `--ipc=host`, an `emptyDir` of `medium: Memory`), or hold \
                     fewer batches there: fewer workers, a smaller `prefetch_factor`. Workers that find no room in it die \
                     with a bus error."
                .to_owned(),
            evidence: format!("{} used of {} that the job's `/dev/shm` has", bytes(used), bytes(total)),
        });
    }
}
