//! The step model: a training job as queues, to say what another configuration would do.
//!
//! A job is a closed network: `workers × prefetch_factor` batches are asked for at any time; workers
//! make them from storage, link and cores that they share; the trainer takes them in order, copies
//! and trains. [`simulate`] plays that event by event, from measured distributions, and says how fast
//! it goes, how long the trainer waits and what binds. [`estimate`] gives the same figures from closed
//! forms in microseconds, for searches over many configurations.
//!
//! ```
//! use feedline_models::step_model::{Dist, Job, Run, estimate, simulate};
//! let job = Job { workers: 2, cores: 4.0, decode: Dist::Constant(0.010), step: Dist::Constant(0.100), ..Job::default() };
//! // 32 samples of 10 ms each over 2 workers: 160 ms a batch, against a step of 100 ms.
//! let now = simulate(&job, &Run::default()).unwrap();
//! assert!((now.stall - 0.375).abs() < 0.01);
//! let more = simulate(&Job { workers: 4, ..job.clone() }, &Run::default()).unwrap();
//! assert!(more.stall < 0.01 && more.samples_per_second > 1.5 * now.samples_per_second);
//! assert!((estimate(&job).unwrap().stall - now.stall).abs() < 0.05);
//! ```
//!
//! How it was checked stands in `docs/step-model.md`.

mod build;
pub(crate) mod dice;
mod dist;
mod engine;
mod estimate;
mod job;
mod outcome;
#[cfg(test)]
mod tests;

pub use dist::{Dist, LARGEST};
pub use estimate::{Estimate, estimate};
pub use job::{Job, MOST_AHEAD, MOST_SAMPLES, MOST_WORKERS, Network, Order, Storage};
pub(crate) use outcome::FED;
pub use outcome::{Binding, Outcome, Run, Usage, Waits, simulate};
