//! Where tasks write on this machine what goes to a sink elsewhere: one directory for each attempt and slot, in the home's
//! state, which names its attempt.

use refrain_core::{Error, ErrorKind, Result, SlotAddress, Staged, StagingId};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// Names the attempt in its directory.
const OWNER: &str = "owner.json";

/// Below it the task writes.
pub(crate) const OUTPUT: &str = "out";

/// Whose a directory is.
#[derive(Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) slot: SlotAddress,
    pub(crate) id: StagingId,
    /// How it is published, where something is said of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) manner: Option<String>,
}

/// Makes an attempt's own directory, with `inner` below it.
///
/// # Crash safety
/// Nothing here need survive a power cut: the attempt does not either. A directory without its owner is reported by gc.
pub(crate) fn make(own: &Path, inner: &Path, owner: &Owner) -> Result<()> {
    let owner = serde_json::to_vec(owner)
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot write a staging's owner").because(error))?;
    let made = fs::create_dir_all(inner).and_then(|()| fs::write(own.join(OWNER), owner));
    made.map_err(|error| Error::io(format!("cannot make the staging directory `{}`", own.display()), error))
}

/// Whose an attempt's own directory is.
pub(crate) fn owner(own: &Path) -> Result<Owner> {
    let path = own.join(OWNER);
    let text = fs::read(&path).map_err(|error| Error::io(format!("cannot read `{}`", path.display()), error))?;
    serde_json::from_slice(&text)
        .map_err(|error| Error::corrupt(format!("`{}` cannot be read: {error}", path.display())))
}

/// Removes an attempt's own directory.
pub(crate) fn remove(own: &Path) -> Result<()> {
    match fs::remove_dir_all(own) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(format!("cannot remove the staging directory `{}`", own.display()), error))
        }
        _ => Ok(()),
    }
}

/// What is in a directory of such directories, with whose it is.
pub(crate) fn all(directory: &Path) -> Result<Vec<Staged>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io(format!("cannot list `{}`", directory.display()), error)),
    };
    let entry = |entry: fs::DirEntry| Staged {
        place: entry.path().display().to_string(),
        owner: owner(&entry.path()).ok().map(|owner| (owner.slot, owner.id)),
    };
    Ok(entries.flatten().map(entry).collect())
}

/// A path as a task gets it.
pub(crate) fn text(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::invalid(format!("the path `{}` is not valid UTF-8", path.display())))
}
