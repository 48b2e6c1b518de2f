//! The wait for data, split by what the bottleneck does meanwhile: the trainer itself where it loads
//! without workers, else the workers, as far as their states are seen beside a waiting trainer.

use std::collections::BTreeMap;

use super::super::crew::CrewView;
use super::super::flow::Flow;
use super::super::kind::{Kind, On, STATES, State};
use super::super::mix::Mix;
use super::super::site::{Site, Task, Tasks};
use super::cells::{Cells, FEW_STACKS, cells, idles};
use super::contention::QUEUED;
use super::fetch::{Fetch, Origin, blocks_in};
use super::names::Cause;
use super::split::{Part, Split};
use super::view::View;

/// Idle time of a worker that the lag between two looks explains.
const LAG: f64 = 0.02;
/// Share of time in making workers from which a trainer does that all the time.
const RESPAWNS: f64 = 0.01;
/// Of many other workers, the part that still works while one slow batch holds up the line.
const WORKING: f64 = 0.15;
/// Determinant, relative, below which waiting and other time cannot be told apart by state.
const SINGULAR: f64 = 0.05;

/// Splits the sites in the loader.
pub(super) fn split(view: &View<'_>, split: &mut Split) {
    let sites: Vec<Site> = Site::ALL.into_iter().filter(|s| s.in_loader()).collect();
    let data = view.in_loader();
    if data <= 0.0 {
        return;
    }
    let alone = view.crew.is_none();
    let queued = if view.shortage.is_some() && view.queued >= QUEUED { view.queued } else { 0.0 };
    // What hands a batch over is a thread of a worker, which queues for the worker's cores.
    let starved = view.crew.filter(|crew| crew.queued >= QUEUED).zip(view.shortage);
    let handing = starved.map_or(0.0, |(crew, shortage)| shortage.woken * crew.queued);
    let own = own_cells(view, &sites);
    let fetch = own_fetch(view, &own);
    let starting = first_batches(view.startup, &own);
    let crew = view.crew.map(|crew| crew_parts(view, crew, split));
    let mut parts: BTreeMap<(Kind, Task, Cause, bool), f64> = BTreeMap::new();
    for (kind, site, share) in own {
        let task = site.task().unwrap_or(Task::Other);
        let row = &mut split.joint[site as usize];
        let first = if awaits(kind, task) { share * starting } else { 0.0 };
        row[Cause::Startup as usize] += first;
        let share = share - first;
        let mut add = |cause: Cause, part: f64| {
            row[cause as usize] += part;
            *parts.entry((kind, task, cause, true)).or_insert(0.0) += part / data;
        };
        let waits = if kind.0 == State::Running { share * queued } else { 0.0 };
        add(Cause::Contention, waits);
        let rest = share - waits;
        // A lock within the loader is let go of by another thread of the process.
        let locked = kind.0 == State::Futex && task == Task::Other;
        if alone && task != Task::Idle && !locked || works(task) {
            fetch.causes(kind, task).into_iter().for_each(|(cause, part)| add(cause, rest * part));
        } else if kind.0 == State::Running || task == Task::Put {
            let queues = if kind.0 == State::Running { 0.0 } else { rest * handing };
            add(Cause::Contention, queues);
            add(Cause::Handoff, rest - queues);
        } else if let Some(crew) = &crew {
            for part in crew {
                row[part.cause as usize] += rest * part.weight;
                *parts.entry((part.kind, part.task, part.cause, false)).or_insert(0.0) += rest * part.weight / data;
            }
        } else {
            unseen_threads(view, rest, &mut add);
        }
    }
    let parts = parts.into_iter().filter(|(_, weight)| *weight > 0.0);
    split.parts = parts.map(|((kind, task, cause, own), weight)| Part { kind, task, cause, own, weight }).collect();
    split.weight = split.weight.max(1.0);
}

/// The trainer's own time in the loader by kind and site, as shares of wall time.
fn own_cells(view: &View<'_>, sites: &[Site]) -> Vec<(Kind, Site, f64)> {
    let kinds = view.own.kinds();
    let mut cells = Vec::new();
    for state in State::ALL {
        let inside: Vec<(On, f64)> = kinds.iter().filter(|(k, _)| k.0 == state).map(|(k, w)| (k.1, *w)).collect();
        let all: f64 = inside.iter().map(|x| x.1).sum();
        for site in sites {
            let share = view.sites.joint[state as usize][*site as usize];
            if share <= 0.0 {
                continue;
            }
            if all <= 0.0 {
                cells.push(((state, On::Unknown), *site, share));
            }
            cells.extend(inside.iter().filter(|_| all > 0.0).map(|(on, w)| ((state, *on), *site, share * w / all)));
        }
    }
    cells
}

fn own_fetch<'a>(view: &View<'a>, cells: &[(Kind, Site, f64)]) -> Fetch<'a> {
    let in_fetch = |site: &Site| matches!(site, Site::Loader | Site::LoaderFetch);
    let running = cells.iter().filter(|(kind, site, _)| kind.0 == State::Running && in_fetch(site));
    let blocked: Vec<(Kind, f64)> =
        cells.iter().filter(|(kind, ..)| kind.0 != State::Running).map(|(k, _, w)| (*k, *w)).collect();
    let on_cpu = running.map(|x| x.2).sum::<f64>() * (1.0 - view.queued);
    Fetch::new(view.flow, view.origin, on_cpu, &blocked)
}

/// A trainer that waits in a queue which no worker that can be seen fills: threads of its own. Their
/// CPU time is known, what they block in is not.
fn unseen_threads(view: &View<'_>, rest: f64, add: &mut impl FnMut(Cause, f64)) {
    let cpu = view.beside.clamp(0.0, 1.0);
    let fetch = Fetch::new(view.flow, view.origin, cpu, &[]);
    let running = (State::Running, On::Unknown);
    fetch.causes(running, Task::Other).into_iter().for_each(|(cause, part)| add(cause, rest * cpu * part));
    // Threads that queue for a core look blocked from here.
    let cause = match view.flow.uses_network() {
        true => Cause::FetchNetwork,
        false if view.pressed => Cause::Unknown,
        false => blocks_in(&view.flow),
    };
    add(cause, rest * (1.0 - cpu));
}

/// What the workers do while the trainer waits for data, in parts that add up to one.
fn crew_parts(view: &View<'_>, crew: &CrewView, split: &mut Split) -> Vec<Part> {
    let (waiting, told_apart) = beside_waiting(view, &crew.mix);
    split.weight = crew.tasks.iter().flatten().sum();
    let tasks = crew.flow.reading_at_least(crew.tasks, on_a_cpu(crew));
    let cells = cells(&waiting, &tasks);
    let cells = if crew.threads { without_the_lock(cells) } else { cells };
    let total: f64 = cells.iter().map(|c| c.2).sum();
    if total <= 0.0 {
        return vec![Part {
            kind: (State::Other, On::Unknown),
            task: Task::Other,
            cause: Cause::Unknown,
            own: false,
            weight: 1.0,
        }];
    }
    let mut idle: f64 = cells.iter().filter(|(kind, task, _)| idles(*kind, *task)).map(|c| c.2).sum::<f64>() / total;
    if !told_apart {
        // Nobody knows when they idle: as far as possible, while the trainer does not wait.
        let data = view.in_loader();
        idle = ((idle - (1.0 - data)) / data.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
    }
    let busy: f64 = cells.iter().filter(|(kind, task, _)| !idles(*kind, *task)).map(|c| c.2).sum();
    let (handoff, unclear) = if crew.staged {
        (0.0, if busy > 0.0 { ((idle - 0.3) / 0.7).clamp(0.0, 1.0) } else { 1.0 })
    } else {
        (if busy > 0.0 { held_up(idle, crew.count) } else { 1.0 }, 0.0)
    };
    let mut parts = Vec::new();
    for (kind, task, weight) in cells.iter().filter(|(kind, task, _)| idles(*kind, *task)) {
        let all: f64 = total - busy;
        let mut push =
            |cause, part: f64| parts.push(Part { kind: *kind, task: *task, cause, own: false, weight: part });
        push(Cause::Handoff, handoff * weight / all);
        push(Cause::Unknown, unclear * weight / all);
    }
    if handoff > 0.0 && total - busy <= 0.0 {
        return parts;
    }
    let blocked: f64 = Site::ALL
        .iter()
        .filter(|s| s.in_loader())
        .map(|s| view.sites.share[*s as usize] - view.sites.joint[State::Running as usize][*s as usize])
        .sum();
    if handoff * blocked >= 0.02 && !crew.staged {
        split.note(Cause::Handoff, head_of_line(crew, idle));
    }
    busy_parts(view, crew, &cells, (busy, 1.0 - handoff - unclear), &mut parts);
    parts.retain(|part| part.weight > 0.0);
    parts
}

fn head_of_line(crew: &CrewView, idle: f64) -> String {
    let one = if crew.threads { "loader thread" } else { "worker" };
    let count = crew.count;
    if count < 1.5 {
        return format!("its {one} is idle {:.0} % of the wait", idle * 100.0);
    }
    let working = count * (1.0 - idle);
    let slow = crew.slow.as_ref().map(|(name, most, others)| {
        format!("; {one} {name} is at work {:.0} % of its time, the others {:.0} %", most * 100.0, others * 100.0)
    });
    let slow = slow.unwrap_or_default();
    format!("of {count:.0} {one}s {working:.1} are at work while it waits, the others are done or have no room{slow}")
}

/// Share of their time, whether anybody waits or not, that workers are on a CPU.
fn on_a_cpu(crew: &CrewView) -> f64 {
    let all = crew.mix.total();
    let running: f64 = crew.mix.kinds().iter().filter(|(k, _)| k.0 == State::Running).map(|x| x.1).sum();
    if all > 0.0 { running / all * (1.0 - crew.queued) * (1.0 - crew.stolen) } else { 0.0 }
}

/// Python threads wait for their interpreter's lock whenever they come back from a call: that belongs
/// to what they are at, so it is shared out among the rest of a task.
fn without_the_lock(cells: Cells) -> Cells {
    let locked = |kind: &Kind, task: &Task| kind.0 == State::Futex && !matches!(task, Task::Idle | Task::Put);
    let sum = |task: Task, want: bool| {
        cells.iter().filter(|(k, t, _)| *t == task && locked(k, t) == want).map(|c| c.2).sum::<f64>()
    };
    let factor: Vec<f64> = Task::ALL
        .iter()
        .map(|task| match (sum(*task, true), sum(*task, false)) {
            (locked, rest) if rest > 0.0 => 1.0 + locked / rest,
            _ => 1.0,
        })
        .collect();
    let keeps = |kind: &Kind, task: &Task| !locked(kind, task) || sum(*task, false) <= 0.0;
    let kept = cells.iter().filter(|(kind, task, _)| keeps(kind, task));
    kept.map(|(kind, task, weight)| (*kind, *task, weight * factor[*task as usize])).collect()
}

/// The part of the wait that belongs to what the busy workers do.
fn busy_parts(view: &View<'_>, crew: &CrewView, cells: &Cells, (busy, share): (f64, f64), parts: &mut Vec<Part>) {
    let at_work: Vec<_> = cells.iter().filter(|(kind, task, _)| !idles(*kind, *task)).collect();
    let row = crew.flow.reading_at_least(crew.tasks, on_a_cpu(crew))[State::Running as usize];
    let (fetches, stacks) = (row[Task::Fetch as usize] + row[Task::Other as usize], row.iter().sum::<f64>());
    let in_fetch = if stacks >= FEW_STACKS { fetches / stacks } else { 1.0 };
    let blocked: Vec<(Kind, f64)> =
        at_work.iter().filter(|(kind, ..)| kind.0 != State::Running).map(|(k, _, w)| (*k, *w)).collect();
    let fetch = Fetch::new(crew.flow, view.origin, on_a_cpu(crew) * in_fetch, &blocked);
    let queued = if view.shortage.is_some() && crew.queued >= QUEUED { crew.queued } else { 0.0 };
    // A trainer that makes workers again and again has young ones, seen to come or not.
    let respawns = view.sites.share[Site::Startup as usize] >= RESPAWNS;
    let young = if respawns { 1.0 } else { crew.young };
    for (kind, task, weight) in at_work {
        let weight = weight / busy * share;
        let waits = if kind.0 == State::Running { weight * queued } else { 0.0 };
        let mut push =
            |cause, part: f64| parts.push(Part { kind: *kind, task: *task, cause, own: false, weight: part });
        push(Cause::Contention, waits);
        if *task == Task::Put {
            push(Cause::Handoff, weight - waits);
            continue;
        }
        for (cause, part) in fetch.causes(*kind, *task) {
            // What a young worker does that nothing explains is starting.
            let starts = if cause == Cause::Unknown { young } else { 0.0 };
            push(Cause::Startup, (weight - waits) * part * starts);
            push(cause, (weight - waits) * part * (1.0 - starts));
        }
    }
}

/// The part of the wait in which one slow batch holds back ready ones: `idle` is the share of time
/// that a worker idles while the trainer waits. Either all are at work, or the one that makes the
/// awaited batch is and at least half of the others have nothing left to do. In the second case
/// nearly all of the others idle (of many some still work, `WORKING` of them), which says how much of
/// the wait it makes up.
fn held_up(idle: f64, count: f64) -> f64 {
    let idle = (idle - LAG).max(0.0) / (1.0 - LAG);
    if count < 1.5 {
        return idle;
    }
    let others = idle * count / (count - 1.0);
    (others / (1.0 - WORKING * (count - 2.0).max(0.0) / (count - 1.0))).min(1.0)
}

/// P(kind | the trainer waits for data), and whether it could be told from other time.
///
/// What is seen is P(kind | state of the trainer), a mixture: of the time that it spends in a state,
/// a known part is a wait for data. Two unknowns for each kind (its share beside a wait for data and
/// beside anything else) and one equation a state: ecological regression (Goodman 1953), weighted
/// by time.
fn beside_waiting(view: &View<'_>, mix: &Mix) -> (BTreeMap<Kind, f64>, bool) {
    let mut seconds = [0.0; STATES];
    for (_, beside, amount) in mix.all() {
        beside.into_iter().for_each(|b| seconds[b as usize] += amount);
    }
    let part = |b: usize| {
        let states = view.sites.states[b];
        // While the trainer takes a batch over, or makes one itself, it waits for no worker.
        let waits = |site: &&Site| site.task().is_some_and(|task| task != Task::Put && !works(task));
        let data: f64 = Site::ALL.iter().filter(waits).map(|s| view.sites.joint[b][*s as usize]).sum();
        if b == State::Running as usize || states <= 0.0 { 0.0 } else { (data / states).clamp(0.0, 1.0) }
    };
    let d: [f64; STATES] = std::array::from_fn(part);
    let sum = |f: &dyn Fn(usize) -> f64| (0..STATES).map(f).sum::<f64>();
    let waited = sum(&|b| seconds[b] * d[b]);
    if waited <= 0.2 {
        return (mix.kinds(), false);
    }
    let a = sum(&|b| seconds[b] * d[b] * d[b]);
    let cross = sum(&|b| seconds[b] * d[b] * (1.0 - d[b]));
    let rest = sum(&|b| seconds[b] * (1.0 - d[b]) * (1.0 - d[b]));
    let det = a * rest - cross * cross;
    let coefficient: [f64; STATES] = if rest > 0.0 && det > SINGULAR * a * rest {
        std::array::from_fn(|b| (rest * d[b] - cross * (1.0 - d[b])) / det)
    } else {
        std::array::from_fn(|b| d[b] / waited)
    };
    let mut kinds: BTreeMap<Kind, f64> = BTreeMap::new();
    for (kind, beside, amount) in mix.all() {
        beside.into_iter().for_each(|b| *kinds.entry(kind).or_insert(0.0) += amount * coefficient[b as usize]);
    }
    kinds.retain(|_, share| *share > 0.0);
    let total: f64 = kinds.values().sum();
    kinds.values_mut().for_each(|share| *share /= total.max(f64::MIN_POSITIVE));
    (kinds, true)
}

/// What a worker does with its time, in parts: of all of it, whether anybody waits or not.
pub(in super::super) fn worker_parts(
    kinds: &BTreeMap<Kind, f64>,
    (tasks, queued): (&Tasks, f64),
    flow: Flow,
    origin: &Origin,
) -> Vec<Part> {
    let share: f64 = kinds.iter().filter(|(kind, _)| kind.0 == State::Running).map(|x| x.1).sum();
    let cells = cells(kinds, &flow.reading_at_least(*tasks, share * (1.0 - queued)));
    let fetching = |kind: &Kind, task: &Task| kind.0 == State::Running && matches!(task, Task::Fetch | Task::Other);
    let running: f64 = cells.iter().filter(|(kind, task, _)| fetching(kind, task)).map(|c| c.2).sum();
    let blocked: Vec<(Kind, f64)> = cells
        .iter()
        .filter(|(kind, task, _)| kind.0 != State::Running && !matches!(task, Task::Idle | Task::Put))
        .map(|(kind, _, weight)| (*kind, *weight))
        .collect();
    let fetch = Fetch::new(flow, origin, running * (1.0 - queued), &blocked);
    let mut parts = Vec::new();
    for (kind, task, weight) in cells {
        let mut push = |cause, part: f64| parts.push(Part { kind, task, cause, own: false, weight: weight * part });
        match task {
            Task::Idle | Task::Put => push(Cause::Handoff, 1.0),
            _ => fetch.causes(kind, task).into_iter().for_each(|(cause, part)| push(cause, part)),
        }
    }
    parts
}

/// Whether the trainer itself fetches or makes a batch.
fn works(task: Task) -> bool {
    matches!(task, Task::Fetch | Task::Decode | Task::Collate)
}

/// Whether the trainer is blocked until somebody else has made a batch.
fn awaits(kind: Kind, task: Task) -> bool {
    kind.0 != State::Running && task != Task::Put && !works(task)
}

/// Of the time that the trainer waits for others, the part in waits for the first batch after workers
/// were made, a share `startup` of all time: it belongs to making them. What the trainer does with a
/// batch that is there does not.
fn first_batches(startup: f64, own: &[(Kind, Site, f64)]) -> f64 {
    let waits = own.iter().filter(|(kind, site, _)| awaits(*kind, site.task().unwrap_or(Task::Other)));
    let waits: f64 = waits.map(|cell| cell.2).sum();
    if waits > 0.0 { (startup / waits).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::site::TASKS;

    #[test]
    fn one_worker_at_work_holds_up_the_others_and_a_busy_crew_holds_up_nobody() {
        for (idle, count, expected) in
            [(0.75, 4.0, 1.0), (0.5, 2.0, 1.0), (0.875, 8.0, 1.0), (0.0, 4.0, 0.0), (0.1, 4.0, 0.12), (0.5, 1.0, 0.49)]
        {
            let got = held_up(idle, count);
            assert!((got - expected).abs() < 0.04, "{idle} of {count}: {got}");
        }
    }

    #[test]
    fn making_workers_takes_of_the_waits_for_them_and_not_of_what_the_trainer_does_with_a_batch() {
        let (poll, run, read) = ((State::Poll, On::Pipe), (State::Running, On::Unknown), (State::Read, On::Socket));
        let own = [(poll, Site::LoaderIdle, 0.6), (run, Site::LoaderPut, 0.1), (read, Site::LoaderPut, 0.1)];
        assert!((first_batches(0.45, &own) - 0.75).abs() < 1e-9);
        assert_eq!(first_batches(0.7, &own), 1.0, "no more than there is");
        assert_eq!(first_batches(0.2, &own[1..]), 0.0);
    }

    #[test]
    fn a_wait_for_the_interpreters_lock_is_part_of_the_task_and_one_for_work_is_not() {
        let (lock, run, read) = ((State::Futex, On::Unknown), (State::Running, On::Unknown), (State::Read, On::Socket));
        let cells = vec![
            (lock, Task::Fetch, 0.1),
            (read, Task::Fetch, 0.3),
            (run, Task::Fetch, 0.1),
            (lock, Task::Idle, 0.2),
            (lock, Task::Collate, 0.3),
        ];
        let got = without_the_lock(cells);
        let of = |kind: Kind, task: Task| got.iter().filter(|c| c.0 == kind && c.1 == task).map(|c| c.2).sum::<f64>();
        assert!((of(read, Task::Fetch) - 0.375).abs() < 1e-9 && (of(run, Task::Fetch) - 0.125).abs() < 1e-9, "{got:?}");
        assert!((of(lock, Task::Idle) - 0.2).abs() < 1e-9 && of(lock, Task::Fetch) < 1e-9, "{got:?}");
        // Of a task that is nothing but a lock nothing better is known.
        assert!((of(lock, Task::Collate) - 0.3).abs() < 1e-9, "{got:?}");
    }

    #[test]
    fn tasks_go_to_the_calls_they_fit_and_both_margins_hold() {
        let mut kinds = BTreeMap::new();
        kinds.insert((State::Poll, On::Pipe), 0.3);
        kinds.insert((State::Poll, On::Socket), 0.5);
        kinds.insert((State::Running, On::Unknown), 0.2);
        let mut tasks: Tasks = [[0.0; TASKS]; STATES];
        tasks[State::Poll as usize][Task::Fetch as usize] = 62.0;
        tasks[State::Poll as usize][Task::Idle as usize] = 38.0;
        let cells = cells(&kinds, &tasks);
        let of = |on: On, task: Task| {
            cells.iter().filter(|c| c.0 == (State::Poll, on) && c.1 == task).map(|c| c.2).sum::<f64>()
        };
        assert!(of(On::Socket, Task::Fetch) > 0.45, "{cells:?}");
        assert!(of(On::Pipe, Task::Idle) > 0.25, "{cells:?}");
        assert!((cells.iter().map(|c| c.2).sum::<f64>() - 1.0).abs() < 1e-6);
    }
}
