//! `refrain backfill`: one `refrain run` for every date of a range.

use crate::args::BackfillArgs;
use crate::context::Context;
use crate::output::{self, Loudness};
use crate::signals;
use refrain::core::{Interval, Outcome, Partition, PartitionScheme, Window};
use refrain::process::{Again, Event, EventReceiver, pass_on};
use refrain::report::exit_code;
use refrain::why::Would;
use refrain::{Boundary, Error, Result, Task};
use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a waiting backfill looks whether its workers are done.
const GLANCE: Duration = Duration::from_millis(50);

/// Runs every date; returns the exit code of the first that failed.
pub(crate) fn backfill(context: &Context, args: &BackfillArgs) -> Result<u8> {
    let boundary = context.boundary()?;
    let task = boundary.home().config.task(&args.task)?.clone();
    let intervals = range(context, &task, &args.from, &args.to)?;
    if args.dry_run {
        return dry_run(&boundary, &task, intervals);
    }
    let (_, events) = signals::listen()?;
    let work = Work {
        arguments: arguments(&boundary, context, args),
        waiting: Mutex::new(intervals.into()),
        tally: Mutex::new(Tally::default()),
        stopped: AtomicBool::new(false),
        running: Mutex::new(BTreeSet::new()),
    };
    work.run(args.jobs, &events);
    let left = lock(&work.waiting).len();
    let tally = lock(&work.tally);
    tally.print(&task, args, left, context.loudness);
    Ok(tally.exit_code)
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
    if args.repeat.rerun {
        arguments.push("--rerun".into());
    }
    if args.repeat.if_changed {
        arguments.push("--if-changed".into());
    }
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

fn dry_run(boundary: &Boundary, task: &Task, intervals: Vec<Interval>) -> Result<u8> {
    for interval in intervals {
        let why = boundary.why(task, &Partition::of(interval))?;
        let would = match why.would {
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

#[derive(Debug, Default)]
struct Tally {
    published: u64,
    already: u64,
    failed: Vec<String>,
    exit_code: u8,
}

/// The dates and who works on them. Each date is a process of its own, so that each can answer for what its command
/// left behind, however many run side by side.
struct Work {
    arguments: Vec<OsString>,
    waiting: Mutex<VecDeque<Interval>>,
    tally: Mutex<Tally>,
    stopped: AtomicBool,
    running: Mutex<BTreeSet<u32>>,
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
                    self.stopped.store(true, Ordering::SeqCst);
                    for pid in lock(&self.running).iter() {
                        pass_on(*pid, signal);
                    }
                }
            }
        });
    }

    fn take_turns(&self) {
        while !self.stopped.load(Ordering::SeqCst) {
            let next = lock(&self.waiting).pop_front();
            let Some(interval) = next else { return };
            match self.one(&interval.key) {
                Ok((outcome, code)) => lock(&self.tally).add(&interval.key, outcome, code),
                Err(error) => {
                    output::failure(&error, Window::NothingPublished);
                    lock(&self.tally).fail(&interval.key, exit_code::FAILED);
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
        lock(&self.running).insert(pid);
        let ended = run.wait();
        lock(&self.running).remove(&pid);
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
    fn add(&mut self, key: &str, outcome: Option<Outcome>, code: u8) {
        match outcome {
            Some(Outcome::Published) => self.published += 1,
            Some(Outcome::AlreadyPublished) => self.already += 1,
            _ => self.fail(key, code),
        }
    }

    fn fail(&mut self, key: &str, code: u8) {
        self.failed.push(key.to_owned());
        if self.exit_code == 0 {
            self.exit_code = code;
        }
    }

    fn print(&self, task: &Task, args: &BackfillArgs, left: usize, loudness: Loudness) {
        if loudness < Loudness::Normal && self.failed.is_empty() {
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
            output::say(&format!("failed: {}", self.failed.join(", ")));
        }
        if left > 0 || !self.failed.is_empty() {
            output::say(&format!("to go on: refrain backfill {} --from {} --to {}", task.name, args.from, args.to));
        }
    }
}
