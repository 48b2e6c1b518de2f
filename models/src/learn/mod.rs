//! Learners and their honest validation. Nothing here reads a file or a clock: rows come in as a
//! [`Frame`], seeds are arguments, and the same seed gives the same result on any number of threads.
//!
//! - A [`Frame`] holds inputs, outcomes (each with the timer that measured it), baselines and groups;
//!   a [`Task`] says what is to be predicted from what, and [`leak`] refuses inputs that give it away.
//! - A [`Learner`] is any of ten methods behind one enum, each plain or on what a baseline leaves; its
//!   preprocessing is part of the fit ([`design`]) and so inside every fold.
//! - [`validate`] leaves whole groups out, chooses settings and fits intervals ([`band`]) on the rows
//!   that remain, and judges by [`Score`], the worst group in front; [`blend`] is the mean
//!   of those that did best, and [`study`] looks into a setting.
//! - [`saved`] writes a [`Model`] with its inputs, units, ranges, score and data hash, and refuses
//!   what it cannot trust.
//!
//! What is learnt from which data, and the figures, stand in `docs/learning.md` and `docs/models.md`.

pub mod band;
pub mod blend;
pub mod classify;
pub mod declare;
pub mod design;
pub mod folds;
mod frame;
pub mod leak;
mod learner;
mod linear;
mod model;
pub mod published;
pub mod random;
pub mod saved;
mod score;
mod simple;
pub mod stats;
pub mod study;
mod svr;
mod table;
mod task;
pub mod tree;
pub mod validate;

pub use frame::{Feature, Frame, Group, Kind, Target};
pub use learner::{Fitted, Learner, Lesson};
pub use model::{Input, Model, Outside, Reader, Spec, UNKNOWN};
pub use score::{Predicted, Score, noise_floor};
pub use task::{Scale, Task};

#[cfg(test)]
mod tests;
