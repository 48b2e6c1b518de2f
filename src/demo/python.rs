//! The demo's PyTorch job, and the search for an interpreter that can run it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A training script as people write them: a `DataLoader` with one worker, too slow for the step.
///
/// It takes `--data DIR --truth FILE --seconds N`, says `ready PID` when warm, and logs its truth.
pub const TRAIN_PY: &str = include_str!("train.py");

/// A Python that can run [`TRAIN_PY`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// What to start.
    pub program: PathBuf,
    /// The version of its PyTorch.
    pub torch: String,
}

/// The first of `programs` that imports PyTorch and Pillow; importing takes seconds.
#[must_use]
pub fn find(programs: &[&str]) -> Option<Python> {
    programs.iter().find_map(|program| {
        let asked = Command::new(program)
            .args(["-c", "import torch, numpy, PIL.Image; print(torch.__version__)"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let torch = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
        (asked.status.success() && !torch.is_empty()).then(|| Python { program: program.into(), torch })
    })
}

/// Where to look: the Python of the shell first, then the system's.
pub const PROGRAMS: &[&str] = &["python3", "/usr/bin/python3"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_or_says_nothing_is_no_python() {
        assert_eq!(find(&["/no/such/python3", "true", "false"]), None);
    }

    #[test]
    fn the_script_starts_its_timer_before_it_asks_for_a_batch() {
        let (timer, next) = (TRAIN_PY.find("fetch_start ="), TRAIN_PY.find("next(batches)"));
        assert!(timer.is_some() && timer < next);
    }
}
