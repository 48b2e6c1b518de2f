//! What a function is there for, told from where its stacks are.
//!
//! - **Saving.** The saver of a framework has a rule; what a training script does around it (opening
//!   the file, forcing it to the disk, renaming it) shows nothing but the script's own function. A
//!   function nearly all of whose other stacks lie in a saver that it called is there to save, so what
//!   it does beside the saver is part of the checkpoint.
//! - **Streaming state.** An optimizer's step that waits for files most of its time streams its state;
//!   what it runs meanwhile moves that state, or works on it where it lies.
//! - **Feeding.** A generator around a loader or a queue (`for batch in clean(loader)`) that is nearly
//!   always in it is a part of it, and what it does by itself (letting go of what it has read) is time
//!   that the loop waits for.
//!
//! A training loop that calls a saver or steps by itself spends most of its time on something else,
//! and is never taken for either. One that starves may spend nearly all of it in the loader: so a
//! function only feeds if its caller is seen without it, and is at something else in one stack of
//! twenty at most, which bounds what a mistake can cost.

use feedline_traces::Symbol;

use super::rules::{Frame, Site, Verdict};

/// Functions of one process remembered; a program has a saver or two.
const MOST: usize = 32;
/// Stacks at what it is there for from which a function is known.
const KNOWN: f64 = 3.0;
/// Past so many stacks both counts are halved, so that a function may change what it is for.
const MEMORY: f64 = 4096.0;

/// Of one process, the functions that seem to be there for something.
#[derive(Debug, Default)]
pub(super) struct Purposes {
    functions: Vec<Function>,
}

#[derive(Debug)]
struct Function {
    frame: Frame,
    /// The function that called it when it was first seen.
    caller: Option<Frame>,
    site: Site,
    framework: Option<Symbol>,
    /// Stacks at the site beneath it, and others.
    at_it: f64,
    other: f64,
    /// Stacks of its caller without it, while that is at the program's own work.
    elsewhere: f64,
}

impl Function {
    fn is_for_it(&self) -> bool {
        let called = self.site != Site::Loader || self.elsewhere >= KNOWN;
        called && self.at_it >= KNOWN && self.at_it >= part(self.site) * (self.at_it + self.other)
    }

    /// Whether the caller, without it, is at the program's own work.
    fn is_left_out(&self, frames: &[Frame], verdict: &Verdict) -> bool {
        verdict.site == Site::Host && self.caller.as_ref().is_some_and(|caller| frames.contains(caller))
    }
}

/// The part of its stacks from which a function is there for a site: work of the function's own is
/// nearly all that a saver does not do, but a good part of streaming. What feeds does next to nothing else.
fn part(site: Site) -> f64 {
    match site {
        Site::Loader => 0.95,
        Site::Checkpoint => 0.8,
        _ => 0.5,
    }
}

impl Purposes {
    /// The verdict on a stack, outermost frame first, with what was learnt from earlier ones: where
    /// no rule spoke of any frame, that of a function that is there for something.
    pub(super) fn judge(&mut self, frames: &[Frame], verdict: Verdict) -> Verdict {
        self.learn(frames, &verdict);
        if verdict.frame.is_some() || !matches!(verdict.site, Site::Io | Site::Host) {
            return verdict;
        }
        let known = frames.iter().enumerate().rev().find_map(|(at, frame)| {
            let function = self.functions.iter().find(|function| function.frame == *frame && function.is_for_it())?;
            Some((at, function))
        });
        match known {
            Some((at, Function { site, framework, .. })) => {
                Verdict { site: *site, frame: Some(at), framework: framework.clone(), task: None }
            }
            None => verdict,
        }
    }

    fn learn(&mut self, frames: &[Frame], verdict: &Verdict) {
        // The caller of a saver may be there to save, that of a loader to feed; the step may stream.
        let candidate = match (verdict.site, verdict.frame) {
            (Site::Checkpoint | Site::Loader, Some(at)) => at.checked_sub(1),
            (Site::Offload, at) => at,
            _ => None,
        };
        if let Some((at, frame)) = candidate.and_then(|at| Some((at, frames.get(at)?))) {
            let new = !self.functions.iter().any(|f| f.frame == *frame && f.site == verdict.site);
            if new && self.functions.len() < MOST {
                let caller = at.checked_sub(1).and_then(|at| frames.get(at)).cloned();
                let (frame, site, framework) = (frame.clone(), verdict.site, verdict.framework.clone());
                self.functions.push(Function {
                    frame,
                    caller,
                    site,
                    framework,
                    at_it: 0.0,
                    other: 0.0,
                    elsewhere: 0.0,
                });
            }
        }
        // Input and output that no rule knows is what is to be judged, but what feeds does none of its own.
        let open = verdict.site == Site::Io && verdict.frame.is_none();
        for function in self.functions.iter_mut().filter(|function| !open || function.site == Site::Loader) {
            if !frames.contains(&function.frame) {
                function.elsewhere += f64::from(u8::from(function.is_left_out(frames, verdict)));
                continue;
            }
            *(if function.site == verdict.site { &mut function.at_it } else { &mut function.other }) += 1.0;
            if function.at_it + function.other > MEMORY {
                (function.at_it, function.other) = (function.at_it / 2.0, function.other / 2.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::Rules;
    use super::*;
    use crate::Role;
    use crate::thread::State;

    /// The site of a stack given as `file:function …`, after those before it.
    struct Program(Rules, Purposes);

    impl Program {
        fn new() -> Self {
            Self(Rules::load(None).unwrap(), Purposes::default())
        }

        fn see(&mut self, state: State, stack: &str) -> Site {
            let frame = |text: &str| {
                let (file, function) = text.split_once(':').unwrap();
                Frame { function: function.into(), file: format!("/w/{file}") }
            };
            let frames: Vec<Frame> = stack.split(' ').map(frame).collect();
            let verdict = self.0.decide(Role::Trainer, state, &frames);
            self.1.judge(&frames, verdict).site
        }
    }

    const SAVE: &str = "train.py:main train.py:keep torch/serialization.py:save";

    #[test]
    fn what_a_function_does_around_the_saver_belongs_to_the_checkpoint() {
        let mut program = Program::new();
        assert_eq!(program.see(State::Disk, "train.py:main train.py:keep"), Site::Io, "nothing is known yet");
        for _ in 0..3 {
            assert_eq!(program.see(State::Write, SAVE), Site::Checkpoint);
        }
        assert_eq!(program.see(State::Disk, "train.py:main train.py:keep"), Site::Checkpoint);
        assert_eq!(program.see(State::Disk, "train.py:main train.py:keep lib.py:rename"), Site::Checkpoint);
        assert_eq!(program.see(State::Disk, "train.py:main train.py:log"), Site::Io, "another function is no saver");
        assert_eq!(program.see(State::Disk, "other.py:main other.py:keep"), Site::Io, "nor one of the same name");
    }

    #[test]
    fn a_training_loop_that_saves_by_itself_is_no_saver() {
        let mut program = Program::new();
        for _ in 0..20 {
            program.see(State::Write, "train.py:main torch/serialization.py:save");
            program.see(State::Running, "train.py:main");
        }
        assert_eq!(program.see(State::Disk, "train.py:main"), Site::Io);
        assert_eq!(program.see(State::Running, "train.py:main"), Site::Host);
    }

    #[test]
    fn a_step_that_mostly_waits_for_files_streams_its_state_and_any_other_computes() {
        let step = "train.py:main torch/optim/optimizer.py:wrapper streamed.py:step";
        let (mut streaming, mut plain) = (Program::new(), Program::new());
        for _ in 0..9 {
            assert_eq!(streaming.see(State::Disk, step), Site::Offload);
            plain.see(State::Running, step);
        }
        plain.see(State::Disk, step);
        assert_eq!(streaming.see(State::Running, step), Site::Offload);
        assert_eq!(streaming.see(State::Running, "train.py:main"), Site::Host);
        assert_eq!(plain.see(State::Running, step), Site::Host);
    }

    #[test]
    fn a_generator_around_a_loader_feeds_and_a_loop_that_starves_does_not() {
        let next = "train.py:train data.py:clean torch/utils/data/dataloader.py:__next__";
        let (mut program, mut starved) = (Program::new(), Program::new());
        for _ in 0..60 {
            assert_eq!(program.see(State::Poll, next), Site::Loader);
            starved.see(State::Poll, "train.py:main train.py:train torch/utils/data/dataloader.py:__next__");
        }
        assert_eq!(program.see(State::Running, "train.py:train data.py:clean"), Site::Host, "nobody calls it yet");
        for _ in 0..3 {
            assert_eq!(program.see(State::Running, "train.py:train model.py:step"), Site::Host);
            // A step without functions of its own looks like work of the loop itself.
            assert_eq!(starved.see(State::Running, "train.py:main train.py:train"), Site::Host);
        }
        assert_eq!(program.see(State::Running, "train.py:train data.py:clean"), Site::Loader);
        assert_eq!(program.see(State::Running, "train.py:train"), Site::Host);
        // An epoch's function that also writes results to a slow disk.
        let mut epoch = Program::new();
        for _ in 0..60 {
            epoch.see(State::Poll, "train.py:main train.py:epoch torch/utils/data/dataloader.py:__next__");
        }
        for _ in 0..3 {
            epoch.see(State::Running, "train.py:main train.py:evaluate");
        }
        let io = (0..40).filter(|_| epoch.see(State::Disk, "train.py:main train.py:epoch") == Site::Io).count();
        assert!(io >= 36, "{io}");
        // One that does more than to hand batches on.
        for _ in 0..8 {
            program.see(State::Running, "train.py:train data.py:clean");
        }
        assert_eq!(program.see(State::Running, "train.py:train data.py:clean"), Site::Host);
    }

    #[test]
    fn what_a_rule_decided_stays_and_what_is_remembered_is_bounded() {
        let mut program = Program::new();
        for n in 0..100 {
            program.see(State::Write, &format!("train.py:main train.py:keep{n} torch/serialization.py:save"));
        }
        assert_eq!(program.1.functions.len(), MOST);
        let mut program = Program::new();
        for _ in 0..9000 {
            program.see(State::Write, SAVE);
        }
        assert!(program.1.functions.iter().all(|f| f.at_it <= MEMORY));
        let device = "train.py:main train.py:keep torch/cuda/__init__.py:synchronize";
        assert_eq!(program.see(State::Poll, device), Site::Device);
    }
}
