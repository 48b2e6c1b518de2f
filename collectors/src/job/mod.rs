//! The training job: finding one, and following its processes as they come and go.

mod find;
#[cfg(test)]
pub(crate) mod fixture;
mod look;
pub mod parse;
#[cfg(test)]
mod tests;
pub mod tree;

use std::collections::HashSet;

use feedline_traces::unit::Count;
use feedline_traces::{
    Background, Collector, Counter, Error, Gauge, Id, Key, Result, Row as _, Rows, Symbol, Table, Text, table,
};

pub use find::{Job, find, resolve};
use look::{Watch, stat_of};

use crate::{Context, Process, Role, Target, key};

table! {
    /// The training job as a tree of processes, one row per tick and a last one when it ends.
    pub job: JobRow {
        /// Root process of the job, as `PID@START`.
        job: Key,
        /// File name of the training script or program.
        name: Text,
        /// Framework that the first trainer has loaded, such as `pytorch`.
        framework: Text,
        /// Whether the job is `running` or has `ended`.
        state: Text,
        /// Pid of the root process.
        pid: Id,
        /// Number of ranks in the whole job, on all machines, as its launcher says.
        world: Id,
        /// Trainers on this machine, one a rank.
        trainers: Gauge<Count>,
        /// Loader workers of all trainers.
        workers: Gauge<Count>,
        /// All processes of the tree.
        processes: Gauge<Count>,
        /// Processes that have come since the recording began.
        arrived: Counter<Count>,
        /// Processes that have gone since the recording began.
        left: Counter<Count>,
    }
}

/// Follows the tree of processes under a root and keeps the [`Target`] current.
pub struct Jobs {
    target: Target,
    watch: Watch,
    /// `None` follows nothing.
    root: Option<u32>,
    /// Start time of the root, so that its pid reused is another process.
    start: Option<u64>,
    name: Option<Symbol>,
    framework: Option<&'static str>,
    members: HashSet<Symbol>,
    arrived: u64,
    left: u64,
    drops: u64,
    said: bool,
    looks: u32,
}

/// Looks for workers that come and go, between two rows: some live for less than a second.
pub(crate) const LOOKS: u32 = 4;
/// A job of more processes than this is looked at only when a row is due.
const SMALL: usize = 64;

impl Jobs {
    /// Follows the job under `root`. The process that has the pid now is meant, and no other that
    /// may get it later.
    #[must_use]
    pub fn new(context: &Context, root: u32) -> Self {
        Self::following(context, Some(root))
    }

    /// Follows the job that the context names; without one, nothing.
    #[must_use]
    pub fn of(context: &Context) -> Self {
        Self::following(context, context.root)
    }

    fn following(context: &Context, root: Option<u32>) -> Self {
        let stat = root.and_then(|root| stat_of(&context.host, root).ok());
        Self {
            target: context.target.clone(),
            watch: Watch::new(context.host.clone()),
            root,
            start: stat.filter(|s| !s.is_dead()).map(|s| s.start),
            name: None,
            framework: None,
            members: HashSet::new(),
            arrived: 0,
            left: 0,
            drops: 0,
            said: false,
            looks: 0,
        }
    }

    /// Whether the root process is gone; the target is empty then.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.target.ended()
    }

    /// The processes of the job now, with their roles. `None` when the root is gone, has exited,
    /// or is another process under the same pid.
    fn look(&mut self, root: u32) -> Option<Vec<Process>> {
        let (seen, left_out) = self.watch.tree(root).ok()?;
        self.drops += left_out as u64;
        let tree = tree::Tree::new(&seen);
        let root = tree.find(root).filter(|&i| Some(seen[i].start) == self.start)?;
        let roles = tree.roles(root);
        let trainer = roles.iter().find(|p| p.role == Role::Trainer).and_then(|p| tree.find(p.pid)).unwrap_or(root);
        self.name = Some(seen[trainer].command.name.as_str().into());
        self.framework = tree::framework(&seen[trainer]);
        Some(roles)
    }

    /// Counts who came and who went since the last look.
    fn count(&mut self, processes: &[Process]) {
        let now: HashSet<Symbol> = processes.iter().map(|p| p.key.clone()).collect();
        self.arrived += now.difference(&self.members).count() as u64;
        self.left += self.members.difference(&now).count() as u64;
        self.members = now;
    }

    fn row(&self, root: u32, start: u64, processes: &[Process], state: &str) -> JobRow {
        let having = |role: Role| processes.iter().filter(|p| p.role == role).count() as u64;
        JobRow {
            job: key(root, start).into(),
            name: self.name.clone().into(),
            framework: self.framework.map(Symbol::from).into(),
            state: state.into(),
            pid: root.into(),
            world: processes.iter().find_map(|p| p.ranks.world).into(),
            trainers: Gauge::from(having(Role::Trainer)),
            workers: Gauge::from(having(Role::Worker)),
            processes: Gauge::from(processes.len() as u64),
            arrived: self.arrived.into(),
            left: self.left.into(),
        }
    }
}

impl Collector for Jobs {
    fn name(&self) -> &'static str {
        "job"
    }

    fn tables(&self) -> Vec<Table> {
        vec![JobRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        let Some(root) = self.root.filter(|_| !self.said) else { return Ok(()) };
        let Some(start) = self.start else {
            self.said = true;
            self.target.end();
            return Err(Error::new(format!("no process {root}")).hint("`feedline ps` lists training jobs"));
        };
        let due = self.looks.is_multiple_of(LOOKS);
        self.looks = self.looks.wrapping_add(1);
        if !due && self.members.len() > SMALL {
            return Ok(());
        }
        let looked = self.look(root);
        let processes = looked.as_deref().unwrap_or_default();
        self.count(processes);
        if due || looked.is_none() {
            out.push(self.row(root, start, processes, if looked.is_some() { "running" } else { "ended" }));
        }
        match looked {
            Some(processes) => self.target.replace(processes),
            None => {
                self.said = true;
                self.target.end();
            }
        }
        Ok(())
    }

    fn background(&mut self) -> Background {
        Background { drops: std::mem::take(&mut self.drops), ..Background::default() }
    }
}
