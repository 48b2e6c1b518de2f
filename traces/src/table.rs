//! Declarations: what a table is, stated once, and the schema that travels with the data.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::tick::Values;
use crate::unit::Unit;

/// How a column is stored, differenced and drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Part of the identity of the row's entity.
    Key,
    /// A label.
    Text,
    /// A whole number that is neither added nor differenced.
    Id,
    /// A raw total that only grows; one that falls was reset.
    Counter,
    /// A value that goes up and down.
    Gauge,
}

/// Whether rows were seen or concluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Read from the machine or the job.
    Observed,
    /// Concluded from other rows; can be hidden on replay and concluded anew.
    Derived,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Name, unique in the table; it says the quantity, the unit says the unit.
    pub name: Cow<'static, str>,
    /// How it is stored, differenced and drawn.
    pub kind: Kind,
    /// Unit of the values.
    pub unit: Unit,
    /// One sentence or more.
    pub doc: Cow<'static, str>,
}

/// One table: a singular noun, and its columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Name, unique in the schema.
    pub name: Cow<'static, str>,
    /// Seen or concluded.
    pub origin: Origin,
    /// One sentence or more.
    pub doc: Cow<'static, str>,
    /// The columns, keys first.
    pub columns: Vec<Column>,
}

impl Table {
    /// Positions of the key columns.
    pub fn keys(&self) -> impl Iterator<Item = usize> + '_ {
        self.columns.iter().enumerate().filter(|(_, c)| c.kind == Kind::Key).map(|(i, _)| i)
    }
}

/// The position of a table in its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub usize);

/// A column found in a schema: bind once by name, then read by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnRef {
    /// The table.
    pub table: TableId,
    /// Position of the column in the table.
    pub column: usize,
}

/// All tables of a run. It travels inside the trace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Schema {
    /// The tables; a [`TableId`] is a position here.
    pub tables: Vec<Table>,
}

/// A row type made by [`table!`](crate::table).
pub trait Row: Sized {
    /// Name of the table.
    const NAME: &'static str;
    /// The declaration as data.
    fn table() -> Table;
    /// Appends the cells to the table's columns.
    fn push(self, columns: &mut [Values]);
}

impl Schema {
    /// A schema of the given tables; a name that comes twice is an error.
    ///
    /// # Errors
    /// When two tables have the same name.
    pub fn new(tables: Vec<Table>) -> Result<Self> {
        let mut schema = Self::default();
        for table in tables {
            schema.add(table)?;
        }
        Ok(schema)
    }

    /// Adds one table.
    ///
    /// # Errors
    /// When the name is taken.
    pub fn add(&mut self, table: Table) -> Result<TableId> {
        if self.tables.iter().any(|t| t.name == table.name) {
            return Err(Error::new(format!("table `{}` is declared twice", table.name)));
        }
        self.tables.push(table);
        Ok(TableId(self.tables.len() - 1))
    }

    /// The table at a position.
    #[must_use]
    pub fn table(&self, id: TableId) -> &Table {
        &self.tables[id.0]
    }

    /// The column at a position.
    #[must_use]
    pub fn column(&self, column: ColumnRef) -> &Column {
        &self.tables[column.table.0].columns[column.column]
    }

    /// Position of a table, by name.
    ///
    /// # Errors
    /// When there is none; the hint names the nearest.
    pub fn find_table(&self, name: &str) -> Result<TableId> {
        match self.tables.iter().position(|t| t.name == name) {
            Some(index) => Ok(TableId(index)),
            None => Err(missing("table", name, self.tables.iter().map(|t| t.name.to_string()))),
        }
    }

    /// Position of a column, by its path `table.column`.
    ///
    /// # Errors
    /// When there is none; the hint names the nearest.
    pub fn find(&self, path: &str) -> Result<ColumnRef> {
        let found = path.split_once('.').and_then(|(table, column)| {
            let table = self.tables.iter().position(|t| t.name == table)?;
            let column = self.tables[table].columns.iter().position(|c| c.name == column)?;
            Some(ColumnRef { table: TableId(table), column })
        });
        found.ok_or_else(|| missing("column", path, self.paths()))
    }

    fn paths(&self) -> impl Iterator<Item = String> + '_ {
        self.tables.iter().flat_map(|t| t.columns.iter().map(move |c| format!("{}.{}", t.name, c.name)))
    }

    /// The reference of every table and column, as Markdown.
    #[must_use]
    pub fn reference(&self) -> String {
        let mut out = String::new();
        for table in &self.tables {
            let origin = if table.origin == Origin::Derived { " (derived)" } else { "" };
            let _ = writeln!(out, "\n## `{}`{origin}\n\n{}\n", table.name, table.doc);
            let _ = writeln!(out, "| column | kind | unit | meaning |\n|---|---|---|---|");
            for c in &table.columns {
                let kind = format!("{:?}", c.kind).to_lowercase();
                let unit = if c.unit == Unit::None { String::new() } else { format!("{:?}", c.unit).to_lowercase() };
                let _ = writeln!(out, "| `{}` | {kind} | {unit} | {} |", c.name, c.doc);
            }
        }
        out
    }
}

fn missing(what: &str, wanted: &str, names: impl Iterator<Item = String>) -> Error {
    let error = Error::new(format!("no {what} `{wanted}`"));
    let nearest = names.map(|name| (distance(wanted, &name), name)).min();
    match nearest {
        Some((d, name)) if d <= wanted.len() / 2 => error.hint(format!("did you mean `{name}`?")),
        _ => error,
    }
}

/// Levenshtein distance, over bytes: names are ASCII.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.bytes().enumerate() {
            let next = (diagonal + usize::from(ca != cb)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}

/// Declares a table: its row type, schema, units and documentation.
///
/// `pub derived name: NameRow { … }` declares a table of conclusions.
#[macro_export]
macro_rules! table {
    ($(#[doc = $doc:literal])+ $vis:vis derived $name:ident : $Row:ident { $($body:tt)* }) => {
        $crate::table!(@declare Derived, [$($doc),+], $vis, $name, $Row, { $($body)* });
    };
    ($(#[doc = $doc:literal])+ $vis:vis $name:ident : $Row:ident { $($body:tt)* }) => {
        $crate::table!(@declare Observed, [$($doc),+], $vis, $name, $Row, { $($body)* });
    };
    (@declare $origin:ident, [$($doc:literal),+], $vis:vis, $name:ident, $Row:ident, {
        $($(#[doc = $fdoc:literal])+ $field:ident : $ty:ty),+ $(,)?
    }) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Default)]
        $vis struct $Row {
            $($(#[doc = $fdoc])+ pub $field: $ty,)+
        }

        impl $crate::Row for $Row {
            const NAME: &'static str = stringify!($name);

            fn table() -> $crate::Table {
                $crate::Table {
                    name: stringify!($name).into(),
                    origin: $crate::Origin::$origin,
                    doc: concat!($($doc),+).trim().into(),
                    columns: vec![$($crate::Column {
                        name: stringify!($field).into(),
                        kind: <$ty as $crate::Cell>::KIND,
                        unit: <$ty as $crate::Cell>::UNIT,
                        doc: concat!($($fdoc),+).trim().into(),
                    },)+],
                }
            }

            fn push(self, columns: &mut [$crate::Values]) {
                let mut columns = columns.iter_mut();
                $(if let Some(column) = columns.next() {
                    $crate::Cell::store(self.$field, column);
                })+
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::{Bytes, Ratio};
    use crate::{Counter, Gauge, Key};

    table! {
        /// Block-device activity,
        /// one row per device.
        pub(crate) disk: DiskRow {
            /// Kernel name.
            device: Key,
            /// Bytes read since boot.
            read_bytes: Counter<Bytes>,
        }
    }

    table! {
        /// Shares.
        pub(crate) derived stall: StallRow {
            /// The cause.
            cause: Key,
            /// The share.
            share: Gauge<Ratio>,
        }
    }

    #[test]
    fn one_declaration_gives_names_units_docs_and_origin() {
        let table = DiskRow::table();
        assert_eq!((table.name.as_ref(), table.origin), ("disk", Origin::Observed));
        assert_eq!(table.doc, "Block-device activity, one row per device.");
        assert_eq!(table.columns[1].unit, Unit::Bytes);
        assert_eq!(StallRow::table().origin, Origin::Derived);
    }

    #[test]
    fn a_misspelt_path_names_the_nearest() {
        let schema = Schema::new(vec![DiskRow::table(), StallRow::table()]).unwrap();
        let error = schema.find("stall.shaer").unwrap_err();
        assert_eq!(error.message, "no column `stall.shaer`");
        assert_eq!(error.hint.as_deref(), Some("did you mean `stall.share`?"));
        assert_eq!(schema.find("disk.read_bytes").unwrap(), ColumnRef { table: TableId(0), column: 1 });
    }

    #[test]
    fn a_table_declared_twice_is_refused() {
        assert!(Schema::new(vec![DiskRow::table(), DiskRow::table()]).is_err());
    }
}
