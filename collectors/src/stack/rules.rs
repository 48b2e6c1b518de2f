//! Rules that say where in a program a stack is. They are data; `docs/frame-rules.md` describes
//! their format.

use std::collections::HashMap;
use std::path::Path;
use std::{fs, io};

use feedline_traces::{Error, Result, Symbol};
use serde::Deserialize;

use crate::Role;
use crate::thread::State;

/// The rules that come with Feedline, by file name. The first rule that fits a frame decides for
/// it, so the order counts: frameworks before what they are built on.
const BUILT_IN: &[(&str, &str)] = &[
    ("pytorch.toml", include_str!("rules/pytorch.toml")),
    ("tensorflow.toml", include_str!("rules/tensorflow.toml")),
    ("jax.toml", include_str!("rules/jax.toml")),
    ("loaders.toml", include_str!("rules/loaders.toml")),
    ("multiprocessing.toml", include_str!("rules/multiprocessing.toml")),
    ("python.toml", include_str!("rules/python.toml")),
];

/// Files whose matching rules are remembered; past this the memory is cleared.
const MOST_FILES: usize = 4096;
/// Most files of a folder of rules.
const MOST_RULE_FILES: usize = 256;

/// Where in a program a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
pub enum Site {
    /// In the loader's `next()`, or in a queue get that feeds the trainer.
    #[serde(rename = "loader")]
    Loader,
    /// Waiting for the device, or in a collective.
    #[serde(rename = "device")]
    Device,
    /// Other file or network work of a trainer, checkpoints too.
    #[serde(rename = "io")]
    Io,
    /// Anything else.
    #[serde(rename = "host")]
    Host,
    /// A worker gets or makes a sample.
    #[serde(rename = "worker.fetch")]
    WorkerFetch,
    /// A worker decodes or transforms.
    #[serde(rename = "worker.decode")]
    WorkerDecode,
    /// A worker puts samples together.
    #[serde(rename = "worker.collate")]
    WorkerCollate,
    /// A worker hands over.
    #[serde(rename = "worker.put")]
    WorkerPut,
    /// A worker waits for work.
    #[serde(rename = "worker.idle")]
    WorkerIdle,
}

impl Site {
    /// The site as it stands in tables and in rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Loader => "loader",
            Self::Device => "device",
            Self::Io => "io",
            Self::Host => "host",
            Self::WorkerFetch => "worker.fetch",
            Self::WorkerDecode => "worker.decode",
            Self::WorkerCollate => "worker.collate",
            Self::WorkerPut => "worker.put",
            Self::WorkerIdle => "worker.idle",
        }
    }
}

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
    Trainer,
    Worker,
}

impl Side {
    fn fits(side: Option<Self>, role: Role) -> bool {
        side.is_none_or(|side| matches!((side, role), (Self::Trainer, Role::Trainer) | (Self::Worker, Role::Worker)))
    }
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
    framework: Symbol,
}

/// Rules, ready to decide.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    fallbacks: Vec<(Site, Option<Side>, Vec<String>, Symbol)>,
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
        for RootText { file: files, function } in file.root {
            let files = files.iter().map(|f| Pattern::new(f)).collect();
            let framework = framework.clone();
            self.rules.push(Rule {
                site: Site::Host,
                side: None,
                scope: Scope::Root,
                files,
                functions: function,
                framework,
            });
        }
        for RuleText { site, role: side, scope, file: files, function: functions } in file.rule {
            let files = files.iter().map(|f| Pattern::new(f)).collect();
            self.rules.push(Rule { site, side, scope, files, functions, framework: framework.clone() });
        }
        for FallbackText { site, role, state } in file.fallback {
            if let Some(unknown) = state.iter().find(|name| State::ALL.iter().all(|s| s.name() != name.as_str())) {
                return Err(Error::new(format!("{place}: expected a thread state, found `{unknown}`")));
            }
            self.fallbacks.push((site, role, state, framework.clone()));
        }
        self.of_file.clear();
        Ok(())
    }

    /// Decides where a stack is. `frames` go from the outermost to the innermost.
    pub fn decide(&mut self, role: Role, state: State, frames: &[Frame]) -> Verdict {
        let mut inner = None;
        for (position, frame) in frames.iter().enumerate() {
            let Some(rule) = self.rule(role, frame) else { continue };
            match rule.scope {
                Scope::Root => inner = None,
                Scope::Inner => inner = Some((position, rule.site, rule.framework.clone())),
                Scope::Claim => {
                    let claim = (position, rule.site, rule.framework.clone());
                    // A root further in voids a claim outside it: that one is the forking process's.
                    if !frames.iter().skip(position + 1).any(|frame| self.is_root(role, frame)) {
                        inner = Some(claim);
                        break;
                    }
                }
            }
        }
        if let Some((position, site, framework)) = inner {
            return Verdict { site, frame: Some(position), framework: Some(framework) };
        }
        let fits = |(_, side, states, _): &&(Site, Option<Side>, Vec<String>, Symbol)| {
            Side::fits(*side, role) && states.iter().any(|name| name == state.name())
        };
        match self.fallbacks.iter().find(fits) {
            Some((site, _, _, framework)) => Verdict { site: *site, frame: None, framework: Some(framework.clone()) },
            None => Verdict { site: Site::Host, frame: None, framework: None },
        }
    }

    fn is_root(&mut self, role: Role, frame: &Frame) -> bool {
        self.rule(role, frame).is_some_and(|rule| rule.scope == Scope::Root)
    }

    /// The first rule that fits a frame.
    fn rule(&mut self, role: Role, frame: &Frame) -> Option<&Rule> {
        if !self.of_file.contains_key(&frame.file) {
            if self.of_file.len() >= MOST_FILES {
                self.of_file.clear();
            }
            let fits = |rule: &Rule| rule.files.iter().any(|pattern| pattern.fits(&frame.file));
            let found = self.rules.iter().enumerate().filter(|(_, rule)| fits(rule)).map(|(index, _)| index).collect();
            self.of_file.insert(frame.file.clone(), found);
        }
        let candidates = self.of_file.get(&frame.file)?;
        candidates.iter().filter_map(|index| self.rules.get(*index)).find(|rule| {
            Side::fits(rule.side, role) && (rule.functions.is_empty() || rule.functions.iter().any(|f| names(f, frame)))
        })
    }
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
