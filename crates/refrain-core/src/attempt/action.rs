//! What an attempt is for, and what it asks its caller to do.

use super::Answer;
use crate::{CommitRequest, HeadVersion, Holder, Publication, RunRecord, SlotAddress, Token};

/// What the caller of the machine must do next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Ask the store for the lease (5.1).
    Acquire,
    /// Claim this slot at its sink (5.2).
    Claim(SlotAddress),
    /// Ask the store for a token above this one (4.3).
    Raise(Token),
    /// Open the run at the store, with the run of the highest generation among the heads (5.4).
    OpenRun(Option<RunRecord>),
    /// Commit at this slot (5.5, 5.9). Send the identical request again until a definite answer comes.
    Commit(SlotAddress, Box<CommitStep>),
    /// Read the head of this slot (5.11).
    Read(SlotAddress),
    /// Execute the task with the run's pins into fresh staging, and seal it (5.7, 5.8).
    Execute(RunRecord),
    /// Settle and release at the store (5.10).
    Finish,
    /// Report this (5.11).
    Report(Answer),
}

/// A commit to send: everything of the request but the fresh version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommitStep {
    /// Who commits.
    pub holder: Holder,
    /// The version that the head must have.
    pub expected: HeadVersion,
    /// What readers shall see.
    pub publication: Publication,
}

impl CommitStep {
    /// The request, with a fresh version that the caller drew. Draw it once per step.
    pub fn request(self, fresh_version: HeadVersion) -> CommitRequest {
        CommitRequest { holder: self.holder, expected: self.expected, fresh_version, publication: self.publication }
    }
}

/// How far an attempt may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// Publish the run.
    Publish,
    /// Publish the run, and give up an earlier decided run that cannot be rolled forward because its sealed data is
    /// lost: a person said that the publication shall be replaced.
    Replace,
    /// Fence earlier attempts and roll forward what was decided; execute nothing (recovery).
    Settle,
}
