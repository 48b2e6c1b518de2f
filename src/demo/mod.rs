//! The demo's own material: photographs, training jobs with a loader too slow for them, and the
//! truth those jobs log about themselves.
//!
//! None of it knows Feedline's collectors or models: a demo job is a stranger to the program that
//! watches it.

pub mod job;
pub mod photos;
pub mod python;
pub mod start;
pub mod truth;
