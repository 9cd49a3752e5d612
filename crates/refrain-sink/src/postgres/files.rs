//! The files that tasks write and Refrain loads: one directory for each attempt and slot, in the home's state.

use super::address::relation_name;
use refrain_core::{Error, ErrorKind, Result, SlotAddress, Staged, StagingId};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The directory's name in the state directory.
pub(super) const DIRECTORY: &str = "tables";

/// Names the attempt in its directory.
const OWNER: &str = "owner.json";

#[derive(Serialize, Deserialize)]
struct Owner {
    slot: SlotAddress,
    id: StagingId,
}

/// Makes the place for a file of this base name.
///
/// # Crash safety
/// Nothing here need survive a power cut: the attempt does not either. A directory without its owner is reported by gc.
pub(super) fn make(directory: &Path, slot: &SlotAddress, id: &StagingId, name: &str) -> Result<String> {
    let own = place(directory, slot, id);
    let owner = serde_json::to_vec(&Owner { slot: slot.clone(), id: id.clone() })
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot write a staging's owner").because(error))?;
    let made = fs::create_dir_all(own.join("out")).and_then(|()| fs::write(own.join(OWNER), owner));
    made.map_err(|error| Error::io(format!("cannot make the staging directory `{}`", own.display()), error))?;
    let file = own.join("out").join(name);
    let text = file.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::invalid(format!("the path `{}` is not valid UTF-8", file.display())))
}

/// Removes the place.
pub(super) fn remove(directory: &Path, slot: &SlotAddress, id: &StagingId) -> Result<()> {
    let own = place(directory, slot, id);
    match fs::remove_dir_all(&own) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(format!("cannot remove the staging directory `{}`", own.display()), error))
        }
        _ => Ok(()),
    }
}

/// All places, with whose they are.
pub(super) fn all(directory: &Path) -> Result<Vec<Staged>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io(format!("cannot list `{}`", directory.display()), error)),
    };
    let entry = |entry: fs::DirEntry| {
        let owner = fs::read(entry.path().join(OWNER)).ok();
        let owner = owner.and_then(|text| serde_json::from_slice::<Owner>(&text).ok());
        Staged { place: entry.path().display().to_string(), owner: owner.map(|owner| (owner.slot, owner.id)) }
    };
    Ok(entries.flatten().map(entry).collect())
}

fn place(directory: &Path, slot: &SlotAddress, id: &StagingId) -> PathBuf {
    directory.join(relation_name("stage", id.holder.attempt, slot))
}
