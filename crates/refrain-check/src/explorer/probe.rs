//! What an exploration must have reached for its "holds" to mean something.

use std::fmt;

macro_rules! probes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Something that an exploration reached.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Probe {
            $($(#[$doc])* $name,)*
        }

        impl Probe {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }

        impl fmt::Display for Probe {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$name => $text,)* })
            }
        }
    };
}

probes! {
    /// An attempt reported `Published`.
    Published = "published",
    /// An attempt reported `AlreadyPublished`.
    AlreadyPublished = "already published",
    /// An attempt reported `Decided`.
    Decided = "decided",
    /// An attempt reported `Pending`.
    Pending = "pending",
    /// An attempt reported `Superseded`.
    Superseded = "superseded",
    /// An attempt reported `NotPublished`.
    NotPublished = "not published",
    /// An attempt reported `Unknown`.
    Unknown = "unknown",
    /// An attempt reported `Refused`.
    Refused = "refused",
    /// Somebody's data was rolled forward by somebody else.
    RolledForward = "rolled forward",
    /// A claim was fenced.
    Fenced = "fenced",
    /// A commit was rejected.
    Rejected = "rejected",
    /// Sealed data to roll forward, or to commit, was lost.
    DataLost = "sealed data lost",
    /// A decided run was given up because its sealed data was lost.
    GivenUp = "decided run given up",
    /// A claim was found to stand already.
    ClaimStood = "claim stood",
    /// A commit was found to stand already.
    CommitStood = "commit stood",
    /// A token was raised.
    Raised = "raised",
    /// Staging could go because the run was settled (7.1).
    Settled = "staging settled",
    /// Staging could go because it was fenced (7.2).
    FencedStaging = "staging fenced",
    /// A third party denied an attempt (5.12).
    Denied = "denied by a third party",
    /// A request was carried out after its sender was gone.
    Zombie = "zombie",
    /// A generation replaced another.
    Replaced = "replaced",
    /// The fair attempt came to its end.
    Recovered = "recovered",
    /// A power cut took something back.
    TakenBack = "taken back",
}

impl Probe {
    pub(super) fn bit(self) -> u64 {
        1 << self as u64
    }
}
