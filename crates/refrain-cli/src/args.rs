//! The command line. Help texts live here; `docs/CLI.md`, completions and man pages are made from them.

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::ffi::OsString;
use std::path::PathBuf;

/// The heading of the options that every command has.
const GLOBAL: &str = "Global options";

/// What an exit code means.
pub(crate) const EXIT_CODES: [(&str, &str); 11] = [
    ("0", "published, or already published (the message says which)"),
    ("1-117", "the task's own exit code; nothing was published"),
    ("118", "published, a follow-up is pending: repeat the call to finish it"),
    ("120", "held: another attempt has the lease"),
    ("121", "fenced or conflict: another attempt took over, or another publication stands"),
    ("122", "unknown: the commit's answer was lost; `refrain recover` decides"),
    ("123", "refused: the staged output failed a guard"),
    ("124", "the task's time limit passed"),
    ("125", "refrain's own failure before the commit, or a refusal that needs a person"),
    ("126/127", "the command cannot be executed / was not found"),
    ("128+n", "the task was ended by signal n"),
];

/// What an exit code of `refrain check` means.
pub(crate) const CHECK_EXIT_CODES: [(&str, &str); 4] = [
    ("0", "repeatable: nothing was found"),
    ("1", "not repeatable, or the task fails in the scratch copy: see the verdict"),
    ("125", "the check itself failed"),
    ("128+n", "the check was stopped by signal n"),
];

/// What follows the exit codes.
pub(crate) const EXIT_CODES_NOTE: &str = "A task may use the same numbers: --report says whose the code was.";

/// What `"retry"` in a report says, for schedulers.
pub(crate) const RETRY_WORDS: [(&str, &str); 3] = [
    ("now", "published, a follow-up is pending: repeat the call at once to finish it"),
    (
        "later",
        "held, fenced, unknown or unavailable, refrain's own failure, a failure of the task: repeat it after a while",
    ),
    (
        "never",
        "published; a refusal, a guard, a wrong call or configuration; a failure that the task's `retry_on` does not list",
    ),
];

/// What refrain reads of its environment.
pub(crate) const ENVIRONMENT: [(&str, &str); 5] = [
    ("REFRAIN_HOME", "the home, as --home, which wins; empty is not set"),
    ("REFRAIN_LOG", "info, debug or trace: as -v, which wins; empty is not set"),
    ("NO_COLOR", "if not empty, nothing is printed in colours"),
    ("TERM", "not set, empty or dumb: no progress is drawn"),
    ("REFRAIN_CRASH_AT", "for tests: die at a named step; empty is not set"),
];

/// How `refrain run` is called, with what each call does.
pub(crate) const RUN_EXAMPLES: [(&str, &str); 3] = [
    ("refrain run daily_delays --date 2013-01-01", "The task of refrain.toml, for one day"),
    (
        "refrain run carriers --out 'carriers/{date}.csv' --date today -- sh -c 'sort -u all.csv > \"$REFRAIN_OUT\"'",
        "Any command, without refrain.toml naming it",
    ),
    (
        "refrain run delays --date 2013-01-01 --out 'postgresql:///mart?table=delays&mode=replace&where=dt={date}&from=d.csv' \
         -- sh -c 'cut -d, -f6,10 all.csv > \"$REFRAIN_OUT\"'",
        "The rows of one day of a table",
    ),
];

/// How the ids of `refrain id` are made.
const ID_HELP: &str = "\
An id is a UUID of version 5: uuid5(uuid5(NAMESPACE, NAME), ROWKEY), with NAMESPACE \
766ef8bb-bb64-5079-8b29-e6d9b81a7155, NAME in UTF-8 and ROWKEY byte for byte; so Python's uuid.uuid5 and SQL make the \
same ones. It needs no home.

Examples:
  One key: a7b1a46d-ae9b-53a8-9c98-a256fffe50bb, everywhere and always:
    refrain id orders 2013-01-01/UA/1545
  A key for each line:
    cut -d, -f1 rows.csv | refrain id orders | paste -d, - rows.csv";

/// How a backfill ends.
const BACKFILL_HELP: &str = "\
Published dates are left as they are, failed ones are tried again, and no failure stops the others. A date that another \
attempt has is tried once more at the end (--wait waits for it). What the commands print is kept: `refrain log --output \
ID` shows it. SIGINT and SIGTERM end what runs and begin no further date.

--dry-run prints a table on a terminal. In a pipe it prints one line for each date, in the order of the runs, with tabs \
between the date, what a run would do (run, nothing, recover, held or refuse), and what the date is now, with the reason \
in short where there is one (`missing: after 2013-01-01`). It counts on the earlier dates of the range to be published. Its exit code is 0 if every date could be \
looked at, whatever would be done; `refrain why` tells more of a date.

Exit codes:
  0      every date of the range is published
  120    all dates are published but those that other attempts have
  128+n  refrain got signal n, and no date had failed before
  other  the code of the first date that failed, as `refrain run` would have ended";

fn exit_codes() -> String {
    format!("Exit codes:\n{}{EXIT_CODES_NOTE}", table(&EXIT_CODES))
}

fn root_help() -> String {
    format!("Environment:\n{}\n{}", table(&ENVIRONMENT), exit_codes())
}

fn run_examples() -> String {
    let examples = RUN_EXAMPLES.map(|(line, what)| format!("  {what}:\n    {line}"));
    format!("Examples:\n{}", examples.join("\n"))
}

fn run_help() -> String {
    format!(
        "{}\n\n{}\n\nWhether to repeat it (\"retry\" in the report):\n{}",
        run_examples(),
        exit_codes(),
        table(&RETRY_WORDS)
    )
}

fn check_help() -> String {
    format!("Without --twice, --kill and --race: --twice and --race.\n\nExit codes:\n{}", table(&CHECK_EXIT_CODES))
}

fn table(rows: &[(&str, &str)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default() + 2;
    let lines: Vec<_> = rows.iter().map(|(name, meaning)| format!("  {name:<width$}{meaning}\n")).collect();
    lines.concat()
}

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
    /// Settle every attempt whose end is not known, and publish what one had sealed, without its command
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
    /// means a directory; {date}, {date:%Y/%m/%d}, {partition} and {param.NAME} are filled in. A table is
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
    /// A pipe, a terminal or an open descriptor (/dev/fd/3) gets it behind what it holds. - is stdout, the command's
    /// stdout then goes to stderr
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

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Only this task
    pub(crate) task: Option<String>,
    /// The first date; without it, the first of which anything is known
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
    /// Print what the command of an attempt or of the newest attempt of a run printed under `backfill`; the beginning of
    /// an id is enough
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
    /// The beginning of a run's or attempt's id, or a published path or URL; of a path within a published directory, the
    /// directory's publication is shown
    #[arg(value_name = "ID|PATH|URL")]
    pub(crate) what: String,
    /// As one JSON document: an array of attempts for an id, which several may begin with; one object for a path
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
pub(crate) struct RollbackArgs {
    /// The task
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) partition: Partition,
    /// The version [default: the newest before the one that is shown; after a rollback, before the one that it restored]
    #[arg(long, value_name = "N")]
    pub(crate) to: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// Only this task
    pub(crate) task: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Only say what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
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
pub(crate) struct CompactArgs {
    /// Only this task [default: every task of refrain.toml that has dates]
    pub(crate) task: Option<String>,
    /// Forget runs and attempts of the dates before this one
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    pub(crate) before: String,
    /// Only say what would be forgotten
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Make what tables are published with in this database instead of a home: the tables of schema refrain, as it is done on
    /// first use
    #[arg(long, value_name = "URL")]
    pub(crate) sink: Vec<String>,
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

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum StoreCommand {
    /// Make a new state store in the place of one that is lost
    Init {
        /// The id of the lost store, as the error named it
        #[arg(long, value_name = "STORE_ID")]
        replaces: Vec<String>,
    },
    /// Say that the state store was put back from a backup: all its leases are void
    Restored,
    /// The state store's id and what it replaces
    Show,
    /// Take the history of the home's own state along to a database or a bucket that many hosts share
    ///
    /// Copies keys with their tokens, runs, attempts and watermarks, all of it or nothing; refused while an attempt is
    /// at work, and if there is a history already. The state keeps what it knows, and a note where it was taken along to:
    /// it is refused from then on. `refrain store restored` goes back to it
    Copy {
        /// `sqlite` for the home's own state, or `sqlite:FILE` [default: sqlite]; and `postgresql://USER@HOST/DATABASE`
        /// or `s3://BUCKET/PREFIX/` (`gs://`, `az://`) [default: the store of refrain.toml]
        #[arg(value_name = "FROM TO", num_args = 0..=2)]
        places: Vec<String>,
    },
    /// Say that this home is of the same project as the homes that work with the database already
    ///
    /// A home whose tasks are the same as theirs needs no word. One whose tasks are written differently, and publish at
    /// other places, is refused until this is said
    Join,
    /// Print the SQL that a database administrator runs so that a role may use a state store in a PostgreSQL database
    ///
    /// Tables that tasks publish need more in their database: `refrain sinks --sql ROLE`
    Sql {
        /// The role
        role: String,
    },
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum ConfigCommand {
    /// Print every value that is in force and where it came from
    Show,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum DocsCommand {
    /// The reference as Markdown, on stdout
    Markdown,
    /// Man pages into a directory
    Man {
        /// The directory
        directory: PathBuf,
    },
}

/// A count; a wrong one is told in words, not by the limits of a type.
fn at_least_one<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    match text.parse::<u64>() {
        Ok(0) | Err(_) => Err("give a whole number, 1 or more".to_owned()),
        Ok(number) => N::try_from(number).map_err(|_| "that is too many".to_owned()),
    }
}
