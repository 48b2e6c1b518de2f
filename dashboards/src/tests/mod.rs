//! Screens and reports of made-up runs.

mod fixture;
mod odd;
mod reports;
mod screens;
