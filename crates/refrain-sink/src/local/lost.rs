//! What the heads of a volume tell of a state store that is gone: which it was, and what was published through it.

use super::journal;
use super::problem::problem;
use jiff::Timestamp;
use refrain_core::{Head, Key, Result, SlotAddress, StoreId};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

/// A key that a head shows a publication of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShownKey {
    /// When it was sealed.
    pub sealed_at: Timestamp,
    /// Whose it is.
    pub key: Key,
    /// The anchor of its run, whose head decides.
    pub anchor: SlotAddress,
}

/// The stores that the slots of the volume at `root` are claimed through: several where one was lost or restored, and not
/// every slot was claimed since.
///
/// # Errors
/// `internal` when the volume cannot be read.
pub fn claimed_stores(root: &Path) -> Result<BTreeSet<StoreId>> {
    let mut stores = BTreeSet::new();
    each_head(root, |head| stores.extend(head.claim.map(|claim| claim.holder.store_id)))?;
    Ok(stores)
}

/// The keys that the heads of the volume at `root` show a publication of, each once, in the order in which they were
/// sealed. Only these names are in memory at once, not the heads.
///
/// # Errors
/// `internal` when the volume cannot be read.
pub fn shown_keys(root: &Path) -> Result<Vec<ShownKey>> {
    let mut shown = Vec::new();
    each_head(root, |head| {
        let Head { owner, publication, taken_from, .. } = head;
        let former = taken_from.map(|former| (former.owner, former.publication));
        for (key, publication) in publication.map(|publication| (owner, publication)).into_iter().chain(former) {
            if let Some(anchor) = publication.run.anchor() {
                shown.push(ShownKey { sealed_at: publication.sealed_at, key, anchor: anchor.clone() });
            }
        }
    })?;
    shown.sort();
    shown.dedup();
    Ok(shown)
}

/// Shows every head of a volume. One that is damaged says nothing here: its own slot reports it.
fn each_head(root: &Path, mut each: impl FnMut(Head)) -> Result<()> {
    let slots = root.join("slots");
    let entries = match std::fs::read_dir(&slots) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(problem("list", &slots, error)),
    };
    for entry in entries {
        let path = entry.map_err(|error| problem("list", &slots, error))?.path();
        if path.extension().is_none_or(|extension| extension != "head") {
            continue;
        }
        if let Ok(contents) = journal::read(&path)
            && let Some(record) = contents.last
        {
            each(record.head);
        }
    }
    Ok(())
}
