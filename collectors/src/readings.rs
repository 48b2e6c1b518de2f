//! What a collector reads, for tests to look at by name.

use std::sync::Arc;
use std::time::Duration;

use feedline_traces::window::{Value, Window};
use feedline_traces::{Collector, Row as _, Rows, Schema, SimClock, Symbol, Tick, Ts};

use crate::absent::AbsentRow;
use crate::{Context, Host};

/// A captured machine, and a clock that stands still.
pub(crate) fn captured(root: impl Into<std::path::PathBuf>) -> Context {
    Context::new(Host::at(root), Arc::new(SimClock::new(Ts(1_000_000_000))))
}

/// The rows of one or more readings.
pub(crate) struct Readings {
    schema: Schema,
    window: Window,
    at: i64,
}

impl Readings {
    /// Reads once.
    pub(crate) fn of(collector: &mut dyn Collector) -> Self {
        let mut schema = Schema::new(vec![AbsentRow::table()]).unwrap();
        for table in collector.tables() {
            if table.name != "absent" {
                schema.add(table).unwrap();
            }
        }
        let window = Window::new(&schema, Duration::from_secs(3600));
        let mut readings = Self { schema, window, at: 0 };
        readings.again(collector);
        readings
    }

    /// Reads once more, a second later.
    pub(crate) fn again(&mut self, collector: &mut dyn Collector) {
        self.at += 1_000_000_000;
        let mut rows = Rows::new(&self.schema, Ts(self.at));
        collector.collect(&mut rows).unwrap();
        assert_eq!(rows.undeclared(), [] as [&str; 0]);
        self.window.accept(&Tick { at: Ts(self.at), batches: rows.finish() });
    }

    /// The latest value of a column, by the keys of its row.
    pub(crate) fn cell(&self, path: &str, entity: &[&str]) -> Value {
        let entity: Vec<Symbol> = entity.iter().map(|&s| s.into()).collect();
        let cell = self.window.latest(self.schema.find(path).unwrap(), &entity);
        cell.unwrap_or_else(|| panic!("no row of `{path}` for {entity:?}")).1.clone()
    }

    /// The latest value as an exact whole number.
    pub(crate) fn whole(&self, path: &str, entity: &[&str]) -> Option<u64> {
        if let Value::Whole(value) = self.cell(path, entity) { Some(value) } else { None }
    }

    /// The latest value as a number.
    pub(crate) fn number(&self, path: &str, entity: &[&str]) -> Option<f64> {
        self.cell(path, entity).number()
    }

    /// The latest value as a text.
    pub(crate) fn text(&self, path: &str, entity: &[&str]) -> Option<String> {
        self.cell(path, entity).text().map(|text| text.to_string())
    }

    /// The keys of the rows of a table, joined by spaces.
    pub(crate) fn entities(&self, table: &str) -> Vec<String> {
        self.window.entities(self.schema.find_table(table).unwrap()).map(|keys| keys.join(" ")).collect()
    }

    /// Why a value is missing, where a reason was given.
    pub(crate) fn reason(&self, what: &str, entity: &str) -> Option<String> {
        let entity: Vec<Symbol> = vec![what.into(), entity.into()];
        let reason = self.window.latest(self.schema.find("absent.reason").unwrap(), &entity)?;
        reason.1.text().map(|text| text.to_string())
    }
}
