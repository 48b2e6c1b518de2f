//! `feedline man`: the manual page, made from the same definitions as the help.

use clap::Command;
use feedline_traces::Error;

use super::{Outcome, output};

/// Arguments of `feedline man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "To read it: feedline man | man -l -   Each verb has its own: feedline man record | man -l -")]
pub(super) struct Args {
    /// The verb to print the page of; without one, the program's
    verb: Option<String>,
}

impl Args {
    pub(super) fn run(self, command: Command) -> Outcome {
        let command = match &self.verb {
            None => command,
            Some(verb) => {
                let found = command.get_subcommands().find(|c| c.get_name() == verb && !c.is_hide_set()).cloned();
                found.ok_or_else(|| Error::new(format!("no verb `{verb}`")).hint("feedline --help lists them"))?
            }
        };
        let mut out = Vec::new();
        clap_mangen::Man::new(command).render(&mut out).map_err(|cause| Error::io("manual page", &cause))?;
        Ok(output::text(&String::from_utf8_lossy(&out))?)
    }
}
