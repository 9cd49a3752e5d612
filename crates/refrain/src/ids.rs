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

/// A random number from 0 to 1, for pauses that callers must not make at the same moment.
pub(crate) fn fraction() -> f64 {
    let [.., a, b, c, d] = *Uuid::new_v4().as_bytes();
    f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX)
}

/// A head's next version.
pub(crate) fn version() -> HeadVersion {
    HeadVersion::from_uuid(Uuid::new_v4())
}
