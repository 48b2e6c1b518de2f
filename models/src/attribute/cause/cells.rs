//! What workers are at, by the kind of their calls and by their tasks: two margins, joined.

use std::collections::BTreeMap;

use super::super::kind::{Kind, On, State};
use super::super::site::{TASKS, Task, Tasks};

/// Fewer stacks than this in a state of a worker say nothing about it.
pub(super) const FEW_STACKS: f64 = 3.0;

/// What a kind and a task make up of the wait for data.
pub(super) type Cells = Vec<(Kind, Task, f64)>;

/// Whether a worker in this state at this task has nothing to do: it waits for work, or for room.
pub(super) fn idles(kind: Kind, task: Task) -> bool {
    task == Task::Idle || task == Task::Put && kind.0 != State::Running
}

/// Of the time by kind, how much is no waiting for work or for room.
pub(in super::super) fn at_work(kinds: &BTreeMap<Kind, f64>, tasks: &Tasks) -> f64 {
    cells(kinds, tasks).iter().filter(|(kind, task, _)| !idles(*kind, *task)).map(|c| c.2).sum()
}

/// Kinds crossed with tasks. Both margins are known (calls from samples, tasks from stacks), how
/// they go together is not: what a call on a pipe or on a file usually means is fitted to both
/// margins (iterative proportional fitting, Deming and Stephan 1940).
pub(super) fn cells(kinds: &BTreeMap<Kind, f64>, tasks: &Tasks) -> Cells {
    let mut out = Vec::new();
    for state in State::ALL {
        let columns: Vec<(On, f64)> = kinds.iter().filter(|(k, _)| k.0 == state).map(|(k, w)| (k.1, *w)).collect();
        let stacks: f64 = tasks[state as usize].iter().sum();
        let all: f64 = columns.iter().map(|c| c.1).sum();
        let mut table: Vec<[f64; TASKS]> = columns.iter().map(|(on, _)| usual(state, *on)).collect();
        for _ in 0..20 {
            if stacks >= FEW_STACKS {
                for t in 0..TASKS {
                    let sum: f64 = table.iter().map(|row| row[t]).sum();
                    let wanted = all * tasks[state as usize][t] / stacks;
                    table.iter_mut().filter(|_| sum > 0.0).for_each(|row| row[t] *= wanted / sum);
                }
            }
            for (row, (_, wanted)) in table.iter_mut().zip(&columns) {
                let sum: f64 = row.iter().sum();
                row.iter_mut().filter(|_| sum > 0.0).for_each(|x| *x *= wanted / sum);
            }
        }
        for (row, (on, wanted)) in table.iter().zip(&columns) {
            if row.iter().sum::<f64>() <= 0.0 {
                out.push(((state, *on), Task::Other, *wanted));
            }
            let some = Task::ALL.into_iter().zip(row).filter(|(_, weight)| **weight > 0.0);
            out.extend(some.map(|(task, weight)| ((state, *on), task, *weight)));
        }
    }
    out
}

/// What a call usually means in a worker, in the order of [`Task::ALL`]: weights for where nothing
/// better is known.
fn usual(state: State, on: On) -> [f64; TASKS] {
    match (state, on) {
        (State::Running, _) => [0.1, 0.1, 0.01, 0.01, 0.01, 1.0],
        (State::Sleep, _) => [1.0, 0.01, 0.01, 0.01, 0.02, 0.5],
        (State::Disk, _) | (_, On::File | On::Remote | On::Memory) => [1.0, 0.5, 0.01, 0.01, 0.02, 0.5],
        (State::Write, _) => [0.01, 0.01, 0.01, 1.0, 0.01, 0.1],
        // Python's own queues are pipes and locks: who reads from a socket gets what he works on.
        (State::Read, On::Socket) => [1.0, 0.3, 0.01, 0.05, 0.05, 0.3],
        (_, On::Pipe) | (State::Futex, _) => [0.02, 0.02, 0.01, 0.3, 1.0, 0.02],
        (_, On::Socket) => [1.0, 0.3, 0.01, 0.1, 0.5, 0.3],
        _ => [0.2, 0.1, 0.05, 0.1, 1.0, 0.2],
    }
}
