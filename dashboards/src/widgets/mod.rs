//! Widgets: they draw values and names that they are given, and know of no table.

pub(crate) mod area;
pub(crate) mod bars;
pub(crate) mod grid;
pub(crate) mod lines;
pub(crate) mod look;
