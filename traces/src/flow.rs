//! The four roles: a [`Collector`] reads, a [`Source`] yields ticks, a [`Derive`] adds rows, a
//! [`Sink`] takes ticks. Live, replayed, followed and merged runs are all sources, so nothing
//! downstream can tell them apart.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::table::{Schema, Table};
use crate::tick::{Rows, Tick};

/// Reads one thing of the machine or the job. It may block; it runs on a thread of its own.
pub trait Collector: Send {
    /// Short name, as it stands in `health`.
    fn name(&self) -> &'static str;

    /// The tables it fills, and no others.
    fn tables(&self) -> Vec<Table>;

    /// Reads once and appends rows. On an error none of the rows of this call are kept.
    ///
    /// # Errors
    /// When the thing cannot be read; the session goes on and `health` says so.
    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()>;

    /// What its own sampling threads did since the last call. A collector without any keeps the
    /// default; the cost of `collect` itself is measured by whoever calls it.
    fn background(&mut self) -> Background {
        Background::default()
    }
}

/// What a collector's sampling threads cost and lost since last asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Background {
    /// CPU time, in nanoseconds.
    pub cpu: u64,
    /// Samples or events that did not fit a buffer.
    pub drops: u64,
    /// Samples left out to keep to the CPU budget.
    pub skipped: u64,
}

/// The next tick, or `None` when the source is exhausted.
pub type Next<'a> = Pin<Box<dyn Future<Output = Result<Option<Tick>>> + Send + 'a>>;

/// Yields ticks.
pub trait Source: Send {
    /// The tables of the ticks it yields.
    fn schema(&self) -> &Arc<Schema>;

    /// Waits for the next tick.
    fn next(&mut self) -> Next<'_>;
}

/// Adds rows concluded from the tick and from what it remembers of earlier ones. Pure: it reads
/// no file and asks no clock; the tick carries the time.
pub trait Derive: Send {
    /// The tables it fills, and no others.
    fn tables(&self) -> Vec<Table>;

    /// Appends rows to the tick.
    ///
    /// # Errors
    /// When the tick cannot be understood; the session goes on without this derivation's rows.
    fn derive(&mut self, tick: &Tick, out: &mut Rows<'_>) -> Result<()>;
}

/// Takes ticks: writes, draws, exports or acts.
pub trait Sink: Send {
    /// Takes one tick.
    ///
    /// # Errors
    /// When it cannot; what it took before stays intact.
    fn accept(&mut self, schema: &Schema, tick: &Tick) -> Result<()>;

    /// No tick follows.
    ///
    /// # Errors
    /// When what is left cannot be written.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A source with derived rows added to each of its ticks.
pub struct Derived {
    source: Box<dyn Source>,
    derive: Box<dyn Derive>,
    schema: Arc<Schema>,
}

impl Derived {
    /// Adds a derivation to a source. A derived table that the source has already (a replay) is
    /// replaced by the new conclusions.
    ///
    /// # Errors
    /// When the derivation declares a table that the source observes.
    pub fn new(source: Box<dyn Source>, derive: Box<dyn Derive>) -> Result<Self> {
        let mut schema = Schema::clone(source.schema());
        for table in derive.tables() {
            match schema.tables.iter_mut().find(|t| t.name == table.name) {
                Some(old) if old.origin == crate::Origin::Derived => *old = table,
                Some(_) => return Err(Error::new(format!("table `{}` is observed and derived", table.name))),
                None => schema.tables.push(table),
            }
        }
        Ok(Self { source, derive, schema: Arc::new(schema) })
    }
}

impl Source for Derived {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn next(&mut self) -> Next<'_> {
        Box::pin(async move {
            let Some(mut tick) = self.source.next().await? else { return Ok(None) };
            let mine: Vec<_> =
                self.derive.tables().iter().filter_map(|t| self.schema.find_table(&t.name).ok()).collect();
            tick.batches.retain(|b| !mine.contains(&b.table));
            let mut rows = Rows::new(&self.schema, tick.at);
            self.derive.derive(&tick, &mut rows)?;
            for batch in rows.finish() {
                tick.add(batch);
            }
            Ok(Some(tick))
        })
    }
}

/// Drives a source to its end, giving each tick to every sink, and finishes the sinks whatever
/// happens.
///
/// # Errors
/// The first error of the source or of a sink.
pub async fn drive(source: &mut dyn Source, sinks: &mut [Box<dyn Sink>]) -> Result<()> {
    let outcome = pump(source, sinks).await;
    let mut finished = Ok(());
    for sink in sinks {
        finished = finished.and(sink.finish());
    }
    outcome.and(finished)
}

async fn pump(source: &mut dyn Source, sinks: &mut [Box<dyn Sink>]) -> Result<()> {
    let schema = Arc::clone(source.schema());
    while let Some(tick) = source.next().await? {
        for sink in sinks.iter_mut() {
            sink.accept(&schema, &tick)?;
        }
    }
    Ok(())
}
