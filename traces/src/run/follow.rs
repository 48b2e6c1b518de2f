//! A run that is being written, as a source of ticks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::cursor::Cursor;
use super::layout;
use crate::clock::Ts;
use crate::error::Result;
use crate::flow::{Next, Source};
use crate::table::{Origin, Schema};

/// All ticks of a run, and then new ones as they land. It ends when the writer has finished or is
/// gone and the last whole tick was read. It needs a tokio runtime with time.
pub struct Follow {
    folder: PathBuf,
    cursor: Cursor,
    every: Duration,
}

impl Follow {
    pub(super) fn new(folder: &Path, cursor: Cursor) -> Self {
        Self { folder: folder.to_path_buf(), cursor, every: Duration::from_millis(100) }
    }

    /// Looks for new ticks that often, 100 ms if this is not called.
    #[must_use]
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// Begins at the first tick that ends at `at` or later.
    ///
    /// # Errors
    /// When a closed part cannot be read.
    pub fn from(mut self, at: Ts) -> Result<Self> {
        self.cursor.seek(at)?;
        Ok(self)
    }

    /// Leaves out the ticks that are there already.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn latest(mut self) -> Result<Self> {
        self.cursor.seek(Ts(i64::MAX))?;
        while self.cursor.next()?.is_some() {}
        self.cursor.any();
        Ok(self)
    }

    /// Hides derived tables, so that they can be concluded anew. It begins again at the first
    /// tick.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn observed(mut self) -> Result<Self> {
        self.cursor.showing(|table| table.origin == Origin::Observed);
        self.cursor.seek(Ts(i64::MIN))?;
        Ok(self)
    }
}

impl Source for Follow {
    fn schema(&self) -> &Arc<Schema> {
        self.cursor.schema()
    }

    fn next(&mut self) -> Next<'_> {
        Box::pin(async move {
            loop {
                if let Some(tick) = self.cursor.next()? {
                    return Ok(Some(tick));
                }
                if !layout::is_live(&self.folder) {
                    // What it wrote between the two looks.
                    return self.cursor.next();
                }
                tokio::time::sleep(self.every).await;
            }
        })
    }
}
