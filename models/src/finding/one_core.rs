//! All decoding on one core: no worker, or one, that is on a CPU all the time while other cores idle.

use super::scene::Scene;
use super::{Pattern, Seen, percent};

/// Share of time that the loading thread is on a CPU.
const BUSY: f64 = 0.85;
/// Share of time that the trainer waits for data.
const WAITS: f64 = 0.1;
/// Cores that the job leaves.
const FREE: f64 = 1.0;
/// Without workers, the part of the main thread's own stacks in the loader.
const LOADS: f64 = 0.3;

#[derive(Debug)]
pub(super) struct OneCoreDecode;

impl Pattern for OneCoreDecode {
    fn kind(&self) -> &'static str {
        "one_core_decode"
    }

    fn look(&mut self, scene: &Scene, out: &mut Vec<Seen>) {
        let Some(used) = scene.job_cpu() else { return };
        for (key, trainer) in scene.trainers() {
            let crew = scene.crew(key);
            let (loader, who) = match crew.as_slice() {
                [] => (trainer, "main thread"),
                [(_, only)] => (*only, "only worker"),
                _ => continue,
            };
            let facts = (trainer.cores.or_else(|| scene.machine()), trainer.data, loader.on_cpu.share());
            let (Some(cores), Some(data), Some(busy)) = facts else { continue };
            let loads = !crew.is_empty() || data >= LOADS;
            // Threads of the process that decode beside it would use the other cores.
            let alone = loader.beside().is_some_and(|beside| beside < 0.5 * busy);
            if data < WAITS || busy < BUSY || cores - used < FREE || !loads || !alone {
                continue;
            }
            out.push(Seen {
                process: key.clone(),
                severity: trainer.cause("decode").or(trainer.data),
                text: format!("Its {who} does all the decoding on one core while {:.0} cores are free.", cores - used),
                advice: if crew.is_empty() {
                    "Load in worker processes (`num_workers` of 2 or more): decoding then overlaps with the step and \
                     uses the other cores."
                        .to_owned()
                } else {
                    "Use more workers: one is on a CPU nearly all of its time, and there are cores for others."
                        .to_owned()
                },
                evidence: format!(
                    "the {who} is on a CPU {} of its time, the job uses {used:.1} of {cores:.0} cores, and the trainer \
                     waits {} of its time for data",
                    percent(busy),
                    percent(data)
                ),
            });
        }
    }
}
