//! Columns of a file, before it is said what they are.

use std::collections::BTreeMap;

use feedline_traces::{Error, Result};

/// Columns as they come from a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Raw {
    /// Numbers; NaN is missing.
    Numbers(Vec<f64>),
    /// Texts; an empty one is missing.
    Texts(Vec<String>),
}

impl Raw {
    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As numbers: a text that is none, or is not finite, is missing.
    #[must_use]
    pub fn numbers(&self) -> Vec<f64> {
        let finite = |v: f64| if v.is_finite() { v } else { f64::NAN };
        match self {
            Self::Numbers(values) => values.iter().map(|v| finite(*v)).collect(),
            Self::Texts(values) => values.iter().map(|v| v.trim().parse().map_or(f64::NAN, finite)).collect(),
        }
    }

    /// As texts.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::Numbers(values) => {
                values.iter().map(|v| if v.is_finite() { v.to_string() } else { String::new() }).collect()
            }
            Self::Texts(values) => values.iter().map(|v| v.trim().to_owned()).collect(),
        }
    }
}

/// A file's columns by name.
pub type Table = BTreeMap<String, Raw>;

/// A column by name.
///
/// # Errors
/// When there is none of this name; the hint says which there are.
pub fn column<'a>(table: &'a Table, name: &str) -> Result<&'a Raw> {
    table.get(name).ok_or_else(|| {
        let near: Vec<&str> = table.keys().map(String::as_str).take(100).collect();
        Error::new(format!("no column `{name}`")).hint(format!("the file has: {}", near.join(", ")))
    })
}
