//! Who holds a lease, and whether that process still lives.

use crate::process::{Liveness, ProcessIdentity, liveness};
use refrain_core::Lease;

/// What this host can tell of the life of a lease's holder; a record that cannot be read tells nothing.
pub(crate) fn life_of(lease: &Lease) -> Liveness {
    serde_json::from_str::<ProcessIdentity>(&lease.process).map_or(Liveness::Unknowable, |process| liveness(&process))
}
