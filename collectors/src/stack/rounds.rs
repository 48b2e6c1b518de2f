//! How often the training loop went round, told by its own counter.
//!
//! Most loops count their batches in a whole number among their local variables (`for i, batch in
//! enumerate(loader)`), which can be read without stopping the program. What counts up by one, in a
//! function outside of the loader that calls it, is such a counter; of several (an epoch, a step,
//! a step of all epochs) the fastest. Counters of samples go up by the batch, counters of inner loops
//! begin again all the time, and neither passes. Values are compared and forgotten, never recorded.

use feedline_traces::Symbol;

use super::rules::{Frame, Site, Verdict};

/// A whole number among the local variables of a frame, by the position of the frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Local {
    pub(super) frame: usize,
    pub(super) name: String,
    pub(super) value: u64,
}

/// Variables of one process that are followed.
const MOST: usize = 128;
/// Increases from which a variable is known to count.
const KNOWN: u32 = 4;
/// Looks before anything is told: by then the increases of a step's counter have no common multiple.
const SETTLED: u32 = 12;
/// Growths for each fall: of a variable that may become the counter, and of one that is. The latter is
/// looked at less often, and sees more of its epochs end between two looks.
const TO_BECOME: u32 = 8;
const TO_STAY: u32 = 2;
/// Looks without a variable after which it is forgotten: its function has returned.
const GONE: u32 = 40;

/// The counters of one process.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    variables: Vec<Variable>,
    /// Functions seen to call the loader, however deep.
    callers: Vec<Frame>,
    looks: u32,
    /// The variable that was chosen, and what it had counted before.
    chosen: Option<Symbol>,
}

#[derive(Debug)]
struct Variable {
    frame: Frame,
    name: String,
    value: u64,
    /// The largest value seen: where the loop ends, once a few of its rounds were seen to.
    most: u64,
    /// Of what all increases are multiples.
    unit: u64,
    total: u64,
    grew: u32,
    fell: u32,
    missed: u32,
}

impl Variable {
    /// A loop that begins again with each epoch falls now and then; an inner one all the time: it may
    /// fall once in so many times that it grows.
    fn counts(&self, once_in: u32) -> bool {
        self.grew >= KNOWN && self.unit == 1 && self.fell * once_in <= self.grew
    }

    fn see(&mut self, value: u64) {
        self.missed = 0;
        if value > self.value {
            let more = value - self.value;
            (self.unit, self.grew) = (gcd(self.unit, more), self.grew + 1);
            self.total = self.total.saturating_add(more);
        } else if value < self.value {
            // It began again at zero, after it had gone on to its end; unless that is further than a look or two
            // bring, as where a shorter loop uses the same name.
            let usual = self.total / u64::from(self.grew.max(1));
            let rest = Some(self.most.saturating_sub(self.value)).filter(|rest| *rest <= usual.saturating_mul(2));
            let rest = rest.map_or(0, |rest| rest.saturating_add(1));
            (self.total, self.fell) = (self.total.saturating_add(rest).saturating_add(value), self.fell + 1);
        }
        (self.value, self.most) = (value, self.most.max(value));
    }

    fn label(&self) -> Symbol {
        format!("{}:{}", self.frame.label(), self.name).into()
    }
}

impl Rounds {
    /// Takes a stack in that was read without its variables.
    pub(super) fn pass(&mut self, frames: &[Frame], verdict: &Verdict) {
        if !matches!(verdict.site, Site::Loader | Site::Startup) {
            return;
        }
        for frame in frames.iter().take(verdict.frame.unwrap_or(0)) {
            if self.callers.len() < MOST && !self.callers.contains(frame) {
                self.callers.push(frame.clone());
            }
        }
    }

    /// Takes a stack in with the whole numbers among its variables.
    pub(super) fn see(&mut self, frames: &[Frame], locals: &[Local]) {
        self.looks = self.looks.saturating_add(1);
        self.variables.iter_mut().for_each(|variable| variable.missed += 1);
        for local in locals {
            let Some(frame) = frames.get(local.frame).filter(|frame| self.callers.contains(frame)) else { continue };
            let room = self.variables.len() < MOST;
            let known = self.variables.iter_mut().find(|v| v.name == local.name && v.frame == *frame);
            match known {
                Some(variable) => variable.see(local.value),
                None if room => self.variables.push(Variable {
                    frame: frame.clone(),
                    name: local.name.clone(),
                    value: local.value,
                    most: local.value,
                    unit: 0,
                    total: 0,
                    grew: 0,
                    fell: 0,
                    missed: 0,
                }),
                None => {}
            }
        }
        self.variables.retain(|variable| variable.missed < GONE);
    }

    /// Whether a counter is known.
    pub(super) fn is_sure(&self) -> bool {
        self.chosen.is_some()
    }

    /// The variable that counts rounds, as `file.py:function:name`, and how many it has counted since
    /// it was first seen. Once chosen it stays, as long as it counts and no other counts twice as fast.
    pub(super) fn told(&mut self) -> Option<(Symbol, u64)> {
        if self.looks < SETTLED {
            return None;
        }
        let chosen = self.chosen.take();
        let chosen = self.variables.iter().find(|v| v.counts(TO_STAY) && Some(v.label()) == chosen);
        let fastest = self.variables.iter().filter(|v| v.counts(TO_BECOME)).max_by_key(|v| v.total);
        let total = |variable: Option<&Variable>| variable.map_or(0, |v| v.total);
        let best = chosen.filter(|chosen| chosen.total >= total(fastest) / 2).or(fastest)?;
        let (label, total) = (best.label(), best.total);
        self.chosen = Some(label.clone());
        Some((label, total))
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Frame {
        let (file, function) = text.split_once(':').unwrap();
        Frame { function: function.into(), file: format!("/w/{file}") }
    }

    /// A program whose `main` calls `train`, which calls the loader: sixty looks, half a second apart.
    fn after_looks(rounds: &mut Rounds, values: impl Fn(u64) -> Vec<(usize, &'static str, u64)>) {
        let frames = ["t.py:main", "t.py:train", "torch/utils/data/dataloader.py:__next__"].map(frame);
        let verdict = Verdict { site: Site::Loader, frame: Some(2), framework: None, task: None };
        rounds.pass(&frames, &verdict);
        for look in 0..60 {
            let locals = values(look).into_iter().map(|(frame, name, value)| Local { frame, name: name.into(), value });
            rounds.see(&frames, &locals.collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_counter_stays_one_when_it_is_looked_at_less_often() {
        let mut rounds = Rounds::default();
        after_looks(&mut rounds, |look| vec![(1, "step", 7 * look + look % 3)]);
        assert!(!rounds.is_sure(), "nobody asked yet");
        assert!(rounds.told().is_some() && rounds.is_sure());
        // Epochs of four looks.
        after_looks(&mut rounds, |look| vec![(1, "step", 15 * (look % 4) + look % 3)]);
        assert!(rounds.told().is_some() && rounds.is_sure());
        // It goes up and down: no counter any more, so that another is looked for soon.
        for _ in 0..6 {
            after_looks(&mut rounds, |look| vec![(1, "step", 9 * (look % 2))]);
        }
        assert!(rounds.told().is_none() && !rounds.is_sure());
    }

    #[test]
    fn the_fastest_that_counts_by_one_outside_of_the_loader_is_the_loop() {
        let mut rounds = Rounds::default();
        after_looks(&mut rounds, |look| {
            let step = 7 * look + look % 3;
            vec![
                (0, "epoch", look / 20),
                (1, "step", step),
                (1, "samples", 32 * step),
                (1, "lr", 3),
                (2, "n", 99 * step),
            ]
        });
        let (variable, total) = rounds.told().unwrap();
        assert_eq!((variable.as_ref(), total), ("t.py:train:step", 7 * 59 + 2));
    }

    #[test]
    fn a_counter_that_begins_again_with_each_epoch_goes_on_and_an_inner_loop_is_none() {
        let mut rounds = Rounds::default();
        after_looks(&mut rounds, |look| vec![(1, "i", 5 * (look % 20)), (1, "j", (look * look * 7) % 11)]);
        assert_eq!(rounds.told(), None, "it goes up by five at each look, which may be a batch");
        after_looks(&mut rounds, |look| vec![(1, "i", 5 * (look % 20) + look % 3)]);
        let (variable, total) = rounds.told().unwrap();
        assert_eq!(variable.as_ref(), "t.py:train:i");
        assert!((550..=590).contains(&total), "{total}");
    }

    #[test]
    fn what_is_left_of_an_epoch_when_it_was_looked_at_last_counts_as_well() {
        // Epochs of 200 steps, looked at every 14 to 16: of each the last seven or eight are not seen.
        let mut rounds = Rounds::default();
        let mut step = 0;
        let steps: Vec<u64> = (0..60_u64)
            .map(|look| {
                step += 14 + look % 3;
                step
            })
            .collect();
        after_looks(&mut rounds, |look| vec![(1, "i", steps[usize::try_from(look).unwrap()] % 200)]);
        let (_, total) = rounds.told().unwrap();
        let all = steps[59] - steps[0];
        assert!(total.abs_diff(all) * 50 <= all, "{total} of {all}");
    }

    #[test]
    fn a_shorter_loop_of_the_same_name_adds_what_it_counts_and_no_more() {
        // Training of 1000 rounds and validation of 100, again and again, ten rounds a look.
        let mut rounds = Rounds::default();
        after_looks(&mut rounds, |look| vec![(1, "i", 10 * look + look % 3)]);
        for _ in 0..2 {
            after_looks(&mut rounds, |look| {
                let at = 10 * look + look % 3;
                vec![(1, "i", if at < 100 { at } else { at - 100 })]
            });
        }
        let (_, total) = rounds.told().unwrap();
        assert!((1600..1900).contains(&total), "{total}");
    }

    #[test]
    fn nothing_is_told_at_first_and_a_slower_one_gives_way() {
        let mut rounds = Rounds::default();
        let frames = ["t.py:main", "t.py:train", "l.py:next"].map(frame);
        rounds.pass(&frames, &Verdict { site: Site::Loader, frame: Some(2), framework: None, task: None });
        let mut told = Vec::new();
        for look in 0..80 {
            let mut locals = vec![Local { frame: 0, name: "epoch".into(), value: look }];
            if look >= 20 {
                locals.push(Local { frame: 1, name: "i".into(), value: 9 * look + look % 3 });
            }
            rounds.see(&frames, &locals);
            told.push(rounds.told().map(|(variable, _)| variable.to_string()));
        }
        assert_eq!(told[SETTLED as usize - 2], None);
        assert_eq!(told[19].as_deref(), Some("t.py:main:epoch"));
        assert_eq!(told[79].as_deref(), Some("t.py:train:i"));
    }

    #[test]
    fn without_a_loader_seen_nothing_counts_and_what_is_followed_is_bounded() {
        let mut rounds = Rounds::default();
        let frames = [frame("t.py:main")];
        for value in 0..40 {
            rounds.see(&frames, &[Local { frame: 0, name: "i".into(), value }]);
        }
        assert_eq!(rounds.told(), None);
        let names: Vec<String> = (0..1000).map(|n| format!("v{n}")).collect();
        let verdict = Verdict { site: Site::Loader, frame: Some(1), framework: None, task: None };
        rounds.pass(&[frame("t.py:main"), frame("l.py:next")], &verdict);
        for value in 0..9 {
            let locals = names.iter().map(|name| Local { frame: 0, name: name.clone(), value }).collect::<Vec<_>>();
            rounds.see(&frames, &locals);
        }
        assert_eq!(rounds.variables.len(), MOST);
        (0..GONE).for_each(|_| rounds.see(&frames, &[]));
        assert!(rounds.variables.is_empty() && rounds.told().is_none());
    }
}
