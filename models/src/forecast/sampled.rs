//! The share of a second that a main thread waits for data, from the states it was found in: states
//! come often and stacks seldom, so each state is split by what its stacks of the last half minute
//! said (post-stratification, as in `docs/attribution.md`, over one second instead of ten).

use std::collections::BTreeMap;

use feedline_traces::Symbol;

/// What is kept of older stacks from second to second: half of it after 20 s.
const KEPT: f64 = 0.966;
/// States told apart.
const STATES: usize = 16;

/// Stacks of a state: in the loader, and all.
type Stacks = [f64; 2];

/// A main thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Sampled {
    states: BTreeMap<Symbol, f64>,
    stacks: BTreeMap<Symbol, Stacks>,
}

impl Sampled {
    /// Samples that found the thread in a state.
    pub(super) fn state(&mut self, state: &Symbol, count: f64) {
        if self.states.len() < STATES || self.states.contains_key(state) {
            *self.states.entry(state.clone()).or_default() += count;
        }
    }

    /// Stacks read in a state, in the loader or not.
    pub(super) fn stack(&mut self, state: &Symbol, loader: bool, count: f64) {
        if self.stacks.len() < STATES || self.stacks.contains_key(state) {
            let held = self.stacks.entry(state.clone()).or_default();
            held[0] += if loader { count } else { 0.0 };
            held[1] += count;
        }
    }

    /// The share of the second, which is over; none where no state or no stack was seen.
    pub(super) fn close(&mut self) -> Option<f64> {
        let all = self.stacks.values().fold([0.0, 0.0], |sum, held| [sum[0] + held[0], sum[1] + held[1]]);
        let samples: f64 = self.states.values().sum();
        let share = (samples > 0.0 && all[1] > 0.0).then(|| {
            // A state without stacks of its own is like the others, by the weight of one stack.
            let usual = all[0] / all[1];
            let within = |state: &Symbol| {
                let [loader, stacks] = self.stacks.get(state).copied().unwrap_or_default();
                (loader + usual) / (stacks + 1.0)
            };
            self.states.iter().map(|(state, count)| within(state) * count / samples).sum()
        });
        self.states.clear();
        self.stacks.values_mut().flatten().for_each(|count| *count *= KEPT);
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_a_second_are_split_by_the_stacks_of_the_last_half_minute() {
        let (poll, futex) = (Symbol::from("poll"), Symbol::from("futex"));
        let mut sampled = Sampled::default();
        assert_eq!(sampled.close(), None);
        for _ in 0..60 {
            sampled.state(&poll, 20.0);
            sampled.state(&futex, 80.0);
            sampled.stack(&poll, true, 4.0);
            sampled.stack(&futex, false, 16.0);
            sampled.close();
        }
        sampled.state(&poll, 90.0);
        sampled.state(&futex, 10.0);
        let share = sampled.close().unwrap();
        assert!((share - 0.9).abs() < 0.01, "{share}");
        assert_eq!(sampled.close(), None, "no samples, no share");
    }
}
