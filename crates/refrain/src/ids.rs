//! Fresh identities: the one module of this crate that draws random numbers.

use refrain_core::{AttemptId, HeadVersion, RunId, SlotId};
use uuid::Uuid;

/// An attempt's identity: sorts by time of creation, so that logs read in order.
pub(crate) fn attempt() -> AttemptId {
    AttemptId::from_uuid(Uuid::now_v7())
}

/// A run's identity: sorts by time of creation.
pub(crate) fn run() -> RunId {
    RunId::from_uuid(Uuid::now_v7())
}

/// A slot's identity.
pub(crate) fn slot() -> SlotId {
    SlotId::from_uuid(Uuid::new_v4())
}

/// A head's next version.
pub(crate) fn version() -> HeadVersion {
    HeadVersion::from_uuid(Uuid::new_v4())
}
