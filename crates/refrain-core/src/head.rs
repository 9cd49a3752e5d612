//! The head of a slot and its two links: claim and commit (PROTOCOL 2 and 4).
//!
//! Every sink keeps one [`Head`] per slot and changes it in the same atomic step as the data. The two
//! functions here decide; a sink only makes the decision durable. Neither does input or output.

use crate::{
    AttemptId, Fingerprint, Generation, HeadVersion, Holder, Key, Publication, RunId, SlotAddress, SlotId, StoreId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How many former publications a head remembers, for reports only (2.1).
const HISTORY_LENGTH: usize = 8;

/// The sink's own record of a slot (2.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    /// Identity of this head since its first creation (2.2).
    pub slot_id: SlotId,
    /// Never repeats (2.2); new with every accepted claim and commit (2.3).
    pub version: HeadVersion,
    /// The key that owns the slot (2.4).
    pub owner: Key,
    /// The latest claim.
    pub claim: Option<Claim>,
    /// What readers see, if anything was published. Only this decides; `history` never does.
    pub publication: Option<Publication>,
    /// Former publications, newest first, for reports.
    #[serde(default)]
    pub history: Vec<Former>,
    /// What stands there of another key, while the owner has taken the slot over and not published yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_from: Option<Box<TakenFrom>>,
}

/// The publication of a key whose slot was taken over: its own again, should it come back before the new owner has
/// published.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TakenFrom {
    /// The former owner.
    pub owner: Key,
    /// Its publication.
    pub publication: Publication,
}

/// An attempt's mark in the head: an empty compare-and-set that fences every earlier attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// Who claimed.
    pub holder: Holder,
    /// Every slot that this or a former claimer may still have a wish for (4.1).
    pub slots: BTreeSet<SlotAddress>,
}

/// A publication that was replaced.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Former {
    /// Its generation.
    pub generation: Generation,
    /// Its run.
    pub run_id: RunId,
    /// Its attempt.
    pub attempt: AttemptId,
    /// What it was made from, for whoever publishes it again; nothing where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_from: Option<Fingerprint>,
}

impl Head {
    /// The generation that readers see; 0 when nothing was published.
    pub fn generation(&self) -> Generation {
        self.publication.as_ref().map_or(Generation::default(), |publication| publication.run.generation)
    }

    /// What this key published and readers still see.
    pub fn publication_of(&self, key: &Key) -> Option<&Publication> {
        if self.owner == *key {
            return self.publication.as_ref();
        }
        self.taken_from.as_ref().filter(|former| former.owner == *key).map(|former| &former.publication)
    }

    /// What readers see: the owner's publication, or that of the key it has taken the slot over from and not published over.
    pub fn seen(&self) -> Option<&Publication> {
        self.publication.as_ref().or(self.taken_from.as_ref().map(|former| &former.publication))
    }

    /// The head as readers see it: a publication stays its key's own until whoever took the slot over has published (2.4).
    #[must_use]
    pub fn as_seen(self) -> Self {
        match self.taken_from {
            Some(former) if self.publication.is_none() => {
                let TakenFrom { owner, publication } = *former;
                Self { owner, publication: Some(publication), taken_from: None, ..self }
            }
            taken_from => Self { taken_from, ..self },
        }
    }

    /// What a version was made from, as long as the head remembers it.
    pub fn made_from(&self, generation: Generation) -> Option<&Fingerprint> {
        let published = self.publication.as_ref().filter(|it| it.run.generation == generation);
        let published = published.map(|it| &it.fingerprint).filter(|fingerprint| fingerprint.is_known());
        published.or_else(|| self.history.iter().find(|it| it.generation == generation)?.made_from.as_ref())
    }

    /// Whether this attempt's data was seen here and has been replaced, as far as the head remembers.
    pub fn remembers(&self, attempt: AttemptId) -> bool {
        self.history.iter().any(|former| former.attempt == attempt)
    }

    /// Whether readers see this attempt's data.
    pub fn shows(&self, attempt: AttemptId) -> bool {
        self.publication.as_ref().is_some_and(|publication| publication.attempt == attempt)
    }
}

/// Asks to claim a slot (4.1). Sending the same request again is always allowed (4.5).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimRequest {
    /// The key on whose behalf.
    pub owner: Key,
    /// Who claims.
    pub holder: Holder,
    /// The stores that the holder's store replaces.
    pub ancestors: BTreeSet<StoreId>,
    /// The slots that the claimer knows of.
    pub slots: BTreeSet<SlotAddress>,
    /// The identity of the head, if this claim creates it. Drawn anew for every sending, as the version is: a
    /// late copy must not give a head that was dropped meanwhile its former names back (2.2).
    pub fresh_slot_id: SlotId,
    /// The head's next version.
    pub fresh_version: HeadVersion,
    /// Whether a person said that the slot may be taken over from another owner.
    pub take_over: bool,
}

/// What [`decide_claim`] decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimDecision {
    /// Write this head.
    Accept(Head),
    /// The claim already stands: write nothing (4.1b).
    Standing(Head),
    /// A later attempt claimed.
    Fenced(Head),
    /// Not for this claimer.
    Refused(Head, ClaimRefusal),
}

/// Why a claim is refused and nothing may be retried by itself (4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimRefusal {
    /// The slot belongs to another key (2.4).
    Owner,
    /// The claim in the head is of a store that ours does not replace (4.1e).
    ForeignStore,
}

/// K2: decides a claim (4.1).
pub fn decide_claim(head: Option<&Head>, request: &ClaimRequest) -> ClaimDecision {
    let Some(head) = head else {
        return ClaimDecision::Accept(Head {
            slot_id: request.fresh_slot_id,
            version: request.fresh_version,
            owner: request.owner.clone(),
            claim: Some(Claim { holder: request.holder, slots: request.slots.clone() }),
            publication: None,
            history: Vec::new(),
            taken_from: None,
        });
    };
    if head.owner != request.owner {
        // 2.4: a slot belongs to whoever published there; a key that only tried does not keep others away.
        let free = head.publication.is_none() || request.take_over;
        return if free {
            ClaimDecision::Accept(taken_over(head, request))
        } else {
            ClaimDecision::Refused(head.clone(), ClaimRefusal::Owner)
        };
    }
    let Some(standing) = &head.claim else {
        return ClaimDecision::Accept(claimed(head, request)); // 4.1a
    };
    if standing.holder == request.holder {
        return ClaimDecision::Standing(head.clone()); // 4.1b
    }
    if standing.holder.store_id == request.holder.store_id {
        return if request.holder.token > standing.holder.token {
            ClaimDecision::Accept(claimed(head, request)) // 4.1c
        } else {
            ClaimDecision::Fenced(head.clone())
        };
    }
    if request.ancestors.contains(&standing.holder.store_id) {
        return ClaimDecision::Accept(claimed(head, request)); // 4.1d
    }
    ClaimDecision::Refused(head.clone(), ClaimRefusal::ForeignStore) // 4.1e
}

/// Tokens of two keys tell no order. The former owner's attempts are fenced by the new version; its run and its other
/// slots are none of the new owner's.
fn taken_over(head: &Head, request: &ClaimRequest) -> Head {
    let back = head.publication_of(&request.owner).cloned();
    let taken_from = match &head.publication {
        Some(publication) => Some(Box::new(TakenFrom { owner: head.owner.clone(), publication: publication.clone() })),
        None => head.taken_from.clone().filter(|_| back.is_none()),
    };
    Head {
        slot_id: head.slot_id,
        version: request.fresh_version,
        owner: request.owner.clone(),
        claim: Some(Claim { holder: request.holder, slots: request.slots.clone() }),
        publication: back,
        history: head.history.clone(),
        taken_from,
    }
}

/// The former publications, with the one that is being replaced.
fn history(head: &Head) -> Vec<Former> {
    let mut history = head.history.clone();
    if let Some(former) = head.seen() {
        let (generation, run_id) = (former.run.generation, former.run.run_id);
        let made_from = former.fingerprint.is_known().then(|| former.fingerprint.clone());
        history.insert(0, Former { generation, run_id, attempt: former.attempt, made_from });
        history.truncate(HISTORY_LENGTH);
    }
    history
}

fn claimed(head: &Head, request: &ClaimRequest) -> Head {
    let mut slots = request.slots.clone();
    if let Some(former) = &head.claim {
        slots.extend(former.slots.iter().cloned());
    }
    Head {
        version: request.fresh_version,
        owner: request.owner.clone(),
        claim: Some(Claim { holder: request.holder, slots }),
        ..head.clone()
    }
}

/// Asks to commit sealed data to a slot (4.2). Sending the same request again is always allowed (4.5).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommitRequest {
    /// Who commits: the attempt itself, or whoever rolls it forward (5.5).
    pub holder: Holder,
    /// The version that the head must have; learned by 4.4 only.
    pub expected: HeadVersion,
    /// The head's next version.
    pub fresh_version: HeadVersion,
    /// What readers shall see.
    pub publication: Publication,
}

/// What [`decide_commit`] decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitDecision {
    /// Make the data visible and write this head, in one step.
    Accept(Box<Head>),
    /// This very request landed before: nothing to do (4.5).
    Standing(HeadVersion),
    /// The condition does not hold.
    Rejected,
}

/// K3: decides a commit (4.2).
pub fn decide_commit(head: Option<&Head>, request: &CommitRequest) -> CommitDecision {
    let Some(head) = head else {
        return CommitDecision::Rejected;
    };
    if head.version == request.fresh_version {
        return CommitDecision::Standing(head.version);
    }
    let Some(claim) = &head.claim else {
        return CommitDecision::Rejected;
    };
    if head.version != request.expected || claim.holder != request.holder {
        return CommitDecision::Rejected;
    }
    let own = request.publication.attempt == request.holder.attempt;
    let slots = if own { request.publication.run.slots().cloned().collect() } else { claim.slots.clone() };
    CommitDecision::Accept(Box::new(Head {
        version: request.fresh_version,
        claim: Some(Claim { holder: claim.holder, slots }),
        publication: Some(request.publication.clone()),
        history: history(head),
        taken_from: None,
        ..head.clone()
    }))
}
