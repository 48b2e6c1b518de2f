//! `feedline query`: a recorded run in SQL.

use std::path::PathBuf;

use clap::ValueEnum;

use super::Outcome;

/// Arguments of `feedline query`.
#[derive(Debug, clap::Args)]
#[command(after_help = "For example:
  feedline query \"SELECT cause, avg(share) AS share FROM stall GROUP BY cause ORDER BY share DESC\"")]
pub(super) struct Args {
    /// The question; without one the tables are listed
    sql: Option<String>,
    /// The run folder; a folder of runs means the newest in it
    #[arg(long, value_name = "DIR", default_value = "runs")]
    run: PathBuf,
    /// Ask all runs of the folder at once; each table then has a column `run`
    #[arg(long)]
    all: bool,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Style::Table)]
    format: Style,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Style {
    /// Aligned columns
    Table,
    /// Comma-separated values
    Csv,
    /// A list of objects
    Json,
}

#[cfg(not(feature = "query"))]
impl Args {
    pub(super) fn run(self, _json: bool) -> Outcome {
        let error = feedline_traces::Error::new("this build has no SQL")
            .hint("build it with `cargo build --features query`, or read the Parquet files with any tool");
        Err(error.into())
    }
}

#[cfg(feature = "query")]
impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        use super::output;
        use crate::chain;
        use feedline_traces::run::Run;
        use feedline_traces::{Error, Result};

        // A run that is being written, or was cut short, has rows that are not in Parquet yet.
        let closed = |dir: PathBuf, hold: &mut Vec<tempfile::TempDir>| -> Result<PathBuf> {
            let run = Run::open(&dir)?;
            if run.recovery().ticks == 0 {
                return Ok(dir);
            }
            let copy = tempfile::tempdir().map_err(|cause| Error::io("temporary folder", &cause))?;
            let name = dir.file_name().unwrap_or(dir.as_os_str()).to_owned();
            run.snapshot(copy.path().join(&name))?;
            hold.push(copy);
            Ok(hold[hold.len() - 1].path().join(name))
        };
        let mut hold = Vec::new();
        let folders = if self.all { chain::find_runs(&self.run)? } else { vec![chain::find_run(&self.run)?] };
        let folders = folders.into_iter().map(|dir| closed(dir, &mut hold)).collect::<Result<Vec<_>>>()?;
        let runs = feedline_query::Runs::open(&folders)?;
        let Some(sql) = &self.sql else {
            return Ok(list(&runs.tables()?, json)?);
        };
        let answer = runs.sql(sql)?;
        if answer.cut {
            output::note(&format!("note: only the first {} rows are shown", answer.rows.len()));
        }
        Ok(output::text(&match self.format {
            _ if json => answer.json(),
            Style::Json => answer.json(),
            Style::Csv => answer.csv(),
            Style::Table => answer.to_string(),
        })?)
    }
}

#[cfg(feature = "query")]
fn list(tables: &[feedline_query::Contents], json: bool) -> feedline_traces::Result<()> {
    use super::output;
    if json {
        let listed: Vec<_> = tables
            .iter()
            .map(|t| {
                let columns: serde_json::Map<_, _> =
                    t.columns.iter().map(|(name, kind)| (name.clone(), kind.clone().into())).collect();
                serde_json::json!({ "table": t.table, "rows": t.rows, "columns": columns })
            })
            .collect();
        return output::json(&listed);
    }
    let mut rows = vec![["TABLE", "ROWS", "COLUMNS"].map(str::to_owned).to_vec()];
    for table in tables {
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
        rows.push(vec![table.table.clone(), table.rows.to_string(), names.join(" ")]);
    }
    output::text(&output::columns(&rows))
}
