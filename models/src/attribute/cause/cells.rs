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
        let seen = if state == State::Running { seldom_idle(tasks[state as usize]) } else { tasks[state as usize] };
        let stacks: f64 = seen.iter().sum();
        let all: f64 = columns.iter().map(|c| c.1).sum();
        let mut table: Vec<[f64; TASKS]> = columns.iter().map(|(on, _)| usual(state, *on)).collect();
        for _ in 0..20 {
            if stacks >= FEW_STACKS {
                for t in 0..TASKS {
                    let sum: f64 = table.iter().map(|row| row[t]).sum();
                    let wanted = all * seen[t] / stacks;
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

/// Part of its running time that a worker which blocks for work spends in asking for it, and how likely a worker
/// is to be of that kind rather than one that asks again and again.
const ASKING: f64 = 0.01;
const BLOCKS: f64 = 0.95;
/// Stacks in waiting for work that need no second thought.
const MANY: f64 = 30.0;

/// Stacks of a worker that runs, with those in waiting for work taken for what they are likely to be: it blocks
/// there, and one that was looked at as it woke up would make a tenth of its time idle, where there are ten. A
/// spike at what is usual beside a flat slab (Mitchell and Beauchamp, JASA 1988).
fn seldom_idle(mut stacks: [f64; TASKS]) -> [f64; TASKS] {
    let all: f64 = stacks.iter().sum();
    let idle = stacks[Task::Idle as usize];
    if idle <= 0.0 || idle >= all || idle > MANY {
        return stacks;
    }
    // How often k of n are seen where it blocks, and where any part is as likely: the chance of 1 / (n + 1).
    let steps = (1..=count(idle)).map(|i| ((all - idle + f64::from(i)) / f64::from(i)).ln());
    let spike = steps.sum::<f64>() + idle * ASKING.ln() + (all - idle) * (1.0 - ASKING).ln();
    let (spike, slab) = (BLOCKS * spike.exp(), (1.0 - BLOCKS) / (all + 1.0));
    let blocks = spike / (spike + slab);
    let part = blocks * ASKING + (1.0 - blocks) * (idle + 1.0) / (all + 2.0);
    let new = idle.min(part * all);
    stacks.iter_mut().for_each(|n| *n *= (all - new) / (all - idle));
    stacks[Task::Idle as usize] = new;
    stacks
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few stacks")]
fn count(stacks: f64) -> u32 {
    stacks.round() as u32
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_caught_as_it_woke_up_is_no_worker_that_idles_while_it_runs() {
        let idle = |idle: f64, rest: f64| {
            let mut stacks = [0.0; TASKS];
            (stacks[Task::Decode as usize], stacks[Task::Idle as usize]) = (rest, idle);
            let got = seldom_idle(stacks);
            assert!((got.iter().sum::<f64>() - idle - rest).abs() < 1e-9, "{got:?}");
            got[Task::Idle as usize] / (idle + rest)
        };
        for (k, rest, low, high) in [
            (1.0, 15.0, 0.005, 0.02),
            (2.0, 14.0, 0.01, 0.08),
            (4.0, 12.0, 0.2, 0.26),
            (40.0, 400.0, 0.09, 0.1),
            (3.0, 0.0, 1.0, 1.0),
        ] {
            let got = idle(k, rest);
            assert!((low..=high).contains(&got), "{k} beside {rest}: {got}");
        }
    }
}
