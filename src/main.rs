//! The `feedline` program: parse, run, print the error, exit.

use std::process::ExitCode;

fn main() -> ExitCode {
    feedline::cli::main()
}
