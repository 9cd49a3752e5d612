//! The options of the commands that execute a task: run, backfill, check.

use super::{GrainArg, Partition};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The task: one of refrain.toml, or a new name together with --out and a COMMAND
    pub(crate) task: String,

    #[command(flatten)]
    pub(crate) partition: Partition,

    /// The grain of --date, for a task that is not in refrain.toml [default: daily]
    #[arg(long, value_enum)]
    pub(crate) grain: Option<GrainArg>,

    /// The time zone of --date, for a task that is not in refrain.toml [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,

    /// An input to pin; the command finds its copy at $REFRAIN_IN_<NAME>
    #[arg(long = "in", value_name = "NAME=PATH")]
    pub(crate) inputs: Vec<String>,

    /// An output to publish; the command writes to $REFRAIN_OUT (one output) or $REFRAIN_OUT_<NAME>. A trailing /
    /// means a directory; {date}, {date:%Y/%m/%d}, {partition} and {param.NAME} are filled in. A path with a = before
    /// its first / needs ./ in front: './dt={date}/f.csv'. A table is
    /// postgresql://HOST/DATABASE?table=…&mode=…&where=…&from=FILE, and the command writes that file
    #[arg(long = "out", value_name = "[NAME=]PATH|URL")]
    pub(crate) outputs: Vec<String>,

    /// Publish the command's standard output as this file
    #[arg(long, value_name = "[NAME=]PATH")]
    pub(crate) stdout: Option<String>,

    /// A parameter; the command finds it at $REFRAIN_PARAM_<NAME>
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) params: Vec<String>,

    #[command(flatten)]
    pub(crate) repeat: RepeatArgs,

    /// Wait for another attempt of the key to end, at most so long if a time is given
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "10000d")]
    pub(crate) wait: Option<String>,

    /// How long the lease lasts without renewal [default: 60s]
    #[arg(long, value_name = "TIME")]
    pub(crate) ttl: Option<String>,

    /// End the command after so long
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,

    /// Time between TERM and KILL [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub(crate) grace: Option<String>,

    /// Try again up to so many times, after growing pauses, what published nothing and may pass: held, unavailable, and
    /// what the task's `retry_on` lists [default: the task's retry.attempts less one]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,

    /// Let an empty output be published: a file without bytes, a directory without files, a table without rows
    #[arg(long)]
    pub(crate) allow_empty: bool,

    /// Publish over something that refrain did not publish; files are kept as version 0, rows of tables are not
    #[arg(long)]
    pub(crate) adopt: bool,

    /// Keep the caller's time zone and locale instead of TZ=UTC LC_ALL=C.UTF-8
    #[arg(long)]
    pub(crate) inherit_locale: bool,

    /// Write the machine report (JSON) to this file, whole or not at all; a link stays, and what it leads to is replaced.
    /// A pipe, a terminal or an open descriptor (/dev/fd/3) gets it behind what it holds. Refused where tasks publish, over
    /// what they read, and over Refrain's own files. - is stdout, the command's stdout then goes to stderr
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    pub(crate) report: Option<String>,

    /// The command, instead of the one in refrain.toml
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct RepeatArgs {
    /// Run again if the command, the code, the parameters or the inputs changed since the publication
    #[arg(long, conflicts_with = "rerun")]
    pub(crate) if_changed: bool,

    /// Run again and replace the publication
    #[arg(long)]
    pub(crate) rerun: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackfillArgs {
    /// A task of refrain.toml
    pub(crate) task: String,

    /// The first date
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    pub(crate) from: String,

    /// The last date, included
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    pub(crate) to: String,

    /// So many partitions at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one::<u16>)]
    pub(crate) jobs: u16,

    /// Only list the partitions, what a run of each would do, and why
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Begin with the first or with the last date
    #[arg(long, value_enum, default_value = "asc")]
    pub(crate) order: OrderArg,

    /// Begin no further date after so many failures
    #[arg(long, value_name = "N", value_parser = at_least_one::<u64>)]
    pub(crate) max_failures: Option<u64>,

    /// Run dates that are not over, too, today's for a daily task; more may arrive for them
    #[arg(long)]
    pub(crate) include_open: bool,

    #[command(flatten)]
    pub(crate) each: EachArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderArg {
    Asc,
    Desc,
}

// What holds for every date of a backfill. (A doc comment on arguments that others take in would be the summary of theirs.)
#[derive(Debug, Args)]
pub(crate) struct EachArgs {
    /// A parameter for every run; the command finds it at $REFRAIN_PARAM_<NAME>
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) params: Vec<String>,

    #[command(flatten)]
    pub(crate) repeat: RepeatArgs,

    /// End each command after so long
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,

    /// Try a date again up to so many times, as --retries of `run`
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,

    /// Wait for dates that others are working on when nothing else is left, at most so long each if a time is given;
    /// without it they are tried once more then
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "10000d")]
    pub(crate) wait: Option<String>,

    /// Publish over something that refrain did not publish; files are kept as version 0, rows of tables are not
    #[arg(long)]
    pub(crate) adopt: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// A task of refrain.toml
    pub(crate) task: String,

    #[command(flatten)]
    pub(crate) each: EachArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// A task of refrain.toml
    #[arg(required_unless_present = "sink")]
    pub(crate) task: Option<String>,

    /// Instead of a task: whether a bucket keeps what a publication needs, by a canary, as in `--sink s3://lake`
    #[arg(long, value_name = "URL", conflicts_with_all = ["task", "date", "partition", "twice", "kill", "race", "params"])]
    pub(crate) sink: Option<String>,

    #[command(flatten)]
    pub(crate) partition: Partition,

    #[command(flatten)]
    pub(crate) trials: TrialArgs,

    /// A parameter for every run; the command finds it at $REFRAIN_PARAM_<NAME>
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) params: Vec<String>,

    /// How the real files are kept out: `shield` or nothing, `copy` of the home, or `best` of both
    #[arg(long, value_enum, value_name = "HOW", default_value = "best")]
    pub(crate) isolation: Isolation,

    /// Where the scratch copy is made [default: $TMPDIR, or /tmp]
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,

    /// Let the scratch copy stay, to look at it
    #[arg(long)]
    pub(crate) keep_scratch: bool,

    /// The verdict as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

// What `refrain check` tries; no doc comment, as above.
#[derive(Debug, Args)]
pub(crate) struct TrialArgs {
    /// Run it twice, with another clock, other paths and another order of inputs, and compare the outputs; look for
    /// writes outside the outputs, processes left behind and failures that a pipe hides
    #[arg(long)]
    pub(crate) twice: bool,

    /// Kill it at every step of the protocol and at moments inside the command, repeat it once, and compare with the
    /// undisturbed end
    #[arg(long)]
    pub(crate) kill: bool,

    /// Start it 8 times at once: one may execute and publish
    #[arg(long)]
    pub(crate) race: bool,

    /// For --kill: so many moments inside the command
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub(crate) moments: u32,

    /// For --kill: the moments of an earlier check, whose seed it printed [default: another one each time]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Isolation {
    Best,
    Shield,
    Copy,
}

/// A count; a wrong one is told in words, not by the limits of a type.
pub(super) fn at_least_one<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    match text.parse::<u64>() {
        Ok(0) | Err(_) => Err("give a whole number, 1 or more".to_owned()),
        Ok(number) => N::try_from(number).map_err(|_| "that is too many".to_owned()),
    }
}
