//! Reads the machine and the training job into rows.
//!
//! Each source is a folder: `mod.rs` declares its table and collects, `parse.rs` is pure, and
//! `testdata/` holds captured text. [`all`] is the visible list.

pub mod absent;
mod context;
pub mod health;
mod host;
mod live;
mod target;

pub use context::{Context, Scheduled, Settings};
pub use host::Host;
pub use live::{Live, schema};
pub use target::{Process, Ranks, Role, Target, key};

/// Every collector, with how often it reads. Adding one is its folder and one line here.
#[must_use]
pub fn all(context: &Context) -> Vec<Scheduled> {
    let _ = context;
    vec![]
}
