//! What a state of the main thread means where no stack tells: rules from states and roles only.
//! They stand in for stacks (a native job, no right to read them) and never outweigh any.

use super::kind::{GROUPS, Group, STATES, State};
use super::site::{SITES, standing_for};

/// Most that rules without stacks are trusted.
pub const CAP_NATIVE: f64 = 0.7;
/// Most that rules are trusted for a loader of worker processes: what `next()` burns on the CPU
/// cannot be seen without stacks.
pub const CAP_PROCESSES: f64 = 0.5;
/// Trust where nothing can be told.
const CAP_NOTHING: f64 = 0.2;
/// A worker at work for less than this holds nobody up; one at work for more than `BUSY` may.
const IDLE: f64 = 0.3;
const BUSY: f64 = 0.6;
/// A device this busy may be what a blocked main thread waits for.
const DEVICE_BUSY: f64 = 0.5;

/// What the rules go by: the loader's hands around one trainer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Scene {
    /// Worker processes.
    pub processes: usize,
    /// Loader threads within the trainer.
    pub threads: usize,
    /// Share of time that the busiest of them is at work: on a CPU, in disk, read, write or sleep.
    pub busiest: Option<f64>,
    /// Mean share of time that the trainer's accelerator is busy.
    pub device_busy: Option<f64>,
}

/// P(cause | state) without stacks.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// By state.
    pub prior: [[f64; GROUPS]; STATES],
    /// Most that conclusions from them are trusted.
    pub cap: f64,
    /// The rule, in words, for evidence.
    pub reason: String,
}

impl Rules {
    /// Nothing means anything.
    #[must_use]
    pub fn none() -> Self {
        let mut prior = [[0.0; GROUPS]; STATES];
        for row in &mut prior {
            row[Group::Unknown as usize] = 1.0;
        }
        Self { prior, cap: CAP_NOTHING, reason: "no rule applies without stacks".to_owned() }
    }

    /// The rules for a scene.
    ///
    /// A starved trainer has a bottleneck before it: some stage of its loader is at work nearly all
    /// of the time. If every loader thread mostly waits too, the main thread waits for something
    /// else, and nobody is blamed.
    #[must_use]
    pub fn of(scene: &Scene) -> Self {
        let mut rules = Self::none();
        rules.set(State::Sleep, Group::Host, 1.0);
        if scene.processes + scene.threads == 0 {
            return rules;
        }
        rules.set(State::Running, Group::Host, 1.0);
        rules.set(State::Disk, Group::Io, 1.0);
        rules.set(State::Write, Group::Io, 1.0);
        let Some(busiest) = scene.busiest.filter(|b| b.is_finite()) else {
            rules.reason = "no stacks, and what the loader's workers do cannot be seen".to_owned();
            return rules;
        };
        let mut weight = ((busiest - IDLE) / (BUSY - IDLE)).clamp(0.0, 1.0);
        let device = scene.device_busy.is_some_and(|busy| busy >= DEVICE_BUSY);
        if device {
            weight *= 0.5;
        }
        for state in [State::Futex, State::Poll, State::Read] {
            rules.set(state, Group::Data, weight);
        }
        let cap = if scene.processes > 0 { CAP_PROCESSES } else { CAP_NATIVE };
        rules.cap = cap * weight.max(CAP_NOTHING / cap);
        let doubt = if device { ", though the device is busy too" } else { "" };
        rules.reason = format!(
            "no stacks; the busiest loader {} is at work {:.0} % of the time{doubt}",
            if scene.processes > 0 { "worker" } else { "thread" },
            busiest * 100.0
        );
        rules
    }

    /// The same by site: what is known of a group only stands at the site that stands for it.
    pub(super) fn by_site(&self) -> [[f64; SITES]; STATES] {
        self.prior.map(|row| {
            let mut sites = [0.0; SITES];
            row.iter().zip(Group::ALL).for_each(|(p, group)| sites[standing_for(group) as usize] += p);
            sites
        })
    }

    fn set(&mut self, state: State, cause: Group, weight: f64) {
        let row = &mut self.prior[state as usize];
        *row = [0.0; GROUPS];
        row[cause as usize] = weight;
        row[Group::Unknown as usize] += 1.0 - weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn futex_is_data(scene: Scene) -> f64 {
        Rules::of(&scene).prior[State::Futex as usize][Group::Data as usize]
    }

    #[test]
    fn a_futex_is_a_wait_for_data_only_while_a_loader_thread_is_at_work() {
        let threads = |busiest| Scene { threads: 3, busiest, ..Scene::default() };
        let cases = [(Some(0.95), 1.0), (Some(0.45), 0.5), (Some(0.1), 0.0), (None, 0.0), (Some(f64::NAN), 0.0)];
        for (busiest, expected) in cases {
            assert!((futex_is_data(threads(busiest)) - expected).abs() < 1e-9, "{busiest:?}");
        }
    }

    #[test]
    fn a_busy_device_makes_a_futex_ambiguous() {
        let scene = Scene { threads: 2, busiest: Some(0.9), device_busy: Some(0.8), ..Scene::default() };
        assert!((futex_is_data(scene) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn without_workers_or_stacks_only_sleep_is_known() {
        let rules = Rules::of(&Scene::default());
        for state in State::ALL {
            let unknown = rules.prior[state as usize][Group::Unknown as usize];
            assert_eq!(unknown, if state == State::Sleep { 0.0 } else { 1.0 }, "{state:?}");
        }
    }

    #[test]
    fn rules_alone_are_never_trusted_beyond_their_cap() {
        for busiest in [0.0, 0.3, 0.5, 1.0] {
            for (processes, threads, cap) in [(0, 2, CAP_NATIVE), (4, 0, CAP_PROCESSES)] {
                let scene = Scene { processes, threads, busiest: Some(busiest), device_busy: None };
                assert!(Rules::of(&scene).cap <= cap + 1e-12);
            }
        }
    }
}
