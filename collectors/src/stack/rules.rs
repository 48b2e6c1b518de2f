//! Rules that say where in a program a stack is. They are data; `docs/frame-rules.md` describes
//! their format.

mod site;

use std::collections::HashMap;
use std::path::Path;
use std::{fs, io};

use feedline_traces::{Error, Result, Symbol};
use serde::Deserialize;

use crate::Role;
use crate::thread::State;
pub use site::Site;

/// The rules that come with Feedline, by file name. The first rule that fits a frame decides for
/// it, so the order counts: frameworks before what they are built on.
const BUILT_IN: &[(&str, &str)] = &[
    ("pytorch.toml", include_str!("rules/pytorch.toml")),
    ("tensorflow.toml", include_str!("rules/tensorflow.toml")),
    ("jax.toml", include_str!("rules/jax.toml")),
    ("trainers.toml", include_str!("rules/trainers.toml")),
    ("distributed.toml", include_str!("rules/distributed.toml")),
    ("offload.toml", include_str!("rules/offload.toml")),
    ("loaders.toml", include_str!("rules/loaders.toml")),
    ("threads.toml", include_str!("rules/threads.toml")),
    ("multiprocessing.toml", include_str!("rules/multiprocessing.toml")),
    ("python.toml", include_str!("rules/python.toml")),
];

/// Files whose matching rules are remembered; past this the memory is cleared.
const MOST_FILES: usize = 4096;
/// Most files of a folder of rules.
const MOST_RULE_FILES: usize = 256;

/// One frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Name of the function; Python 3.11 and later give it with its class.
    pub function: String,
    /// Full path of its source.
    pub file: String,
}

impl Frame {
    /// The name without class and enclosing function.
    fn short(&self) -> &str {
        self.function.rsplit('.').next().unwrap_or(&self.function)
    }

    /// `file.py:function`, without folders.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}:{}", self.file.rsplit('/').next().unwrap_or(&self.file), self.short())
    }
}

/// What the rules say about a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Where it is.
    pub site: Site,
    /// Position of the frame that decided.
    pub frame: Option<usize>,
    /// The framework whose rule decided.
    pub framework: Option<Symbol>,
    /// Of a trainer in the loader, what the rules for workers say of it: what a loader without
    /// workers does at the moment.
    pub task: Option<Site>,
}

/// One file of rules, as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    framework: String,
    #[serde(default)]
    rule: Vec<RuleText>,
    #[serde(default)]
    root: Vec<RootText>,
    #[serde(default)]
    fallback: Vec<FallbackText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    site: Site,
    role: Option<Side>,
    #[serde(default)]
    scope: Scope,
    #[serde(default)]
    innermost: bool,
    #[serde(default)]
    state: Vec<String>,
    file: Vec<String>,
    #[serde(default)]
    function: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RootText {
    file: Vec<String>,
    #[serde(default)]
    function: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FallbackText {
    site: Site,
    role: Option<Side>,
    state: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Side {
    /// The main thread of a trainer.
    Trainer,
    /// The main thread of a worker, and any other thread of a trainer.
    Worker,
    /// Such a thread of a trainer alone.
    Thread,
}

impl Side {
    fn of(role: Role) -> Self {
        if role == Role::Trainer { Self::Trainer } else { Self::Worker }
    }

    /// Whether a rule for `side` is asked about a thread of this kind.
    fn fits(side: Option<Self>, who: Self) -> bool {
        side.is_none_or(|side| side == who || (side, who) == (Self::Worker, Self::Thread))
    }
}

/// What a rule is asked about: whose frame, in which state, and whether it is the innermost.
#[derive(Debug, Clone, Copy)]
struct Asked {
    who: Side,
    state: State,
    innermost: bool,
}

/// How far a rule reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scope {
    /// It holds unless a frame further in says more.
    #[default]
    Inner,
    /// It holds for everything called from the frame.
    Claim,
    /// Within a claim of the same group it says more than the claim does; elsewhere it says nothing.
    Refine,
    /// What lies outside the frame does not count.
    #[serde(skip)]
    Root,
}

#[derive(Debug)]
struct Rule {
    site: Site,
    side: Option<Side>,
    scope: Scope,
    files: Vec<Pattern>,
    functions: Vec<String>,
    /// Thread states it is for; any when empty.
    states: Vec<State>,
    /// Whether it is for an innermost frame alone.
    innermost: bool,
    framework: Symbol,
}

/// Code of a module itself, which runs while it is imported: it does not do what its functions are for.
const MODULE: &str = "<module>";

impl Rule {
    fn fits(&self, asked: Asked, frame: &Frame) -> bool {
        Side::fits(self.side, asked.who)
            && (asked.innermost || !self.innermost)
            && (self.states.is_empty() || self.states.contains(&asked.state))
            && (self.functions.is_empty() && frame.function != MODULE || self.functions.iter().any(|f| names(f, frame)))
    }
}

/// Rules, ready to decide.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    fallbacks: Vec<(Site, Option<Side>, Vec<State>, Symbol)>,
    /// Which rules speak of a file, whatever the function.
    of_file: HashMap<String, Vec<usize>>,
}

impl Rules {
    /// The rules that come with Feedline, after those of a folder of `*.toml` files where one is
    /// given: a rule of the user goes before any other.
    ///
    /// # Errors
    /// When the folder or a file of it cannot be read, or holds something that is not a rule.
    pub fn load(folder: Option<&Path>) -> Result<Self> {
        let mut rules = Self::default();
        if let Some(folder) = folder {
            for path in toml_files(folder)? {
                let text = fs::read_to_string(&path).map_err(|cause| Error::io(path.display(), &cause))?;
                rules.add(&path.display().to_string(), &text)?;
            }
        }
        for (name, text) in BUILT_IN {
            rules.add(name, text)?;
        }
        Ok(rules)
    }

    /// Adds a file of rules after those that are there.
    fn add(&mut self, place: &str, text: &str) -> Result<()> {
        let file: File = toml::from_str(text).map_err(|cause| refuse(place, text, &cause))?;
        let framework = Symbol::from(file.framework);
        let patterns = |files: &[String]| files.iter().map(|f| Pattern::new(f)).collect();
        for RootText { file: files, function: functions } in file.root {
            let (site, side, scope, files, framework) =
                (Site::Host, None, Scope::Root, patterns(&files), framework.clone());
            let (states, innermost) = (Vec::new(), false);
            self.rules.push(Rule { site, side, scope, files, functions, states, innermost, framework });
        }
        for RuleText { site, role: side, scope, innermost, state, file: files, function: functions } in file.rule {
            let (states, files, framework) = (states(place, &state)?, patterns(&files), framework.clone());
            self.rules.push(Rule { site, side, scope, files, functions, states, innermost, framework });
        }
        for FallbackText { site, role, state } in file.fallback {
            self.fallbacks.push((site, role, states(place, &state)?, framework.clone()));
        }
        self.of_file.clear();
        Ok(())
    }

    /// Decides where a stack is. `frames` go from the outermost to the innermost.
    pub fn decide(&mut self, role: Role, state: State, frames: &[Frame]) -> Verdict {
        let who = Side::of(role);
        let Some((position, site, framework)) = self.by_frame(who, state, frames) else {
            let fits = |(_, side, states, _): &&(Site, Option<Side>, Vec<State>, Symbol)| {
                Side::fits(*side, who) && states.contains(&state)
            };
            let fallback = self.fallbacks.iter().find(fits);
            let (site, framework) = fallback.map_or((Site::Host, None), |(s, _, _, f)| (*s, Some(f.clone())));
            return Verdict { site, frame: None, framework, task: None };
        };
        let below = frames.get(position..).unwrap_or_default();
        let task = if who == Side::Trainer && site == Site::Loader { self.task(state, below) } else { None };
        Verdict { site, frame: Some(position), framework: Some(framework), task }
    }

    /// Decides where a thread of a trainer beside its main one is: at something that a trainer does
    /// beside loading (saving, copying), else at a task of a worker, else `host`.
    pub fn decide_thread(&mut self, state: State, frames: &[Frame]) -> Verdict {
        let beside = self.by_frame(Side::Trainer, state, frames).filter(|(_, site, _)| site.is_beside_loading());
        let found = beside.or_else(|| self.by_frame(Side::Thread, state, frames));
        let Some((position, site, framework)) = found else {
            return Verdict { site: Site::Host, frame: None, framework: None, task: None };
        };
        Verdict { site, frame: Some(position), framework: Some(framework), task: None }
    }

    /// The frame that decides, with what its rule says.
    fn by_frame(&mut self, who: Side, state: State, frames: &[Frame]) -> Option<(usize, Site, Symbol)> {
        let mut inner = None;
        let mut claimed = None;
        for (position, frame) in frames.iter().enumerate() {
            let asked = Asked { who, state, innermost: position + 1 == frames.len() };
            if let Some(claim) = &mut claimed {
                self.refine(claim, asked, position, frame);
            }
            let Some(rule) = self.rule(asked, frame) else { continue };
            let found = (position, rule.site, rule.framework.clone());
            match rule.scope {
                // A claim outside of a root is the forking process's.
                Scope::Root => (inner, claimed) = (None, None),
                Scope::Inner => inner = Some(found),
                Scope::Claim if claimed.is_none() => claimed = Some(found),
                Scope::Claim | Scope::Refine => {}
            }
        }
        claimed.or(inner)
    }

    /// Says more of a claim, where a frame further in does.
    fn refine(&mut self, claim: &mut (usize, Site, Symbol), asked: Asked, position: usize, frame: &Frame) {
        let group = claim.1.group();
        let finer = self.fitting(asked, frame).find(|rule| rule.scope == Scope::Refine && rule.site.group() == group);
        if let Some(rule) = finer {
            *claim = (position, rule.site, rule.framework.clone());
        }
    }

    /// What the rules for workers say of a trainer's loader.
    fn task(&mut self, state: State, frames: &[Frame]) -> Option<Site> {
        self.by_frame(Side::Worker, state, frames).map(|(_, site, _)| site).filter(|site| site.is_task())
    }

    /// The first rule that fits a frame by itself.
    fn rule(&mut self, asked: Asked, frame: &Frame) -> Option<&Rule> {
        self.fitting(asked, frame).find(|rule| rule.scope != Scope::Refine)
    }

    /// The rules that fit a frame, in their order.
    fn fitting(&mut self, asked: Asked, frame: &Frame) -> impl Iterator<Item = &Rule> {
        if !self.of_file.contains_key(&frame.file) {
            if self.of_file.len() >= MOST_FILES {
                self.of_file.clear();
            }
            let fits = |rule: &Rule| rule.files.iter().any(|pattern| pattern.fits(&frame.file));
            let found = self.rules.iter().enumerate().filter(|(_, rule)| fits(rule)).map(|(index, _)| index).collect();
            self.of_file.insert(frame.file.clone(), found);
        }
        let candidates = self.of_file.get(&frame.file).map_or(&[][..], Vec::as_slice);
        let rules = candidates.iter().filter_map(|index| self.rules.get(*index));
        rules.filter(move |rule| rule.fits(asked, frame))
    }
}

/// The states of these names.
fn states(place: &str, names: &[String]) -> Result<Vec<State>> {
    let state = |name: &String| {
        let known = State::ALL.into_iter().find(|state| state.name() == name);
        known.ok_or_else(|| Error::new(format!("{place}: expected a thread state, found `{name}`")))
    };
    names.iter().map(state).collect()
}

/// Whether a name in a rule is that of the frame: with a class where both have one.
fn names(wanted: &str, frame: &Frame) -> bool {
    let Some((class, method)) = wanted.rsplit_once('.') else { return wanted == frame.short() };
    match frame.function.rsplit_once('.') {
        Some((outer, name)) => name == method && (outer == class || outer.ends_with(&format!(".{class}"))),
        // Before Python 3.11 the class is not known.
        None => frame.function == method,
    }
}

fn toml_files(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let fail =
        |cause: io::Error| Error::io(folder.display(), &cause).hint("the setting `rules` names a folder of TOML files");
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    if paths.len() > MOST_RULE_FILES {
        return Err(Error::new(format!("{}: more than {MOST_RULE_FILES} files of rules", folder.display())));
    }
    paths.sort();
    Ok(paths)
}

/// An error with the line where TOML stopped making sense.
fn refuse(place: &str, text: &str, cause: &toml::de::Error) -> Error {
    let before = cause.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
    Error::new(format!("{place}:{line}: {}", cause.message().trim_end_matches('.')))
        .hint("docs/frame-rules.md shows what a rule holds")
}

/// A pattern of a path: its last components, or a folder anywhere in it. `*` stands for anything
/// within one component.
#[derive(Debug)]
struct Pattern {
    parts: Vec<String>,
    folder: bool,
}

impl Pattern {
    fn new(text: &str) -> Self {
        let parts = text.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Self { parts, folder: text.ends_with('/') }
    }

    fn fits(&self, path: &str) -> bool {
        let path: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let same = |window: &[&str]| window.iter().zip(&self.parts).all(|(part, wanted)| fits_part(wanted, part));
        if self.parts.is_empty() || path.len() < self.parts.len() {
            return false;
        }
        if self.folder {
            // The last component is the file, never a folder.
            let folders = path.get(..path.len() - 1).unwrap_or_default();
            return folders.windows(self.parts.len()).any(same);
        }
        path.get(path.len() - self.parts.len()..).is_some_and(same)
    }
}

fn fits_part(wanted: &str, part: &str) -> bool {
    match wanted.split_once('*') {
        None => wanted == part,
        Some((start, end)) => part.len() >= start.len() + end.len() && part.starts_with(start) && part.ends_with(end),
    }
}

#[cfg(test)]
mod tests;
