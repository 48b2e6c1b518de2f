//! A place in a run, closed or open: parts in order, then the open segment as far as it goes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::layout;
use super::losses::{Losses, left_out};
use super::read::{self, PartReader};
use super::segment::{Found, SegmentReader};
use crate::clock::Ts;
use crate::error::Result;
use crate::table::{Schema, Table, TableId};
use crate::tick::Tick;

/// Before every tick.
pub(super) const FIRST: Ts = Ts(i64::MIN);

/// Reads ticks in order.
pub(super) struct Cursor {
    folder: PathBuf,
    /// The tables on disk.
    stored: Arc<Schema>,
    fingerprint: u32,
    /// The tables of the ticks it yields, and where each stored one is among them.
    schema: Arc<Schema>,
    shown: Arc<[Option<TableId>]>,
    unit: Option<(u64, Unit)>,
    next: u64,
    from: Ts,
    /// Where damaged parts are noted; without it they are errors.
    losses: Option<Losses>,
}

enum Unit {
    Part(Box<PartReader>),
    Segment(Box<SegmentReader>),
}

impl Cursor {
    pub(super) fn new(folder: &Path, stored: &Arc<Schema>, fingerprint: u32, losses: Option<Losses>) -> Self {
        Self {
            folder: folder.to_path_buf(),
            stored: Arc::clone(stored),
            fingerprint,
            schema: Arc::clone(stored),
            shown: (0..stored.tables.len()).map(|i| Some(TableId(i))).collect(),
            unit: None,
            next: 0,
            from: FIRST,
            losses,
        }
    }

    /// Shows these tables alone.
    pub(super) fn showing(&mut self, wanted: impl Fn(&Table) -> bool) {
        let mut tables = Vec::new();
        let mut shown = Vec::new();
        for table in &self.stored.tables {
            let wanted = wanted(table);
            shown.push(wanted.then_some(TableId(tables.len())));
            if wanted {
                tables.push(table.clone());
            }
        }
        self.schema = Arc::new(Schema { tables });
        self.shown = shown.into();
        self.unit = None;
    }

    pub(super) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Moves before the first tick that ends at `at` or later, forward or back.
    pub(super) fn seek(&mut self, at: Ts) -> Result<()> {
        self.unit = None;
        self.from = at;
        self.next = 0;
        for number in layout::units(&self.folder)? {
            let closed = !layout::segment(&self.folder, number).exists();
            let extent = if closed { read::extent(&self.folder, number) } else { Ok(None) };
            let extent = if self.losses.is_some() { extent.unwrap_or_default() } else { extent? };
            if extent.and_then(|e| e.span).is_none_or(|(_, last)| last >= at) {
                break;
            }
            self.next = number + 1;
        }
        Ok(())
    }

    /// Lets every tick pass from here on, whatever was sought.
    pub(super) fn any(&mut self) {
        self.from = FIRST;
    }

    /// The next tick; `None` when there is no more for now.
    pub(super) fn next(&mut self) -> Result<Option<Tick>> {
        loop {
            let Some((number, unit)) = &mut self.unit else {
                if self.open()? {
                    continue;
                }
                return Ok(None);
            };
            let number = *number;
            match unit {
                Unit::Part(part) => match (part.next(self.from), &self.losses) {
                    (Ok(Some(tick)), _) => {
                        self.from = FIRST;
                        return Ok(Some(tick));
                    }
                    (Ok(None), _) => {}
                    (Err(error), Some(losses)) => losses.note(left_out(number, &error)),
                    (Err(error), None) => return Err(error),
                },
                Unit::Segment(segment) => {
                    let mut found = segment.next()?;
                    if !matches!(found, Found::Tick(..)) {
                        if !is_closed(&self.folder, number)? {
                            return Ok(None);
                        }
                        // What was appended between the two looks.
                        found = segment.next()?;
                    }
                    match found {
                        Found::Tick(_, tick) if tick.at < self.from => continue,
                        Found::Tick(_, tick) => {
                            self.from = FIRST;
                            return Ok(Some(self.show(tick)));
                        }
                        Found::End | Found::Torn => {}
                    }
                }
            }
            self.unit = None;
            self.next = number + 1;
        }
    }

    fn open(&mut self) -> Result<bool> {
        let Some(number) = layout::units(&self.folder)?.into_iter().find(|n| *n >= self.next) else { return Ok(false) };
        let segment = SegmentReader::open(&self.folder, number, &self.stored, self.fingerprint)?;
        let unit = match segment {
            Some(segment) => Some(Unit::Segment(Box::new(segment))),
            None => {
                let part = PartReader::open(&self.folder, number, &self.stored, &self.shown, &self.losses);
                match (part, &self.losses) {
                    (Err(error), Some(losses)) => {
                        losses.note(left_out(number, &error));
                        self.next = number + 1;
                        return Ok(true);
                    }
                    (part, _) => part?.map(|part| Unit::Part(Box::new(part))),
                }
            }
        };
        let found = unit.is_some();
        self.unit = unit.map(|unit| (number, unit));
        Ok(found)
    }

    fn show(&self, mut tick: Tick) -> Tick {
        tick.batches.retain_mut(|batch| {
            let shown = self.shown.get(batch.table.0).copied().flatten();
            batch.table = shown.unwrap_or(batch.table);
            shown.is_some()
        });
        tick
    }
}

/// Whether the writer is done with a segment.
fn is_closed(folder: &Path, number: u64) -> Result<bool> {
    if !layout::segment(folder, number).exists() {
        return Ok(true);
    }
    Ok(layout::units(folder)?.into_iter().any(|n| n > number))
}
