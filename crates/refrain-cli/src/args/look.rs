//! The options of the commands that look at what happened and what stands.

use super::Partition;
use super::execute::at_least_one;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Only this task
    pub(crate) task: Option<String>,
    /// The first date; without it, the first of which anything is known. Without a TASK, a date of any grain: of each task
    /// with dates, what it has a part in, and the other tasks whole
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// The last date, included; without it, the last that is known or over
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    /// Dates as a calendar, wherever it is printed to; on a terminal that is the default
    #[arg(long, conflicts_with_all = ["list", "json"])]
    pub(crate) grid: bool,
    /// One partition a line, on a terminal too; elsewhere that is the default
    #[arg(long, conflicts_with = "json")]
    pub(crate) list: bool,
    /// All partitions as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Only this task
    pub(crate) task: Option<String>,
    #[command(flatten)]
    pub(crate) partition: Partition,
    /// Print what the command of an attempt or of the newest attempt of a run printed under `backfill`; of an id any
    /// part of 4 characters or more is enough that no other has
    #[arg(long, value_name = "ID", conflicts_with_all = ["task", "date", "partition", "json"])]
    pub(crate) output: Option<String>,
    /// At most so many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = at_least_one::<u32>)]
    pub(crate) limit: u32,
    /// A paragraph for each, wherever it is printed to; on a terminal that is the default
    #[arg(long, conflicts_with_all = ["list", "json"])]
    pub(crate) story: bool,
    /// One line for each, on a terminal too; elsewhere that is the default
    #[arg(long, conflicts_with = "json")]
    pub(crate) list: bool,
    /// As JSON Lines
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A run's or attempt's id, or any part of it of 4 characters or more that no other has, such as its end; or a published
    /// path or URL; of a path within a published directory, the
    /// directory's publication is shown
    #[arg(value_name = "ID|PATH|URL")]
    pub(crate) what: String,
    /// As one JSON document: an array of attempts for an id, since a run may have several; one object for a path
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// A task of refrain.toml
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) partition: Partition,
    /// As one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    /// The task
    pub(crate) task: String,
    /// Only this output
    pub(crate) output: Option<String>,
    #[command(flatten)]
    pub(crate) partition: Partition,
    /// A kept version instead of the published one
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct FetchArgs {
    /// The task
    pub(crate) task: String,
    /// The output, where the task has several
    pub(crate) output: Option<String>,
    /// The path of the copy, which must be free: a file, or a directory for a directory or a prefix
    pub(crate) into: PathBuf,
    #[command(flatten)]
    pub(crate) partition: Partition,
    /// A kept version instead of the published one
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct IdArgs {
    /// What the ids are of: by convention the task, or the table if a task writes several
    pub(crate) name: String,
    /// What tells one row from another; an id is printed for each. Without any, they are read from standard input, one a
    /// line
    #[arg(value_name = "ROWKEY")]
    pub(crate) row_keys: Vec<OsString>,
    /// Row keys of standard input end with NUL, not with a line feed
    #[arg(short = '0', long, conflicts_with = "row_keys")]
    pub(crate) null: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SinksArgs {
    #[command(flatten)]
    pub(crate) json: JsonArgs,

    /// Print the SQL that a database administrator runs where a role may not create schemas, so that the role can publish
    /// tables; without a role, what makes the tables alone
    #[arg(long, value_name = "ROLE", num_args = 0..=1, conflicts_with = "json")]
    #[allow(clippy::option_option, reason = "the flag, and its value")]
    pub(crate) sql: Option<Option<String>>,
}

#[derive(Debug, Args)]
pub(crate) struct JsonArgs {
    /// As one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}
