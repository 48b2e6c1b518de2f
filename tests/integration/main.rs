//! The whole program from outside, and the rules of the house.

mod cli;
mod faults;
mod generated;
mod house;
mod live;
mod screens;
mod support;
