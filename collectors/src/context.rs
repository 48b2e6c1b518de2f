//! What a collector is built from.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use feedline_traces::{Clock, Collector};

use crate::kineto::Orders;
use crate::thread::Roster;
use crate::{Host, Target};

/// Everything a collector may need; each takes what it uses.
#[derive(Clone)]
pub struct Context {
    /// The machine.
    pub host: Host,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The job.
    pub target: Target,
    /// The pid of the job's root process, where a job is watched.
    pub root: Option<u32>,
    /// Rates and limits.
    pub settings: Settings,
    /// Kineto traces that are wanted.
    pub orders: Orders,
    /// The Python threads of trainers: who reads stacks tells who samples states.
    pub roster: Roster,
}

impl Context {
    /// A machine watched at the default rates, with no job yet.
    #[must_use]
    pub fn new(host: Host, clock: Arc<dyn Clock>) -> Self {
        let (target, settings, orders) = (Target::default(), Settings::default(), Orders::default());
        Self { host, clock, target, root: None, settings, orders, roster: Roster::default() }
    }
}

/// Rates and limits of collection.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Most samples a second of a trainer thread's state.
    pub thread_hz: u32,
    /// Most samples a second of each worker thread's state.
    pub worker_hz: u32,
    /// Stacks a second of a trainer; 0 takes none.
    pub stack_hz: u32,
    /// Stacks a second of each worker; 0 takes none.
    pub worker_stack_hz: u32,
    /// Share of one core that Feedline may use in all; samplers slow down to keep to it.
    pub budget: f64,
    /// Where the NVIDIA management library is; `None` looks in the usual places.
    pub nvml: Option<PathBuf>,
    /// A folder of frame rules (`*.toml`) that go before Feedline's own; `docs/frame-rules.md`.
    pub rules: Option<PathBuf>,
    /// Whether the job was started with Feedline's hooks in its Python.
    pub hooked: bool,
    /// Whether trainers that begin to stall are told to write a Kineto trace.
    pub kineto: bool,
    /// Whether programs are put into the kernel (`kernel`): it takes root, and costs the job a
    /// little at each read, request and call into the device's libraries.
    pub kernel: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            thread_hz: 100,
            worker_hz: 40,
            stack_hz: 12,
            worker_stack_hz: 1,
            budget: 0.02,
            nvml: None,
            rules: None,
            hooked: false,
            kineto: false,
            kernel: false,
        }
    }
}

/// A collector and how often it reads.
pub struct Scheduled {
    /// The collector.
    pub collector: Box<dyn Collector>,
    /// Time from one reading to the next.
    pub period: Duration,
}

impl Scheduled {
    /// A collector that reads every so often.
    pub fn every(period: Duration, collector: impl Collector + 'static) -> Self {
        Self { collector: Box::new(collector), period }
    }
}
