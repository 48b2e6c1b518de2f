//! `feedline demo-job`: the demo's training job, as a process of its own.

use std::io;

use feedline_traces::SystemClock;

use super::Outcome;
use crate::demo::job::{self, Job};

/// Trains until it is told to end.
pub(super) fn run(job: &Job) -> Outcome {
    Ok(job::run(job, &SystemClock::anchored_now(), &mut io::stdout())?)
}
