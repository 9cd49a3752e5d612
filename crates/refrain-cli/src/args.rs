//! The command line. Help texts live here; `docs/CLI.md`, completions and man pages are made from them.

mod execute;
mod help;
mod look;
mod tend;

pub(crate) use execute::{BackfillArgs, CheckArgs, EachArgs, Isolation, OrderArg, RepeatArgs, RunArgs, WorkerArgs};
pub(crate) use help::{ENVIRONMENT, EXIT_CODES, EXIT_CODES_NOTE, RUN_EXAMPLES};
pub(crate) use look::{FetchArgs, IdArgs, JsonArgs, LogArgs, PathArgs, ShowArgs, SinksArgs, StatusArgs, WhyArgs};
pub(crate) use tend::{
    CompactArgs, ConfigCommand, DocsCommand, GcArgs, InitArgs, RecoverArgs, RollbackArgs, StoreCommand,
};

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use help::{BACKFILL_HELP, GLOBAL, ID_HELP, check_help, root_help, run_examples, run_help};
use std::path::PathBuf;
/// Makes a batch task safe to repeat: put `refrain run` in front of it.
///
/// However often a scheduler, an operator or a crash repeats the task, readers see the old output or the new one,
/// whole, never half of it and never twice.
#[derive(Debug, Parser)]
#[command(name = "refrain", version, after_long_help = root_help(), arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) everywhere: Everywhere,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The flags that every subcommand takes.
#[derive(Debug, Args)]
pub(crate) struct Everywhere {
    /// The home: the directory with refrain.toml and .refrain/ [default: the nearest one at or above the current
    /// directory] [env: REFRAIN_HOME]
    #[arg(long, global = true, value_name = "DIR", help_heading = GLOBAL)]
    pub(crate) home: Option<PathBuf>,

    /// Show every step of the protocol with its rule number on stderr; -vv shows more
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = GLOBAL)]
    pub(crate) verbose: u8,

    /// Print no line when all is well, only notes and errors; -qq: only errors. Data on stdout is printed all the same
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = GLOBAL)]
    pub(crate) quiet: u8,
}

// A subcommand is defined when it is named: the other ones cost a call nothing.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Make a home here: .refrain/ and a commented refrain.toml; repeating it changes nothing
    Init(InitArgs),
    /// Run a task for one partition and publish its output, once
    #[command(after_help = run_examples(), after_long_help = run_help())]
    Run(Box<RunArgs>),
    /// Run a task for every date of a range, both ends included
    #[command(after_long_help = BACKFILL_HELP)]
    Backfill(BackfillArgs),
    /// One of the processes of a backfill
    #[command(hide = true)]
    BackfillWorker(WorkerArgs),
    /// Every partition at a glance: published, running, failed, stale, missing
    Status(StatusArgs),
    /// Attempts, newest first
    Log(LogArgs),
    /// One run, attempt or published path
    Show(ShowArgs),
    /// What `run` would do now, and why
    Why(WhyArgs),
    /// Where readers find the publication; prints paths and tables, one a line
    Path(PathArgs),
    /// Copy one version of an output to a new path, compared with what was published
    #[command(allow_missing_positional = true)]
    Fetch(FetchArgs),
    /// Publish an earlier kept version of files and directories again
    Rollback(RollbackArgs),
    /// Settle every attempt whose end is not known; no command is run
    ///
    /// What was decided is finished from what was sealed. Objects that were sealed and not decided are published, too; files,
    /// directories and rows are not kept so long, and the next `run` makes them again.
    Recover(RecoverArgs),
    /// Remove staging of dead attempts, pinned inputs and versions that nobody needs
    Gc(GcArgs),
    /// Prove a task repeatable in a scratch copy; says which files, columns, rows differ and why
    #[command(after_long_help = check_help())]
    Check(CheckArgs),
    /// Forget what is known of old dates; what they published stays, and none of them is run again by accident
    Compact(CompactArgs),
    /// Ids of rows that a repeated run gives again: derived from a name and the row's key, on stdout
    #[command(after_help = ID_HELP)]
    Id(IdArgs),
    /// The sinks of this build and what each promises
    Sinks(SinksArgs),
    /// The state stores of this build
    Stores(JsonArgs),
    /// The state store: replace a lost one, announce a restored one, move to a shared one
    #[command(subcommand)]
    Store(StoreCommand),
    /// The configuration that is in force
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Completions for a shell, on stdout
    Completions {
        /// The shell
        shell: Shell,
    },
    /// The reference of the command line
    #[command(subcommand, hide = true)]
    Docs(DocsCommand),
}

#[derive(Debug, Args)]
pub(crate) struct Partition {
    /// The logical date: 2025-03-24, 2025-03-24T05, 2025-W13, 2025-03, 2025, today, yesterday, -1d
    #[arg(long, value_name = "DATE", allow_hyphen_values = true, conflicts_with = "partition")]
    pub(crate) date: Option<String>,

    /// The partition, for a task whose partitions are no dates
    #[arg(long, value_name = "NAME")]
    pub(crate) partition: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum GrainArg {
    Hourly,
    Daily,
    Weekly,
    Monthly,
    Yearly,
}
