//! What a head record holds (docs/FORMATS.md).

use super::Identity;
use super::seal::Measured;
use super::stat::Stat;
use refrain_core::{AttemptId, Generation, Head, Publication, SealedData};
use serde::{Deserialize, Serialize};

/// The format that this code writes and the only one that it reads.
pub(crate) const FORMAT: u32 = 1;

/// One line of a head's journal: the whole state of the slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) format: u32,
    /// With an intent: the head that stands once the intent landed.
    pub(crate) head: Head,
    /// A commit that is decided and may not have been carried out (9.5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) intent: Option<Intent>,
    /// What the last commit displaced: should a power cut have undone its move to the versions, it still lies in
    /// the staging place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) displaced: Option<Displaced>,
}

impl Record {
    /// A settled record.
    pub(crate) fn of(head: Head, displaced: Option<Displaced>) -> Self {
        Self { format: FORMAT, head, intent: None, displaced }
    }
}

/// What a commit does to the filesystem, completely enough for somebody else to finish it (9.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Intent {
    /// Where the sealed data lies, unless the rename happened.
    pub(crate) staged: String,
    /// What recognises it.
    pub(crate) identity: String,
    /// Its size, in bytes, for people.
    pub(crate) bytes: u64,
    /// Its digest, for people: where the content decides (9.5), the head's publication tells it.
    pub(crate) digest: String,
    /// How it becomes visible.
    pub(crate) layout: Layout,
    /// What stands at the target and is kept as a version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) displaced: Option<Displaced>,
}

/// How a publication stands at its target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Layout {
    /// The data itself has the target's name.
    Real,
    /// The target's name is a link to the data, which lies among the versions: for directories where two names
    /// cannot be exchanged.
    Link {
        /// Where the data lies.
        version: String,
    },
}

/// What a publication displaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Displaced {
    /// The staging place where an exchange leaves it.
    pub(crate) staged: String,
    /// What recognises it.
    pub(crate) identity: String,
    /// Which version it is.
    pub(crate) version: VersionLabel,
}

impl Displaced {
    /// Whether this is the very inode.
    pub(crate) fn is(&self, stat: &Stat) -> bool {
        self.identity.parse::<Identity>().is_ok_and(|identity| identity.is(stat))
    }
}

/// Names a kept version of a slot, and says what is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct VersionLabel {
    /// The generation that published it; 0 for what was adopted.
    pub(crate) generation: Generation,
    /// The attempt that published it; nothing for what was adopted.
    pub(crate) attempt: Option<AttemptId>,
    /// Whether it was changed by hand after it was published.
    pub(crate) drifted: bool,
    /// What was published; nothing for what is not known to be that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sealed: Option<Measured>,
}

impl VersionLabel {
    /// How what the head shows is named once it is replaced.
    pub(crate) fn of(published: Option<&Publication>, drifted: bool) -> Self {
        Self {
            generation: published.map(|it| it.run.generation).unwrap_or_default(),
            attempt: published.map(|it| it.attempt),
            drifted,
            sealed: None,
        }
    }

    /// How what stands at the target as it was published is named once it is replaced.
    pub(crate) fn intact(published: Option<&Publication>, data: Option<&SealedData>) -> Self {
        Self { sealed: data.map(Measured::of), ..Self::of(published, false) }
    }

    /// The same for what cannot be relied on to be what was published.
    pub(crate) fn changed(self) -> Self {
        Self { drifted: true, sealed: None, ..self }
    }

    /// The directory's name among the versions of the slot.
    pub(crate) fn directory(&self) -> String {
        let attempt = self.attempt.map_or_else(|| "adopted".to_owned(), |attempt| attempt.to_string());
        format!("{}-{attempt}{}", self.generation, if self.drifted { "-drift" } else { "" })
    }
}
