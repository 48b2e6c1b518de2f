//! Samples of one thread become counts and episodes. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use feedline_traces::Ts;

use super::object::On;
use super::state::State;

/// What is counted together: states of a few kinds, so that there are some hundred at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// What the thread did.
    pub(crate) state: State,
    /// Of a worker, what the main thread of its trainer did in the same look, where it is known.
    pub(crate) beside: Option<State>,
    /// What the call was on.
    pub(crate) on: On,
}

impl From<State> for Place {
    fn from(state: State) -> Self {
        Self { state, beside: None, on: On::Unknown }
    }
}

/// How often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count {
    /// Samples.
    pub(crate) samples: u64,
    /// Maximal runs of the state that began here.
    pub(crate) episodes: u64,
}

/// A blocked state that a thread was in from one time to another. Both times lie between two
/// samples, so each is off by up to half the time between samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Episode {
    /// The state.
    pub(crate) state: State,
    /// About when it began.
    pub(crate) from: Ts,
    /// About when it ended.
    pub(crate) to: Ts,
}

/// Counts since last drained, and the episode that is going on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    /// By place.
    pub(crate) places: BTreeMap<Place, Count>,
    /// Looks that failed.
    pub(crate) missed: u64,
    run: Option<Run>,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    state: State,
    from: Ts,
    last: Ts,
}

impl Tally {
    /// Counts a sample, and gives the blocked episode that it ended. A gap longer than `gap` ends
    /// an episode too: what happened in it is not known.
    pub(crate) fn see(&mut self, at: Ts, place: impl Into<Place>, gap: Duration) -> Option<Episode> {
        let place = place.into();
        let state = place.state;
        let count = self.places.entry(place).or_default();
        count.samples += 1;
        let gap = i64::try_from(gap.as_nanos()).unwrap_or(i64::MAX);
        let (from, ended) = match &mut self.run {
            None => (at, None),
            Some(run) if at.since(run.last) > gap => (at, Some((*run, run.last))),
            Some(run) if run.state == state => {
                run.last = at;
                return None;
            }
            Some(run) => {
                let between = Ts(run.last.0 + at.since(run.last) / 2);
                (between, Some((*run, between)))
            }
        };
        count.episodes += 1;
        self.run = Some(Run { state, from, last: at });
        ended.filter(|(run, _)| run.state.is_blocked()).map(|(run, to)| Episode {
            state: run.state,
            from: run.from,
            to,
        })
    }

    /// All samples.
    pub(crate) fn samples(&self) -> u64 {
        self.places.values().map(|count| count.samples).sum()
    }

    /// Counts a look that failed.
    pub(crate) fn miss(&mut self) {
        self.missed += 1;
    }

    /// Takes the counts out; the episode goes on.
    pub(crate) fn drain(&mut self) -> Self {
        let run = self.run;
        std::mem::replace(self, Self { run, ..Self::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Tally {
        /// What was counted in a state, wherever.
        pub(crate) fn of(&self, state: State) -> Count {
            let mut sum = Count::default();
            for (_, count) in self.places.iter().filter(|(place, _)| place.state == state) {
                sum.samples += count.samples;
                sum.episodes += count.episodes;
            }
            sum
        }
    }

    const GAP: Duration = Duration::from_millis(100);

    fn ms(n: i64) -> Ts {
        Ts(n * 1_000_000)
    }

    #[test]
    fn a_run_of_one_state_is_one_episode_with_ends_between_samples() {
        let mut tally = Tally::default();
        assert_eq!(tally.see(ms(0), State::Running, GAP), None);
        assert_eq!(tally.see(ms(4), State::Futex, GAP), None);
        assert_eq!(tally.see(ms(8), State::Futex, GAP), None);
        let ended = tally.see(ms(12), State::Running, GAP);
        assert_eq!(ended, Some(Episode { state: State::Futex, from: ms(2), to: ms(10) }));
        assert_eq!(tally.of(State::Futex), Count { samples: 2, episodes: 1 });
        assert_eq!(tally.of(State::Running).episodes, 2);
    }

    #[test]
    fn an_episode_that_spans_two_ticks_is_counted_where_it_began() {
        let mut tally = Tally::default();
        tally.see(ms(0), State::Poll, GAP);
        assert_eq!(tally.drain().of(State::Poll).episodes, 1);
        tally.see(ms(5), State::Poll, GAP);
        let second = tally.drain();
        assert_eq!(second.of(State::Poll), Count { samples: 1, episodes: 0 });
        assert_eq!(tally.see(ms(9), State::Running, GAP), Some(Episode { state: State::Poll, from: ms(0), to: ms(7) }));
    }

    #[test]
    fn a_state_is_one_episode_wherever_it_is_counted() {
        let mut tally = Tally::default();
        let beside = |beside, on| Place { state: State::Read, beside: Some(beside), on };
        tally.see(ms(0), beside(State::Futex, On::Remote), GAP);
        tally.see(ms(4), beside(State::Running, On::Remote), GAP);
        tally.see(ms(8), beside(State::Running, On::Pipe), GAP);
        assert_eq!(tally.places.len(), 3);
        assert_eq!(tally.of(State::Read), Count { samples: 3, episodes: 1 });
    }

    #[test]
    fn a_gap_is_not_waiting_time() {
        let mut tally = Tally::default();
        tally.see(ms(0), State::Read, GAP);
        tally.see(ms(10), State::Read, GAP);
        let ended = tally.see(ms(5000), State::Read, GAP);
        assert_eq!(ended, Some(Episode { state: State::Read, from: ms(0), to: ms(10) }));
    }

    proptest! {
        #[test]
        fn samples_add_up_and_episodes_never_run_backwards(steps in prop::collection::vec((0i64..200, 0usize..11), 0..200)) {
            let (mut tally, mut at) = (Tally::default(), 0);
            for (step, state) in &steps {
                at += step;
                if let Some(episode) = tally.see(ms(at), State::ALL[*state], GAP) {
                    prop_assert!(episode.to >= episode.from && episode.state.is_blocked());
                }
            }
            prop_assert_eq!(tally.samples(), steps.len() as u64);
            prop_assert!(tally.places.values().map(|c| c.episodes).sum::<u64>() <= steps.len() as u64);
        }
    }
}
