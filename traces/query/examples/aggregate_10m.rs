//! Times a grouped aggregate over ten million rows: `cargo run -p feedline-query --example
//! aggregate_10m [FOLDER]`. The table is made once, in the folder or in a temporary one.
#![expect(clippy::print_stdout, reason = "an example prints what it measured")]

use std::path::PathBuf;

use feedline_traces::{Clock as _, Result, SystemClock};

const ROWS: u64 = 10_000_000;

fn main() -> Result<()> {
    let folder =
        std::env::args_os().nth(1).map_or_else(|| std::env::temp_dir().join("feedline-aggregate-10m"), PathBuf::from);
    if !folder.exists() {
        feedline_query::sample::write(&folder, ROWS)?;
    }
    let clock = SystemClock::anchored_now();
    for _ in 0..5 {
        let start = clock.now();
        let answer = feedline_query::sql(&folder, "SELECT key, avg(x) AS x, count(*) AS n FROM sample GROUP BY key")?;
        println!("{} groups of {ROWS} rows in {:.3} s", answer.rows.len(), clock.now().seconds_since(start));
    }
    Ok(())
}
