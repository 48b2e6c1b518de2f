//! Samples of one thread become counts and episodes. Pure.

use std::time::Duration;

use feedline_traces::Ts;

use super::state::State;

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
    /// Samples by state.
    pub(crate) samples: [u64; State::ALL.len()],
    /// Maximal runs of the state that began.
    pub(crate) episodes: [u64; State::ALL.len()],
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
    pub(crate) fn see(&mut self, at: Ts, state: State, gap: Duration) -> Option<Episode> {
        self.samples[state.index()] += 1;
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
        self.episodes[state.index()] += 1;
        self.run = Some(Run { state, from, last: at });
        ended.filter(|(run, _)| run.state.is_blocked()).map(|(run, to)| Episode {
            state: run.state,
            from: run.from,
            to,
        })
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
        assert_eq!(tally.samples[State::Futex.index()], 2);
        assert_eq!(tally.episodes[State::Futex.index()], 1);
        assert_eq!(tally.episodes[State::Running.index()], 2);
    }

    #[test]
    fn an_episode_that_spans_two_ticks_is_counted_where_it_began() {
        let mut tally = Tally::default();
        tally.see(ms(0), State::Poll, GAP);
        assert_eq!(tally.drain().episodes[State::Poll.index()], 1);
        tally.see(ms(5), State::Poll, GAP);
        let second = tally.drain();
        assert_eq!((second.samples[State::Poll.index()], second.episodes[State::Poll.index()]), (1, 0));
        assert_eq!(tally.see(ms(9), State::Running, GAP), Some(Episode { state: State::Poll, from: ms(0), to: ms(7) }));
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
            prop_assert_eq!(tally.samples.iter().sum::<u64>(), steps.len() as u64);
            prop_assert!(tally.episodes.iter().sum::<u64>() <= steps.len() as u64);
        }
    }
}
