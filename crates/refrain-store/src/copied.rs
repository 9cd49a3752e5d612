//! What is told of a history that went over into another store.

use refrain_core::StoreIdentity;

/// What was taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The store that goes on: a fresh one, which replaces the old one (8.1).
    pub identity: StoreIdentity,
    /// How many keys it knows.
    pub keys: u64,
    /// How many attempts it remembers.
    pub attempts: u64,
}
