//! The run folder: ticks on disk, and back, bit for bit. The only code that knows the format.
//!
//! [`RunWriter`] is a sink that writes a run; [`Run`] opens one, and gives it back as a source of
//! ticks ([`Replay`], [`Follow`]), as Arrow rows ([`Run::rows`]) or as Parquet files
//! ([`Run::files`]). The layout is in `layout`, for users in `docs/trace-format.md`.
//!
//! Every tick is appended whole to one open segment before the writer takes the next, so a kill
//! costs no tick that was taken, and a loss of power the last second. The same rows are encoded
//! as Parquet in memory; every few minutes the Parquet files are put in place and the segment is
//! removed.

mod codec;
mod columns;
mod cursor;
mod follow;
mod layout;
mod losses;
mod meta;
mod open;
pub(crate) mod part;
mod prune;
mod read;
mod replay;
mod rows;
mod segment;
pub mod utc;
mod writer;

pub use follow::Follow;
pub use meta::{Anchor, FORMAT, Job, Machine, Meta};
pub use open::{Recovery, Run};
pub use prune::{Retention, prune};
pub use replay::Replay;
pub use rows::RowBatches;
pub use writer::{Limits, RunWriter, Written};
