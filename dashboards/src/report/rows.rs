//! The rows of a tick, and what is kept of them.

use std::collections::BTreeMap;

use feedline_traces::{Batch, Schema, Tick};

/// Reasons, causes and collectors kept.
pub(super) const NAMES: usize = 1024;

/// The rows of one batch, by the names of columns.
pub(crate) struct RowsOf<'a> {
    schema: &'a Schema,
    table: &'static str,
    batch: &'a Batch,
}

impl<'a> RowsOf<'a> {
    pub(crate) fn of(schema: &'a Schema, tick: &'a Tick, table: &'static str) -> Option<Self> {
        Some(Self { schema, table, batch: tick.batch(schema.find_table(table).ok()?)? })
    }

    fn values(&self, column: &str) -> Option<&feedline_traces::Values> {
        let column = self.schema.find(&format!("{}.{column}", self.table)).ok()?;
        self.batch.columns.get(column.column)
    }

    pub(crate) fn len(&self) -> usize {
        self.batch.len()
    }

    pub(crate) fn text(&self, row: usize, column: &str) -> Option<String> {
        Some(self.values(column)?.text(row)?.to_string())
    }

    pub(crate) fn number(&self, row: usize, column: &str) -> Option<f64> {
        self.values(column)?.number(row).filter(|x| x.is_finite())
    }
}

/// Changes what is kept under a key, unless it is new and there is no room.
pub(crate) fn keep<K: Ord, V: Default>(map: &mut BTreeMap<K, V>, key: K, change: impl FnOnce(&mut V)) {
    if map.len() < NAMES || map.contains_key(&key) {
        change(map.entry(key).or_default());
    }
}
