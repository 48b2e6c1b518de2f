//! Whether the machine has what a change takes.

use feedline_traces::unit::Unit;

use super::change::{Change, parts};
use super::facts::{Facts, Machine};
use super::model::Fit;
use super::price::{self, Price};

/// Part of the free memory that a data set may take.
const ROOM: f64 = 0.7;
/// Part of what is free that a plan may take.
const MOST: f64 = 0.8;

/// Bytes of memory that the job could still get.
fn free_memory(machine: &Machine) -> Option<f64> {
    [machine.available, machine.memory_left].into_iter().flatten().reduce(f64::min)
}

/// What the machine has too little of; `None` where it has enough, as far as is known.
pub(super) fn lacking(price: &Price, machine: &Machine) -> Option<String> {
    let size = |bytes: f64| Unit::Bytes.show(bytes);
    let memory = price.memory.zip(free_memory(machine)).filter(|(needs, free)| *needs > MOST * free);
    if let Some((needs, free)) = memory {
        return Some(format!("memory: it needs {}, of {} that can be had", size(needs), size(free)));
    }
    if let Some((total, used)) = machine.shm
        && price.shm > MOST * (total - used)
    {
        return Some(format!("/dev/shm: it needs {}, of {} that are left", size(price.shm), size(total - used)));
    }
    let (open, most) = machine.fds?;
    (price.fds > most - open)
        .then(|| format!("open files: it needs {:.0} more, {:.0} are left (ulimit -n)", price.fds, most - open))
}

/// Why a change cannot be made here; `None` where it can.
pub(super) fn refused(change: Change, fit: &Fit, facts: &Facts) -> Option<String> {
    let lacking = lacking(&price::of(&[change], fit, facts), &facts.machine);
    if lacking.is_some() {
        return lacking;
    }
    match change {
        Change::Workers(n) => {
            let (latency, cpu) = parts(fit);
            // Beyond this they would only take turns; workers that wait for storage need no cores.
            let useful = 2.0 * facts.cores() * (1.0 + latency / cpu.max(1e-9)) + 2.0;
            (f64::from(n) > useful.max(f64::from(facts.workers())))
                .then(|| format!("cores: {n} workers would share {:.1}", facts.cores()))
        }
        Change::InMemory => match (facts.reads.dataset, free_memory(&facts.machine)) {
            (None, _) => Some(price::OF_DATA.to_owned()),
            (Some(bytes), Some(free)) if bytes > ROOM * free => Some(format!(
                "memory: the data set has {}, {} can be had",
                Unit::Bytes.show(bytes),
                Unit::Bytes.show(free)
            )),
            (Some(_), None) => Some("how much memory is free is not known".to_owned()),
            _ => None,
        },
        Change::LocalDisk => facts.reads.dataset.is_none().then(|| price::OF_DATA.to_owned()),
        _ => None,
    }
}
