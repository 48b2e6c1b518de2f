//! Rows of a tick, read by position, and what their keys say.

use feedline_traces::{Batch, Symbol};

/// One row of a batch, read by position; a cell that is not there is missing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cells<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) row: usize,
}

impl<'a> Cells<'a> {
    pub(crate) fn all(batch: Option<&'a Batch>) -> impl Iterator<Item = Self> {
        batch.into_iter().flat_map(|batch| (0..batch.len()).map(move |row| Self { batch, row }))
    }

    pub(crate) fn text(self, column: usize) -> Option<&'a Symbol> {
        self.batch.columns.get(column)?.text(self.row)
    }

    /// A finite number.
    pub(crate) fn number(self, column: usize) -> Option<f64> {
        self.batch.columns.get(column)?.number(self.row).filter(|x| x.is_finite())
    }

    /// A count: finite and not negative, else 0.
    pub(crate) fn count(self, column: usize) -> f64 {
        self.number(column).map_or(0.0, |x| x.clamp(0.0, 1e9))
    }

    pub(crate) fn whole(self, column: usize) -> Option<u64> {
        self.batch.columns.get(column)?.whole(self.row)
    }
}

/// Whether a thread is the main one of its process, `PID@START`: its id is the pid.
pub(crate) fn is_main(process: &str, thread: &str) -> bool {
    process.split('@').next() == Some(thread)
}
