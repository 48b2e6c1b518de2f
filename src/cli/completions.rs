//! `feedline completions`: a shell's completions, made from the same definitions as the help.

use clap::Command;
use clap_complete::{Shell, generate};

use super::{Outcome, output};

/// Arguments of `feedline completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "For bash: feedline completions bash > ~/.local/share/bash-completion/completions/feedline")]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

impl Args {
    pub(super) fn run(self, command: &mut Command) -> Outcome {
        let mut out = Vec::new();
        generate(self.shell, command, "feedline", &mut out);
        Ok(output::text(&String::from_utf8_lossy(&out))?)
    }
}
