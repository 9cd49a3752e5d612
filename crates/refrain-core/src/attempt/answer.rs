//! How an attempt ends.

use crate::{Head, Publication, SlotAddress};

/// What an attempt reports (5.13).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// This attempt's output is published at every slot.
    Published,
    /// The run, or a later one, was published by an attempt before.
    AlreadyPublished(Box<Publication>),
    /// Published at the anchor; a later attempt finishes the other slots.
    Decided,
    /// The run was decided by an attempt before, which published this at the anchor; another slot is still behind, and
    /// what this attempt tried about it failed.
    Pending(Box<Publication>),
    /// A later generation stands at the anchor.
    Superseded,
    /// Nothing of this attempt is or will be published.
    NotPublished(Cause),
    /// The answer of the anchor's commit was lost.
    Unknown(Doubt),
    /// A person must decide.
    Refused(Refusal),
}

/// Why nothing was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Another attempt has the lease.
    Held,
    /// A later attempt claimed the slot, or took the lease.
    Fenced,
    /// The task or its output failed, or a step before the commit did: the caller knows more.
    Failed,
    /// There was nothing to settle beyond what this attempt did (only in recovery).
    Settled,
}

/// Why it is not known whether the output was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// The commit was sent and no definite answer came (5.11).
    AnswerLost,
    /// The slot was dropped and made again (5.11a).
    SlotRecreated,
}

/// What a person must decide.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The slot belongs to another key (2.4).
    Owner(SlotAddress, Box<Head>),
    /// The slot was claimed by a store that ours does not replace (8.2).
    ForeignStore(SlotAddress, Box<Head>),
    /// The anchor's head does not show what another slot's head says was decided there (5.3).
    AnchorDamaged(SlotAddress),
    /// A decided run's sealed data is gone (5.5).
    DataLost(SlotAddress),
}
