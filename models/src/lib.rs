//! From evidence to causes: attribution, steps and verdicts.
//!
//! [`attribute::Attribute`] is the one entry: bound to the schema of a source it reads `process`,
//! `thread`, `activity`, `stack`, `wait` and `accelerator` rows, as far as they are there, and adds
//! the rows of [`tables`]. How the shares are estimated, and how far they can be trusted, stands in
//! `docs/attribution.md`.
//!
//! [`forecast`] says what share of its time a trainer will wait over the next seconds.
//!
//! [`step_model`] plays a training job as queues, to say what another configuration would do.

pub mod advise;
pub mod attribute;
mod cells;
pub mod finding;
pub mod forecast;
pub mod learn;
pub mod observation;
pub mod step;
pub mod step_model;
pub mod tables;
pub mod verdict;

#[cfg(test)]
mod sim;
