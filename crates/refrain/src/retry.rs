//! Tries again what may pass: further attempts of the same run, with its pins, after growing pauses.

use crate::boundary::{Boundary, Options, Repeat};
use crate::command::Stdout;
use crate::driver::stopped_by;
use crate::ids;
use crate::process::{Event, EventReceiver, EventSender};
use crate::report::{Conclusion, Report};
use crate::task::Task;
use refrain_core::{ErrorKind, Partition, Result, TaskEnd, Window, format_duration};
use std::time::Duration;

/// A further try that is about to be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextTry {
    /// Which attempt of the call it will be; the first was 1.
    pub number: u32,
    /// How many there may be.
    pub of: u32,
    /// How long it is waited for, in whole milliseconds.
    pub after: Duration,
}

impl NextTry {
    /// One line: what failed, its window, when it is tried again.
    pub fn line(&self, failed: &Conclusion) -> String {
        let report = &failed.report;
        let key = if report.partition.is_empty() {
            report.task.clone()
        } else {
            format!("{} {}", report.task, report.partition)
        };
        let why = report.error.as_ref().map(|error| error.message.as_str()).unwrap_or_default();
        let (number, of, after) = (self.number, self.of, format_duration(self.after));
        format!("{key}: {why}: {} Next try ({number} of {of}) in {after}", report.window.sentence())
    }
}

/// Makes the channel of the next attempt, or of the pause before it, as [`Relay::attach`](crate::process::Relay::attach)
/// does: a signal that came before is in it.
pub type Attach<'a> = dyn FnMut() -> Result<(EventSender, EventReceiver)> + 'a;

impl Boundary {
    /// As [`Boundary::run`], with the further attempts that the task's `retry` allows. `tell` hears of each one before
    /// the pause, in which no lease is held and a signal ends the call at once.
    ///
    /// # Errors
    /// As [`Boundary::run`]. Of what fails before there is an attempt only `unavailable` is tried again.
    pub fn run_with_retries(
        &self,
        task: &Task,
        partition: &Partition,
        options: &Options,
        stdout: Stdout,
        attach: &mut Attach<'_>,
        tell: &mut dyn FnMut(&Conclusion, NextTry),
    ) -> Result<Conclusion> {
        let mut options = options.clone();
        let of = task.retry.attempts;
        for number in 2..=of {
            let mut conclusion = match self.run(task, partition, &options, stdout, &mut *attach) {
                Err(error) if error.kind == ErrorKind::Unavailable => {
                    let report = Report::of_error(task.name.as_str(), &partition.key, self.now(), &error);
                    Conclusion { report, notes: Vec::new(), error: Some(error) }
                }
                ended => ended?,
            };
            let kind = conclusion.report.error.as_ref().map(|error| error.kind);
            let covers = |kind| task.retry.covers(conclusion.report.window, kind, conclusion.report.task_end);
            if kind == Some(ErrorKind::Held) && options.returns_to_held || !kind.is_some_and(covers) {
                conclusion.notes.extend(not_listed(&conclusion));
                return Ok(conclusion);
            }
            let (_, events) = attach()?;
            if let Some(Event::Signal(_)) = events.try_next() {
                return Ok(conclusion);
            }
            let drawn = task.retry.backoff.pause(number - 1, ids::fraction());
            let after = Duration::from_millis(u64::try_from(drawn.as_millis()).unwrap_or(u64::MAX));
            tell(&conclusion, NextTry { number, of, after });
            if let Some(Event::Signal(signal)) = events.next_within(after) {
                stop(&mut conclusion, signal);
                return Ok(conclusion);
            }
            // The run that was opened goes on; asking for a replacement again would open another one.
            if conclusion.report.run.is_some() {
                options.repeat = Repeat::Never;
            }
        }
        self.run(task, partition, &options, stdout, attach)
    }
}

/// Retries were asked for, and the task's own failure is not among those that may pass.
fn not_listed(conclusion: &Conclusion) -> Option<String> {
    let what = match conclusion.report.task_end? {
        TaskEnd::Code(code) => format!("exit code {code}"),
        TaskEnd::Signal(signal) => format!("the end by signal {signal}"),
        TaskEnd::TimedOut => "the time limit".to_owned(),
    };
    Some(format!("not tried again: {what} is not in the task's `retry_on`"))
}

/// The call ends while it waits: the last attempt published nothing, and nothing more is tried.
fn stop(conclusion: &mut Conclusion, signal: i32) {
    let stopped = stopped_by(signal, "while it waited to try again");
    let last = conclusion.error.take();
    let message = match &last {
        Some(last) => format!("{}; the last try: {last}", stopped.error.message),
        None => stopped.error.message.clone(),
    };
    let error = refrain_core::Error::new(ErrorKind::TaskFailed, message);
    let report = &mut conclusion.report;
    report.fail(&error);
    report.window = Window::NothingPublished;
    report.exit_code = stopped.exit_code.unwrap_or(report.exit_code);
    (report.task_exit, report.task_end) = (None, None);
    report.judge(None);
    conclusion.error = Some(error);
}
