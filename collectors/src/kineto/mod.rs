//! Kineto traces on demand: Feedline stands in for dynolog's daemon, and orders a trace from a
//! trainer when it begins to wait for data. It acts on the job, so it is done only where asked
//! (`--kineto-on-stall`); a process takes part if it was started with `KINETO_USE_DAEMON=1`.

mod daemon;
pub mod parse;
mod trigger;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use feedline_traces::unit::Count;
use feedline_traces::{Collector, Counter, Id, Key, Result, Row as _, Rows, Symbol, Table, Text, table};

use crate::absent::{AbsentRow, Reasons};
use crate::{Context, Role, Target};
use daemon::Daemon;
pub use trigger::Trigger;

table! {
    /// Processes that take orders for Kineto traces (`--kineto-on-stall`), one row each.
    pub kineto: KinetoRow {
        /// The process, as `PID@START`.
        process: Key,
        /// Number of the device that it registered for.
        device: Id,
        /// How often it asked for orders.
        polls: Counter<Count>,
        /// Traces ordered.
        traces: Counter<Count>,
        /// Where it writes the last trace ordered.
        file: Text,
    }
}

/// Processes that are remembered.
const CLIENTS: usize = 1024;
/// Readings after which a trainer that never asked is said not to.
const PATIENCE: u32 = 15;

/// What is wanted of whom: shared by who sees the stall, the daemon, and the table.
#[derive(Debug, Clone, Default)]
pub struct Orders {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Traces wanted and not yet ordered, by process.
    wanted: BTreeSet<Symbol>,
    clients: BTreeMap<Symbol, Client>,
}

#[derive(Debug, Default, Clone)]
struct Client {
    device: Option<u64>,
    polls: u64,
    traces: u64,
    file: Option<String>,
}

impl Orders {
    /// Wants a trace of a process, at its next question.
    pub fn want(&self, process: &Symbol) {
        let mut state = self.lock();
        if state.wanted.len() < CLIENTS {
            state.wanted.insert(process.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn client(&mut self, process: &Symbol) -> Option<&mut Client> {
        if self.clients.len() >= CLIENTS && !self.clients.contains_key(process) {
            return None;
        }
        Some(self.clients.entry(process.clone()).or_default())
    }
}

/// Keeps the daemon, and its table.
pub struct Kineto {
    target: Target,
    orders: Orders,
    reasons: Reasons,
    daemon: std::result::Result<Daemon, String>,
    readings: u32,
}

impl Kineto {
    /// The daemon under dynolog's name, where the context asks for it.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        let daemon = if !context.settings.kineto {
            Err("not asked for (`--kineto-on-stall`)".to_owned())
        } else if context.host.is_live() {
            Daemon::start(daemon::NAME, context.target.clone(), context.orders.clone())
        } else {
            Err("a captured machine takes no orders".to_owned())
        };
        let (target, orders) = (context.target.clone(), context.orders.clone());
        Self { target, orders, reasons: Reasons::default(), daemon, readings: 0 }
    }
}

impl Collector for Kineto {
    fn name(&self) -> &'static str {
        "kineto"
    }

    fn tables(&self) -> Vec<Table> {
        vec![KinetoRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        self.reasons.say(out, KinetoRow::NAME, "", self.daemon.as_ref().err().map(String::as_str));
        if self.daemon.is_err() {
            return Ok(());
        }
        self.readings = self.readings.saturating_add(1);
        let processes = self.target.processes();
        let mut state = self.orders.lock();
        let here = |key: &Symbol| processes.iter().any(|process| process.key == *key);
        state.clients.retain(|key, _| here(key));
        state.wanted.retain(here);
        for process in processes.iter().filter(|p| p.role == Role::Trainer && p.python) {
            let silent = self.readings > PATIENCE && !state.clients.contains_key(&process.key);
            let why = "it never asked: it must be started with KINETO_USE_DAEMON=1, as `feedline run` does";
            self.reasons.say(out, KinetoRow::NAME, &process.key, silent.then_some(why));
        }
        for (process, client) in &state.clients {
            out.push(KinetoRow {
                process: process.clone().into(),
                device: client.device.into(),
                polls: client.polls.into(),
                traces: client.traces.into(),
                file: client.file.clone().into(),
            });
        }
        Ok(())
    }
}
