//! What a publication was made from.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Digest of everything that entered, and the list of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint {
    /// `blake3:<hex>`.
    pub digest: String,
    /// Part to its short canonical value or digest.
    pub parts: BTreeMap<String, String>,
}
