//! Which state store the heads of a volume were claimed through, for a home whose store is gone.

use super::journal;
use super::problem::problem;
use refrain_core::{Result, StoreId};
use std::io::ErrorKind;
use std::path::Path;

/// The store of some claim in the volume at `root`; nothing when no head there was ever claimed.
///
/// # Errors
/// `internal` when the volume cannot be read.
pub fn any_claimed_store(root: &Path) -> Result<Option<StoreId>> {
    let slots = root.join("slots");
    let entries = match std::fs::read_dir(&slots) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(problem("list", &slots, error)),
    };
    for entry in entries {
        let path = entry.map_err(|error| problem("list", &slots, error))?.path();
        if path.extension().is_none_or(|extension| extension != "head") {
            continue;
        }
        // A damaged head names no store; another one will, or its own slot reports it.
        if let Ok(contents) = journal::read(&path)
            && let Some(claim) = contents.last.and_then(|record| record.head.claim)
        {
            return Ok(Some(claim.holder.store_id));
        }
    }
    Ok(None)
}
