//! After the decision: what earlier attempts left open is settled, and what nobody needs any more is let go.

use crate::boundary::Boundary;
use crate::driver::Driver;
use crate::report::in_one_line;
use refrain_core::{
    Answer, AttemptFilter, AttemptId, AttemptRecord, Ending, Head, Holder, Input, Key, Outcome, Result, Retry,
    SlotAddress, Verdict, Window, verdict,
};
use refrain_input::owner_of;
use std::collections::BTreeSet;

/// How the message of an attempt begins whose end another one found out.
pub(crate) const WITHOUT_A_WORD: &str = "it ended without a word";

/// Records how earlier attempts of the key ended. That an attempt published is final at sight; that it did not is
/// final only when this attempt's claims stand at every slot (5.12), and is left to the next one otherwise.
pub(crate) fn predecessors(driver: &mut Driver<'_>, holder: &Holder) {
    let unfinished = match unsettled(driver.boundary, &driver.plan.key, None) {
        Ok(unfinished) => unfinished,
        Err(error) => return tracing::warn!(%error, "cannot list unfinished attempts"),
    };
    let heads = driver.machine.heads();
    let claimed = driver.machine.known_slots().iter().all(|slot| heads.contains_key(slot));
    for record in unfinished.iter().filter(|record| record.attempt != driver.id && record.token < holder.token) {
        let Some(ending) = judge(driver, record) else { continue };
        if !claimed && ending.outcome != Outcome::Published {
            continue;
        }
        if let Err(error) = driver.boundary.store.settle_attempt(&record.key, record.attempt, &ending) {
            tracing::warn!(attempt = %record.attempt, %error, "an ended attempt could not be recorded");
        }
    }
}

/// Attempts of the key whose end is not known, newest first.
pub(crate) fn unsettled(boundary: &Boundary, key: &Key, limit: Option<u32>) -> Result<Vec<AttemptRecord>> {
    boundary.store.attempts(&AttemptFilter {
        task: Some(key.task.clone()),
        partition: Some(key.partition.clone()),
        unfinished: true,
        limit,
        ..AttemptFilter::default()
    })
}

/// 5.12: what the heads that this attempt claimed say of another; nothing while what it told still holds.
fn judge(driver: &Driver<'_>, record: &AttemptRecord) -> Option<Ending> {
    let at_its_anchor = |slot: &SlotAddress, head: &Head| {
        head.publication.as_ref().is_some_and(|publication| publication.run.anchor() == Some(slot))
    };
    let decided = driver.machine.heads().iter().filter(|(slot, head)| at_its_anchor(slot, head));
    let anchor = decided.map(|(_, head)| head).max_by_key(|head| head.generation());
    let shown = driver.machine.heads().values().any(|head| head.shows(record.attempt));
    let taken_over = driver.machine.given_up().values().any(|head| head.remembers(record.attempt));
    // An attempt that told its end already, if not the last word, keeps what it told.
    let told = record.ending.as_ref();
    let was_decided = told.is_some_and(|told| told.outcome == Outcome::Decided);
    // What it could not finish may be another attempt's.
    let followed =
        if shown { Some(record.attempt) } else { anchor.and_then(|head| Some(head.publication.as_ref()?.attempt)) };
    let follows = (shown || was_decided) && followed.is_some_and(|attempt| !shows_everywhere(driver, attempt));
    if follows && was_decided {
        return None;
    }
    let judged = record.run.map(|run| verdict(record.attempt, run, record.generation.unwrap_or_default(), anchor));
    let (outcome, window) = match judged {
        // Another output is still to follow: not settled yet.
        _ if follows => (Outcome::Decided, Window::Published),
        _ if shown => (Outcome::Published, Window::Published),
        // It was published where another key publishes now.
        _ if taken_over => (Outcome::Superseded, Window::Published),
        Some(Verdict::Published) => (Outcome::Published, Window::Published),
        // 5.11: no denial after the anchor.
        Some(Verdict::Superseded) if was_decided => (Outcome::Superseded, Window::Published),
        _ if was_decided => (Outcome::AlreadyPublished, Window::Published),
        Some(Verdict::Superseded) => (Outcome::Superseded, Window::NothingPublished),
        Some(Verdict::Never) | None => (Outcome::Error, Window::NothingPublished),
    };
    let restored = restored_by(driver, record).map(|what| format!("; it was rolling back to {what}"));
    let how = match told {
        Some(Ending { message: Some(message), .. }) => format!("{message}; how it ended was found out"),
        Some(_) => "how it ended was found out".to_owned(),
        None => WITHOUT_A_WORD.to_owned(),
    };
    Some(Ending {
        at: told.map_or_else(|| driver.boundary.now(), |told| told.at),
        outcome,
        window,
        exit_code: told.and_then(|told| told.exit_code),
        stopped_by: told.and_then(|told| told.stopped_by),
        error_kind: None,
        retry: Some(Retry::of(outcome, None, None, None)),
        message: Some(format!("{how}{}; settled by attempt {}", restored.unwrap_or_default(), driver.id)),
    })
}

/// Which version the attempt was publishing again, as far as a head or the store knows its run.
fn restored_by(driver: &Driver<'_>, record: &AttemptRecord) -> Option<String> {
    let mut published = driver.machine.heads().values().filter_map(|head| head.publication.as_ref());
    if let Some(publication) = published.find(|publication| publication.attempt == record.attempt) {
        return publication.restored();
    }
    let run = driver.boundary.store.key(&record.key).ok()??.run?;
    let restores = run.restores.filter(|_| Some(run.run_id) == record.run)?;
    Some(format!("version {}", restores.version))
}

/// Whether every slot of the attempt's run shows it, or a later generation.
fn shows_everywhere(driver: &Driver<'_>, attempt: AttemptId) -> bool {
    let heads = driver.machine.heads();
    let publications = heads.values().filter_map(|head| head.publication.as_ref());
    let Some(run) = publications.map(|p| (p.attempt, &p.run)).find(|(shown, _)| *shown == attempt).map(|(_, run)| run)
    else {
        return false;
    };
    let given_up = driver.machine.given_up();
    run.slots()
        .filter(|slot| !given_up.contains_key(slot))
        .all(|slot| heads.get(slot).is_some_and(|head| head.shows(attempt) || head.generation() > run.generation))
}

/// Lets go what a published run needs no more. Best effort: `refrain gc` does the rest. Returns what a person should know.
pub(crate) fn clean_up(driver: &mut Driver<'_>, answer: &Answer) -> Vec<String> {
    let mut notes = Vec::new();
    if !matches!(answer, Answer::Published) {
        return notes;
    }
    let Some(publication) = &driver.sealed else { return notes };
    let boundary = driver.boundary;
    for owner in publication.run.inputs.iter().filter_map(owner_of).collect::<BTreeSet<_>>() {
        if let Err(error) = boundary.inputs.release(owner) {
            tracing::warn!(%error, "pinned inputs could not be removed");
        }
    }
    for slot in publication.run.slots() {
        let trimmed =
            boundary.sinks.of(slot).and_then(|sink| sink.trim(slot, &driver.plan.task.keep, boundary.now(), false));
        if let Err(error) = trimmed {
            tracing::warn!(%slot, %error, "the versions could not be put in order");
            notes.push(in_one_line(&error));
        }
    }
    notes
}
