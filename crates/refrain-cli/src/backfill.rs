//! `refrain backfill`: one `refrain run` for every date of a range.

use crate::args::BackfillArgs;
use crate::context::Context;
use crate::output::{self, Loudness, shell_line};
use crate::run::{duration, set_params};
use crate::signals;
use refrain::core::{Interval, Outcome, Partition, PartitionScheme, Window};
use refrain::process::{Again, Event, EventReceiver, pass_on};
use refrain::report::exit_code;
use refrain::why::{Why, Would};
use refrain::{Boundary, Error, Result, Task};
use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a waiting backfill looks whether its workers are done.
const GLANCE: Duration = Duration::from_millis(50);

/// Runs every date; returns the exit code of the first that failed.
pub(crate) fn backfill(context: &Context, args: &BackfillArgs) -> Result<u8> {
    let boundary = context.boundary()?;
    let mut task = boundary.home().config.task(&args.task)?.clone();
    set_params(&mut task, &args.params)?;
    if let Some(text) = &args.timeout {
        duration("--timeout", text)?;
    }
    let intervals = range(context, &task, &args.from, &args.to)?;
    if args.dry_run {
        return dry_run(&boundary, &task, args, intervals);
    }
    let (_, events) = signals::listen()?;
    let work = Work {
        arguments: arguments(&boundary, context, args),
        waiting: Mutex::new(intervals.into()),
        tally: Mutex::new(Tally::default()),
        running: Mutex::default(),
    };
    work.run(args.jobs, &events);
    let left = lock(&work.waiting);
    let mut tally = lock(&work.tally);
    tally.failed.sort_by_key(|interval| interval.start);
    if let (Some(signal), false, 0) = (lock(&work.running).stopped_by, left.is_empty(), tally.exit_code) {
        tally.exit_code = u8::try_from(128 + signal).unwrap_or(exit_code::FAILED);
    }
    tally.print(&task, left.len(), context.loudness);
    if let Some(line) = go_on(context, args, &tally.failed, &left) {
        output::say(&format!("to go on: {line}"));
    }
    Ok(tally.exit_code)
}

/// The call that does what is left, if something is.
fn go_on(context: &Context, args: &BackfillArgs, failed: &[Interval], left: &VecDeque<Interval>) -> Option<String> {
    let first = failed.iter().chain(left).min_by_key(|interval| interval.start)?;
    let last = failed.iter().chain(left).max_by_key(|interval| interval.start)?;
    let mut words = vec!["refrain".to_owned()];
    if let Some(home) = &context.home_flag {
        words.extend(["--home".to_owned(), home.display().to_string()]);
    }
    words.extend(["backfill", &args.task, "--from", &first.key, "--to", &last.key].map(str::to_owned));
    if args.jobs > 1 {
        words.extend(["--jobs".to_owned(), args.jobs.to_string()]);
    }
    words.extend(passed_on(args));
    Some(shell_line(words))
}

/// The flags of every single run.
fn passed_on(args: &BackfillArgs) -> Vec<String> {
    let mut flags = Vec::new();
    for param in &args.params {
        flags.extend(["--param".to_owned(), param.clone()]);
    }
    if let Some(timeout) = &args.timeout {
        flags.extend(["--timeout".to_owned(), timeout.clone()]);
    }
    let asked = [(args.repeat.rerun, "--rerun"), (args.repeat.if_changed, "--if-changed"), (args.adopt, "--adopt")];
    flags.extend(asked.into_iter().filter(|(asked, _)| *asked).map(|(_, flag)| flag.to_owned()));
    flags
}

/// What every start of `refrain run` is given, but for the date.
fn arguments(boundary: &Boundary, context: &Context, args: &BackfillArgs) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["--home".into(), boundary.home().directory.clone().into()];
    match context.loudness {
        Loudness::Normal => {}
        Loudness::Notes => arguments.push("-q".into()),
        Loudness::Errors => arguments.push("-qq".into()),
    }
    arguments.extend(["run".into(), args.task.clone().into(), "--report".into(), "-".into()]);
    arguments.extend(passed_on(args).into_iter().map(OsString::from));
    arguments
}

/// The intervals of a range, both ends included.
pub(crate) fn range(context: &Context, task: &Task, from: &str, to: &str) -> Result<Vec<Interval>> {
    let PartitionScheme::Dates(calendar) = &task.partitions else {
        return Err(Error::invalid(format!("the partitions of `{}` are no dates", task.name))
            .hint("--from and --to are for tasks with `partition = \"daily\"` or another grain"));
    };
    let now = Some(context.now());
    let end = |flag: &str, text: &str| calendar.canonical(text, now).map_err(|error| error.within(format!("`{flag}`")));
    Ok(calendar.range(&end("--from", from)?, &end("--to", to)?)?.collect())
}

fn dry_run(boundary: &Boundary, task: &Task, args: &BackfillArgs, intervals: Vec<Interval>) -> Result<u8> {
    for interval in intervals {
        let why = boundary.why(task, &Partition::of(interval))?;
        let would = match would(&why, args) {
            Would::Run => "run",
            Would::Nothing => "nothing",
            Would::Wait => "held",
            Would::Recover => "recover",
            Would::Refuse => "refuse",
        };
        if !output::data(&format!("{}\t{would}\t{}", why.partition, why.because.join("; "))) {
            break;
        }
    }
    Ok(exit_code::PUBLISHED)
}

/// What a run with these flags would do.
fn would(why: &Why, args: &BackfillArgs) -> Would {
    let asked = args.repeat.rerun || (args.repeat.if_changed && why.changed);
    let helps = |flag: &str| why.next.as_ref().is_some_and(|next| next.contains(flag));
    match why.would {
        Would::Nothing if asked => Would::Run,
        Would::Refuse if why.changed && asked => Would::Run,
        Would::Refuse if args.repeat.rerun && helps("--rerun") || args.adopt && helps("--adopt") => Would::Run,
        would => would,
    }
}

#[derive(Debug, Default)]
struct Tally {
    published: u64,
    already: u64,
    failed: Vec<Interval>,
    exit_code: u8,
}

/// The dates and who works on them. Each date is a process of its own, so that each can answer for what its command
/// left behind, however many run side by side.
struct Work {
    arguments: Vec<OsString>,
    waiting: Mutex<VecDeque<Interval>>,
    tally: Mutex<Tally>,
    running: Mutex<Running>,
}

/// The processes that work, and the signal that ends them, once there was one.
#[derive(Debug, Default)]
struct Running {
    pids: BTreeSet<u32>,
    stopped_by: Option<i32>,
}

/// A worker that panicked has printed why; what it counted so far stands.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Work {
    /// Workers take dates until none is left; a signal ends the running commands and takes no further date.
    fn run(&self, jobs: u16, events: &EventReceiver) {
        let working = AtomicU16::new(jobs);
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    self.take_turns();
                    working.fetch_sub(1, Ordering::SeqCst);
                });
            }
            while working.load(Ordering::SeqCst) > 0 {
                if let Some(Event::Signal(signal)) = events.next_within(GLANCE) {
                    let mut running = lock(&self.running);
                    running.stopped_by = Some(signal);
                    running.pids.iter().for_each(|pid| pass_on(*pid, signal));
                }
            }
        });
    }

    fn take_turns(&self) {
        while lock(&self.running).stopped_by.is_none() {
            let next = lock(&self.waiting).pop_front();
            let Some(interval) = next else { return };
            match self.one(&interval.key) {
                Ok((outcome, code)) => lock(&self.tally).add(interval, outcome, code),
                Err(error) => {
                    output::failure(&error, Window::NothingPublished);
                    lock(&self.tally).fail(interval, exit_code::FAILED);
                }
            }
        }
    }

    /// One `refrain run`; its report tells the outcome, its exit code whose it was.
    fn one(&self, key: &str) -> Result<(Option<Outcome>, u8)> {
        let failed = |error| Error::io(format!("cannot run `{key}`"), error);
        let run = Again::start(self.arguments.iter().map(OsString::as_os_str).chain(["--date".as_ref(), key.as_ref()]))
            .map_err(failed)?;
        let pid = run.pid();
        {
            let mut running = lock(&self.running);
            running.pids.insert(pid);
            if let Some(signal) = running.stopped_by {
                pass_on(pid, signal);
            }
        }
        let ended = run.wait();
        lock(&self.running).pids.remove(&pid);
        let (status, report) = ended.map_err(failed)?;
        let outcome = serde_json::from_slice::<Reported>(&report).ok().map(|report| report.outcome);
        let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit_code::FAILED);
        Ok((outcome, code))
    }
}

/// What a backfill reads of a report.
#[derive(serde::Deserialize)]
struct Reported {
    outcome: Outcome,
}

impl Tally {
    fn add(&mut self, interval: Interval, outcome: Option<Outcome>, code: u8) {
        match outcome {
            Some(Outcome::Published) => self.published += 1,
            Some(Outcome::AlreadyPublished) => self.already += 1,
            _ => self.fail(interval, code),
        }
    }

    fn fail(&mut self, interval: Interval, code: u8) {
        self.failed.push(interval);
        if self.exit_code == 0 {
            self.exit_code = code;
        }
    }

    fn print(&self, task: &Task, left: usize, loudness: Loudness) {
        if loudness < Loudness::Normal && self.failed.is_empty() && left == 0 {
            return;
        }
        let mut line = format!(
            "backfill: {}: {} published, {} already published, {} failed",
            task.name,
            self.published,
            self.already,
            self.failed.len()
        );
        if left > 0 {
            line.push_str(&format!(", {left} not begun"));
        }
        output::say(&line);
        if !self.failed.is_empty() {
            let keys: Vec<_> = self.failed.iter().map(|interval| interval.key.as_str()).collect();
            output::say(&format!("failed: {}", keys.join(", ")));
        }
    }
}
