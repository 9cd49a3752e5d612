//! The command line, with no more of its definition than the call needs: a scheduler calls `run` every minute for every
//! task, and the definition of all subcommands is a good part of what such a call costs (docs/PERFORMANCE.md).

use crate::args::{Cli, Command, Everywhere, RunArgs};
use crate::output;
use clap::{Args, Command as Definition, FromArgMatches, Parser};
use refrain::report::exit_code;
use std::ffi::OsString;
use std::io::{self, Write};

/// What a command line asks for.
pub(crate) enum Parsed {
    /// A subcommand.
    Call(Box<Cli>),
    /// `refrain --version`.
    Version,
}

pub(crate) fn command_line() -> Result<Parsed, clap::Error> {
    let mut words = std::env::args_os();
    if words.len() == 2 && words.nth(1).is_some_and(|only| only == "--version" || only == "-V") {
        return Ok(Parsed::Version);
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    // What this does not take is told by the whole definition, which knows all there is to suggest.
    let cli = run_alone(&words).map_or_else(|| Cli::try_parse_from(&words), Ok)?;
    Ok(Parsed::Call(Box::new(cli)))
}

/// Prints the version as the whole definition would. Returns the exit code.
pub(crate) fn version() -> u8 {
    // Nothing is formatted: this is what a call costs that does nothing.
    output::written(io::stdout().write_all(concat!("refrain ", env!("CARGO_PKG_VERSION"), "\n").as_bytes()));
    exit_code::PUBLISHED
}

fn run_alone(words: &[OsString]) -> Option<Cli> {
    if words.get(1)? != "run" {
        return None;
    }
    let run = RunArgs::augment_args(Definition::new("run"));
    let definition = Everywhere::augment_args(Definition::new("refrain")).subcommand(run);
    let found = definition.try_get_matches_from(words).ok()?;
    let run = RunArgs::from_arg_matches(found.subcommand_matches("run")?).ok()?;
    Some(Cli { everywhere: Everywhere::from_arg_matches(&found).ok()?, command: Command::Run(Box::new(run)) })
}

#[cfg(test)]
mod tests {
    use super::run_alone;
    use crate::args::Cli;
    use clap::{CommandFactory, Parser};
    use std::ffi::OsString;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_run_is_read_as_the_whole_definition_reads_it() {
        for line in [
            "refrain run t --date 2013-01-01",
            "refrain run -vv t -q --home h --partition p --rerun --wait=5s",
            "refrain run t --out a=b --out c/ --stdout d --param x=y --report - -- sh -c --home",
        ] {
            let whole = Cli::try_parse_from(words(line)).unwrap();
            assert_eq!(format!("{:?}", run_alone(&words(line)).unwrap()), format!("{whole:?}"), "{line}");
        }
    }

    #[test]
    fn what_is_no_run_or_no_good_one_is_left_to_the_whole_definition() {
        for line in [
            "refrain",
            "refrain status t",
            "refrain run --help",
            "refrain run",
            "refrain run t --what",
            "refrain -v run t",
        ] {
            assert!(run_alone(&words(line)).is_none(), "{line}");
        }
    }

    #[test]
    fn the_version_is_the_one_of_the_definition() {
        assert_eq!(Cli::command().render_version().trim_end(), concat!("refrain ", env!("CARGO_PKG_VERSION")));
    }
}
