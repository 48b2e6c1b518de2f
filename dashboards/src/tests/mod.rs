//! Screens and reports of made-up runs.

mod fine;
mod fixture;
mod odd;
mod reports;
mod screens;
