//! A recorded run as a source of ticks.

use std::sync::Arc;

use super::cursor::Cursor;
use crate::clock::Ts;
use crate::error::Result;
use crate::flow::{Next, Source};
use crate::table::{Origin, Schema};
use crate::tick::Tick;

/// The ticks of a run, bit for bit as they were recorded, as fast as they are asked for. It holds
/// a few thousand rows of each table, however long the run.
pub struct Replay {
    cursor: Cursor,
    until: Ts,
}

impl Replay {
    pub(super) fn new(cursor: Cursor) -> Self {
        Self { cursor, until: Ts(i64::MAX) }
    }

    /// The same without derived tables, so that they can be concluded anew. It begins again at
    /// the first tick.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn observed(mut self) -> Result<Self> {
        self.cursor.showing(|table| table.origin == Origin::Observed);
        self.cursor.seek(Ts(i64::MIN))?;
        Ok(self)
    }

    /// The same with these tables alone, as far as the run has them; no other is read. It begins again
    /// at the first tick.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn only(mut self, tables: &[&str]) -> Result<Self> {
        self.cursor.showing(|table| tables.contains(&table.name.as_ref()));
        self.cursor.seek(Ts(i64::MIN))?;
        Ok(self)
    }

    /// Only ticks that end from `from` to `until`, both included.
    ///
    /// # Errors
    /// When a closed part cannot be read.
    pub fn range(mut self, from: Ts, until: Ts) -> Result<Self> {
        self.until = until;
        self.seek(from)?;
        Ok(self)
    }

    /// Moves before the first tick that ends at `at` or later, forward or back.
    ///
    /// # Errors
    /// When a closed part cannot be read.
    pub fn seek(&mut self, at: Ts) -> Result<()> {
        self.cursor.seek(at)
    }

    /// The next tick, without a runtime.
    ///
    /// # Errors
    /// When a part or the open segment is damaged.
    pub fn read(&mut self) -> Result<Option<Tick>> {
        Ok(self.cursor.next()?.filter(|tick| tick.at <= self.until))
    }
}

impl Source for Replay {
    fn schema(&self) -> &Arc<Schema> {
        self.cursor.schema()
    }

    fn next(&mut self) -> Next<'_> {
        Box::pin(async move { self.read() })
    }
}
