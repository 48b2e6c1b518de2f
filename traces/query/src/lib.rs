//! SQL and data frames over run folders, on polars.
