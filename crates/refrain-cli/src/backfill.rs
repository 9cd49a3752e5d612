//! `refrain backfill`: one `refrain run` for every date of a range.

use crate::args::BackfillArgs;
use crate::context::Context;
use crate::output::{self, Loudness};
use crate::run::repeat;
use crate::signals;
use refrain::core::{Interval, Partition, PartitionScheme, Window};
use refrain::process::{Event, EventReceiver, channel};
use refrain::report::exit_code;
use refrain::why::Would;
use refrain::{Boundary, Conclusion, Error, Options, Result, Stdout, Task};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs every date; returns the exit code of the first that failed.
pub(crate) fn backfill(context: &Context, args: &BackfillArgs) -> Result<u8> {
    let boundary = context.boundary()?;
    let task = boundary.home().config.task(&args.task)?.clone();
    let intervals = range(context, &task, &args.from, &args.to)?;
    if args.dry_run {
        return dry_run(&boundary, &task, intervals);
    }
    let (_, events) = signals::listen()?;
    let options = Options { repeat: repeat(&args.repeat), ..Options::default() };
    let work = Work {
        boundary: &boundary,
        task: &task,
        options: &options,
        loudness: context.loudness,
        waiting: Mutex::new(intervals.into()),
        tally: Mutex::new(Tally::default()),
        stopped: AtomicBool::new(false),
        running: Mutex::new(Vec::new()),
    };
    work.run(args.jobs, &events);
    let tally = work.tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let left = work.waiting.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).len();
    tally.print(&task, args, left, context.loudness);
    Ok(tally.exit_code)
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

struct Work<'a> {
    boundary: &'a Boundary,
    task: &'a Task,
    options: &'a Options,
    loudness: Loudness,
    waiting: Mutex<VecDeque<Interval>>,
    tally: Mutex<Tally>,
    stopped: AtomicBool,
    running: Mutex<Vec<refrain::process::EventSender>>,
}

impl Work<'_> {
    /// Workers take dates until none is left; a signal ends the running commands and takes no further date.
    fn run(&self, jobs: u16, events: &EventReceiver) {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(|| self.take_turns())).collect();
            scope.spawn(|| {
                for worker in workers {
                    // A worker's panic was printed where it happened; its date counts as not done.
                    drop(worker.join());
                }
                done.store(true, Ordering::SeqCst);
            });
            while !done.load(Ordering::SeqCst) {
                if let Some(Event::Signal(signal)) = events.next_within(std::time::Duration::from_millis(50)) {
                    self.stopped.store(true, Ordering::SeqCst);
                    for running in self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner).iter() {
                        running.send(Event::Signal(signal));
                    }
                }
            }
        });
    }

    fn take_turns(&self) {
        while !self.stopped.load(Ordering::SeqCst) {
            let next = self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop_front();
            let Some(interval) = next else { return };
            self.one(interval);
        }
    }

    fn one(&self, interval: Interval) {
        let partition = Partition::of(interval);
        let (sender, receiver) = channel();
        self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(sender.clone());
        let ended = self.boundary.run(self.task, &partition, self.options, Stdout::Inherit, (sender, receiver));
        let mut tally = self.tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match ended {
            Ok(conclusion) => tally.add(&partition.key, &conclusion, self.loudness),
            Err(error) => {
                output::failure(&error, Window::NothingPublished);
                tally.fail(&partition.key, exit_code::FAILED);
            }
        }
    }
}

impl Tally {
    fn add(&mut self, key: &str, conclusion: &Conclusion, loudness: Loudness) {
        output::conclusion(conclusion, loudness);
        match conclusion.report.outcome {
            refrain::core::Outcome::Published => self.published += 1,
            refrain::core::Outcome::AlreadyPublished => self.already += 1,
            _ => self.fail(key, conclusion.report.exit_code),
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
