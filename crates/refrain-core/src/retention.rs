//! What may be deleted (PROTOCOL 7), and what can be said of an attempt from outside (5.12).

use crate::{AttemptId, Generation, Head, RunId, SlotAddress, StagingId, StoreIdentity};
use std::collections::BTreeMap;

/// Whether an attempt's staging may be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Staleness {
    /// The run, or a later one, is published by another attempt (7.1).
    Settled,
    /// One later claim stands in every head of the run (7.2).
    Fenced,
    /// The attempt's data is published, or may still be.
    Needed,
}

/// Decides by the heads of all slots of the staging's run. Both reasons to delete are stable: once true
/// they stay true, so that looking first and deleting later needs no lock.
pub fn staleness(staging: &StagingId, heads: &BTreeMap<SlotAddress, Option<Head>>, store: &StoreIdentity) -> Staleness {
    let head_of = |slot: &SlotAddress| heads.get(slot).and_then(Option::as_ref);
    if staging.slots.iter().any(|slot| head_of(slot).is_some_and(|head| head.shows(staging.holder.attempt))) {
        return Staleness::Needed;
    }
    let anchor = staging.slots.first().and_then(head_of);
    if anchor.is_some_and(|head| head.publication.is_some() && head.generation() >= staging.generation) {
        return Staleness::Settled;
    }
    let claims: Vec<_> = staging
        .slots
        .iter()
        .map(|slot| head_of(slot).and_then(|head| head.claim.as_ref()).map(|claim| claim.holder))
        .collect();
    match claims.first() {
        Some(Some(first)) if claims.iter().all(|claim| *claim == Some(*first)) => {
            let same_store = first.store_id == staging.holder.store_id && first.token > staging.holder.token;
            let successor = first.store_id == store.store_id && store.ancestors.contains(&staging.holder.store_id);
            let another = first.attempt != staging.holder.attempt;
            if another && (same_store || successor) { Staleness::Fenced } else { Staleness::Needed }
        }
        _ => Staleness::Needed,
    }
}

/// What a third party knows of an attempt (5.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Its output is what the anchor shows.
    Published,
    /// Its output never was and never will be published.
    Never,
    /// A later generation stands; whether its output was published before is history.
    Superseded,
}

/// Judges an attempt by the anchor's head. Final only after the judge's own later claim was accepted on all
/// slots of the attempt's run; without it only [`Verdict::Published`] is final. A head that was made again after
/// a drop says nothing of what stood there before.
pub fn verdict(attempt: AttemptId, run: RunId, generation: Generation, anchor: Option<&Head>) -> Verdict {
    let Some(publication) = anchor.and_then(|head| head.publication.as_ref()) else {
        return Verdict::Never;
    };
    if publication.attempt == attempt {
        Verdict::Published
    } else if publication.run.run_id != run && publication.run.generation > generation {
        Verdict::Superseded
    } else {
        Verdict::Never
    }
}
