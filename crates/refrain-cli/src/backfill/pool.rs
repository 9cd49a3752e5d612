//! The worker processes of a backfill, and who works on which date.

use super::progress::Progress;
use super::queue::{Next, Queue, Stopped};
use super::tally::Tally;
use super::worker::{Answer, Ended, Order};
use crate::signals;
use refrain::core::{Outcome, Window};
use refrain::process::{Again, pass_on};
use refrain::report::exit_code;
use refrain::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the backfill hears of.
enum Happening {
    Signal(i32),
    /// A try of a date failed, and another one follows.
    Again(String),
    /// The thread with this number has an end to tell.
    Ended(usize, Next, Ended),
}

/// The processes that work, and the signal that ends them, once there was one.
#[derive(Debug, Default)]
struct Running {
    pids: BTreeSet<u32>,
    signal: Option<i32>,
}

/// Nothing in there can be left half done.
fn lock(running: &Mutex<Running>) -> MutexGuard<'_, Running> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Works on the dates of the queue with so many workers; returns how it went.
///
/// A signal goes to every worker: what runs ends as `refrain run` would, and no further date is begun. A worker that dies
/// costs the date that it had, and another one takes its place.
pub(super) fn run(arguments: &[OsString], jobs: usize, queue: &mut Queue, progress: &Progress) -> Result<Tally> {
    let (tell, happenings) = mpsc::channel();
    let signals = tell.clone();
    signals::forward_to(move |signal| drop(signals.send(Happening::Signal(signal))))?;
    let running = Mutex::default();
    std::thread::scope(|scope| {
        let threads: Vec<Sender<Next>> = (0..jobs)
            .map(|number| {
                let (give, orders) = mpsc::channel();
                let thread = Thread { number, arguments, tell: tell.clone(), running: &running, worker: None };
                scope.spawn(move || thread.run(&orders));
                give
            })
            .collect();
        Ok(coordinate(&threads, &happenings, &running, queue, progress))
    })
}

fn coordinate(
    threads: &[Sender<Next>],
    happenings: &Receiver<Happening>,
    running: &Mutex<Running>,
    queue: &mut Queue,
    progress: &Progress,
) -> Tally {
    let mut idle: Vec<usize> = (0..threads.len()).rev().collect();
    let mut tally = Tally::default();
    loop {
        while let Some(&thread) = idle.last()
            && let Some(next) = queue.next(threads.len() - idle.len())
        {
            idle.pop();
            // A thread takes orders as long as its sender lives.
            drop(threads[thread].send(next));
        }
        if idle.len() == threads.len() {
            return tally;
        }
        // This function's caller holds a sender, so there is always somebody to hear of.
        match happenings.recv() {
            Ok(Happening::Signal(signal)) => {
                queue.stop(Stopped::Signal(signal));
                let mut running = lock(running);
                running.signal = Some(signal);
                running.pids.iter().for_each(|pid| pass_on(*pid, signal));
            }
            Ok(Happening::Again(line)) => progress.note(&format!("retry: {line}")),
            Ok(Happening::Ended(thread, next, ended)) => {
                idle.push(thread);
                settle(queue, &mut tally, next, ended, progress);
            }
            Err(_) => return tally,
        }
    }
}

fn settle(queue: &mut Queue, tally: &mut Tally, next: Next, ended: Ended, progress: &Progress) {
    let interval = next.interval.clone();
    match ended.outcome {
        Outcome::Published | Outcome::AlreadyPublished => {
            progress.ended(&ended);
            tally.done(ended.outcome);
        }
        Outcome::Held if queue.held(next) => {}
        Outcome::Held => {
            progress.ended(&ended);
            tally.held(interval);
        }
        _ => {
            queue.failed();
            progress.ended(&ended);
            tally.failed(interval, ended);
        }
    }
    progress.show(tally);
}

/// A thread with one worker process.
struct Thread<'a> {
    number: usize,
    arguments: &'a [OsString],
    tell: Sender<Happening>,
    running: &'a Mutex<Running>,
    worker: Option<Again>,
}

impl Thread<'_> {
    fn run(mut self, orders: &Receiver<Next>) {
        for next in orders {
            let ended = self.one(&next).unwrap_or_else(|error| lost(&next, &error));
            if self.tell.send(Happening::Ended(self.number, next, ended)).is_err() {
                break;
            }
        }
        if let Some(worker) = self.worker.take()
            && let Err(error) = self.end(worker)
        {
            tracing::warn!(%error, "a worker could not be waited for");
        }
    }

    fn one(&mut self, next: &Next) -> Result<Ended> {
        let key = &next.interval.key;
        let failed = |error| Error::io(format!("cannot run `{key}`"), error);
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            None => self.start().map_err(failed)?,
        };
        let order = Order { partition: key.clone(), last: next.last };
        let line = serde_json::to_string(&order)
            .map_err(|error| Error::new(ErrorKind::Internal, "cannot write an order").because(error))?;
        // That it has ended is found when its answer is waited for.
        drop(worker.order(&line));
        loop {
            let answer = worker.answer().map_err(failed)?;
            match answer.map(|line| serde_json::from_str(&line)) {
                Some(Ok(Answer::Ended(ended))) => {
                    self.worker = Some(worker);
                    return Ok(ended);
                }
                Some(Ok(Answer::Again(line))) => drop(self.tell.send(Happening::Again(line))),
                Some(Err(error)) => {
                    return Err(Error::new(ErrorKind::Internal, "a worker's answer is not readable").because(error));
                }
                None => {
                    let status = self.end(worker).map_err(failed)?;
                    return Err(Error::new(
                        ErrorKind::Unknown,
                        format!("the process that worked on it {}", end(status)),
                    ));
                }
            }
        }
    }

    fn start(&self) -> std::io::Result<Again> {
        let worker = Again::start(self.arguments)?;
        let mut running = lock(self.running);
        running.pids.insert(worker.pid());
        if let Some(signal) = running.signal {
            pass_on(worker.pid(), signal);
        }
        Ok(worker)
    }

    fn end(&self, worker: Again) -> std::io::Result<ExitStatus> {
        // Before its pid can be another's.
        lock(self.running).pids.remove(&worker.pid());
        worker.end()
    }
}

fn end(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "is gone".to_owned(),
    }
}

/// A date whose worker told no end. What it did before is not known here.
fn lost(next: &Next, error: &Error) -> Ended {
    let window = Window::Unknown;
    Ended {
        outcome: Outcome::Unknown,
        window,
        exit_code: exit_code::UNKNOWN,
        attempt: None,
        line: format!("unknown: {}: {error}. {}", next.interval.key, window.sentence()),
        notes: Vec::new(),
    }
}
