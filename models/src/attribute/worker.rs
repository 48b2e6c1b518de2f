//! The table of workers: what each did with the last ten seconds.

use feedline_traces::{Rows, Symbol};

use super::cause::{Cause, Origin, worker_parts};
use super::crew::{Crew, ThreadKey, Worker};
use super::flow::Flow;
use super::kind::{On, State};
use super::site::{TASKS, Task, Tasks};
use crate::tables::WorkerRow;

/// Stacks of a worker below which those of all its fellows count as well.
const ENOUGH: f64 = 20.0;
/// Weight of the fellows' stacks, by state.
const FELLOWS: f64 = 10.0;

impl Crew {
    /// One row a worker. `shared` is what a process read whose threads they are: of that each is taken to
    /// have read its part.
    pub(super) fn rows(&self, trainer: &Symbol, shared: Option<Flow>, origin: &Origin, out: &mut Rows<'_>) {
        #[expect(clippy::cast_precision_loss, reason = "a thousand workers at most")]
        let shared = shared.map(|flow| flow.shared_by(self.workers.len() as f64));
        for (key, worker) in &self.workers {
            if let Some(row) = self.row(key, worker, (trainer, shared), origin) {
                out.push(row);
            }
        }
    }

    fn row(
        &self,
        key: &ThreadKey,
        worker: &Worker,
        (trainer, shared): (&Symbol, Option<Flow>),
        origin: &Origin,
    ) -> Option<WorkerRow> {
        let slice = worker.slices.window();
        let flow = shared.unwrap_or(slice.flow);
        let mix = slice.mix.calibrated(slice.running());
        let total = mix.total();
        if total <= 0.0 {
            return None;
        }
        let kinds = mix.kinds().into_iter().map(|(kind, seconds)| (kind, seconds / total)).collect();
        let queued = if slice.exact > 0.0 { Some(slice.run_queue / slice.exact) } else { None };
        let of_running = slice.queued();
        let mut row = WorkerRow {
            process: key.0.clone().into(),
            thread: key.1.clone().into(),
            trainer: trainer.clone().into(),
            queued: queued.into(),
            ..WorkerRow::default()
        };
        let (mut share, mut other) = ([0.0; 7], 0.0);
        for part in worker_parts(&kinds, (&self.tasks_of(worker), of_running), flow, origin) {
            let queues = if part.kind.0 == State::Running && queued.is_some() { of_running } else { 0.0 };
            let weight = part.weight * (1.0 - queues);
            let place = match (part.task, part.cause) {
                (Task::Idle, _) => Some(6),
                (Task::Put, _) => Some(5),
                (Task::Collate, Cause::Decode) => Some(4),
                (_, Cause::Decode) => Some(3),
                (_, Cause::FetchNetwork) => Some(2),
                (_, Cause::FetchCache) => Some(1),
                (_, Cause::FetchStorage) => Some(0),
                _ => None,
            };
            *place.map_or(&mut other, |i: usize| &mut share[i]) += weight;
        }
        let [storage, cache, network, decode, collate, put, idle] = share;
        (row.fetch_storage, row.fetch_cache, row.fetch_network) = (storage.into(), cache.into(), network.into());
        (row.decode, row.collate, row.put, row.idle) = (decode.into(), collate.into(), put.into(), idle.into());
        row.other = other.into();
        row.read_rate = (slice.flow.seconds > 0.0).then(|| slice.flow.read / slice.flow.seconds).into();
        row.file = worker.file().cloned().into();
        let far = mix.kinds().iter().any(|(kind, seconds)| kind.1 == On::Remote && *seconds > 0.01 * total);
        if let ([mount], true) = (origin.remote.as_slice(), far) {
            row.mount = mount.split(" (").next().unwrap_or(mount).to_owned().into();
        }
        Some(row)
    }

    /// Its own stacks, and where those are few, some of its fellows'.
    fn tasks_of(&self, worker: &Worker) -> Tasks {
        let mut tasks = worker.tasks;
        for (mine, all) in tasks.iter_mut().zip(&self.tasks) {
            let (own, theirs): (f64, f64) = (mine.iter().sum(), all.iter().sum());
            if own < ENOUGH && theirs > 0.0 {
                let weight = FELLOWS.min(theirs) / theirs;
                (0..TASKS).for_each(|t| mine[t] += weight * all[t]);
            }
        }
        tasks
    }
}
