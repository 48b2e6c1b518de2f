//! Tables, ticks, flow and the run folder: the narrow waist of Feedline.
//!
//! Everything else in Feedline depends on this crate and this crate on none of it. A table is
//! declared once, beside the code that fills it:
//!
//! ```
//! use feedline_traces::{Row as _, table, Key, Counter, unit::Bytes};
//! table! {
//!     /// Block-device activity, one row per device per tick.
//!     pub disk: DiskRow {
//!         /// Kernel name of the device.
//!         device: Key,
//!         /// Bytes read since boot.
//!         read_bytes: Counter<Bytes>,
//!     }
//! }
//! assert_eq!(DiskRow::table().columns[1].name, "read_bytes");
//! ```
//!
//! Rows become [`Batch`]es of columns, batches become [`Tick`]s, and ticks flow from a
//! [`Source`] through [`Derive`] steps into [`Sink`]s (see [`flow`]).

pub mod clock;
mod error;
pub mod export;
pub mod flow;
pub mod run;
mod table;
mod tick;
pub mod unit;
mod value;
pub mod window;

pub use clock::{Clock, SimClock, SystemClock, Ts};
pub use error::{Error, Result};
pub use flow::{Background, Collector, Derive, Derived, Next, Sink, Source, drive};
pub use table::{Column, ColumnRef, Kind, Origin, Row, Schema, Table, TableId};
pub use tick::{Batch, Rows, Tick, Values};
pub use value::{Cell, Counter, Gauge, Id, Key, Symbol, Text};
