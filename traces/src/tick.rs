//! Values in flow: columns, batches and ticks.

use crate::clock::Ts;
use crate::table::{Kind, Row, Schema, Table, TableId};
use crate::value::Symbol;

/// One column of values, all of one kind.
#[derive(Debug, Clone)]
pub enum Values {
    /// Never missing.
    Key(Vec<Symbol>),
    /// `None` is missing.
    Text(Vec<Option<Symbol>>),
    /// `None` is missing.
    Id(Vec<Option<u64>>),
    /// `None` is missing.
    Counter(Vec<Option<u64>>),
    /// NaN is missing.
    Gauge(Vec<f64>),
}

impl Values {
    /// An empty column.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        match kind {
            Kind::Key => Self::Key(Vec::new()),
            Kind::Text => Self::Text(Vec::new()),
            Kind::Id => Self::Id(Vec::new()),
            Kind::Counter => Self::Counter(Vec::new()),
            Kind::Gauge => Self::Gauge(Vec::new()),
        }
    }

    /// The kind of the column.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Key(_) => Kind::Key,
            Self::Text(_) => Kind::Text,
            Self::Id(_) => Kind::Id,
            Self::Counter(_) => Kind::Counter,
            Self::Gauge(_) => Kind::Gauge,
        }
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Key(v) => v.len(),
            Self::Text(v) => v.len(),
            Self::Id(v) | Self::Counter(v) => v.len(),
            Self::Gauge(v) => v.len(),
        }
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value as a number; missing and not-a-number columns give `None`.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for showing and for models; exact totals are read with `whole`")]
    pub fn number(&self, row: usize) -> Option<f64> {
        match self {
            Self::Gauge(v) => v.get(row).copied().filter(|x| !x.is_nan()),
            Self::Id(v) | Self::Counter(v) => v.get(row).copied().flatten().map(|x| x as f64),
            Self::Key(_) | Self::Text(_) => None,
        }
    }

    /// The exact value of an id or a counter.
    #[must_use]
    pub fn whole(&self, row: usize) -> Option<u64> {
        match self {
            Self::Id(v) | Self::Counter(v) => v.get(row).copied().flatten(),
            Self::Key(_) | Self::Text(_) | Self::Gauge(_) => None,
        }
    }

    /// The value of a key or a text.
    #[must_use]
    pub fn text(&self, row: usize) -> Option<&Symbol> {
        match self {
            Self::Key(v) => v.get(row),
            Self::Text(v) => v.get(row).and_then(Option::as_ref),
            Self::Id(_) | Self::Counter(_) | Self::Gauge(_) => None,
        }
    }

    fn append(&mut self, other: Self) {
        match (self, other) {
            (Self::Key(a), Self::Key(b)) => a.extend(b),
            (Self::Text(a), Self::Text(b)) => a.extend(b),
            (Self::Id(a), Self::Id(b)) | (Self::Counter(a), Self::Counter(b)) => a.extend(b),
            (Self::Gauge(a), Self::Gauge(b)) => a.extend(b),
            (a, b) => debug_assert!(false, "a {:?} column appended to a {:?} column", b.kind(), a.kind()),
        }
    }
}

/// Equal when every value is; a missing gauge equals a missing gauge, others compare bit for bit.
impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Key(a), Self::Key(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Id(a), Self::Id(b)) | (Self::Counter(a), Self::Counter(b)) => a == b,
            (Self::Gauge(a), Self::Gauge(b)) => {
                let same = |(x, y): (&f64, &f64)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
                a.len() == b.len() && a.iter().zip(b).all(same)
            }
            _ => false,
        }
    }
}

/// Consecutive rows of one table, column by column.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The table, a position in the schema.
    pub table: TableId,
    /// When each row was true.
    pub at: Vec<Ts>,
    /// The columns, in the order of the declaration, each as long as `at`.
    pub columns: Vec<Values>,
}

impl Batch {
    /// An empty batch of a table.
    #[must_use]
    pub fn new(id: TableId, table: &Table) -> Self {
        Self { table: id, at: Vec::new(), columns: table.columns.iter().map(|c| Values::new(c.kind)).collect() }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.at.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }
}

/// Everything that happened in one tick: the unit of derivation, drawing, recording and replay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tick {
    /// End of the tick; rows may carry earlier times.
    pub at: Ts,
    /// At most one batch a table.
    pub batches: Vec<Batch>,
}

impl Tick {
    /// The rows of a table, if the tick has any.
    #[must_use]
    pub fn batch(&self, table: TableId) -> Option<&Batch> {
        self.batches.iter().find(|b| b.table == table)
    }

    /// Number of rows in all tables.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.batches.iter().map(Batch::len).sum()
    }

    /// Adds a batch; rows of a table that is there already are appended to it.
    pub fn add(&mut self, batch: Batch) {
        if batch.is_empty() {
            return;
        }
        match self.batches.iter_mut().find(|b| b.table == batch.table) {
            Some(mine) => {
                mine.at.extend(batch.at);
                for (mine, theirs) in mine.columns.iter_mut().zip(batch.columns) {
                    mine.append(theirs);
                }
            }
            None => self.batches.push(batch),
        }
    }
}

/// Rows being gathered for one tick, by a collector or a derivation.
#[derive(Debug)]
pub struct Rows<'a> {
    schema: &'a Schema,
    at: Ts,
    batches: Vec<Batch>,
    undeclared: Vec<&'static str>,
}

impl<'a> Rows<'a> {
    /// No rows yet, at a time.
    #[must_use]
    pub fn new(schema: &'a Schema, at: Ts) -> Self {
        Self { schema, at, batches: Vec::new(), undeclared: Vec::new() }
    }

    /// The time that [`Rows::push`] gives to a row.
    #[must_use]
    pub fn at(&self) -> Ts {
        self.at
    }

    /// Appends a row that is true now.
    pub fn push<R: Row>(&mut self, row: R) {
        self.push_at(self.at, row);
    }

    /// Appends a row that was true at another time.
    pub fn push_at<R: Row>(&mut self, at: Ts, row: R) {
        let Ok(id) = self.schema.find_table(R::NAME) else {
            if !self.undeclared.contains(&R::NAME) {
                self.undeclared.push(R::NAME);
            }
            return;
        };
        let position = self.batches.iter().position(|b| b.table == id).unwrap_or_else(|| {
            self.batches.push(Batch::new(id, self.schema.table(id)));
            self.batches.len() - 1
        });
        self.batches[position].at.push(at);
        row.push(&mut self.batches[position].columns);
    }

    /// Tables that rows were pushed for without being in the schema: a mistake of the caller,
    /// reported by whoever drives it.
    #[must_use]
    pub fn undeclared(&self) -> &[&'static str] {
        &self.undeclared
    }

    /// The batches gathered.
    #[must_use]
    pub fn finish(self) -> Vec<Batch> {
        self.batches
    }
}
