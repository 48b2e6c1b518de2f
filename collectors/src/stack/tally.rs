//! Stacks of one thread become bounded counts. Pure.

use std::collections::HashMap;

use feedline_traces::Symbol;

use super::rules::{Frame, Site, Verdict};
use crate::thread::State;

/// What is counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// The kernel's state of the thread, read just before the stack.
    pub(super) state: State,
    /// Where in the program it was.
    pub(super) site: Site,
    /// In a trainer's loader, what a worker would be doing there.
    pub(super) task: Option<Site>,
    /// The frame that decided.
    pub(super) frame: Option<Symbol>,
    /// The innermost frame.
    pub(super) leaf: Option<Symbol>,
    /// The framework whose rule decided.
    pub(super) framework: Option<Symbol>,
}

/// How often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Count {
    /// Stacks.
    pub(super) samples: u64,
    /// Those of them around which the state changed.
    pub(super) moved: u64,
    /// Runs of stacks at the site that began here.
    pub(super) runs: u64,
}

/// Counts since last drained.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    /// By place.
    pub(super) places: HashMap<Place, Count>,
    /// Stacks that could not be read, by the state read just before.
    pub(super) missed: [u64; State::ALL.len()],
    /// Stacks whose innermost frame was left out because there were too many different ones.
    pub(super) blurred: u64,
    /// Where it was last; that goes on when the counts are taken out.
    last: Option<Site>,
}

/// Most different places with their innermost frame; more are counted without it.
const MOST_PLACES: usize = 64;

impl Tally {
    /// Counts a stack, with the states read before and after it.
    pub(super) fn see(&mut self, before: State, after: State, frames: &[Frame], verdict: &Verdict) {
        let label = |frame: &Frame| Symbol::from(frame.label());
        let mut place = Place {
            state: before,
            site: verdict.site,
            task: verdict.task,
            frame: verdict.frame.and_then(|index| frames.get(index)).map(label),
            leaf: frames.last().map(label),
            framework: verdict.framework.clone(),
        };
        // First the innermost frame goes, then the deciding one; states and sites are few.
        if self.is_full(&place, MOST_PLACES) {
            place.leaf = None;
            self.blurred += 1;
        }
        if self.is_full(&place, 2 * MOST_PLACES) {
            place.frame = None;
        }
        let count = self.places.entry(place).or_default();
        count.samples += 1;
        count.moved += u64::from(before != after);
        count.runs += u64::from(self.last.replace(verdict.site) != Some(verdict.site));
    }

    fn is_full(&self, place: &Place, most: usize) -> bool {
        self.places.len() >= most && !self.places.contains_key(place)
    }

    /// Counts a stack that could not be read.
    pub(super) fn miss(&mut self, before: State) {
        self.missed[before.index()] += 1;
    }

    /// Takes the counts out.
    pub(super) fn drain(&mut self) -> Self {
        let last = self.last;
        std::mem::replace(self, Self { last, ..Self::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;
    use crate::stack::rules::Rules;

    #[test]
    fn states_and_sites_stay_joint_and_a_change_around_the_stack_is_counted() {
        let frames = [Frame { function: "<module>".into(), file: "/job/train.py".into() }];
        let verdict = Rules::default().decide(Role::Trainer, State::Running, &frames);
        let mut tally = Tally::default();
        tally.see(State::Running, State::Running, &frames, &verdict);
        tally.see(State::Running, State::Futex, &frames, &verdict);
        tally.see(State::Futex, State::Futex, &frames, &verdict);
        tally.miss(State::Running);
        let counts = tally.drain();
        let of = |state| counts.places.iter().find(|(place, _)| place.state == state).map(|(_, count)| *count);
        assert_eq!(of(State::Running), Some(Count { samples: 2, moved: 1, runs: 1 }));
        assert_eq!(of(State::Futex), Some(Count { samples: 1, moved: 0, runs: 0 }));
        assert_eq!(counts.missed[State::Running.index()], 1);
        assert!(tally.places.is_empty());
    }

    #[test]
    fn many_different_frames_are_counted_without_their_names() {
        let mut tally = Tally::default();
        for index in 0..10_000 {
            let frame = Frame { function: format!("f{index}"), file: "/job/train.py".into() };
            let verdict = Verdict { site: Site::Io, frame: Some(0), framework: None, task: None };
            tally.see(State::Running, State::Running, &[frame], &verdict);
        }
        assert_eq!(tally.places.values().map(|c| c.samples).sum::<u64>(), 10_000);
        assert_eq!(tally.places.len(), 2 * MOST_PLACES + 1);
        assert_eq!(tally.blurred, 10_000 - MOST_PLACES as u64);
    }
}
