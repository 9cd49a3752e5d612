//! The files that tasks write and Refrain loads.

use super::address::relation_name;
use crate::written::{self, OUTPUT, Owner};
use refrain_core::{Result, SlotAddress, StagingId};
use std::path::{Path, PathBuf};

/// The directory's name in the state directory.
pub(super) const DIRECTORY: &str = "tables";

/// Makes the place for a file of this base name.
pub(super) fn make(directory: &Path, slot: &SlotAddress, id: &StagingId, name: &str) -> Result<String> {
    let own = place(directory, slot, id);
    let output = own.join(OUTPUT);
    written::make(&own, &output, &Owner { slot: slot.clone(), id: id.clone(), manner: None })?;
    written::text(&output.join(name))
}

/// Removes the place.
pub(super) fn remove(directory: &Path, slot: &SlotAddress, id: &StagingId) -> Result<()> {
    written::remove(&place(directory, slot, id))
}

fn place(directory: &Path, slot: &SlotAddress, id: &StagingId) -> PathBuf {
    directory.join(relation_name("stage", id.holder.attempt, slot))
}
