//! What a run is, and what an attempt sealed for it: the records that travel in heads and stores.

use crate::{AttemptId, Difference, Fingerprint, Generation, Key, RunId, StoreId, Token, differences};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Names one slot: the sink's kind and the canonical location of what one publication replaces there.
/// Holds no secret and nothing that depends on who calls from where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlotAddress {
    /// The sink's kind: `file`, `directory`, …
    pub sink: String,
    /// The canonical location in the sink's own terms.
    pub location: String,
}

impl fmt::Display for SlotAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.sink, self.location)
    }
}

/// One declared output and the slot that it publishes to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OutputSlot {
    /// The output's name within its task.
    pub name: String,
    /// Where it is published.
    pub slot: SlotAddress,
    /// How it is published there, in the sink's own terms and without secrets, for a sink that knows several ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manner: Option<String>,
}

/// One input as every attempt of a run reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PinnedInput {
    /// The input's name within its task.
    pub name: String,
    /// Where it was read from, as the task declares it.
    pub location: String,
    /// The content's version: a digest, or what the input's own system calls a version.
    pub version: String,
    /// Digest of the content that is kept, where the version is none: equal contents may have different ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Size, in bytes.
    pub bytes: u64,
    /// What the attempt that pinned it keeps, below the state directory: a link to what attempts read, or the list of an
    /// original that is only verified. Nothing for an input that is kept elsewhere.
    pub snapshot: Option<String>,
    /// What was published there, for an input that is a publication; nothing for a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
}

/// The publications that one input of a run is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lineage {
    /// In order of time; none where a chain starts.
    pub publications: Vec<PinnedPublication>,
    /// Digest of the copy that the attempts read.
    pub digest: String,
}

/// One publication, named for ever: its run never changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PinnedPublication {
    /// Whose it is.
    pub key: Key,
    /// The output that is read.
    pub output: String,
    /// Where it was published.
    pub slot: SlotAddress,
    /// The version.
    pub generation: Generation,
    /// The run that published it.
    pub run_id: RunId,
    /// Digest of what was published, in the sink's own terms.
    pub digest: String,
}

impl fmt::Display for PinnedPublication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` output `{}` version {} (run {})", self.key, self.output, self.generation, self.run_id)
    }
}

/// One wish to have a key published. Immutable: recorded once, when it is opened (1.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunRecord {
    /// The run's number within its key.
    pub generation: Generation,
    /// The run's identity.
    pub run_id: RunId,
    /// What every attempt of the run reads.
    pub inputs: Vec<PinnedInput>,
    /// L(run): the anchor first.
    pub outputs: Vec<OutputSlot>,
    /// What is to be published again, for a run that executes nothing (a rollback).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restores: Option<Restores>,
}

/// A kept version that a person chose to publish again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Restores {
    /// The version.
    pub version: Generation,
    /// What a run would have been made from at the moment of the choice: while nothing differs from it, the choice holds.
    /// What the data was made from is the publication's own fingerprint.
    pub in_force: Fingerprint,
}

impl RunRecord {
    /// The slots of the run, the anchor first.
    pub fn slots(&self) -> impl Iterator<Item = &SlotAddress> {
        self.outputs.iter().map(|output| &output.slot)
    }

    /// How the run publishes at the slot, where the sink knows several ways.
    pub fn manner(&self, slot: &SlotAddress) -> Option<&str> {
        self.outputs.iter().find(|output| output.slot == *slot)?.manner.as_deref()
    }

    /// The slot whose head is the publication decision for the whole run (5.9).
    pub fn anchor(&self) -> Option<&SlotAddress> {
        self.slots().next()
    }
}

/// What one attempt sealed for one slot: complete, durable, and not changed after.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SealedData {
    /// The slot it is for.
    pub slot: SlotAddress,
    /// Where the sealed data lies until it is committed, in the sink's own terms.
    pub staged: String,
    /// Digest of the content, as `blake3:<hex>`.
    pub digest: String,
    /// Size, in bytes.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Number of rows, where the sink counts rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// What the sink recognises this very data by, before and after the commit (9.3).
    pub identity: String,
}

/// What a head shows: one attempt's sealed data for one run, and what it was made from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Publication {
    /// The run that is published.
    pub run: RunRecord,
    /// The attempt whose data it is.
    pub attempt: AttemptId,
    /// The sealed data of every slot of the run, so that whoever comes next can roll it forward (5.5).
    pub data: Vec<SealedData>,
    /// What the data was made from; [unknown](Fingerprint::is_known) for what a person wrote, or where nobody remembers.
    pub fingerprint: Fingerprint,
    /// When the data was sealed.
    pub sealed_at: Timestamp,
    /// Of an earlier version that was published again: whether the content is not what that version published, since it was
    /// changed by hand before it was replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// Whether a person let it replace what Refrain did not publish, or another key did: whoever rolls it forward may, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopts: bool,
}

impl Publication {
    /// The sealed data for one slot.
    pub fn data_for(&self, slot: &SlotAddress) -> Option<&SealedData> {
        self.data.iter().find(|data| data.slot == *slot)
    }

    /// What a run now would be made from that makes the publication a former one. Nothing if it is what the data was made
    /// from, or what was in force when a person chose this version.
    pub fn changes(&self, now: &Fingerprint) -> Vec<Difference> {
        self.changes_among(now, |_| true)
    }

    /// The same of those parts only that count.
    pub fn changes_among(&self, now: &Fingerprint, counts: impl Fn(&Difference) -> bool) -> Vec<Difference> {
        let since = |then| {
            let mut changes = differences(then, now);
            changes.retain(&counts);
            changes
        };
        let changes = since(&self.fingerprint);
        match &self.run.restores {
            Some(restores) if !changes.is_empty() => since(&restores.in_force),
            _ => changes,
        }
    }

    /// Which version was published again, for people; nothing where the run executed the task.
    pub fn restored(&self) -> Option<String> {
        let version = self.run.restores.as_ref()?.version;
        Some(format!("version {version}{}", if self.edited { " as it was changed by hand" } else { "" }))
    }
}

/// Who works: compared as a whole, never by the token alone (1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Holder {
    /// The store that granted the lease.
    pub store_id: StoreId,
    /// The lease's fencing token.
    pub token: Token,
    /// The attempt.
    pub attempt: AttemptId,
}

/// Names one attempt's staging, completely enough to decide later whether it may go (7).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StagingId {
    /// The attempt that writes there.
    pub holder: Holder,
    /// The generation that it works for.
    pub generation: Generation,
    /// L(run), the anchor first.
    pub slots: Vec<SlotAddress>,
}

/// A store's identity and what it replaces (1.3).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StoreIdentity {
    /// Fresh for every new store and every restore.
    pub store_id: StoreId,
    /// The stores that this one replaces; fixed when it is created.
    pub ancestors: BTreeSet<StoreId>,
}
