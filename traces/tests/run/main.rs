//! The run folder as others meet it: identity, faults, hostile files, followers, other readers.

#![expect(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

mod crash;
mod export;
mod follow;
mod foreign;
mod full;
mod hostile;
mod identity;
mod prune;
mod sample;
