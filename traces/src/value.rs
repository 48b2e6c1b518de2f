//! Cell types: what a column of a `table!` declaration can hold.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::table::Kind;
use crate::tick::Values;
use crate::unit::{Unit, UnitMarker};

/// A shared string.
pub type Symbol = Arc<str>;

/// A cell type: its kind, its unit, and how it is stored.
pub trait Cell: Default {
    /// How the column is stored, differenced and drawn.
    const KIND: Kind;
    /// The unit of the values.
    const UNIT: Unit;
    /// Appends the cell to its column.
    fn store(self, values: &mut Values);
}

/// Part of the identity of a row's entity: a device, a process, a cause. Never missing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub Symbol);

/// A label that can change or be missing: a state, a path, a reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text(pub Option<Symbol>);

/// A whole number that is neither added nor differenced: a pid, a rank. `None` is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Id(pub Option<u64>);

/// A raw total that only grows; one that falls was reset. `None` is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter<U>(pub Option<u64>, PhantomData<U>);

/// A value that goes up and down. NaN is missing.
#[derive(Debug, Clone, Copy)]
pub struct Gauge<U>(pub f64, PhantomData<U>);

impl Default for Key {
    fn default() -> Self {
        Self(Symbol::from(""))
    }
}

impl<U> Default for Counter<U> {
    fn default() -> Self {
        Self(None, PhantomData)
    }
}

impl<U> Default for Gauge<U> {
    fn default() -> Self {
        Self(f64::NAN, PhantomData)
    }
}

/// Stores a cell in the column of its kind. The columns of a batch come from the same
/// declaration as its rows, so another variant cannot occur.
macro_rules! store {
    ($values:expr, $variant:ident, $value:expr) => {
        match $values {
            Values::$variant(column) => column.push($value),
            other => debug_assert!(false, "a {} cell in a {:?} column", stringify!($variant), other.kind()),
        }
    };
}

impl Cell for Key {
    const KIND: Kind = Kind::Key;
    const UNIT: Unit = Unit::None;
    fn store(self, values: &mut Values) {
        store!(values, Key, self.0);
    }
}

impl Cell for Text {
    const KIND: Kind = Kind::Text;
    const UNIT: Unit = Unit::None;
    fn store(self, values: &mut Values) {
        store!(values, Text, self.0);
    }
}

impl Cell for Id {
    const KIND: Kind = Kind::Id;
    const UNIT: Unit = Unit::None;
    fn store(self, values: &mut Values) {
        store!(values, Id, self.0);
    }
}

impl<U: UnitMarker> Cell for Counter<U> {
    const KIND: Kind = Kind::Counter;
    const UNIT: Unit = U::UNIT;
    fn store(self, values: &mut Values) {
        store!(values, Counter, self.0);
    }
}

impl<U: UnitMarker> Cell for Gauge<U> {
    const KIND: Kind = Kind::Gauge;
    const UNIT: Unit = U::UNIT;
    fn store(self, values: &mut Values) {
        store!(values, Gauge, self.0);
    }
}

impl<T: Into<Symbol>> From<T> for Key {
    fn from(value: T) -> Self {
        Self(value.into())
    }
}

impl From<&str> for Text {
    fn from(value: &str) -> Self {
        Self(Some(value.into()))
    }
}

impl From<String> for Text {
    fn from(value: String) -> Self {
        Self(Some(value.into()))
    }
}

impl From<Symbol> for Text {
    fn from(value: Symbol) -> Self {
        Self(Some(value))
    }
}

impl<T: Into<Symbol>> From<Option<T>> for Text {
    fn from(value: Option<T>) -> Self {
        Self(value.map(Into::into))
    }
}

impl From<u64> for Id {
    fn from(value: u64) -> Self {
        Self(Some(value))
    }
}

impl From<u32> for Id {
    fn from(value: u32) -> Self {
        Self(Some(value.into()))
    }
}

impl From<Option<u64>> for Id {
    fn from(value: Option<u64>) -> Self {
        Self(value)
    }
}

impl From<Option<u32>> for Id {
    fn from(value: Option<u32>) -> Self {
        Self(value.map(u64::from))
    }
}

impl<U> From<u64> for Counter<U> {
    fn from(value: u64) -> Self {
        Self(Some(value), PhantomData)
    }
}

impl<U> From<Option<u64>> for Counter<U> {
    fn from(value: Option<u64>) -> Self {
        Self(value, PhantomData)
    }
}

impl<U> From<f64> for Gauge<U> {
    fn from(value: f64) -> Self {
        Self(value, PhantomData)
    }
}

impl<U> From<Option<f64>> for Gauge<U> {
    fn from(value: Option<f64>) -> Self {
        Self(value.unwrap_or(f64::NAN), PhantomData)
    }
}

#[expect(clippy::cast_precision_loss, reason = "gauges are shown, never differenced to the last bit")]
impl<U> From<u64> for Gauge<U> {
    fn from(value: u64) -> Self {
        Self(value as f64, PhantomData)
    }
}

impl<U> From<Option<u64>> for Gauge<U> {
    fn from(value: Option<u64>) -> Self {
        value.map_or_else(Self::default, Self::from)
    }
}
