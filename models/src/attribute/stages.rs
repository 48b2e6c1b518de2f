//! The Python threads that feed a trainer, by stage of its loader.
//!
//! Threads of one name but for its number are alike: a pool, or loader threads that take turns. They
//! are a crew, as worker processes are. Threads of several names are stages of a line (one reads, one
//! decodes, one collates), of which the one that is at work most is the bottleneck and speaks for all.

use std::collections::BTreeMap;

use feedline_traces::{Rows, Symbol, Ts};

use super::cause::Origin;
use super::crew::{Crew, CrewUse, CrewView, ThreadKey};
use super::evidence::Pending;
use super::flow::Flow;
use super::site::Tasks;

/// Stages of one trainer remembered.
const STAGES: usize = 16;
/// Stacks of a stage below which it says nothing.
const FEW_STACKS: f64 = 3.0;

/// The stages of one trainer's loader.
#[derive(Debug, Clone, Default)]
pub(super) struct Stages(BTreeMap<String, Crew>);

impl Stages {
    /// Takes what a tick said about one thread.
    pub(super) fn account(&mut self, key: &ThreadKey, now: Ts, pending: &Pending, tasks: &Tasks) {
        let stage = pending.name.as_deref().map_or(String::new(), stage_of);
        if self.0.len() >= STAGES && !self.0.contains_key(&stage) {
            return;
        }
        let crew = self.0.entry(stage).or_insert_with(Crew::of_threads);
        crew.account(key, now, (pending, tasks), (Flow::default(), false));
    }

    /// Lets go of threads that are gone.
    pub(super) fn settle(&mut self, trainer: &Symbol, now: Ts) {
        self.0.values_mut().for_each(|crew| crew.settle(trainer, now));
    }

    /// The stage that is at work most.
    fn bottleneck(&self) -> Option<&Crew> {
        let known = self.0.values().filter(|crew| crew.tasks.iter().flatten().sum::<f64>() >= FEW_STACKS);
        known.max_by(|a, b| a.at_work().total_cmp(&b.at_work()))
    }

    /// What its threads did; `flow` is what the whole process read.
    pub(super) fn view(&self, lately: bool, flow: Flow) -> Option<CrewView> {
        let view = self.bottleneck()?.view(lately)?;
        Some(CrewView { flow: flow.shared_by(view.count), ..view })
    }

    /// What its threads do with their time; nothing where there are none.
    pub(super) fn usage(&self) -> CrewUse {
        self.bottleneck().map(Crew::usage).unwrap_or_default()
    }

    /// One row a thread.
    pub(super) fn rows(&self, trainer: &Symbol, flow: Flow, origin: &Origin, out: &mut Rows<'_>) {
        for crew in self.0.values() {
            crew.rows(trainer, Some(flow), origin, out);
        }
    }
}

/// The name without its number: `loader-3` and `loader-4` are `loader-`, and a default name of Python's
/// (`Thread-7 (fetch)`) is the function that it was begun with.
fn stage_of(name: &str) -> String {
    if let Some((number, function)) = name.strip_prefix("Thread-").and_then(|rest| rest.split_once(' '))
        && number.bytes().all(|b| b.is_ascii_digit())
    {
        return function.to_owned();
    }
    name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_differ_by_their_number_are_one_stage() {
        for (name, stage) in [
            ("loader-3", "loader-"),
            ("ThreadPoolExecutor-0_12", "ThreadPoolExecutor-0_"),
            ("ThreadPoolExecutor-1_2", "ThreadPoolExecutor-1_"),
            ("Thread-7 (fetch)", "(fetch)"),
            ("Thread-7", "Thread-"),
            ("reader", "reader"),
            ("", ""),
        ] {
            assert_eq!(stage_of(name), stage, "{name}");
        }
    }
}
