//! `feedline query`: a recorded run in SQL.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use feedline_traces::Error;

use super::{Failure, Outcome};

/// Arguments of `feedline query`.
#[derive(Debug, clap::Args)]
#[command(after_help = "For example:
  feedline query \"SELECT cause, round(avg(share), 3) AS share FROM stall GROUP BY cause ORDER BY share DESC\"
  feedline query runs/20261130-101500-host-train \"SELECT * FROM finding\"
  feedline query                                           the tables of the newest run and their columns")]
pub(super) struct Args {
    /// The run folder, as `--run` has it, and the question; without a question the tables are listed
    #[arg(value_name = "[RUN] SQL", num_args = 0..=2)]
    asked: Vec<String>,
    /// The run folder; a folder of runs means the newest in it [default: runs]
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
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

impl Args {
    /// The run that is meant and the question.
    fn meant(&self) -> Result<(PathBuf, Option<&str>), Failure> {
        let asked: Vec<&str> = self.asked.iter().map(String::as_str).collect();
        let (run, sql) = match asked[..] {
            [run, sql] => (Some(run), Some(sql)),
            // A question has blanks.
            [one] if Path::new(one).is_dir() || !one.contains(char::is_whitespace) => (Some(one), None),
            [sql] => (None, Some(sql)),
            _ => (None, None),
        };
        match (run, &self.run) {
            (Some(one), Some(other)) => {
                let error = Error::new(format!("two run folders: `{one}` and `{}`", other.display()));
                Err(Failure::Usage(error.hint("feedline query RUN SQL, or feedline query --run RUN SQL")))
            }
            (Some(run), None) => Ok((run.into(), sql)),
            (None, run) => Ok((run.clone().unwrap_or_else(|| "runs".into()), sql)),
        }
    }
}

#[cfg(not(feature = "query"))]
impl Args {
    pub(super) fn run(self, _json: bool) -> Outcome {
        self.meant()?;
        let error = Error::new("this build has no SQL")
            .hint("build it with `cargo build --features query`, or read the Parquet files with any tool");
        Err(error.into())
    }
}

#[cfg(feature = "query")]
impl Args {
    pub(super) fn run(self, json: bool) -> Outcome {
        use super::output;
        use crate::chain;
        use feedline_traces::Result;
        use feedline_traces::run::Run;

        let (place, sql) = self.meant()?;
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
        let folders = if self.all { chain::find_runs(&place)? } else { vec![chain::find_run(&place)?] };
        let folders = folders.into_iter().map(|dir| closed(dir, &mut hold)).collect::<Result<Vec<_>>>()?;
        let runs = feedline_query::Runs::open(&folders)?;
        let Some(sql) = sql else {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(asked: &[&str], run: Option<&str>) -> Result<(PathBuf, Option<String>), Failure> {
        let asked = asked.iter().map(|a| (*a).to_owned()).collect();
        let args = Args { asked, run: run.map(PathBuf::from), all: false, format: Style::Table };
        args.meant().map(|(run, sql)| (run, sql.map(str::to_owned)))
    }

    #[test]
    fn a_run_is_named_first_as_with_other_verbs_or_by_its_option() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().to_str().unwrap();
        let of = |place: &str, sql: Option<&str>| (PathBuf::from(place), sql.map(str::to_owned));
        assert_eq!(meant(&[], None).unwrap(), of("runs", None));
        assert_eq!(meant(&["SELECT 1"], None).unwrap(), of("runs", Some("SELECT 1")));
        assert_eq!(meant(&["SELECT 1"], Some(run)).unwrap(), of(run, Some("SELECT 1")));
        assert_eq!(meant(&[run, "SELECT 1"], None).unwrap(), of(run, Some("SELECT 1")));
        assert_eq!(meant(&[run], None).unwrap(), of(run, None));
        assert_eq!(meant(&["runs/none"], None).unwrap(), of("runs/none", None), "to be told that there is none");
        assert!(matches!(meant(&[run, "SELECT 1"], Some("runs")), Err(Failure::Usage(_))));
    }
}
