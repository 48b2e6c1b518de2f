//! `feedline export`: a run's tables in other formats.

use std::path::PathBuf;

use clap::ValueEnum;
use feedline_traces::Error;
use feedline_traces::export::{self, Format};
use feedline_traces::run::Run;
use serde_json::json;

use super::{Failure, Outcome, output};
use crate::chain;

/// Arguments of `feedline export`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The run folder; a folder of runs means the newest in it
    #[arg(default_value = "runs")]
    run: PathBuf,
    /// The format
    #[arg(long, value_enum, default_value_t = Kind::Csv)]
    format: Kind,
    /// The table; without it all of them, a file each
    #[arg(long)]
    table: Option<String>,
    /// The folder to write into; `-` with --table writes to standard output
    #[arg(long, value_name = "DIR", default_value = "export")]
    out: PathBuf,
    /// Write over files that are there
    #[arg(long)]
    force: bool,
}

/// A format of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Comma-separated values
    Csv,
    /// One JSON object a line
    Jsonl,
    /// Apache Parquet
    Parquet,
    /// Apache Arrow IPC file
    Arrow,
}

impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        let to_output = self.out.as_os_str() == "-";
        if to_output && self.table.is_none() {
            let error = Error::new("--out -: standard output takes one table, and none is named");
            return Err(Failure::Usage(error.hint("--table stall, say; feedline query lists the tables of a run")));
        }
        let run = Run::open(&chain::find_run(&self.run)?)?;
        let format = match self.format {
            Kind::Csv => Format::Csv,
            Kind::Jsonl => Format::Jsonl,
            Kind::Parquet => Format::Parquet,
            Kind::Arrow => Format::Arrow,
        };
        if let (Some(table), true) = (&self.table, to_output) {
            let rows = run.rows(table)?;
            let id = run.schema().find_table(table)?;
            let mut out = output::Rows;
            return Ok(format.write(run.schema().table(id), rows, &mut out)?);
        }
        if !self.force && self.out.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            let error = Error::new(format!("{}: the folder is not empty", self.out.display()));
            return Err(error.hint("--out names another, --force writes over files of the same names").into());
        }
        let (files, mut failures) = export::export(&run, self.table.as_deref(), format, &self.out)?;
        if json {
            let failed: Vec<&str> = failures.iter().map(|error| error.message.as_str()).collect();
            output::json(&json!({ "files": files, "failed": failed }))?;
        } else if !files.is_empty() {
            let lines: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
            output::text(&lines.join("\n"))?;
        }
        let Some(last) = failures.pop() else { return Ok(()) };
        failures.iter().for_each(|error| output::note(&format!("error: {}", error.message)));
        Err(last.into())
    }
}
