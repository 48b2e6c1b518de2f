//! What one tick says, by thread.

use std::collections::BTreeMap;

use feedline_traces::{Symbol, Tick};

use super::bind::Cells;
use super::crew::ThreadKey;
use super::evidence::Pending;
use super::kind::{On, State};
use super::site::{Site, Task, Tasks};
use super::{Attribute, Place, REMEMBERED};
use crate::cells::is_main;

/// What one tick says, by thread.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) mains: BTreeMap<Symbol, Pending>,
    pub(super) workers: BTreeMap<ThreadKey, (Symbol, Pending, Tasks)>,
    /// Python threads that feed the trainer that they run in.
    pub(super) threads: BTreeMap<ThreadKey, (Symbol, Pending, Tasks)>,
}

impl Attribute {
    /// Runs `with` on what is pending for a thread, if it is a main thread or a worker.
    fn pending(&self, gathered: &mut Gathered, key: ThreadKey, with: impl FnOnce(&mut Pending, Option<&mut Tasks>)) {
        let (entry, owner) = match self.place(&key) {
            Place::Main(process) => return with(gathered.mains.entry(process).or_default(), None),
            Place::Worker(owner) => (gathered.workers.entry(key).or_default(), owner),
            Place::Loader(owner) => (gathered.threads.entry(key).or_default(), owner),
            Place::Elsewhere => return,
        };
        entry.0 = owner;
        with(&mut entry.1, Some(&mut entry.2));
    }

    pub(super) fn threads(&mut self, tick: &Tick, gathered: &mut Gathered) {
        let Some(at) = self.tables.thread.clone() else { return };
        for cells in Cells::all(tick.batch(at.table)) {
            let (Some(process), Some(thread)) = (cells.text(at.process), cells.text(at.thread)) else { continue };
            let key = (process.clone(), thread.clone());
            if let Some(role) = at.role.and_then(|c| cells.text(c)) {
                if self.roles.len() < REMEMBERED || self.roles.contains_key(&key) {
                    self.roles.insert(key.clone(), role.clone());
                }
                if self.tables.process.is_none() && role.as_ref() == "main" {
                    let _ = self.trainer(process, tick.at);
                }
            }
            let on_cpu = at.on_cpu.and_then(|c| cells.whole(c));
            let queued = at.run_queue.and_then(|c| cells.whole(c));
            let (when, file) = (cells.batch.at[cells.row], at.file.and_then(|c| cells.text(c)));
            let name = at.name.and_then(|c| cells.text(c));
            self.pending(gathered, key, |pending, _| {
                pending.seen = true;
                pending.file = file.cloned();
                pending.name = name.cloned();
                pending.counters = Some((when, on_cpu, queued));
            });
        }
    }

    pub(super) fn activity(&self, tick: &Tick, gathered: &mut Gathered) {
        let Some(at) = &self.tables.activity else { return };
        for cells in Cells::all(tick.batch(at.table)) {
            let (Some(process), Some(thread)) = (cells.text(at.process), cells.text(at.thread)) else { continue };
            let state = State::named(cells.text(at.state).map_or("", |s| s)) as usize;
            let text = |column: Option<usize>| column.and_then(|c| cells.text(c)).map_or("", |s| s);
            let on = On::named(text(at.on));
            let beside = Some(text(at.beside)).filter(|name| !name.is_empty()).map(State::named);
            self.pending(gathered, (process.clone(), thread.clone()), |pending, _| {
                pending.seen = true;
                let samples = cells.count(at.samples);
                pending.samples[state] += samples;
                pending.mix.add((State::ALL[state], on), beside, samples);
                pending.episodes[state] += at.episodes.map_or(0.0, |c| cells.count(c));
            });
        }
    }

    /// Stacks by state and site. Without thread states they also stand in for those.
    pub(super) fn stacks(&mut self, tick: &Tick, gathered: &mut Gathered) {
        let Some(at) = self.tables.stack.clone() else { return };
        let alone = self.tables.activity.is_none();
        for cells in Cells::all(tick.batch(at.table)) {
            let (Some(process), Some(thread)) = (cells.text(at.process), cells.text(at.thread)) else { continue };
            if alone && self.tables.process.is_none() && is_main(process, thread) {
                let _ = self.trainer(process, tick.at);
            }
            let state = State::named(cells.text(at.state).map_or("", |s| s));
            let site = cells.text(at.site).map_or("", |s| s);
            let (read, missed) = (cells.count(at.samples), at.missed.map_or(0.0, |c| cells.count(c)));
            let key = (process.clone(), thread.clone());
            let task = at.task.and_then(|c| cells.text(c)).map_or("", |s| s);
            let place = Site::named(site, task);
            if read > 0.0 {
                let text = |column: Option<usize>| column.and_then(|c| cells.text(c));
                self.places(&key, state, place, [text(at.frame), text(at.leaf)], read);
            }
            self.pending(gathered, key, |pending, tasks| {
                if alone {
                    pending.seen = true;
                    pending.samples[state as usize] += read + missed;
                    pending.mix.add((state, On::Unknown), None, read + missed);
                }
                pending.missed[state as usize] += missed;
                match (tasks, Task::of_site(site)) {
                    (Some(tasks), Some(task)) => tasks[state as usize][task as usize] += read,
                    (Some(_), None) => {}
                    (None, _) => pending.stacks[state as usize][place as usize] += read,
                }
            });
        }
    }

    /// Notes where in the program the stacks were.
    fn places(&mut self, key: &ThreadKey, state: State, site: Site, names: [Option<&Symbol>; 2], read: f64) {
        let [frame, leaf] = names;
        match self.place(key) {
            Place::Main(process) => {
                let Some(trainer) = self.trainers.get_mut(&process) else { return };
                frame.into_iter().for_each(|frame| trainer.frame(site, frame, read));
                leaf.into_iter().for_each(|leaf| trainer.leaves[site.group() as usize].add(leaf, read));
            }
            Place::Worker(owner) | Place::Loader(owner) if state == State::Sleep => {
                if let (Some(trainer), Some(leaf)) = (self.trainers.get_mut(&owner), leaf) {
                    trainer.crew.sleepers.add(leaf, read);
                }
            }
            Place::Worker(_) | Place::Loader(_) | Place::Elsewhere => {}
        }
    }

    pub(super) fn waits(&mut self, tick: &Tick) {
        let Some(at) = self.tables.wait.clone() else { return };
        for cells in Cells::all(tick.batch(at.table)) {
            let (Some(process), Some(thread)) = (cells.text(at.process), cells.text(at.thread)) else { continue };
            let Place::Main(process) = self.place(&(process.clone(), thread.clone())) else { continue };
            let (Some(state), Some(nanos)) = (cells.text(at.state), cells.number(at.duration)) else { continue };
            if let Some(trainer) = self.trainers.get_mut(&process) {
                let (end, state) = (cells.batch.at[cells.row], State::named(state));
                trainer.waits.push(end, state, nanos);
                trainer.spawns.waited(end, nanos / 1e9, state);
            }
        }
    }
}
