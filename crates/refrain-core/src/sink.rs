//! What a sink does: keeps a head per slot, stages, seals and commits (PROTOCOL 2, 4, 5).
//!
//! A sink never calls a store. Everything that may be staged, sealed or committed is named by values from
//! this crate, so that an attempt, its successor and a third party reach the same decision.

use crate::{
    AttemptId, ClaimRefusal, ClaimRequest, CommitRequest, Generation, Head, Key, OutputSlot, Result, RunId, SealedData,
    SlotAddress, StagingId, TaskName,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

/// A sink.
pub trait Sink: Send + Sync + Debug {
    /// What the sink promises. The conformance suite tests what is claimed.
    fn capabilities(&self) -> Capabilities;

    /// Where readers find what is published at the slot: a path or URL, without secrets.
    fn location(&self, slot: &SlotAddress) -> String;

    /// Finds out, before the task starts, whether a publication at the slot can succeed at all. `manner` is the
    /// output's ([`OutputSlot::manner`](crate::OutputSlot)).
    fn preflight(&self, slot: &SlotAddress, manner: Option<&str>, adopt: Adopt) -> Result<()>;

    /// Finds out whether what stands at the slot and was not published may be adopted at all. Reads only.
    fn adoptable(&self, _slot: &SlotAddress) -> Result<()> {
        Ok(())
    }

    /// Whether this sink knows a way to where the slot lies; an error where it cannot tell now.
    fn reaches(&self, _slot: &SlotAddress) -> Result<bool> {
        Ok(true)
    }

    /// Refuses an output beside which something would stand that the key published before, at a slot that is none of
    /// `outputs` any more: for a sink of which several slots may be parts of one whole. Reads only.
    fn supersede(&self, _key: &Key, _output: &OutputSlot, _outputs: &[OutputSlot], _adopt: Adopt) -> Result<()> {
        Ok(())
    }

    /// Whether the head is all that tells that the slot was published: to publish it again beside a head that is lost would
    /// add to what stands there.
    fn rests_on_head(&self, _slot: &SlotAddress, _manner: Option<&str>) -> bool {
        false
    }

    /// Reads the head without a lock. Final only when positive (5.12).
    fn read(&self, slot: &SlotAddress) -> Result<Option<Head>>;

    /// K2: claims the slot (4.1).
    fn claim(&self, slot: &SlotAddress, request: &ClaimRequest) -> Result<ClaimAnswer>;

    /// Makes a fresh staging place for one slot of an attempt. What is staged remembers its `manner`: whoever commits it
    /// need not be told.
    fn stage(&self, slot: &SlotAddress, manner: Option<&str>, staging: &StagingId) -> Result<Staging<Open>>;

    /// Checks the guards, makes the staged output durable and records what it is (5.8). The caller has made
    /// sure that no process writes any more. A failed guard is an error of kind `guard`.
    fn seal(&self, staging: Staging<Open>, guards: &Guards) -> Result<Staging<Sealed>>;

    /// Whether what an attempt sealed and could not commit is kept, for a later attempt of its run to
    /// [take over](Self::take_over): where sealing costs more than a name.
    fn keeps_sealed(&self) -> bool {
        false
    }

    /// What attempts of a run sealed for the slot and nobody published, newest first, as far as all of it is there or can be
    /// brought there from this machine. Reads only, and no content: names and sizes tell.
    fn sealed(&self, _slot: &SlotAddress, _generation: Generation, _run: RunId) -> Result<Vec<SealedWork>> {
        Ok(Vec::new())
    }

    /// Makes what `maker` sealed for the slot, an attempt of the same run that [`sealed`](Self::sealed) named, this
    /// attempt's own: nobody else may remove or take it as long as this attempt's claim stands. To publish it is as if this
    /// attempt had made it (5.7). Nothing when it is gone, or not what it was, or when this attempt is fenced.
    ///
    /// # Crash safety
    /// One compare-and-set of whose it is; whoever removes it does that first, too.
    fn take_over(&self, _slot: &SlotAddress, _staging: &StagingId, _maker: AttemptId) -> Result<Option<SealedData>> {
        Ok(None)
    }

    /// K3: makes sealed data visible (4.2). An error of kind `unknown` is a lost answer: send the identical
    /// request again.
    fn commit(&self, slot: &SlotAddress, request: &CommitRequest, options: &CommitOptions) -> Result<CommitAnswer>;

    /// Compares what stands at the slot with what its head says (13.2).
    fn condition(&self, slot: &SlotAddress, head: Option<&Head>) -> Result<Condition>;

    /// The versions that can be read, newest first; the published one is among them.
    fn versions(&self, slot: &SlotAddress) -> Result<Vec<Version>>;

    /// Refuses a version that can be read and not be published again, such as a directory that a person put where a file is
    /// published.
    fn demand_restorable(&self, _slot: &SlotAddress, _generation: Generation) -> Result<()> {
        Ok(())
    }

    /// Copies a version that can be read, the published one or a kept one, to a place in the sink's own terms that is
    /// nobody's yet (an empty directory for a tree), and makes sure that the copy is what was published. An error of kind
    /// `invalid` when the version is not there.
    fn restore(&self, slot: &SlotAddress, generation: Generation, into: &str) -> Result<()>;

    /// Forgets the heads of these keys of a task, which are folded (12.2), where a head is all that is left of a key and
    /// their number would grow for ever. Returns how many. Other sinks keep theirs: what stands there needs them.
    ///
    /// # Crash safety
    /// In one step with the bound below which a key without a head is refused, never applied again (12.3).
    fn forget(&self, _task: &TaskName, _keys: &[(SlotAddress, String)]) -> Result<u64> {
        Ok(0)
    }

    /// All staging that this sink holds, with who it belongs to; nothing for staging that bears no name.
    fn staged(&self) -> Result<Vec<Staged>>;

    /// Deletes staging. The caller has decided by [`staleness`](crate::staleness).
    fn discard(&self, staged: &Staged) -> Result<()>;

    /// Removes kept versions beyond the policy; never the published one. Returns what it removed, or would.
    fn trim(&self, slot: &SlotAddress, keep: &Keep, now: Timestamp, dry_run: bool) -> Result<Vec<Version>>;
}

/// What a sink promises, as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "a table of independent facts")]
pub struct Capabilities {
    /// The sink's kind, as in [`SlotAddress::sink`].
    pub sink: &'static str,
    /// Readers see the old or the new output, whole.
    pub atomic: bool,
    /// The commit tests the head's version in the same step.
    pub conditional: bool,
    /// An attempt can mark a head before it works.
    pub claims: bool,
    /// The ledger changes in the commit's own step.
    pub ledger_in_commit: bool,
    /// What a commit costs, seen from the size of the output.
    pub swap_cost: SwapCost,
    /// Earlier versions can be published again.
    pub rollback: bool,
    /// What a person changed is kept as a version when it is replaced.
    pub keeps_changes: bool,
}

/// What a commit costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SwapCost {
    /// The same whatever the size.
    Constant,
    /// In proportion to the rows.
    Rows,
}

/// Whether something that Refrain did not publish may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Adopt {
    /// Refuse.
    Never,
    /// Keep it as version 0 and publish over it.
    Foreign,
}

/// Answer of [`Sink::claim`] (4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimAnswer {
    /// The claim stands; this is the head with it.
    Claimed(Head),
    /// A later attempt claimed.
    Fenced(Head),
    /// Not for this claimer.
    Refused(Head, ClaimRefusal),
}

/// Answer of [`Sink::commit`] (4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum CommitAnswer {
    /// The data is visible and the head has the request's fresh version.
    Committed,
    /// The condition does not hold: read the head.
    Rejected,
    /// The sealed data is not there any more, or is not what was sealed.
    DataLost,
}

/// What a commit may replace beside the last publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommitOptions {
    /// Whether something that stood there before the first publication may be replaced (kept as version 0).
    pub adopt: Adopt,
    /// Whether a publication that was changed by hand may be replaced (13.2).
    pub overwrite_drift: bool,
}

/// State of staging that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open;

/// State of staging in which nothing may change any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed;

/// An attempt's staging place for one slot. What is not sealed cannot be committed: only
/// [`Staging<Sealed>`] has [`SealedData`].
#[derive(Debug, PartialEq, Eq)]
pub struct Staging<State> {
    /// The slot it is for.
    pub slot: SlotAddress,
    /// Whose it is.
    pub id: StagingId,
    /// Where the task writes: a path or URL, as `REFRAIN_OUT_<NAME>` shows it.
    pub place: String,
    /// Further variables for the task, by suffix of `REFRAIN_OUT_<NAME>`.
    pub extra: Vec<(String, String)>,
    /// What whoever publishes it should be told, a line each.
    pub remarks: Vec<String>,
    sealed: Option<SealedData>,
    state: PhantomData<State>,
}

impl Staging<Open> {
    /// A staging place that a sink has made.
    pub fn open(slot: SlotAddress, id: StagingId, place: String) -> Self {
        Self { slot, id, place, extra: Vec::new(), remarks: Vec::new(), sealed: None, state: PhantomData }
    }

    /// The place as a local path.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(&self.place)
    }

    /// The same place, after the sink has made sure of what `data` says.
    pub fn sealed(self, data: SealedData) -> Staging<Sealed> {
        Staging {
            slot: self.slot,
            id: self.id,
            place: self.place,
            extra: self.extra,
            remarks: self.remarks,
            sealed: Some(data),
            state: PhantomData,
        }
    }
}

impl Staging<Sealed> {
    /// What was sealed.
    pub fn into_data(self) -> Option<SealedData> {
        self.sealed
    }
}

/// What a staged output must satisfy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guards {
    /// An output of no bytes and no files may be published.
    pub allow_empty: bool,
    /// At least so many bytes in all.
    pub min_bytes: Option<u64>,
    /// At least so many files.
    pub min_files: Option<u64>,
    /// At least so many rows.
    pub min_rows: Option<u64>,
    /// What the published path shall say of its origin, where the sink can attach it to the data itself.
    pub provenance: String,
    /// What it comes from, for a sink that [keeps](Sink::keeps_sealed) what it sealed.
    pub origin: Option<Origin>,
}

/// What an attempt's output comes from: what is sealed for the same origin may be published instead of made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The run.
    pub run: RunId,
    /// Digest of what the output is made from.
    pub made_from: String,
}

/// What an attempt sealed for a slot and nobody published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedWork {
    /// The attempt that made it. Outputs of one maker belong together; those of two never do.
    pub maker: AttemptId,
    /// Digest of what it was made from, as [`Origin`] has it.
    pub made_from: String,
    /// The place, as [`Staged::place`] names it.
    pub place: String,
}

/// What stands at a slot (13.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing, and nothing was published.
    Absent,
    /// What the head says.
    Intact,
    /// Something that Refrain did not publish, where nothing was published.
    Foreign(String),
    /// Not what was published: the text says what differs.
    Drifted(String),
    /// Nothing, although something was published.
    Missing,
}

/// A version that can be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Version {
    /// The generation that published it; 0 for what was adopted.
    pub generation: Generation,
    /// Where it can be read: paths or URLs.
    pub locations: Vec<String>,
    /// When it was replaced; nothing for the published one.
    pub replaced_at: Option<Timestamp>,
    /// Whether it is the published one.
    pub current: bool,
    /// Whether it is kept as a person changed it after it was published.
    pub edited: bool,
}

/// Staging that a sink holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The place, in the sink's own terms.
    pub place: String,
    /// The slot it is for and whose it is; nothing when it bears no readable name: keep it and report it (7).
    pub owner: Option<(SlotAddress, StagingId)>,
}

/// How many replaced versions are kept, and how long at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// So many versions beside the published one.
    pub versions: u32,
    /// A version stays for at least this long after it was replaced: readers may still have it open.
    pub grace: Duration,
}

impl Default for Keep {
    fn default() -> Self {
        Self { versions: 3, grace: Duration::from_hours(1) }
    }
}
