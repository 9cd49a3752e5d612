//! Drives the attempt's state machine: does what [`Attempt::next`](refrain_core::Attempt::next) says at the store
//! and the sinks, and tells it how that ended. No decision of the protocol is taken here.

mod claims;
mod commit;
mod opening;

use crate::boundary::{Boundary, Options};
use crate::clock::Stopwatch;
use crate::conclude;
use crate::heartbeat::{Heartbeat, Loss};
use crate::ids;
use crate::plan::Plan;
use crate::process::{Event, EventReceiver, EventSender, signal_name};
use crate::report::{Conclusion, Report};
use crate::settle;
use refrain_core::{
    Action, Attempt, AttemptId, CrashPoint, Ending, Error, ErrorKind, Generation, Goal, Head, Lease, Outcome,
    Publication, RunRecord, Want,
};
use std::time::Duration;

/// Pause before a request is sent again, and between two looks at a lease that is waited for.
const PAUSE: Duration = Duration::from_millis(50);

/// One attempt with everything that it works on.
pub(crate) struct Driver<'b> {
    pub(crate) boundary: &'b Boundary,
    pub(crate) plan: Plan,
    pub(crate) options: Options,
    pub(crate) machine: Attempt,
    pub(crate) id: AttemptId,
    pub(crate) report: Report,
    pub(crate) notes: Vec<String>,
    /// Why the attempt failed, for the answer "not published".
    pub(crate) failure: Option<Failure>,
    /// Whose lease stood in the way, or who fenced this attempt.
    pub(crate) other: Option<Other>,
    /// What this attempt sealed.
    pub(crate) sealed: Option<Publication>,
    pub(crate) watch: Stopwatch,
    pub(crate) want: Want,
    /// The run that the store knew when it granted the lease.
    pub(crate) at_hand: Option<RunRecord>,
    /// The version that a run opened by this attempt would publish again.
    pub(crate) restores: Option<Generation>,
    /// Whether this attempt opened the run, so that there was no attempt before.
    pub(crate) opened: bool,
    /// The version of an earlier attempt of which this one made an output visible.
    pub(crate) carried: Option<Generation>,
    /// Whether the ends of earlier attempts were recorded.
    settled: bool,
    /// Whether this attempt only settles what others left, or publishes what they sealed.
    recovers: bool,
    heartbeat: Option<Heartbeat>,
    /// What the heartbeat said at its end.
    pub(crate) loss: Option<Loss>,
    conclusion: Option<Conclusion>,
}

/// Another attempt that this one met.
pub(crate) enum Other {
    Lease(Lease),
    Head(Box<Head>),
}

/// A failure with the exit code that it gives.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// The task's own code, or 128 + signal; nothing: by the error's kind.
    pub(crate) exit_code: Option<u8>,
    /// The signal that this program got, if that is why.
    pub(crate) stopped_by: Option<i32>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, exit_code: None, stopped_by: None }
    }
}

/// Where the driver stopped.
pub(crate) enum Pause {
    /// The task must be executed for this run.
    Execute(RunRecord),
    /// The attempt is over.
    End,
}

impl<'b> Driver<'b> {
    pub(crate) fn new(
        boundary: &'b Boundary,
        plan: Plan,
        options: Options,
        goal: Goal,
        want: Want,
        watch: Stopwatch,
    ) -> Self {
        let id = ids::attempt();
        let machine = Attempt::new(id, goal, plan.outputs.iter().map(|output| output.slot.clone()));
        let repairs = goal == Goal::Replace && options.adopt;
        let machine = if repairs { machine.repairing() } else { machine };
        let mut report = Report::new(&plan.key, boundary.now());
        report.attempt = Some(id);
        Self {
            boundary,
            plan,
            options,
            machine,
            id,
            report,
            notes: Vec::new(),
            failure: None,
            other: None,
            sealed: None,
            watch,
            want,
            at_hand: None,
            restores: None,
            opened: false,
            carried: None,
            settled: false,
            recovers: goal == Goal::Settle,
            heartbeat: None,
            loss: None,
            conclusion: None,
        }
    }

    /// Goes on until the task must be executed or the attempt is over.
    pub(crate) fn drive(&mut self, sender: &EventSender, events: &EventReceiver) -> Pause {
        self.boundary.sinks.heed(events.signalled());
        loop {
            let action = self.machine.next();
            tracing::debug!(attempt = %self.id, ?action, "next");
            let done = match action {
                Action::Acquire => self.acquire(sender, events),
                Action::Claim(slot) => self.claim(&slot),
                Action::Raise(floor) => self.raise(floor),
                Action::OpenRun(seen) => self.open_run(seen.as_ref()),
                Action::Commit(slot, step) => self.commit(&slot, *step, events),
                Action::Read(slot) => self.read(&slot),
                Action::Execute(run) => {
                    // Now, while the heads show what former attempts published and this one will replace.
                    self.settle_predecessors();
                    return Pause::Execute(run);
                }
                Action::Finish => {
                    self.finish();
                    Ok(())
                }
                Action::Report(answer) => {
                    if self.conclusion.is_none() {
                        self.conclusion = Some(conclude::conclude(self, &answer));
                    }
                    return Pause::End;
                }
            };
            if let Err(error) = done {
                tracing::warn!(attempt = %self.id, %error, "a step failed");
                self.failure = Some(self.failure_of(error, events));
                self.machine.failed();
            }
        }
    }

    /// A wait that a signal broke off is the signal's doing, as long as nothing is decided.
    pub(crate) fn failure_of(&self, error: Error, events: &EventReceiver) -> Failure {
        if error.kind == ErrorKind::Unavailable
            && self.machine.standing().is_none()
            && let Some(Event::Signal(signal)) = events.try_next()
        {
            let mut stopped = stopped_by(signal, &format!("while {}", error.message));
            stopped.error.hint = error.hint;
            return stopped;
        }
        error.into()
    }

    /// The run to open executes nothing: it publishes a kept version again.
    pub(crate) fn restore(&mut self, version: Generation) {
        self.restores = Some(version);
    }

    /// Opens no run and executes nothing: what is sealed already may be published.
    pub(crate) fn recover(&mut self) {
        self.recovers = true;
    }

    /// What this attempt publishes was sealed by another.
    pub(crate) fn sealed_by(&mut self, maker: AttemptId) {
        self.report.sealed_by = Some(maker);
    }

    /// The kind of the failure, also when it is told already.
    pub(crate) fn failed_as(&self) -> Option<ErrorKind> {
        let told = self.conclusion.as_ref().and_then(|conclusion| conclusion.error.as_ref());
        self.failure.as_ref().map(|failure| failure.error.kind).or_else(|| told.map(|error| error.kind))
    }

    /// The end, once [`drive`](Self::drive) returned [`Pause::End`].
    pub(crate) fn into_conclusion(mut self) -> Conclusion {
        match self.conclusion.take() {
            Some(conclusion) => conclusion,
            None => conclude::conclude(&mut self, &refrain_core::Answer::NotPublished(refrain_core::Cause::Failed)),
        }
    }

    /// Ends the attempt before its commit.
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failure = Some(failure);
        self.machine.failed();
    }

    fn settle_predecessors(&mut self) {
        if !self.settled
            && let Some(holder) = self.machine.holder()
        {
            settle::predecessors(self, &holder);
            self.settled = true;
        }
    }

    pub(crate) fn reach(&self, point: CrashPoint) {
        self.boundary.outside.probe.reach(point);
    }

    /// 5.10: everything here is bookkeeping; a failure is told and changes no answer.
    fn finish(&mut self) {
        self.loss = self.heartbeat.take().and_then(|heartbeat| heartbeat.loss());
        if !self.machine.is_over() {
            self.machine.failed();
        }
        if let Some(answer) = self.machine.answer().cloned() {
            let mut conclusion = conclude::conclude(self, &answer);
            self.reach(CrashPoint::BeforeFinish);
            self.settle_predecessors();
            if let Some(holder) = self.machine.holder() {
                let finished = self.boundary.store.finish(&self.plan.key, &holder, &self.ending(&conclusion.report));
                if let Err(error) = finished {
                    tracing::warn!(rule = "5.10", %error, "the end could not be recorded");
                }
            }
            conclusion.notes.extend(settle::clean_up(self, &answer));
            self.reach(CrashPoint::AfterFinish);
            self.conclusion = Some(conclusion);
        }
        self.machine.finished();
    }

    /// What is recorded of this attempt.
    fn ending(&self, report: &Report) -> Ending {
        let ending = report.ending();
        if !self.recovers || ending.outcome != Outcome::AlreadyPublished {
            return ending;
        }
        let stands = report.generation.map(|version| format!("version {version} stands"));
        Ending { outcome: Outcome::Recovered, message: stands, ..ending }
    }
}

/// When a signal came before the command did.
pub(crate) const BEFORE_THE_COMMAND: &str = "before the command was started";

/// A failure by a signal that arrived while no command was running.
pub(crate) fn stopped_by(signal: i32, when: &str) -> Failure {
    let error = Error::new(ErrorKind::TaskFailed, format!("refrain got {} {when}", signal_name(signal)));
    Failure { error, exit_code: u8::try_from(128 + signal).ok(), stopped_by: Some(signal) }
}
