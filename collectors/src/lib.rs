//! Reads the machine and the training job into rows.
//!
//! Each source is a folder: `mod.rs` declares its table and collects, `parse.rs` is pure, and
//! `testdata/` holds captured text. [`all`] is the visible list.

pub mod absent;
mod host;
mod target;

pub use host::Host;
pub use target::{Process, Role, Target, key};
