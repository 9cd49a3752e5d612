//! Turns the answer of an attempt into what the caller is told: outcome, window, exit code, message, next command.

use crate::boundary::Boundary;
use crate::driver::{Driver, Failure, Other};
use crate::heartbeat::Loss;
use crate::peek::{already_published, changes, partition_flag};
use crate::plan::Plan;
use crate::process::ProcessIdentity;
use crate::report::{Conclusion, ErrorReport, Report, exit_code, outcome_of};
use refrain_core::{
    Answer, AttemptFilter, Cause, Doubt, Error, ErrorKind, Head, Key, Lease, Outcome, Publication, Refusal, Retry,
    SlotAddress, Want, Window,
};

/// The conclusion of an attempt.
pub(crate) fn conclude(driver: &mut Driver<'_>, answer: &Answer) -> Conclusion {
    let decided = decided_before(driver, answer);
    if decided.is_some() && driver.failure.is_none() {
        driver.failure = error_of(driver, answer, None).map(Failure::from);
    }
    let answer = if overtaken(driver, answer) { &Answer::Superseded } else { decided.as_ref().unwrap_or(answer) };
    if let Answer::AlreadyPublished(publication) = answer {
        return repeated(driver, publication);
    }
    if *answer == Answer::NotPublished(Cause::Settled) {
        (driver.report.outcome, driver.report.exit_code) = (Outcome::Recovered, exit_code::PUBLISHED);
        return close(driver, None);
    }
    let failure = driver.failure.take();
    let code = failure.as_ref().and_then(|failure| failure.exit_code).filter(|_| decided.is_none());
    driver.report.stopped_by = failure.as_ref().and_then(|failure| failure.stopped_by);
    let error = error_of(driver, answer, failure.map(|failure| failure.error));
    let landed = was_published(driver);
    let report = &mut driver.report;
    match &error {
        None => {
            report.outcome = Outcome::Published;
            report.exit_code = exit_code::PUBLISHED;
            report.window = Window::Published;
        }
        Some(error) => report.fail(error),
    }
    let lost = match answer {
        Answer::Refused(Refusal::DataLost(_)) => driver.machine.decided(),
        _ => None,
    };
    match answer {
        Answer::Published | Answer::Decided | Answer::Pending(_) => report.window = Window::Published,
        // It is decided all the same.
        _ if lost.is_some() => report.window = Window::Published,
        Answer::Unknown(_) => report.window = Window::Unknown,
        _ => {}
    }
    match answer {
        Answer::Decided | Answer::Pending(_) => {
            (report.outcome, report.exit_code) = (Outcome::Decided, exit_code::DECIDED);
        }
        Answer::Superseded => {
            report.outcome = Outcome::Superseded;
            // Whoever asks whether it landed is told so, although a later version stands there now.
            if landed || driver.carried.is_some() {
                report.window = Window::Published;
            }
        }
        Answer::Unknown(_) => (report.outcome, report.exit_code) = (Outcome::Unknown, exit_code::UNKNOWN),
        _ => {}
    }
    if let Some(code) = code {
        report.exit_code = code;
    }
    if report.window == Window::NothingPublished {
        report.sealed_by = None;
    }
    let stands = match answer {
        Answer::Pending(publication) => Some(publication.as_ref()),
        Answer::Refused(_) => lost,
        _ => driver.sealed.as_ref().filter(|_| report.window != Window::NothingPublished),
    };
    if let Some(publication) = stands {
        let boundary = driver.boundary;
        report.show(publication, |data| boundary.locate(&data.slot));
        let sealed = report.sealed_by.map(|maker| format!("sealed by attempt {maker}; the command was not run"));
        report.remark = publication.restored().map(|version| format!("rolled back to {version}")).or(sealed);
    }
    close(driver, error)
}

/// An attempt that failed before it had claimed everything does not know what an earlier one decided. Where the anchor shows
/// the run at hand, that was decided, and to deny it would be false.
fn decided_before(driver: &Driver<'_>, answer: &Answer) -> Option<Answer> {
    let failed = matches!(answer, Answer::NotPublished(Cause::Failed) | Answer::Refused(Refusal::Owner(..)));
    if !failed || driver.want != Want::Continue || driver.report.run.is_some() {
        return None;
    }
    let (heads, run) = (driver.machine.heads(), driver.at_hand.as_ref()?);
    let anchor = run.anchor()?;
    // The anchor itself may not be to be claimed, since what was decided there cannot be finished.
    let look = || driver.boundary.sinks.of(anchor).ok()?.read(anchor).ok()?;
    let head = match heads.get(anchor) {
        Some(head) => head.clone(),
        None if *answer == Answer::NotPublished(Cause::Failed) => look()?,
        None => return None,
    };
    let publication = head.publication.filter(|it| it.run.run_id == run.run_id)?;
    let shows = |slot| heads.get(slot).is_some_and(|head| head.shows(publication.attempt));
    (!run.slots().all(shows)).then(|| Answer::Pending(Box::new(publication)))
}

/// A rollback is not done by somebody else's publication of something else.
fn overtaken(driver: &Driver<'_>, answer: &Answer) -> bool {
    let Answer::AlreadyPublished(publication) = answer else { return false };
    let shown = publication.run.restores.as_ref().map(|restores| restores.version);
    driver.restores.is_some() && shown != driver.restores
}

fn close(driver: &mut Driver<'_>, error: Option<Error>) -> Conclusion {
    let report = &mut driver.report;
    report.finished_at = driver.boundary.now();
    report.duration_ms = driver.watch.micros() / 1000;
    report.judge(driver.plan.task.retry.on.as_ref());
    Conclusion { report: report.clone(), notes: std::mem::take(&mut driver.notes), error }
}

/// 5.6: somebody published it while this attempt was on its way.
fn repeated(driver: &mut Driver<'_>, publication: &Publication) -> Conclusion {
    let mut changed = changes(driver.boundary, &driver.plan, publication).unwrap_or_default();
    if driver.options.repeat != crate::boundary::Repeat::Never {
        changed.clear();
    }
    let mut conclusion = already_published(driver.boundary, &driver.plan, publication, &changed);
    // An output that did not stay as it was published takes nothing back of the others.
    if driver.carried == Some(publication.run.generation) {
        conclusion.report.window = Window::Published;
    }
    conclusion.report.started_at = driver.report.started_at;
    conclusion.report.duration_ms = driver.watch.micros() / 1000;
    conclusion.notes.splice(0..0, std::mem::take(&mut driver.notes));
    conclusion
}

fn error_of(driver: &Driver<'_>, answer: &Answer, failure: Option<Error>) -> Option<Error> {
    let key = &driver.plan.key;
    let again = || format!("refrain run {}{}", key.task, partition_flag(&driver.plan));
    let failed = |fallback: &str| failure_or(failure, fallback);
    Some(match answer {
        Answer::Published | Answer::AlreadyPublished(_) => return None,
        Answer::Decided | Answer::Pending(_) => {
            let cause = failed("the attempt stopped in between");
            let hint = cause.hint.clone().unwrap_or_else(|| format!("to finish it: {}", again()));
            let heads = driver.machine.heads();
            let message = match answer {
                Answer::Pending(publication) if !publication.run.anchor().is_some_and(|it| heads.contains_key(it)) => {
                    format!("`{key}` is published, and a step of it may still be to follow")
                }
                _ => format!("`{key}` is published at its first output, and another output is still to follow"),
            };
            let needs_a_person = Retry::after(cause.kind) == Retry::Never;
            let kind = if needs_a_person { cause.kind } else { ErrorKind::Unavailable };
            Error::new(kind, message).hint(hint).because(cause)
        }
        Answer::Superseded => {
            let what = if was_published(driver) {
                format!("what this attempt published of `{key}` was replaced by a later version meanwhile")
            } else {
                format!("a later version of `{key}` was published meanwhile")
            };
            Error::new(ErrorKind::Conflict, what).hint(format!(
                "to see it: refrain log {}{}",
                key.task,
                partition_flag(&driver.plan)
            ))
        }
        Answer::NotPublished(Cause::Held) => held(driver),
        Answer::NotPublished(Cause::Fenced) => fenced(driver, failure_take(failed("")), &again()),
        Answer::NotPublished(_) => {
            let mut error = failed("the attempt ended before its commit");
            // What is open is a step before the commit, and whoever comes next settles it.
            if error.kind == ErrorKind::Unknown {
                error.kind = ErrorKind::Unavailable;
            }
            error
        }
        Answer::Unknown(Doubt::AnswerLost) => {
            Error::new(ErrorKind::Unknown, format!("the answer of the commit of `{key}` was lost"))
                .hint(format!("to settle it: refrain recover {}", key.task))
                .because(failed("no definite answer came"))
        }
        Answer::Unknown(Doubt::SlotRecreated) => Error::new(
            ErrorKind::Unknown,
            format!("the slot of `{key}` was removed and made again while it was being published"),
        )
        .hint(format!("to settle it: refrain recover {}", key.task)),
        Answer::Refused(refusal) => refused(driver.boundary, &driver.plan, refusal),
    })
}

fn failure_or(failure: Option<Error>, fallback: &str) -> Error {
    failure.unwrap_or_else(|| Error::new(ErrorKind::Internal, fallback))
}

/// The failure, unless it is only the empty fallback.
fn failure_take(error: Error) -> Option<Error> {
    (!error.message.is_empty()).then_some(error)
}

fn held(driver: &Driver<'_>) -> Error {
    let key = &driver.plan.key;
    let error = match &driver.other {
        Some(Other::Lease(lease)) => {
            Error::new(ErrorKind::Held, format!("`{key}` is being run by {}", describe(driver.boundary, key, lease)))
        }
        _ => Error::new(ErrorKind::Held, format!("`{key}` is being run by another attempt")),
    };
    error.hint(format!("to wait for it: refrain run {}{} --wait", key.task, partition_flag(&driver.plan)))
}

/// Who, where, since when.
pub(crate) fn describe(boundary: &Boundary, key: &Key, lease: &Lease) -> String {
    let place = serde_json::from_str::<ProcessIdentity>(&lease.process)
        .map_or_else(|_| "an unknown process".to_owned(), |process| process.to_string());
    let filter = AttemptFilter::of(key, lease.attempt);
    let since = boundary.store.attempts(&filter).ok().and_then(|found| found.into_iter().next());
    let since = since.map(|record| format!(", since {:.0}", record.started_at)).unwrap_or_default();
    format!("attempt {} ({place}{since})", lease.attempt)
}

fn fenced(driver: &Driver<'_>, failure: Option<Error>, again: &str) -> Error {
    let key = &driver.plan.key;
    let mine = driver.report.token.map(|token| format!(" (token {token})")).unwrap_or_default();
    let at_the_sink = match &driver.other {
        Some(Other::Head(head)) => head.claim.as_ref(),
        _ => None,
    };
    let mut hint = format!("to see what stands: {again}");
    let by = match (at_the_sink, &driver.loss) {
        (Some(claim), _) => {
            format!("attempt {} (token {}) took over at the sink", claim.holder.attempt, claim.holder.token)
        }
        (None, Some(Loss::Unasked { since, why })) => {
            hint = format!("look whether the state store runs and can be reached; then: {again}");
            let why = why.as_deref().unwrap_or("it does not answer");
            format!(
                "the state store could not be asked to renew the lease for {} s, so that another attempt may have it: {why}",
                since.as_secs()
            )
        }
        (None, Some(Loss::Taken) | None) => taken(driver),
    };
    let error = Error::new(ErrorKind::Fenced, format!("this attempt of `{key}`{mine} was fenced: {by}")).hint(hint);
    match failure {
        Some(cause) => error.because(cause),
        None => error,
    }
}

/// Who has the lease that the store does not count as this attempt's any more.
fn taken(driver: &Driver<'_>) -> String {
    let Ok(Some(state)) = driver.boundary.store.key(&driver.plan.key) else {
        return "the state store does not know its lease any more".to_owned();
    };
    match (&state.lease, &state.last_attempt) {
        (Some(lease), _) if lease.attempt != driver.id => {
            format!("its lease had ended, and {} took it", describe(driver.boundary, &driver.plan.key, lease))
        }
        (_, Some(last)) if last.attempt != driver.id => {
            format!("its lease had ended, and attempt {} took it, which has ended since", last.attempt)
        }
        _ => "its lease is void: the state store was restored, moved or replaced meanwhile".to_owned(),
    }
}

/// What a person must decide, in words.
pub(crate) fn refused(boundary: &Boundary, plan: &Plan, refusal: &Refusal) -> Error {
    let key = &plan.key;
    let at = |slot: &SlotAddress| boundary.locate(slot);
    match refusal {
        Refusal::Owner(slot, head) => not_the_owner(boundary, plan, slot, head),
        Refusal::ForeignStore(slot, head) => {
            let store = head.claim.as_ref().map(|claim| claim.holder.store_id.to_string()).unwrap_or_default();
            Error::refused(format!(
                "{} was claimed through the state store {store}, which this home's store does not replace",
                at(slot)
            ))
            .hint(format!(
                "if that store is lost, say so: refrain store init --replaces {store}; \
                 if it is alive, use its home, or name it as `store` in refrain.toml"
            ))
        }
        Refusal::AnchorDamaged(slot) => Error::refused(format!(
            "the record of the first output of `{key}` ({}) was removed or put back to an older state",
            at(slot)
        ))
        .hint(format!(
            "to publish all outputs afresh: refrain run {}{} --rerun --adopt",
            key.task,
            partition_flag(plan)
        )),
        Refusal::DataLost(slot) => {
            Error::refused(format!("`{key}` is decided, but the sealed output for {} is gone or was changed", at(slot)))
                .hint(format!(
                    "to publish all outputs afresh: refrain run {}{} --rerun",
                    key.task,
                    partition_flag(plan)
                ))
        }
    }
}

pub(crate) fn not_the_owner(boundary: &Boundary, plan: &Plan, slot: &SlotAddress, head: &Head) -> Error {
    let key = &plan.key;
    let at = boundary.locate(slot);
    let error = Error::refused(format!("{at} belongs to `{}`; `{key}` may not replace it", head.owner));
    if head.owner.task == key.task {
        let placeholder = if plan.partition.interval.is_some() { "{date}" } else { "{partition}" };
        return error
            .hint(format!("two partitions cannot publish to one place: put {placeholder} into the output's path"));
    }
    error.hint("choose another place, or take it over on purpose with `--adopt`")
}

impl Report {
    /// Fills in a failure.
    pub(crate) fn fail(&mut self, error: &Error) {
        (self.outcome, self.exit_code) = outcome_of(error.kind);
        self.error = Some(ErrorReport::of(error));
    }
}

/// Whether the head that stands there now remembers this attempt as one that was published before.
fn was_published(driver: &Driver<'_>) -> bool {
    let Some(Other::Head(head)) = &driver.other else { return false };
    head.remembers(driver.id)
}
