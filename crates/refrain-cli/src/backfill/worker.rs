//! One of the processes that a backfill's dates are run by, one date after the other.
//!
//! Each has one command at a time, so that it can answer for what that command left behind, however many run side by
//! side; and it serves many dates, so that starting the program and opening the home is paid for once. It takes its
//! orders from stdin and answers on stdout. When stdin ends while it works, the backfill is dead: nobody counts what it
//! does, so it stops as it would for SIGTERM.

use crate::args::{EachArgs, WorkerArgs};
use crate::context::Context;
use crate::output;
use crate::run::{duration, repeat, set_params, set_retries};
use crate::signals;
use refrain::core::{Outcome, Window};
use refrain::process::Relay;
use refrain::report::exit_code;
use refrain::{Boundary, Conclusion, Error, ErrorKind, Options, Report, Result, Stdout, Task};
use serde::{Deserialize, Serialize};
use std::io::BufRead;
use std::sync::mpsc::{self, Receiver};

/// SIGTERM, as the number that commands and exit codes know.
const TERM: i32 = 15;

/// A date to work on.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) partition: String,
    /// The backfill does not come back to it: it is waited for here if it is held.
    pub(super) last: bool,
}

/// What a worker says of a date.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// A try failed, and another one follows.
    Again(String),
    /// Nothing more follows.
    Ended(Ended),
}

/// The end of a date.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    pub(super) window: Window,
    pub(super) exit_code: u8,
    /// The attempt whose output is kept.
    pub(super) attempt: Option<String>,
    /// What happened, for people.
    pub(super) line: String,
    pub(super) notes: Vec<String>,
}

/// `refrain backfill-worker`
pub(crate) fn worker(context: &Context, args: &WorkerArgs) -> Result<u8> {
    let boundary = context.boundary()?;
    let (task, options) = task(&boundary, &args.task, &args.each)?;
    let relay = signals::listening()?;
    for line in orders(relay.clone())? {
        let order: Order = serde_json::from_str(&line)
            .map_err(|error| Error::new(ErrorKind::Internal, format!("`{line}` is no order")).because(error))?;
        let ended = one(&boundary, &task, &options, &order, &relay);
        tell(&Answer::Ended(ended))?;
    }
    Ok(exit_code::PUBLISHED)
}

/// The declared task, with what the flags change for every date.
pub(super) fn task(boundary: &Boundary, name: &str, each: &EachArgs) -> Result<(Task, Options)> {
    let mut task = boundary.home().config.task(name)?.clone();
    set_params(&mut task, &each.params)?;
    set_retries(&mut task, each.retries);
    if let Some(text) = &each.timeout {
        task.timeout = Some(duration("--timeout", text)?);
    }
    let options = Options {
        repeat: repeat(&each.repeat),
        wait: each.wait.as_deref().map(|text| duration("--wait", text)).transpose()?,
        adopt: each.adopt,
        ..Options::default()
    };
    Ok((task, options))
}

/// The lines of stdin, read by a thread of its own, so that their end is noticed while a date is worked on.
fn orders(relay: Relay) -> Result<Receiver<String>> {
    let (give, orders) = mpsc::channel();
    let read = move || {
        for line in std::io::stdin().lock().lines().map_while(std::io::Result::ok) {
            if give.send(line).is_err() {
                return;
            }
        }
        relay.signal(TERM);
    };
    std::thread::Builder::new()
        .name("orders".to_owned())
        .spawn(read)
        .map_err(|error| Error::io("cannot start a thread", error))?;
    Ok(orders)
}

fn one(boundary: &Boundary, task: &Task, options: &Options, order: &Order, relay: &Relay) -> Ended {
    let options =
        Options { wait: options.wait.filter(|_| order.last), returns_to_held: !order.last, ..options.clone() };
    let mut attach = || Ok(relay.attach());
    // Nobody to tell is noticed when the end is told.
    let mut again = |failed: &Conclusion, next: refrain::NextTry| drop(tell(&Answer::Again(next.line(failed))));
    let conclusion = task.partitions.partition_of_key(&order.partition).and_then(|partition| {
        boundary.run_with_retries(task, &partition, &options, Stdout::Kept, &mut attach, &mut again)
    });
    let conclusion = conclusion.unwrap_or_else(|error| {
        let report = Report::of_error(task.name.as_str(), &order.partition, boundary.now(), &error);
        Conclusion { report, notes: Vec::new(), error: Some(error) }
    });
    let report = &conclusion.report;
    Ended {
        outcome: report.outcome,
        window: report.window,
        exit_code: report.exit_code,
        attempt: report.attempt.map(|attempt| attempt.to_string()),
        line: output::one_line(&conclusion),
        notes: conclusion.notes,
    }
}

fn tell(answer: &Answer) -> Result<()> {
    let line = serde_json::to_string(answer)
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot write an answer").because(error))?;
    if output::data(&line) { Ok(()) } else { Err(Error::new(ErrorKind::Internal, "nobody listens to the answers")) }
}
