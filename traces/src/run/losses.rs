//! What was left out of a run because it is damaged.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;

/// What was left out while reading, in words; shared by a run and all that reads it.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses(Arc<Mutex<Vec<String>>>);

impl Losses {
    pub(super) fn note(&self, loss: String) {
        let mut losses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A part that is sought again is damaged still, and one loss.
        if !losses.contains(&loss) {
            losses.push(loss);
        }
    }

    pub(super) fn told(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What is said of a part that cannot be read.
pub(super) fn left_out(number: u64, error: &Error) -> String {
    format!("part {number} is damaged, what cannot be read of it is left out: {}", error.message)
}
