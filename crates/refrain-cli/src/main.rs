//! The `refrain` program: arguments, printing, exit codes. It has no rules of its own: those are in the `refrain`
//! library.

mod args;
mod backfill;
mod check;
mod compact;
mod context;
mod docs;
mod id;
mod look;
mod output;
mod parse;
mod probe;
mod run;
mod signals;
mod tend;
mod trace;
mod usage;

use args::{Command, ConfigCommand};
use context::Context;
use parse::Parsed;
use refrain::core::Window;
use refrain::report::{exit_code, outcome_of};
use refrain::{Error, Result};
// Linked for the names that it gives to the linker.
use refrain_libm as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match parse::command_line() {
        Ok(Parsed::Call(cli)) => cli,
        Ok(Parsed::Version) => return ExitCode::from(whole(parse::version())),
        Err(error) => return ExitCode::from(whole(usage::tell(error))),
    };
    trace::start(cli.everywhere.verbose);
    let done = Context::new(&cli).and_then(|context| dispatch(&context, &cli.command));
    ExitCode::from(whole(done.unwrap_or_else(|error| {
        output::failure(&error, Window::NothingPublished);
        outcome_of(error.kind).1
    })))
}

/// The exit code, unless the call was to print data and could not.
fn whole(code: u8) -> u8 {
    match output::failed() {
        Some(error) if code == exit_code::PUBLISHED => {
            output::failure(&error, Window::NothingPublished);
            exit_code::FAILED
        }
        _ => code,
    }
}

fn dispatch(context: &Context, command: &Command) -> Result<u8> {
    match command {
        Command::Init(args) => tend::init(context, args),
        Command::Run(args) => return Ok(run::run(context, args)),
        Command::Backfill(args) => return backfill::backfill(context, args),
        Command::BackfillWorker(args) => return backfill::worker(context, args),
        Command::Status(args) => look::status::status(context, args),
        Command::Log(args) => look::log::log(context, args),
        Command::Show(args) => look::show::show(context, args),
        Command::Why(args) => look::why(context, args),
        Command::Path(args) => look::path(context, args),
        Command::Fetch(args) => look::fetch(context, args),
        Command::Rollback(args) => return tend::rollback(context, args),
        Command::Recover(args) => return tend::recover(context, args),
        Command::Gc(args) => tend::gc(context, args),
        Command::Check(args) => return check::check(context, args),
        Command::Compact(args) => compact::compact(context, args),
        Command::Id(args) => id::id(args),
        Command::Sinks(args) => look::sinks(args),
        Command::Stores(args) => look::stores(args),
        Command::Store(command) => tend::store(context, command),
        Command::Config(ConfigCommand::Show) => look::config::config(context),
        Command::Completions { shell } => {
            docs::completions(*shell);
            Ok(())
        }
        Command::Docs(command) => docs::docs(command),
    }?;
    Ok(exit_code::PUBLISHED)
}

/// A value as one JSON document.
fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string_pretty(value)
        .map_err(|error| Error::new(refrain::ErrorKind::Internal, "cannot write JSON").because(error))
}
