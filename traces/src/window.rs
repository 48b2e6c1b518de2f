//! The last seconds of a run in memory: the latest row of each entity, and series whose counters
//! have become rates. Rates are derived here and nowhere else.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::clock::Ts;
use crate::table::{ColumnRef, Kind, Schema, TableId};
use crate::tick::{Tick, Values};
use crate::value::Symbol;

/// The key cells of a row: which device, which process.
pub type Entity = Vec<Symbol>;

/// Rows of one entity, oldest first.
#[derive(Debug)]
struct History {
    at: VecDeque<Ts>,
    rows: VecDeque<Vec<Value>>,
}

/// One remembered cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Null.
    Missing,
    /// A gauge.
    Number(f64),
    /// An id or a counter, exact.
    Whole(u64),
    /// A key or a text.
    Text(Symbol),
}

impl Value {
    fn of(values: &Values, row: usize) -> Self {
        match values {
            Values::Gauge(_) => values.number(row).map_or(Self::Missing, Self::Number),
            Values::Id(_) | Values::Counter(_) => values.whole(row).map_or(Self::Missing, Self::Whole),
            Values::Key(_) | Values::Text(_) => values.text(row).cloned().map_or(Self::Missing, Self::Text),
        }
    }

    /// The value as a number.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for showing and for models")]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(x) => Some(*x),
            Self::Whole(x) => Some(*x as f64),
            Self::Missing | Self::Text(_) => None,
        }
    }

    /// The value as a text.
    #[must_use]
    pub fn text(&self) -> Option<&Symbol> {
        match self {
            Self::Text(x) => Some(x),
            Self::Missing | Self::Number(_) | Self::Whole(_) => None,
        }
    }
}

/// The rows of the last `span`, by table and entity. Entities that sent nothing for a span are
/// forgotten, so memory is bounded by what is alive.
#[derive(Debug)]
pub struct Window {
    span: Duration,
    keys: Vec<Vec<usize>>,
    kinds: Vec<Vec<Kind>>,
    tables: Vec<BTreeMap<Entity, History>>,
    now: Ts,
}

impl Window {
    /// An empty window over a schema.
    #[must_use]
    pub fn new(schema: &Schema, span: Duration) -> Self {
        Self {
            span,
            keys: schema.tables.iter().map(|t| t.keys().collect()).collect(),
            kinds: schema.tables.iter().map(|t| t.columns.iter().map(|c| c.kind).collect()).collect(),
            tables: schema.tables.iter().map(|_| BTreeMap::new()).collect(),
            now: Ts::default(),
        }
    }

    /// End of the latest tick.
    #[must_use]
    pub fn now(&self) -> Ts {
        self.now
    }

    /// Takes a tick in and lets the oldest rows go.
    pub fn accept(&mut self, tick: &Tick) {
        self.now = tick.at;
        for batch in &tick.batches {
            let Some(table) = self.tables.get_mut(batch.table.0) else { continue };
            let keys = &self.keys[batch.table.0];
            for row in 0..batch.len() {
                let entity = keys.iter().filter_map(|&k| batch.columns[k].text(row).cloned()).collect();
                let history =
                    table.entry(entity).or_insert_with(|| History { at: VecDeque::new(), rows: VecDeque::new() });
                history.at.push_back(batch.at[row]);
                history.rows.push_back(batch.columns.iter().map(|c| Value::of(c, row)).collect());
            }
        }
        let span = i64::try_from(self.span.as_nanos()).unwrap_or(i64::MAX);
        for table in &mut self.tables {
            table.retain(|_, history| {
                while history.at.front().is_some_and(|at| tick.at.since(*at) > span) {
                    history.at.pop_front();
                    history.rows.pop_front();
                }
                !history.at.is_empty()
            });
        }
    }

    /// The entities of a table that are in the window, in order of their keys.
    pub fn entities(&self, table: TableId) -> impl Iterator<Item = &Entity> {
        self.tables[table.0].keys()
    }

    /// The latest cell of an entity.
    #[must_use]
    pub fn latest(&self, column: ColumnRef, entity: &[Symbol]) -> Option<(Ts, &Value)> {
        let history = self.tables[column.table.0].get(entity)?;
        Some((*history.at.back()?, history.rows.back()?.get(column.column)?))
    }

    /// The latest number of an entity: a gauge or id as it is, a counter as its rate per second.
    #[must_use]
    pub fn number(&self, column: ColumnRef, entity: &[Symbol]) -> Option<f64> {
        let history = self.tables[column.table.0].get(entity)?;
        let last = history.at.len().checked_sub(1)?;
        self.at_row(history, column, last)
    }

    /// The series of an entity; missing values are NaN and counters are rates per second.
    #[must_use]
    pub fn series(&self, column: ColumnRef, entity: &[Symbol]) -> Vec<(Ts, f64)> {
        let Some(history) = self.tables[column.table.0].get(entity) else { return Vec::new() };
        (0..history.at.len()).map(|i| (history.at[i], self.at_row(history, column, i).unwrap_or(f64::NAN))).collect()
    }

    fn at_row(&self, history: &History, column: ColumnRef, row: usize) -> Option<f64> {
        let value = history.rows[row].get(column.column)?;
        if self.kinds[column.table.0][column.column] != Kind::Counter {
            return value.number();
        }
        let before = row.checked_sub(1)?;
        rate((history.at[before], history.rows[before].get(column.column)?), (history.at[row], value))
    }
}

/// Increase per second between two readings of a counter; a fall is a reset, and the rate there
/// is missing.
#[expect(clippy::cast_precision_loss, reason = "the difference is exact; only the rate is rounded")]
fn rate(before: (Ts, &Value), after: (Ts, &Value)) -> Option<f64> {
    let (Value::Whole(a), Value::Whole(b)) = (before.1, after.1) else { return None };
    let seconds = after.0.seconds_since(before.0);
    (seconds > 0.0 && b >= a).then(|| (b - a) as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::{Bytes, Ratio};
    use crate::{Counter, Gauge, Key, Row, Rows, table};

    table! {
        /// A disk.
        pub(crate) disk: DiskRow {
            /// Name.
            device: Key,
            /// Bytes read.
            read: Counter<Bytes>,
            /// Busy.
            busy: Gauge<Ratio>,
        }
    }

    fn tick(schema: &Schema, second: i64, read: u64) -> Tick {
        let at = Ts(second * 1_000_000_000);
        let mut rows = Rows::new(schema, at);
        rows.push(DiskRow { device: "sda".into(), read: read.into(), busy: Gauge::default() });
        Tick { at, batches: rows.finish() }
    }

    #[test]
    fn counters_become_rates_and_a_reset_is_missing() {
        let schema = Schema::new(vec![DiskRow::table()]).unwrap();
        let mut window = Window::new(&schema, Duration::from_secs(60));
        for (second, read) in [(0, 100), (1, 300), (2, 50), (3, 60)] {
            window.accept(&tick(&schema, second, read));
        }
        let read = schema.find("disk.read").unwrap();
        let values: Vec<f64> = window.series(read, &["sda".into()]).into_iter().map(|(_, v)| v).collect();
        assert!(values[0].is_nan() && values[2].is_nan());
        assert_eq!((values[1], values[3]), (200.0, 10.0));
        assert_eq!(window.number(schema.find("disk.busy").unwrap(), &["sda".into()]), None);
    }

    #[test]
    fn what_sends_nothing_is_forgotten() {
        let schema = Schema::new(vec![DiskRow::table()]).unwrap();
        let mut window = Window::new(&schema, Duration::from_secs(2));
        window.accept(&tick(&schema, 0, 1));
        window.accept(&Tick { at: Ts(10_000_000_000), batches: Vec::new() });
        assert_eq!(window.entities(TableId(0)).count(), 0);
    }
}
