//! Screens and reports over ticks; knows only the schema.
//!
//! [`channel`] joins a source to a screen: the [`Feed`] is a sink like any other, the receiving
//! end goes to [`run`], which shows ticks until the person quits. [`play`] drives a recorded run
//! at a pace and obeys the [`Command`]s that come from the screen. [`report::ReportBuilder`] is a
//! sink that ends in a report.
//!
//! Inside, [`state`] takes [`Event`]s in and gives commands out, [`mod@draw`] turns it into cells,
//! and only `term` touches the terminal.

mod bind;
pub mod draw;
mod feed;
mod input;
mod keys;
mod layout;
mod panels;
mod picture;
mod playback;
pub mod report;
mod series;
mod slow;
pub mod state;
mod term;
mod verdict;
mod widgets;

pub use feed::{Command, Feed, Message, Mode, Position, channel};
pub use picture::picture;
pub use playback::{Tape, play};
pub use state::{Event, State};
pub use term::{Screen, run};
pub use widgets::look::Look;

#[cfg(test)]
mod tests;
