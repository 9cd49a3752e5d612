//! Development tasks of this repository, run as `cargo xtask TASK`.
//!
//! Nothing here is part of the program. Each task says what it runs, stops at the first failure and names the command
//! that repeats just that part.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for developers, whose output is its purpose")]

mod bench;
mod command;
mod generate;
mod order;
mod python;
mod setup;
mod test;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask TASK

  test               everything that must hold before a change is merged: set-up, fmt, clippy, docs, tidy, generated
                     files, all tests
  setup              install the programs that the tests need (part of `test`)
  tidy               rules of this repository that no compiler checks
  generate           write docs/CLI.md and the man pages from the program's own definitions
  generate --check   fail when they are out of date
  order              record which functions a repeat runs, for the linker to put them side by side
  bench [NAME...]    measure; the whole set is written to docs/PERFORMANCE.md
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["test"] => test::run(),
        ["setup"] => setup::for_tests(),
        ["tidy"] => tidy::run(),
        ["generate"] => generate::write(),
        ["generate", "--check"] => generate::check(),
        ["order"] => order::write(),
        ["bench", names @ ..] => bench::run(names),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{}", message.trim_end());
            ExitCode::FAILURE
        }
    }
}
