//! The whole program from outside, and the rules of the house.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod advice;
mod cli;
mod faults;
mod generated;
mod house;
mod inprocess;
mod live;
mod screens;
mod support;
mod sweep;
