//! The wiring of Feedline: configuration, the chain from source to sinks, and one file a verb.
//!
//! Nothing here is worth a unit test of its own: collectors, attribution, storage and screens
//! live in their crates.

pub mod advise;
pub mod bench;
pub mod chain;
pub mod cli;
pub mod config;
pub mod demo;
pub mod launch;
mod runtime;
pub mod score;
pub mod stop;
pub mod sweep;
pub mod train;
