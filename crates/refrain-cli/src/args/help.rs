//! What the help texts say at their end: exit codes, words of reports, the environment, examples.

/// The heading of the options that every command has.
pub(super) const GLOBAL: &str = "Global options";

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
const CHECK_EXIT_CODES: [(&str, &str); 4] = [
    ("0", "repeatable: nothing was found"),
    ("1", "not repeatable, or the task fails in the scratch copy: see the verdict"),
    ("125", "the check itself failed"),
    ("128+n", "the check was stopped by signal n"),
];

/// What follows the exit codes.
pub(crate) const EXIT_CODES_NOTE: &str = "A task may use the same numbers: --report says whose the code was.";

/// What `"retry"` in a report says, for schedulers.
const RETRY_WORDS: [(&str, &str); 3] = [
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
pub(super) const ID_HELP: &str = "\
An id is a UUID of version 5: uuid5(uuid5(NAMESPACE, NAME), ROWKEY), with NAMESPACE \
766ef8bb-bb64-5079-8b29-e6d9b81a7155, NAME in UTF-8 and ROWKEY byte for byte; so Python's uuid.uuid5 and SQL make the \
same ones. It needs no home.

Examples:
  One key: a7b1a46d-ae9b-53a8-9c98-a256fffe50bb, everywhere and always:
    refrain id orders 2013-01-01/UA/1545
  A key for each line:
    cut -d, -f1 rows.csv | refrain id orders | paste -d, - rows.csv";

/// How a backfill ends.
pub(super) const BACKFILL_HELP: &str = "\
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

pub(super) fn root_help() -> String {
    format!("Environment:\n{}\n{}", table(&ENVIRONMENT), exit_codes())
}

pub(super) fn run_examples() -> String {
    let examples = RUN_EXAMPLES.map(|(line, what)| format!("  {what}:\n    {line}"));
    format!("Examples:\n{}", examples.join("\n"))
}

pub(super) fn run_help() -> String {
    format!(
        "{}\n\n{}\n\nWhether to repeat it (\"retry\" in the report):\n{}",
        run_examples(),
        exit_codes(),
        table(&RETRY_WORDS)
    )
}

pub(super) fn check_help() -> String {
    format!("Without --twice, --kill and --race: --twice and --race.\n\nExit codes:\n{}", table(&CHECK_EXIT_CODES))
}

fn table(rows: &[(&str, &str)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default() + 2;
    let lines: Vec<_> = rows.iter().map(|(name, meaning)| format!("  {name:<width$}{meaning}\n")).collect();
    lines.concat()
}
