//! `refrain backfill`: a task for every date of a range.
//!
//! The dates are run by worker processes ([`worker`]), one for each job; this process hands them out ([`pool`],
//! [`queue`]), counts ([`tally`]) and shows how far it is ([`progress`]).

mod dry_run;
mod pool;
mod progress;
mod queue;
mod tally;
mod worker;

pub(crate) use worker::worker;

use crate::args::{BackfillArgs, EachArgs, OrderArg};
use crate::context::Context;
use crate::output::{self, Loudness, shell_line};
use progress::Progress;
use queue::Queue;
use refrain::core::{Calendar, Interval, PartitionScheme};
use refrain::{Boundary, Error, Result, Task};
use std::ffi::OsString;

/// Runs every date; returns the exit code of the first that failed.
pub(crate) fn backfill(context: &Context, args: &BackfillArgs) -> Result<u8> {
    let boundary = context.boundary()?;
    let (task, _) = worker::task(&boundary, &args.task, &args.each)?;
    let mut intervals = range(context, &task, &args.from, &args.to)?;
    if !args.include_open {
        refuse_open(context, &task, args, &intervals)?;
    }
    let in_order = task.runs_in_order();
    match args.order {
        OrderArg::Asc => {}
        OrderArg::Desc if in_order => {
            return Err(Error::invalid(format!("`{}` reads its own publication of the date before", task.name))
                .hint("leave `--order desc` away: its dates can only be run from the first to the last"));
        }
        OrderArg::Desc => intervals.reverse(),
    }
    if args.dry_run {
        return dry_run::dry_run(&boundary, &task, args, intervals);
    }
    let jobs = if in_order { 1 } else { usize::from(args.jobs).min(intervals.len()) };
    let progress = Progress::new(intervals.len(), context.loudness);
    let mut queue = Queue::new(intervals.into(), in_order, args.max_failures);
    let tally = pool::run(&arguments(&boundary, context, args), jobs, &mut queue, &progress);
    progress.end();
    let stopped = queue.stopped();
    let (left, held) = queue.into_rest();
    let mut tally = tally?;
    tally.complete(held);
    let whole = tally.is_whole(&left);
    if !whole || context.loudness == Loudness::Normal {
        output::say(&tally.summary(&task.name, left.len(), stopped));
    }
    let home_flag = context.home_flag.as_ref().map(|home| home.display().to_string());
    tally.name_the_open(&boundary, &task.name, home_flag.as_deref());
    boundary.trim_outputs(false, &mut |place, error| tracing::warn!(place, %error, "an old output stays"));
    if !whole {
        let rest: Vec<&Interval> = tally.open().chain(&left).collect();
        output::say(&format!("to go on: {}", go_on(home_flag, args, &rest)));
    }
    Ok(tally.exit_code(stopped))
}

/// The call that does what is left.
fn go_on(home_flag: Option<String>, args: &BackfillArgs, rest: &[&Interval]) -> String {
    let first = rest.iter().min_by_key(|interval| interval.start).map_or(args.from.as_str(), |first| &first.key);
    let last = rest.iter().max_by_key(|interval| interval.start).map_or(args.to.as_str(), |last| &last.key);
    let mut words = vec!["refrain".to_owned()];
    if let Some(home) = home_flag {
        words.extend(["--home".to_owned(), home]);
    }
    words.extend(["backfill", &args.task, "--from", first, "--to", last].map(str::to_owned));
    if args.jobs > 1 {
        words.extend(["--jobs".to_owned(), args.jobs.to_string()]);
    }
    if matches!(args.order, OrderArg::Desc) {
        words.extend(["--order", "desc"].map(str::to_owned));
    }
    if let Some(most) = args.max_failures {
        words.extend(["--max-failures".to_owned(), most.to_string()]);
    }
    if args.include_open {
        words.push("--include-open".to_owned());
    }
    words.extend(flags(&args.each));
    shell_line(words)
}

/// The flags of every single date.
fn flags(each: &EachArgs) -> Vec<String> {
    let mut flags = Vec::new();
    for param in &each.params {
        flags.extend(["--param".to_owned(), param.clone()]);
    }
    if let Some(timeout) = &each.timeout {
        flags.extend(["--timeout".to_owned(), timeout.clone()]);
    }
    if let Some(retries) = each.retries {
        flags.extend(["--retries".to_owned(), retries.to_string()]);
    }
    flags.extend(each.wait.iter().map(|wait| format!("--wait={wait}")));
    let asked = [(each.repeat.rerun, "--rerun"), (each.repeat.if_changed, "--if-changed"), (each.adopt, "--adopt")];
    flags.extend(asked.into_iter().filter(|(asked, _)| *asked).map(|(_, flag)| flag.to_owned()));
    flags
}

/// How a worker is started.
fn arguments(boundary: &Boundary, context: &Context, args: &BackfillArgs) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["--home".into(), boundary.home().directory.clone().into()];
    arguments.extend((0..context.verbose).map(|_| "-v".into()));
    arguments.extend(["backfill-worker".into(), args.task.clone().into()]);
    arguments.extend(flags(&args.each).into_iter().map(OsString::from));
    arguments
}

/// The intervals of a range, both ends included.
pub(crate) fn range(context: &Context, task: &Task, from: &str, to: &str) -> Result<Vec<Interval>> {
    let calendar = calendar(task)?;
    match ends(context, task, Some(from), Some(to))? {
        (Some(from), Some(to)) => Ok(calendar.range(&from, &to)?.collect()),
        _ => Ok(Vec::new()),
    }
}

/// The intervals that `--from` and `--to` name, each if it is given.
pub(crate) fn ends(
    context: &Context,
    task: &Task,
    from: Option<&str>,
    to: Option<&str>,
) -> Result<(Option<Interval>, Option<Interval>)> {
    let calendar = calendar(task)?;
    let end = |flag: &str, text: Option<&str>| {
        text.map(|text| calendar.given(flag, text, Some(context.now())))
            .transpose()
            .map_err(|error| error.within(format!("`{flag}`")))
    };
    Ok((end("--from", from)?, end("--to", to)?))
}

fn calendar(task: &Task) -> Result<&Calendar> {
    let PartitionScheme::Dates(calendar) = &task.partitions else {
        return Err(Error::invalid(format!("the partitions of `{}` are no dates", task.name))
            .hint("--from and --to are for tasks with `partition = \"daily\"` or another grain"));
    };
    Ok(calendar)
}

/// An interval whose end has not come is the scheduler's: more may arrive for it (DATE-07).
fn refuse_open(context: &Context, task: &Task, args: &BackfillArgs, intervals: &[Interval]) -> Result<()> {
    let (calendar, now) = (calendar(task)?, context.now());
    let Some(open) = intervals.iter().find(|interval| calendar.is_open(interval, now)) else { return Ok(()) };
    let closed = calendar.previous(&calendar.containing(now)?)?;
    let error = Error::invalid(format!(
        "{} is not over before {}, and more may arrive for it; the last closed date is {}",
        open.key, open.end, closed.key
    ));
    let flags = ["backfill", &args.task, "--from", &args.from, "--to"];
    let until = shell_line(std::iter::once("refrain").chain(flags).chain([closed.key.as_str()]));
    Err(error.hint(if intervals.first().is_some_and(|first| first.start <= closed.start) {
        format!("`{until}` leaves it out; `--include-open` runs it all the same")
    } else {
        "`--include-open` runs it all the same".to_owned()
    }))
}
