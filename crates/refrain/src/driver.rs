//! Drives the attempt's state machine: does what [`Attempt::next`](refrain_core::Attempt::next) says at the store
//! and the sinks, and tells it how that ended. No decision of the protocol is taken here.

use crate::boundary::{Boundary, Options};
use crate::clock::Stopwatch;
use crate::compact;
use crate::conclude;
use crate::heartbeat::{Heartbeat, Loss};
use crate::holder::life_of;
use crate::ids;
use crate::places;
use crate::plan::{Plan, PlannedSource};
use crate::process::{Event, EventReceiver, EventSender, Liveness, end_by_attempt, signal_name};
use crate::report::{Conclusion, Report};
use crate::settle;
use refrain_core::{
    Acquired, Action, Adopt, Attempt, AttemptId, CommitAnswer, CommitOptions, CommitStep, CrashPoint, Ending, Error,
    ErrorKind, Generation, Goal, Head, Input, Lease, LeaseRequest, OpenRun, Outcome, OutputSlot, PinRequest,
    Publication, Refusal, Result, RunProposal, RunRecord, Sink, SlotAddress, Token, Want,
};
use std::sync::Arc;
use std::time::Duration;

/// How often a commit whose answer was lost is sent again before the attempt gives up (5.11).
const RESEND_LIMIT: u32 = 5;

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
    want: Want,
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
                Action::Commit(slot, step) => self.commit(&slot, *step),
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
    fn failure_of(&self, error: Error, events: &EventReceiver) -> Failure {
        if error.kind == ErrorKind::Unavailable
            && self.machine.decided().is_none()
            && let Some(Event::Signal(signal)) = events.try_next()
        {
            let stopped = stopped_by(signal);
            let mut error = error.kind(stopped.error.kind);
            error.message = format!("refrain got {} while {}", signal_name(signal), error.message);
            return Failure { error, ..stopped };
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

    /// 5.1
    fn acquire(&mut self, sender: &EventSender, events: &EventReceiver) -> Result<()> {
        self.reach(CrashPoint::BeforeAcquire);
        let waiting = Stopwatch::start();
        let mut request = LeaseRequest {
            attempt: self.id,
            process: self.boundary.process.clone(),
            ttl_ms: millis(self.plan.task.lease_ttl),
            dead: None,
        };
        loop {
            let asked = Stopwatch::start();
            let lease = match self.boundary.store.acquire(&self.plan.key, &request)? {
                Acquired::Granted(granted) => {
                    let store = self.boundary.store.identity()?;
                    tracing::info!(rule = "5.1", key = %self.plan.key, token = %granted.token, "leased");
                    if let Some(former) = &granted.unclean {
                        self.end_remains(former);
                    }
                    self.report.token = Some(granted.token);
                    self.machine.acquired(store, &granted);
                    self.forgo(granted.run.as_ref())?;
                    self.start_heartbeat(sender, asked)?;
                    self.reach(CrashPoint::AfterAcquire);
                    return Ok(());
                }
                Acquired::Held(lease) => lease,
            };
            if is_dead(&lease) {
                tracing::info!(rule = "3.1", attempt = %lease.attempt, "its process is dead: taking over");
                request.dead = Some((lease.attempt, lease.token));
                continue;
            }
            let wait = self.options.wait.is_some_and(|limit| waiting.elapsed() < limit);
            if !wait {
                self.other = Some(Other::Lease(lease));
                self.machine.held();
                return Ok(());
            }
            if let Some(Event::Signal(signal)) = events.try_next() {
                self.fail(stopped_by(signal));
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn forgo(&mut self, run: Option<&RunRecord>) -> Result<()> {
        let Some(run) = run else { return Ok(()) };
        for slot in run.slots() {
            if self.boundary.is_forgone(&self.plan.key, run, slot, self.options.adopt)? {
                tracing::info!(rule = "5.2", %slot, "nobody reaches it any more: left alone");
                self.machine.forgo(slot.clone());
            }
        }
        Ok(())
    }

    /// What is left of a dead attempt on this host is ended, so that it does not use what the task needs. A
    /// holder that is only paused keeps its processes: the sink refuses it when it wakes.
    fn end_remains(&mut self, former: &Lease) {
        if !is_dead(former) {
            return;
        }
        match end_by_attempt(&former.attempt.to_string()) {
            Ok(sweep) => self.notes.extend(sweep.ended.iter().map(|process| {
                format!(
                    "ended a process of the dead attempt {}: {} (pid {})",
                    former.attempt, process.command, process.pid
                )
            })),
            Err(error) => tracing::warn!(%error, "cannot look for processes of the dead attempt"),
        }
    }

    /// `asked` began before the lease was asked for.
    fn start_heartbeat(&mut self, sender: &EventSender, asked: Stopwatch) -> Result<()> {
        let Some(holder) = self.machine.holder() else { return Ok(()) };
        let store = Arc::clone(&self.boundary.store);
        let ttl = self.plan.task.lease_ttl;
        let heartbeat = Heartbeat::start(store, self.plan.key.clone(), holder, (ttl, asked), sender.clone())
            .map_err(|error| Error::io("cannot start the heartbeat", error))?;
        self.heartbeat = Some(heartbeat);
        Ok(())
    }

    /// 5.2
    fn claim(&mut self, slot: &SlotAddress) -> Result<()> {
        let Some(holder) = self.machine.holder() else {
            self.machine.lease_lost();
            return Ok(());
        };
        let request = refrain_core::ClaimRequest {
            owner: self.plan.key.clone(),
            holder,
            ancestors: self.boundary.store.identity()?.ancestors,
            slots: self.machine.known_slots().clone(),
            fresh_slot_id: ids::slot(),
            fresh_version: ids::version(),
            take_over: self.options.adopt && self.publishes_at(slot),
        };
        self.reach(CrashPoint::BeforeClaim);
        match self.boundary.sinks.of(slot)?.claim(slot, &request)? {
            refrain_core::ClaimAnswer::Claimed(head) => {
                tracing::info!(rule = "5.2", %slot, version = %head.version, "claimed");
                self.machine.claimed(slot, head);
            }
            refrain_core::ClaimAnswer::Fenced(head) => {
                tracing::info!(rule = "4.3", %slot, "fenced by a later claim");
                self.machine.claim_fenced(&head);
                self.other = Some(Other::Head(Box::new(head)));
            }
            refrain_core::ClaimAnswer::Refused(head, refrain_core::ClaimRefusal::Owner)
                if self.recovers || !self.publishes_at(slot) =>
            {
                tracing::info!(rule = "2.4", %slot, owner = %head.owner, "another key publishes there now: left alone");
                self.machine.give_up(slot, head);
            }
            refrain_core::ClaimAnswer::Refused(head, why) => {
                let (slot, head) = (slot.clone(), Box::new(head));
                self.machine.claim_refused(match why {
                    refrain_core::ClaimRefusal::Owner => Refusal::Owner(slot, head),
                    refrain_core::ClaimRefusal::ForeignStore => Refusal::ForeignStore(slot, head),
                });
            }
        }
        self.reach(CrashPoint::AfterClaim);
        Ok(())
    }

    fn publishes_at(&self, slot: &SlotAddress) -> bool {
        self.plan.outputs.iter().any(|output| output.slot == *slot)
    }

    /// 4.3
    fn raise(&mut self, floor: Token) -> Result<()> {
        let Some(holder) = self.machine.holder() else {
            self.machine.lease_lost();
            return Ok(());
        };
        match self.boundary.store.raise(&self.plan.key, &holder, floor)? {
            Some(token) => {
                let line = format!(
                    "the state store went backwards: it granted token {}, the sink has {floor}; going on with {token}",
                    holder.token
                );
                // Tokens of two keys do not compare: after `--adopt` a higher one says nothing of the store.
                if !matches!(&self.other, Some(Other::Head(head)) if head.owner != self.plan.key) {
                    tracing::warn!(rule = "4.3", "{line}");
                    self.notes.push(line);
                }
                self.report.token = Some(token);
                self.machine.raised(token);
            }
            None => self.machine.lease_lost(),
        }
        Ok(())
    }

    /// 5.4
    fn open_run(&mut self, seen: Option<&RunRecord>) -> Result<()> {
        let Some(holder) = self.machine.holder() else {
            self.machine.lease_lost();
            return Ok(());
        };
        self.reach(CrashPoint::BeforeOpenRun);
        let open = |proposal: Option<&RunProposal>| {
            self.boundary.store.open_run(&self.plan.key, &holder, self.want, seen, proposal)
        };
        let mut answer = open(None)?;
        if matches!(answer, Some(OpenRun::Propose(_))) && self.recovers {
            self.machine.stood_down();
            return Ok(());
        }
        if let Some(OpenRun::Propose(generation)) = answer {
            self.demand_above_watermark()?;
            tracing::info!(rule = "1.1", %generation, "opening a run");
            self.opened = true;
            let pinning = Stopwatch::start();
            let proposal = self.propose(self.plan.slots())?;
            self.report.timings_us.pin = pinning.micros();
            answer = open(Some(&proposal))?;
        }
        match answer {
            Some(OpenRun::Run(run)) => {
                tracing::info!(rule = "5.4", run = %run.run_id, generation = %run.generation, "run");
                self.report.show_run(&run);
                self.machine.opened(run);
            }
            Some(OpenRun::Propose(_)) => {
                return Err(Error::new(ErrorKind::Internal, "the store asked twice for a proposal"));
            }
            None => self.machine.lease_lost(),
        }
        self.reach(CrashPoint::AfterOpenRun);
        Ok(())
    }

    /// 12.3: neither the store nor a head knows a run of the key. This attempt has the lease, so that nobody folds the key
    /// from now on.
    fn demand_above_watermark(&self) -> Result<()> {
        if self.want != Want::Continue {
            return Ok(());
        }
        match self.boundary.folded(&self.plan, None)? {
            Some(watermark) => Err(compact::refuse(&self.plan, &watermark)),
            None => Ok(()),
        }
    }

    fn propose(&self, outputs: Vec<OutputSlot>) -> Result<RunProposal> {
        let run_id = ids::run();
        let mut inputs = Vec::new();
        self.boundary
            .refuse_unreadable(&self.plan)
            .map_err(|(input, error)| error.within(format!("input `{input}` of `{}`", self.plan.key)))?;
        for input in &self.plan.inputs {
            let pin = match &input.source {
                PlannedSource::Path { location, mode } => {
                    let (name, location) = (input.name.clone(), location.clone());
                    let outputs = places::published(&self.plan)?.into_iter().map(|(_, location)| location).collect();
                    self.boundary.inputs.pin(&PinRequest { name, location, owner: self.id, mode: *mode, outputs })
                }
                PlannedSource::Publication(reference) => {
                    self.boundary.pin_publications(&self.plan, &input.name, reference, self.id)
                }
            };
            let pin = pin.map_err(|error| self.boundary.lacking(&self.plan, input, error));
            inputs.push(pin.map_err(|error| error.within(format!("input `{}` of `{}`", input.name, self.plan.key)))?);
        }
        self.reach(CrashPoint::AfterPin);
        Ok(RunProposal { run_id, inputs, outputs, restores: self.restored()? })
    }

    /// 5.5, 5.9: sends the commit, and the identical commit again while its answer is lost (4.5).
    fn commit(&mut self, slot: &SlotAddress, step: CommitStep) -> Result<()> {
        let own = step.publication.attempt == self.id;
        let request = step.request(ids::version());
        let adopt = if self.options.adopt { Adopt::Foreign } else { Adopt::Never };
        let options = CommitOptions { adopt, overwrite_drift: true };
        let sink = self.boundary.sinks.of(slot)?;
        let former = self.machine.heads().get(slot).and_then(|head| head.publication.as_ref());
        let former = former.map(|publication| publication.run.generation);
        let commit = Stopwatch::start();
        let mut answer = sink.commit(slot, &request, &options);
        // An earlier sending may have landed whatever becomes of a later one: only a definite answer ends the doubt.
        let mut doubtful = false;
        for _ in 1..RESEND_LIMIT {
            match &answer {
                Err(error) if doubtful || error.kind == ErrorKind::Unknown => {
                    doubtful = true;
                    tracing::warn!(rule = "5.11", %slot, %error, "the commit's answer was lost: sending it again");
                    std::thread::sleep(PAUSE);
                    answer = sink.commit(slot, &request, &options);
                }
                _ => break,
            }
        }
        self.report.timings_us.commit += commit.micros();
        match answer {
            Ok(CommitAnswer::Committed) => {
                tracing::info!(rule = if own { "5.9" } else { "5.5" }, %slot, "committed");
                self.machine.committed(slot, request.fresh_version);
                if !own {
                    self.carried = Some(request.publication.run.generation);
                }
                self.tell_kept_change(sink, slot, former);
                self.reach(CrashPoint::AfterCommit);
            }
            Ok(CommitAnswer::Rejected) => {
                tracing::info!(rule = "5.11", %slot, "the commit was rejected");
                self.machine.rejected();
            }
            Ok(CommitAnswer::DataLost) if own => {
                let error =
                    Error::guard(format!("the sealed output for {slot} was changed or removed before its commit"));
                self.failure = Some(error.into());
                self.machine.commit_failed();
            }
            Ok(CommitAnswer::DataLost) => self.machine.data_lost(slot),
            Err(error) if doubtful || error.kind == ErrorKind::Unknown => {
                self.failure = Some(error.into());
                self.machine.gave_up();
            }
            Err(error) => {
                self.failure = Some(error.into());
                self.machine.commit_failed();
            }
        }
        Ok(())
    }

    /// 13.2: what was replaced may not have been what was published. A look that fails changes no answer.
    fn tell_kept_change(&mut self, sink: &dyn Sink, slot: &SlotAddress, former: Option<Generation>) {
        let Some(former) = former.filter(|_| sink.capabilities().keeps_changes) else { return };
        match sink.versions(slot) {
            Ok(versions) => {
                let kept = versions.iter().find(|version| version.edited && version.generation == former);
                self.notes.extend(kept.map(|kept| {
                    let (at, places) = (self.boundary.locate(slot), kept.locations.join(", "));
                    format!("version {former} of {at} was changed by hand after it was published; the changed one is kept: {places}")
                }));
            }
            Err(error) => tracing::warn!(%slot, %error, "what was replaced cannot be looked at"),
        }
    }

    /// 5.11
    fn read(&mut self, slot: &SlotAddress) -> Result<()> {
        let sink = self.boundary.sinks.of(slot)?;
        let mut head = sink.read(slot);
        for _ in 1..RESEND_LIMIT {
            if head.is_ok() {
                break;
            }
            std::thread::sleep(PAUSE);
            head = sink.read(slot);
        }
        match head {
            Ok(head) => {
                self.machine.looked(slot, head.as_ref());
                self.other = head.map(|head| Other::Head(Box::new(head)));
            }
            Err(error) => {
                self.failure = Some(error.into());
                self.machine.gave_up();
            }
        }
        Ok(())
    }

    /// 5.10: everything here is bookkeeping; a failure is told and changes no answer.
    fn finish(&mut self) {
        self.loss = self.heartbeat.take().and_then(|heartbeat| heartbeat.loss());
        if !self.machine.is_over() {
            self.machine.failed();
        }
        if let Some(answer) = self.machine.answer().cloned() {
            let conclusion = conclude::conclude(self, &answer);
            self.reach(CrashPoint::BeforeFinish);
            self.settle_predecessors();
            if let Some(holder) = self.machine.holder() {
                let finished = self.boundary.store.finish(&self.plan.key, &holder, &self.ending(&conclusion.report));
                if let Err(error) = finished {
                    tracing::warn!(rule = "5.10", %error, "the end could not be recorded");
                }
            }
            settle::clean_up(self, &answer);
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

/// A failure by a signal that arrived while no command was running.
pub(crate) fn stopped_by(signal: i32) -> Failure {
    let error = Error::new(
        ErrorKind::TaskFailed,
        format!("refrain got {} before the command was started", signal_name(signal)),
    );
    Failure { error, exit_code: u8::try_from(128 + signal).ok(), stopped_by: Some(signal) }
}

fn is_dead(lease: &Lease) -> bool {
    life_of(lease) == Liveness::Dead
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
