//! Who does what in a tree of processes. Pure: from what was seen to roles.

use std::collections::{BTreeSet, HashMap};

use crate::{Process, Ranks, Role, key};

use super::parse::{Command, Kind, Sign};

/// What was seen of one process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// Parent's pid.
    pub parent: u32,
    /// The kernel's name of its main thread.
    pub comm: String,
    /// CPU time so far, in clock ticks.
    pub cpu: u64,
    /// What it runs.
    pub command: Command,
    /// Whether it is a Python interpreter.
    pub python: bool,
    /// Pid in its own namespace, where that is another.
    pub inner: Option<u32>,
    /// Real user id.
    pub user: Option<u32>,
    /// Its place among the ranks.
    pub ranks: Ranks,
    /// What its threads, libraries and files say.
    pub signs: BTreeSet<Sign>,
}

/// How a process came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Birth {
    /// Runs a program of its own.
    Program,
    /// Runs its maker's program: forked, spawned, or asked of a fork server.
    Copy,
    /// A fork server.
    Server,
    /// A resource tracker.
    Tracker,
}

/// Processes as a tree: positions into what was seen.
pub struct Tree<'a> {
    seen: &'a [Seen],
    /// Parents before children.
    order: Vec<usize>,
    parent: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
    birth: Vec<Birth>,
}

impl<'a> Tree<'a> {
    /// Ties what was seen into trees. A parent that started after its child took over a reused
    /// pid, and is none.
    #[must_use]
    pub fn new(seen: &'a [Seen]) -> Self {
        let at: HashMap<u32, usize> = seen.iter().enumerate().map(|(i, s)| (s.pid, i)).collect();
        let mut order: Vec<usize> = (0..seen.len()).collect();
        order.sort_by_key(|&i| (seen[i].start, seen[i].pid));
        let mut rank = vec![0; seen.len()];
        for (position, &i) in order.iter().enumerate() {
            rank[i] = position;
        }
        // Every parent precedes its children in the order of start, or of pid where clock ticks
        // are equal; whatever does not (pids wrapped within one tick) is cut loose, so that no
        // cycle can be.
        let parent: Vec<Option<usize>> =
            (0..seen.len()).map(|i| at.get(&seen[i].parent).copied().filter(|&p| rank[p] < rank[i])).collect();
        let mut children = vec![Vec::new(); seen.len()];
        for &i in &order {
            if let Some(p) = parent[i] {
                children[p].push(i);
            }
        }
        let birth = (0..seen.len()).map(|i| birth(&seen[i], parent[i].map(|p| &seen[p]))).collect();
        Self { seen, order, parent, children, birth }
    }

    /// The position of a pid.
    #[must_use]
    pub fn find(&self, pid: u32) -> Option<usize> {
        self.seen.iter().position(|s| s.pid == pid)
    }

    /// The position of the parent, where it was seen.
    #[must_use]
    pub fn parent(&self, i: usize) -> Option<usize> {
        self.parent[i]
    }

    /// Who asked for a process: its parent, or past a fork server the one that runs that.
    #[must_use]
    pub fn maker(&self, i: usize) -> Option<usize> {
        let parent = self.parent[i]?;
        if self.birth[parent] == Birth::Server { self.parent[parent] } else { Some(parent) }
    }

    /// Whether a process runs its maker's program, as workers do.
    #[must_use]
    pub fn is_copy(&self, i: usize) -> bool {
        self.birth[i] == Birth::Copy
    }

    /// A process and all below it, parents first.
    #[must_use]
    pub fn below(&self, root: usize) -> Vec<usize> {
        let mut inside = vec![false; self.seen.len()];
        inside[root] = true;
        self.order
            .iter()
            .copied()
            .filter(|&i| {
                inside[i] = inside[i] || self.parent[i].is_some_and(|p| inside[p]);
                inside[i]
            })
            .collect()
    }

    /// The copies that a process made.
    fn copies(&self, i: usize) -> impl Iterator<Item = usize> + '_ {
        let servers = self.children[i].iter().filter(|&&c| self.birth[c] == Birth::Server);
        let asked = servers.flat_map(|&s| &self.children[s]);
        self.children[i].iter().chain(asked).copied().filter(|&c| self.is_copy(c))
    }

    /// What speaks for a process training, each with its weight from 0 to 1.
    #[must_use]
    pub fn evidence(&self, i: usize) -> Vec<(f64, String)> {
        let seen = &self.seen[i];
        let mut out: Vec<(f64, String)> = Vec::new();
        let named = self.copies(i).filter(|&c| self.seen[c].comm == "pt_data_worker").count();
        let copies = self.copies(i).count();
        if named > 0 {
            out.push((0.95, plural(named, "PyTorch loader worker")));
        } else if copies > 0 && seen.python {
            // Any program can have such children; one with a framework has them to load data.
            let weight = if framework(seen).is_some() { 0.6 } else { 0.3 };
            out.push((weight, plural(copies, "multiprocessing child")));
        }
        for sign in &seen.signs {
            let (weight, words) = sign.weight();
            if weight > 0.0 {
                out.push((weight, words.to_owned()));
            }
        }
        if let (Some(rank), true) = (seen.ranks.rank.or(seen.ranks.local), seen.python) {
            out.push((0.5, format!("rank {rank}")));
        }
        out.sort_by(|a, b| b.0.total_cmp(&a.0));
        out
    }

    /// The processes of a job, with what each does: trainers first, then in order of start.
    #[must_use]
    pub fn roles(&self, root: usize) -> Vec<Process> {
        let inside = self.below(root);
        let trains = self.trainers(root, &inside);
        let mut numbers: HashMap<usize, u32> = HashMap::new();
        let mut out = Vec::with_capacity(inside.len());
        for &i in &inside {
            let role = self.role(i, root, &trains);
            let trainer = if role == Role::Worker { self.feeds(i, &trains) } else { None };
            let worker = trainer.map(|t| {
                let next = numbers.entry(t).or_default();
                let number = *next;
                *next += 1;
                number
            });
            out.push(self.process(i, role, trainer, worker));
        }
        out.sort_by_key(|p| p.role);
        out
    }

    fn process(&self, i: usize, role: Role, trainer: Option<usize>, worker: Option<u32>) -> Process {
        let seen = &self.seen[i];
        Process {
            pid: seen.pid,
            start: seen.start,
            key: key(seen.pid, seen.start),
            parent: seen.parent,
            role,
            name: seen.comm.as_str().into(),
            trainer: trainer.map(|t| self.seen[t].pid),
            worker,
            python: seen.python,
            command: seen.command.shown.as_str().into(),
            inner: seen.inner,
            ranks: seen.ranks,
        }
    }

    fn role(&self, i: usize, root: usize, trains: &[bool]) -> Role {
        if trains[i] {
            return Role::Trainer;
        }
        let made = self.maker(i).is_some_and(|m| trains[m]);
        match self.birth[i] {
            Birth::Server => Role::Forkserver,
            Birth::Copy if i != root && (made || self.seen[i].comm == "pt_data_worker") => Role::Worker,
            Birth::Copy | Birth::Tracker | Birth::Program => Role::Helper,
        }
    }

    /// The nearest trainer above a worker.
    fn feeds(&self, i: usize, trains: &[bool]) -> Option<usize> {
        let mut at = self.maker(i);
        while let Some(above) = at {
            if trains[above] {
                return Some(above);
            }
            at = self.maker(above);
        }
        None
    }

    /// Which processes train. `inside` has parents before children.
    fn trainers(&self, root: usize, inside: &[usize]) -> Vec<bool> {
        let mut trains = vec![false; self.seen.len()];
        // What computes itself, children first: who made only trainers is a launcher.
        for &i in inside.iter().rev() {
            trains[i] = self.computes(i, &trains);
        }
        let strong = trains.clone();
        // What could train, unless it is part of something above that does. A program that the
        // trainer started inherits its rank; another rank has another.
        for &i in inside {
            let Some(above) = self.above(i, root, &trains) else {
                trains[i] |= self.could(i);
                continue;
            };
            let (mine, theirs) = (self.seen[i].ranks, self.seen[above].ranks);
            let other = (mine.rank, mine.local) != (theirs.rank, theirs.local) && mine != Ranks::default();
            trains[i] |= other && self.could(i);
        }
        for &i in inside {
            if trains[i] && !strong[i] {
                trains[i] = !self.below(i).iter().any(|&b| b != i && trains[b]);
            }
        }
        if !inside.iter().any(|&i| trains[i]) {
            for i in self.likeliest(root) {
                trains[i] = true;
            }
        }
        trains
    }

    /// Whether a process shows that it computes, rather than only that it could.
    fn computes(&self, i: usize, trains: &[bool]) -> bool {
        let seen = &self.seen[i];
        if self.launches(i) || matches!(self.birth[i], Birth::Server | Birth::Tracker) || seen.comm == "pt_data_worker"
        {
            return false;
        }
        // A forked child has its parent's files open; its threads are its own.
        let forked = self.is_copy(i) && seen.command.kind != Kind::Spawned;
        let own = |sign: &Sign| sign.is_strong() && !(forked && *sign == Sign::DeviceFile);
        let workers = seen.python && self.copies(i).any(|c| !trains[c]);
        seen.signs.iter().any(own) || workers
    }

    fn could(&self, i: usize) -> bool {
        let seen = &self.seen[i];
        let loaded = |s: &Sign| s.weight().0 >= 0.4;
        self.birth[i] == Birth::Program
            && seen.python
            && !self.launches(i)
            && (seen.signs.iter().any(loaded) || seen.ranks.rank.is_some())
    }

    /// Whether it is a launcher by name, and launched something.
    fn launches(&self, i: usize) -> bool {
        self.seen[i].command.is_launcher() && !self.children[i].is_empty()
    }

    fn above(&self, i: usize, root: usize, trains: &[bool]) -> Option<usize> {
        let mut at = i;
        while at != root {
            at = self.parent[at]?;
            if trains[at] {
                return Some(at);
            }
        }
        None
    }

    /// Without any sign, the program that a shell or launcher runs; of a launcher, all that run
    /// the same.
    fn likeliest(&self, root: usize) -> Vec<usize> {
        let mut at = root;
        loop {
            let command = &self.seen[at].command;
            let programs =
                self.children[at].iter().copied().filter(|&c| self.birth[c] == Birth::Program || !self.seen[c].python);
            let busiest = programs.clone().max_by_key(|&c| (self.seen[c].python, self.seen[c].cpu));
            let Some(next) = busiest.filter(|_| command.is_wrapper()) else { return vec![at] };
            if command.is_launcher() {
                let same = |c: &usize| self.seen[*c].command.digest == self.seen[next].command.digest;
                let ranks: Vec<usize> = programs.filter(same).collect();
                if ranks.len() > 1 {
                    return ranks;
                }
            }
            at = next;
        }
    }
}

/// The framework that a process has loaded.
pub(super) fn framework(seen: &Seen) -> Option<&'static str> {
    let has = |sign: Sign| seen.signs.contains(&sign);
    [
        (has(Sign::Torch) || has(Sign::TorchThread) || has(Sign::Autograd), "pytorch"),
        (has(Sign::Tensorflow), "tensorflow"),
        (has(Sign::Jax), "jax"),
        (has(Sign::Paddle), "paddle"),
        (has(Sign::Mxnet), "mxnet"),
    ]
    .into_iter()
    .find_map(|(is, name)| is.then_some(name))
}

fn birth(seen: &Seen, parent: Option<&Seen>) -> Birth {
    match (seen.command.kind, parent.map(|p| p.command.kind)) {
        (Kind::Tracker, _) => Birth::Tracker,
        (Kind::Forkserver, Some(Kind::Forkserver)) | (Kind::Spawned, _) => Birth::Copy,
        (Kind::Forkserver, _) => Birth::Server,
        (Kind::Program, Some(_)) if seen.comm == "pt_data_worker" => Birth::Copy,
        (Kind::Program, _) if parent.is_some_and(|p| p.command.digest == seen.command.digest) => Birth::Copy,
        (Kind::Program, _) => Birth::Program,
    }
}

fn plural(count: usize, noun: &str) -> String {
    match (count, noun.strip_suffix("child")) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}children"),
        (_, None) => format!("{count} {noun}s"),
    }
}
