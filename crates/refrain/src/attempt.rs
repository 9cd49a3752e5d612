//! An attempt that is open: it has the lease, its slots are claimed, its inputs are pinned, and it may write.

use crate::clock::Stopwatch;
use crate::driver::{Driver, Failure, Other, Pause, stopped_by};
use crate::environment::{Given, variable_part};
use crate::process::{Event, EventReceiver, EventSender};
use crate::report::Conclusion;
use refrain_core::{
    Adopt, Answer, AttemptId, Condition, CrashPoint, Error, ErrorKind, Fingerprint, Generation, Guards, Input,
    Interval, Open, Origin, OutputSlot, Partition, PinnedInput, Publication, Result, RunId, RunRecord, Sealed,
    SealedData, Staged, Staging, StagingId, TaskName, Token,
};
use refrain_input::Held;
use std::path::PathBuf;

/// One attempt, between its lease and its commit. Dropping it publishes nothing (FS-10): only
/// [`Attempt::publish`] does.
///
/// It tells what a command is told by its environment; the variable stands with each.
pub struct Attempt<'b> {
    given: Given,
    work: Option<Work<'b>>,
}

impl std::fmt::Debug for Attempt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempt").field("id", &self.given.attempt).finish_non_exhaustive()
    }
}

/// The inside of an attempt: what the boundary itself works with.
pub(crate) struct Work<'b> {
    pub(crate) driver: Driver<'b>,
    pub(crate) run: RunRecord,
    pub(crate) outputs: Vec<OpenOutput>,
    /// Names and places of the pinned inputs.
    pub(crate) inputs: Vec<(String, String)>,
    /// The pinned paths among them, as they were read here.
    read: Vec<PinnedInput>,
    /// The copies of publications among them, by name, as they were before the command started.
    held: Vec<(String, Held)>,
    /// What the output is made from: the code as it was before the command started.
    pub(crate) made_from: Option<Fingerprint>,
    /// Whether what it publishes again was changed by hand before it was replaced.
    pub(crate) edited: bool,
    /// The staging that was made, sealed or not.
    pub(crate) staged: Vec<Staged>,
    /// Whether everything was written, so that what fails from now on is not the output.
    written: bool,
    /// What an earlier attempt of the run sealed, which this one publishes.
    pub(crate) taken: Vec<SealedData>,
    pub(crate) sender: EventSender,
    pub(crate) events: EventReceiver,
}

/// One output that is being written.
pub(crate) struct OpenOutput {
    pub(crate) name: String,
    pub(crate) staging: Staging<Open>,
}

impl<'b> Attempt<'b> {
    pub(crate) fn of(work: Work<'b>) -> Self {
        Self { given: Given::to(&work), work: Some(work) }
    }

    /// This attempt's identity; no other attempt has it (`REFRAIN_ATTEMPT`).
    pub fn id(&self) -> AttemptId {
        self.given.attempt
    }

    /// The run that it is an attempt for: the same for every attempt until it is published (`REFRAIN_RUN`).
    pub fn run(&self) -> RunId {
        self.given.run
    }

    /// The run's generation, which becomes the version that readers see: 1 for the first publication of the key, one more
    /// for each that replaces it on purpose.
    pub fn generation(&self) -> Generation {
        self.given.generation
    }

    /// The fencing token: higher with every attempt of the key, for systems that can refuse a lower one (`REFRAIN_TOKEN`).
    pub fn token(&self) -> Token {
        self.given.token
    }

    /// A number below 2^31, the same for every attempt of the key in every home: for pseudo-random numbers
    /// (`REFRAIN_SEED`).
    pub fn seed(&self) -> u32 {
        self.given.seed
    }

    /// 32 hexadecimal digits, the same for every attempt of the run: for services that drop repeated requests
    /// (`REFRAIN_IDEMPOTENCY_KEY`).
    pub fn idempotency_key(&self) -> &str {
        &self.given.idempotency_key
    }

    /// The task (`REFRAIN_TASK`).
    pub fn task(&self) -> &TaskName {
        &self.given.key.task
    }

    /// What the output is for (`REFRAIN_PARTITION` is its key).
    pub fn partition(&self) -> &Partition {
        &self.given.partition
    }

    /// The logical date, where the partition is one: its key (`REFRAIN_DATE`), its first instant (`REFRAIN_DATE_START`) and
    /// the first instant after it (`REFRAIN_DATE_END`), which no calendar but the task's decides.
    pub fn interval(&self) -> Option<&Interval> {
        self.given.partition.interval.as_ref()
    }

    /// The value of a parameter (`REFRAIN_PARAM_<NAME>`).
    ///
    /// # Errors
    /// `invalid` when the task has no such parameter.
    pub fn param(&self, name: &str) -> Result<&str> {
        let found = self.given.params.get(name).map(String::as_str);
        found.ok_or_else(|| Error::invalid(format!("the task has no parameter `{name}`")))
    }

    /// Where to write an output: a file that is not there yet, or a directory that is (`REFRAIN_OUT_<NAME>`).
    ///
    /// # Errors
    /// `invalid` when the task declares no such output.
    pub fn output(&self, name: &str) -> Result<PathBuf> {
        let found = self.work.iter().flat_map(|work| &work.outputs).find(|output| output.name == name);
        found
            .map(|output| output.staging.path())
            .ok_or_else(|| Error::invalid(format!("the task declares no output `{name}`")))
    }

    /// Where to read an input; an empty path where a chain of partitions starts and there is nothing to read
    /// (`REFRAIN_IN_<NAME>`).
    ///
    /// # Errors
    /// `invalid` when the task declares no such input.
    pub fn input(&self, name: &str) -> Result<PathBuf> {
        let found = self.work.iter().flat_map(|work| &work.inputs).find(|(input, _)| input == name);
        found
            .map(|(_, place)| PathBuf::from(place))
            .ok_or_else(|| Error::invalid(format!("the task declares no input `{name}`")))
    }

    /// Seals what was written and publishes it: all outputs, decided by one commit. Close the files first: what is written
    /// through one that is still open changes what is published.
    ///
    /// # Crash safety
    /// Before the commit of the first output nothing is published; after it everything is: whoever comes next for
    /// the key publishes the other outputs from what was sealed.
    pub fn publish(mut self) -> Conclusion {
        self.work.take().map_or_else(over, Work::publish)
    }

    /// Ends the attempt without publishing; the error says why.
    pub fn abandon(mut self, error: Error) -> Conclusion {
        self.work.take().map_or_else(over, |work| work.abandon(error.into()))
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            let error = Error::new(ErrorKind::TaskFailed, "the attempt was dropped before it published");
            drop(work.abandon(error.into()));
        }
    }
}

/// Never reached: `publish` and `abandon` consume the attempt, so that its work is there whenever they run.
fn over() -> Conclusion {
    let error = Error::new(ErrorKind::Internal, "the attempt is over");
    Conclusion {
        report: crate::report::Report::of_error("", "", jiff::Timestamp::UNIX_EPOCH, &error),
        notes: Vec::new(),
        error: Some(error),
    }
}

impl<'b> Work<'b> {
    /// Makes sure that a publication can succeed, then makes the staging places.
    pub(crate) fn open(
        driver: Driver<'b>,
        run: RunRecord,
        sender: EventSender,
        events: EventReceiver,
    ) -> Result<Self, Box<Conclusion>> {
        let mut work = Self {
            driver,
            run,
            outputs: Vec::new(),
            inputs: Vec::new(),
            read: Vec::new(),
            held: Vec::new(),
            staged: Vec::new(),
            written: false,
            taken: Vec::new(),
            made_from: None,
            edited: false,
            sender,
            events,
        };
        match work.prepare() {
            Ok(()) => Ok(work),
            Err(_) if work.is_outdone() => Err(Box::new(work.lease_lost())),
            Err(error) => Err(Box::new(work.abandon(error.into()))),
        }
    }

    /// Whether another attempt has claimed an output since this one did: what stands there is its business, and no failure
    /// of this one.
    pub(crate) fn is_outdone(&mut self) -> bool {
        let claimed = self.driver.machine.heads();
        let now = claimed.iter().filter_map(|(slot, head)| {
            let now = self.driver.boundary.sinks.of(slot).and_then(|sink| sink.read(slot)).ok()??;
            (now.version != head.version).then_some(now)
        });
        let other = now.last();
        let outdone = other.is_some();
        if let Some(head) = other {
            self.driver.other = Some(Other::Head(Box::new(head)));
        }
        outdone
    }

    /// How an output is published: as it is declared now. A declaration is mended after a failure as a command is, so of
    /// what the run was opened with only the slots are fixed. What is staged remembers how.
    pub(crate) fn manner<'m>(&'m self, output: &'m OutputSlot) -> Option<&'m str> {
        let planned = self.driver.plan.outputs.iter().find(|planned| planned.slot == output.slot);
        planned.map_or(output.manner.as_deref(), |planned| planned.manner.as_deref())
    }

    fn prepare(&mut self) -> Result<()> {
        let boundary = self.driver.boundary;
        let adopt = if self.driver.options.adopt { Adopt::Foreign } else { Adopt::Never };
        boundary.refuse_beside(&self.driver.plan, adopt)?;
        for output in &self.run.outputs {
            let sink = boundary.sinks.of(&output.slot)?;
            let head = self.driver.machine.heads().get(&output.slot);
            if adopt == Adopt::Never
                && let Some(error) = head.and_then(|head| boundary.foresee_taken(&self.driver.plan, &output.slot, head))
            {
                return Err(error);
            }
            sink.preflight(&output.slot, self.manner(output), adopt)?;
            // Where something was published the commit looks; before that, nothing may be lost that somebody else made.
            if adopt == Adopt::Foreign || head.is_some_and(|head| head.publication.is_some()) {
                continue;
            }
            if let Condition::Foreign(what) = sink.condition(&output.slot, head)? {
                let at = boundary.locate(&output.slot);
                return Err(Error::refused(format!("{at} exists and was not published by refrain: {what}")).hint(
                    if sink.capabilities().rollback {
                        "move it away, or publish over it with `--adopt` (it is kept as version 0)"
                    } else {
                        "look at it; to let the publication replace it, add `--adopt`"
                    },
                ));
            }
        }
        let versions = self.run.inputs.iter().map(|pin| (pin.name.as_str(), pin.version.as_str()));
        let made_from = self.driver.plan.fingerprint(versions)?;
        // What a rollback publishes was made from something else.
        self.driver.report.fingerprint = self.run.restores.is_none().then(|| made_from.digest.clone());
        self.made_from = Some(made_from);
        for pin in &self.run.inputs {
            let place = if let Some(lineage) = &pin.lineage {
                let (place, held) = boundary.open_publications(pin, lineage)?;
                self.held.extend(held.map(|held| (pin.name.clone(), held)));
                place
            } else {
                let (place, read) = boundary.open_path(&self.driver.plan, pin)?;
                self.read.push(read);
                place
            };
            self.inputs.push((pin.name.clone(), place));
        }
        self.driver.notes.extend(boundary.remarks_on_pins(&self.run)?);
        let holder = self
            .driver
            .machine
            .holder()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "an attempt without a lease cannot stage"))?;
        let id = StagingId { holder, generation: self.run.generation, slots: self.run.slots().cloned().collect() };
        for output in &self.run.outputs {
            let staging = boundary.sinks.of(&output.slot)?.stage(&output.slot, self.manner(output), &id)?;
            tracing::info!(rule = "5.7", output = %output.name, place = %staging.place, "staging");
            let owner = Some((output.slot.clone(), id.clone()));
            self.staged.push(Staged { place: staging.place.clone(), owner });
            self.outputs.push(OpenOutput { name: output.name.clone(), staging });
        }
        self.driver.reach(CrashPoint::BeforeTask);
        self.driver.report.timings_us.prepare = self.driver.watch.micros();
        Ok(())
    }

    /// 5.8 to 5.10.
    pub(crate) fn publish(mut self) -> Conclusion {
        match self.events.try_next() {
            Some(Event::LeaseLost) => return self.lease_lost(),
            Some(Event::Signal(signal)) => return self.abandon(stopped_by(signal, "before the commit")),
            None => {}
        }
        self.written = true;
        match self.seal() {
            Ok(publication) => {
                // The last moment at which nothing has to be finished.
                if let Some(Event::Signal(signal)) = self.events.try_next() {
                    return self.abandon(stopped_by(signal, "before the commit"));
                }
                self.driver.reach(CrashPoint::BeforeCommit);
                self.driver.sealed = Some(publication.clone());
                self.driver.machine.executed(publication);
                self.end()
            }
            Err(error) => self.abandon(error.into()),
        }
    }

    pub(crate) fn abandon(mut self, failure: Failure) -> Conclusion {
        self.driver.fail(failure);
        self.discard();
        self.end()
    }

    /// The lease was lost while this attempt worked.
    pub(crate) fn lease_lost(mut self) -> Conclusion {
        self.driver.machine.lease_lost();
        self.discard();
        self.end()
    }

    /// Only the command could publish, and this attempt is to execute nothing.
    pub(crate) fn stand_down(mut self) -> Conclusion {
        self.driver.machine.stood_down();
        self.discard();
        self.end()
    }

    fn end(mut self) -> Conclusion {
        let Pause::End = self.driver.drive(&self.sender, &self.events) else {
            self.driver.fail(Error::new(ErrorKind::Internal, "the attempt was asked to run again").into());
            return self.driver.into_conclusion();
        };
        if matches!(self.driver.machine.answer(), Some(Answer::NotPublished(_))) {
            self.discard();
        }
        self.driver.into_conclusion()
    }

    /// 7.3: nothing was sent, or what was sent was refused for good, so the attempt's own staging may go. What is whole and
    /// failed for a reason outside it stays for the next attempt of the run, where the sink can hand it on.
    fn discard(&mut self) {
        self.outputs.clear();
        let outside = [ErrorKind::Unavailable, ErrorKind::Unknown, ErrorKind::Invalid, ErrorKind::Internal];
        let failed_outside = self.driver.failed_as().is_some_and(|kind| outside.contains(&kind));
        for staged in self.staged.drain(..) {
            let Some((slot, _)) = &staged.owner else { continue };
            let sink = self.driver.boundary.sinks.of(slot);
            if self.written && failed_outside && sink.as_ref().is_ok_and(|sink| sink.keeps_sealed()) {
                continue;
            }
            let discarded = sink.and_then(|sink| sink.discard(&staged));
            if let Err(error) = discarded {
                tracing::warn!(rule = "7.3", %slot, %error, "staging could not be removed");
            }
        }
    }

    /// 5.8
    fn seal(&mut self) -> Result<Publication> {
        let watch = Stopwatch::start();
        for pin in &self.read {
            self.driver.boundary.inputs.verify(pin)?;
        }
        for (name, held) in &self.held {
            if let Some(what) = held.changes()? {
                return Err(Error::guard(format!(
                    "the copy that the command read as the input `{name}` was changed while it ran: {what}"
                ))
                .hint("commands may only read their inputs; a retry reads what was pinned"));
            }
        }
        let several = self.outputs.len() > 1;
        let mut data = std::mem::take(&mut self.taken);
        if !data.is_empty() {
            self.outputs.clear();
        }
        let mut sealed = Vec::new();
        for output in std::mem::take(&mut self.outputs) {
            let guards = self.guards(&output.name);
            let sink = self.driver.boundary.sinks.of(&output.staging.slot)?;
            let mut staging: Staging<Sealed> = sink.seal(output.staging, &guards).map_err(|error| {
                let mut error = error.within(format!("output `{}`", output.name));
                if several {
                    let variable = format!("`REFRAIN_OUT_{}`", variable_part(&output.name));
                    error.hint = error.hint.map(|hint| hint.replace("`REFRAIN_OUT`", &variable));
                }
                error
            })?;
            tracing::info!(rule = "5.8", output = %output.name, "sealed");
            self.driver.notes.append(&mut staging.remarks);
            self.driver.reach(CrashPoint::AfterSeal);
            sealed.push(staging);
        }
        for staging in sealed {
            data.extend(staging.into_data());
        }
        let versions = self.run.inputs.iter().map(|pin| (pin.name.as_str(), pin.version.as_str()));
        let fingerprint = match self.made_from.take() {
            Some(fingerprint) => fingerprint,
            None => self.driver.plan.fingerprint(versions)?,
        };
        self.driver.report.timings_us.seal = watch.micros();
        Ok(Publication {
            run: self.run.clone(),
            attempt: self.driver.id,
            data,
            fingerprint,
            sealed_at: self.driver.boundary.now(),
            edited: self.edited,
            adopts: self.driver.options.adopt,
        })
    }

    fn guards(&self, name: &str) -> Guards {
        let spec = self.driver.plan.outputs.iter().find(|output| output.spec.name == name).map(|output| &output.spec);
        let provenance = serde_json::json!({
            "task": self.driver.plan.key.task,
            "partition": self.driver.plan.key.partition,
            "generation": self.run.generation,
            "run": self.run.run_id,
            "attempt": self.driver.id,
            "output": name,
            "home": self.driver.boundary.home.directory.display().to_string(),
        });
        Guards {
            allow_empty: self.driver.options.allow_empty || spec.is_some_and(|spec| spec.allow_empty),
            min_bytes: spec.and_then(|spec| spec.min_bytes),
            min_files: spec.and_then(|spec| spec.min_files),
            min_rows: spec.and_then(|spec| spec.min_rows),
            provenance: provenance.to_string(),
            origin: self
                .made_from
                .as_ref()
                .map(|made_from| Origin { run: self.run.run_id, made_from: made_from.digest.clone() }),
        }
    }
}
