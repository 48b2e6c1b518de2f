//! Finding training jobs on a machine, for those who know no pid.

use std::collections::{BTreeMap, HashMap};

use feedline_traces::{Error, Result};
use serde::Serialize;

use crate::process::parse::uptime;
use crate::{Host, Role};

use super::look::{Watch, stat_of};
use super::tree::{Seen, Tree, framework};

/// The least confidence at which a process is called a training job.
const LEAST: f64 = 0.3;

/// A training job, or any process that was named: a tree of processes under one root.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    /// Pid of the root: what to attach to.
    pub pid: u32,
    /// Start time of the root in clock ticks since boot.
    pub start: u64,
    /// Who runs it: a name, or the number of a user without one.
    pub user: String,
    /// File name of the training script, module or program; never an argument.
    pub name: String,
    /// The framework that is loaded, where one is.
    pub framework: Option<&'static str>,
    /// Seconds since the root started, where the machine says how long it has been up.
    pub age: Option<f64>,
    /// Pids of the trainers, one a rank.
    pub trainers: Vec<u32>,
    /// Number of loader workers.
    pub workers: usize,
    /// How likely it trains, from 0 to 1.
    pub confidence: f64,
    /// What speaks for that, the strongest first.
    pub why: Vec<String>,
}

/// The training jobs of a machine, the likeliest first.
#[must_use]
pub fn find(host: &Host) -> Vec<Job> {
    let seen = others(host);
    jobs(host, &seen)
}

/// The job that a pid or a name (of a script or program, or a part of it) stands for. Any process
/// can be named, whether it looks like training or not; a loader worker stands for its trainer.
///
/// # Errors
/// When nothing has that pid or name, or several have that name: then they are listed.
pub fn resolve(host: &Host, wanted: &str) -> Result<Job> {
    let wanted = wanted.trim();
    if let Ok(pid) = wanted.parse() {
        return by_pid(host, pid);
    }
    if wanted.is_empty() {
        return Err(Error::new("expected a pid or a name, found nothing").hint("`feedline ps` lists training jobs"));
    }
    let seen = others(host);
    let mut found: Vec<Job> = jobs(host, &seen).into_iter().filter(|job| job.name.contains(wanted)).collect();
    if found.is_empty() {
        let tree = Tree::new(&seen);
        let named = |i: usize| seen[i].command.name.contains(wanted) || seen[i].comm.contains(wanted);
        // Of a tree in which all have the name, the root stands for the rest.
        let tops = (0..seen.len()).filter(|&i| named(i) && !tree.parent(i).is_some_and(named));
        found = tops.map(|i| describe(host, &seen, &tree, i)).collect();
    }
    let one_line = |job: &Job| format!("{} ({})", job.pid, job.name);
    match found.as_slice() {
        [job] => Ok(job.clone()),
        [] => Err(Error::new(format!("no process named `{wanted}`")).hint("`feedline ps` lists training jobs")),
        many => {
            let shown: Vec<String> = many.iter().take(8).map(one_line).collect();
            let more = if many.len() > 8 { format!(" and {} more", many.len() - 8) } else { String::new() };
            Err(Error::new(format!("`{wanted}` names {} processes: {}{more}", many.len(), shown.join(", ")))
                .hint("give the pid"))
        }
    }
}

fn by_pid(host: &Host, pid: u32) -> Result<Job> {
    let none = || Error::new(format!("no process {pid}")).hint("`feedline ps` lists training jobs");
    if stat_of(host, pid).map_err(|_| none())?.is_dead() {
        return Err(Error::new(format!("process {pid} has exited")).hint("`feedline ps` lists training jobs"));
    }
    let seen = Watch::new(host.clone()).all();
    let tree = Tree::new(&seen);
    let at = tree.find(pid).ok_or_else(|| thread_of(host, pid).unwrap_or_else(none))?;
    let trainer = if tree.is_copy(at) { tree.maker(at).filter(|&m| works_for(&tree, m, pid)) } else { None };
    Ok(describe(host, &seen, &tree, trainer.unwrap_or(at)))
}

/// What to say of a number that is a thread's: `/proc` answers for it and does not list it.
fn thread_of(host: &Host, thread: u32) -> Option<Error> {
    let status = host.read(format!("proc/{thread}/status")).ok()?;
    let process: u32 = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()?;
    let error = Error::new(format!("{thread} is a thread of process {process}"));
    (process != thread).then(|| error.hint(format!("give the process: {process}")))
}

fn works_for(tree: &Tree<'_>, maker: usize, pid: u32) -> bool {
    tree.roles(maker).iter().any(|p| p.pid == pid && p.role == Role::Worker)
}

/// All processes but this one.
fn others(host: &Host) -> Vec<Seen> {
    let mut seen = Watch::new(host.clone()).all();
    if host.is_live() {
        seen.retain(|s| s.pid != std::process::id());
    }
    seen
}

fn jobs(host: &Host, seen: &[Seen]) -> Vec<Job> {
    let tree = Tree::new(seen);
    let likely: Vec<bool> = (0..seen.len()).map(|i| confidence(&tree.evidence(i)) >= LEAST).collect();
    let mut roots: BTreeMap<usize, ()> = BTreeMap::new();
    for i in (0..seen.len()).filter(|&i| likely[i]) {
        let mut top = i;
        let mut at = i;
        // Upwards through launchers and trainers: all of them are the same job. Through a shell
        // only to a launcher: an interactive Python may have started quite another job.
        let mut through_shell = false;
        while let Some(above) = tree.maker(at) {
            let command = &seen[above].command;
            if command.is_launcher() || (likely[above] && !through_shell) {
                top = above;
            } else if command.is_wrapper() {
                through_shell = true;
            } else {
                break;
            }
            at = above;
        }
        roots.insert(top, ());
    }
    let mut out: Vec<Job> = roots.into_keys().map(|root| describe(host, seen, &tree, root)).collect();
    out.sort_by(|a, b| b.confidence.total_cmp(&a.confidence).then(b.start.cmp(&a.start)));
    out
}

/// A tree of processes as a job.
fn describe(host: &Host, seen: &[Seen], tree: &Tree<'_>, root: usize) -> Job {
    let roles = tree.roles(root);
    let trainers: Vec<u32> = roles.iter().filter(|p| p.role == Role::Trainer).map(|p| p.pid).collect();
    let first = trainers.first().and_then(|pid| tree.find(*pid)).unwrap_or(root);
    let evidence = tree.evidence(first);
    let start = seen[root].start;
    Job {
        pid: seen[root].pid,
        start,
        user: user(host, seen[root].user),
        name: seen[first].command.name.clone(),
        framework: framework(&seen[first]),
        age: age(host, start),
        workers: roles.iter().filter(|p| p.role == Role::Worker).count(),
        confidence: confidence(&evidence),
        why: evidence.into_iter().map(|(_, words)| words).collect(),
        trainers,
    }
}

/// Signs taken as independent: each leaves that much less doubt.
fn confidence(evidence: &[(f64, String)]) -> f64 {
    1.0 - evidence.iter().map(|(weight, _)| 1.0 - weight).product::<f64>()
}

/// Seconds since a start time.
#[expect(clippy::cast_precision_loss, reason = "an age is shown in seconds")]
fn age(host: &Host, start: u64) -> Option<f64> {
    let up = uptime(&host.read("proc/uptime").ok()?)? as f64 / 1e9;
    Some((up - start as f64 / rustix::param::clock_ticks_per_second() as f64).max(0.0))
}

fn user(host: &Host, id: Option<u32>) -> String {
    let Some(id) = id else { return String::from("?") };
    let text = host.read("etc/passwd").unwrap_or_default();
    let names: HashMap<&str, &str> = text
        .lines()
        .rev()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            Some((fields.nth(1)?, name))
        })
        .collect();
    let id = id.to_string();
    names.get(id.as_str()).map_or(id.clone(), |name| (*name).to_owned())
}
