//! SQL over run folders, on polars.
//!
//! Every table of a run is registered under its name; with several runs each table has a column
//! `run` in front. Tables are scanned lazily, so a query reads the columns and the parts that it
//! needs.
//!
//! ```no_run
//! # fn main() -> feedline_traces::Result<()> {
//! let answer = feedline_query::sql(
//!     "runs/20260714T081253Z-node1-train".as_ref(),
//!     "SELECT device, avg(busy) AS busy FROM accelerator GROUP BY device ORDER BY busy",
//! )?;
//! eprintln!("{answer}");
//! # Ok(())
//! # }
//! ```

mod answer;
mod frames;
mod refusal;
mod runs;
pub mod sample;
#[cfg(test)]
mod tests;

use std::path::Path;

use feedline_traces::Result;

pub use answer::{Answer, Value};
pub use runs::{Contents, Runs};

/// Most rows of an answer. A query that has more is cut there, and [`Answer::cut`] says so.
pub const MOST_ROWS: usize = 100_000;

/// The tables of a run, or of a folder of runs: names, rows and columns.
///
/// # Errors
/// When the folder is no run and has none, or a table cannot be read.
pub fn tables(run: &Path) -> Result<Vec<Contents>> {
    Runs::open(&[run])?.tables()
}

/// The answer to a SQL query over a run, or over a folder of runs.
///
/// # Errors
/// When the folder is no run and has none, when the query is not understood (the message says
/// where, the hint names near tables and columns), and when a table cannot be read.
pub fn sql(run: &Path, query: &str) -> Result<Answer> {
    Runs::open(&[run])?.sql(query)
}
