//! Why a value is missing: rows that say so once, and again when the reason changes.

use std::collections::HashMap;

use feedline_traces::{Key, Rows, Symbol, Text, table};

table! {
    /// Why something cannot be known, written when that is first seen and when the reason changes.
    pub absent: AbsentRow {
        /// The column or table that stays null, such as `accelerator.sm_active`.
        what: Key,
        /// The device or process it would speak of; empty for all.
        entity: Key,
        /// The reason, and how to get it where that is possible; null when it is known again.
        reason: Text,
    }
}

/// Remembers which reasons were written.
#[derive(Debug, Default)]
pub struct Reasons {
    written: HashMap<(Symbol, Symbol), Option<Symbol>>,
}

impl Reasons {
    /// Writes a row if the reason for this value is not the one last written. `None` says that
    /// the value is there, and writes a row only if it was missing before.
    pub fn say(&mut self, out: &mut Rows<'_>, what: &str, entity: &str, reason: Option<&str>) {
        let id = (Symbol::from(what), Symbol::from(entity));
        let reason = reason.map(Symbol::from);
        if self.written.get(&id).unwrap_or(&None) == &reason {
            return;
        }
        out.push(AbsentRow { what: id.0.clone().into(), entity: id.1.clone().into(), reason: Text(reason.clone()) });
        self.written.insert(id, reason);
    }
}
