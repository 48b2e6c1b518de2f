//! Screens and reports over ticks; knows only the schema.
