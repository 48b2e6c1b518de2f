//! Tables bound by name. All of them, and all of their columns, may be missing.

use feedline_traces::{Schema, Symbol, TableId, Tick, Ts};

use crate::cells::Cells;

/// A table and the positions of some of its columns.
#[derive(Debug, Clone)]
pub(crate) struct At<const N: usize> {
    table: TableId,
    pub(crate) columns: [Option<usize>; N],
}

impl<const N: usize> At<N> {
    /// Looks a table up, and as many of the columns as it has.
    pub(crate) fn bind(schema: &Schema, table: &str, columns: [&str; N]) -> Option<Self> {
        let column = |name: &str| schema.find(&format!("{table}.{name}")).ok().map(|found| found.column);
        Some(Self { table: schema.find_table(table).ok()?, columns: columns.map(column) })
    }

    /// The rows that a tick has of it.
    pub(crate) fn rows<'a>(&self, tick: &'a Tick) -> impl Iterator<Item = Line<'a>> + use<'a, N> {
        Cells::all(tick.batch(self.table)).map(Line)
    }
}

/// One row; a cell of a column that is not there is missing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a>(Cells<'a>);

impl<'a> Line<'a> {
    pub(crate) fn at(self) -> Ts {
        self.0.batch.at[self.0.row]
    }

    pub(crate) fn text(self, column: Option<usize>) -> Option<&'a Symbol> {
        self.0.text(column?)
    }

    /// A finite number.
    pub(crate) fn number(self, column: Option<usize>) -> Option<f64> {
        self.0.number(column?)
    }

    /// The exact value of an id or a counter; a gauge that counts, rounded.
    pub(crate) fn whole(self, column: Option<usize>) -> Option<u64> {
        self.0.whole(column?)
    }
}
