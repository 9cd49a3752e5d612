//! Copies for people: made beside the name that they get, and given it when they are whole.

use super::durable;
use refrain_core::{Error, Result};
use std::io;
use std::path::Path;

/// Moves a copy to a name beside it that must be free.
///
/// # Errors
/// `invalid` when the name is taken; nothing is moved then.
///
/// # Crash safety
/// The content is durable before the name: after a power cut the name has the whole copy or nothing.
pub fn hand_out(made: &Path, at: &Path) -> Result<()> {
    let failed = |error| Error::io(format!("cannot move the copy to `{}`", at.display()), error);
    let parent = at.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let witness = durable::open_directory(parent).map_err(failed)?;
    durable::sync_filesystem(&witness).map_err(failed)?;
    match durable::move_to_free(made, at) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Error::invalid(format!("`{}` exists, and nothing is overwritten", at.display()))
                .hint("name a path that is free"));
        }
        moved => moved.map_err(failed)?,
    }
    durable::sync_directory(parent).map_err(failed)
}

/// Removes what is left of a copy.
///
/// # Errors
/// `internal` when it cannot be removed.
pub fn drop_copy(made: &Path) -> Result<()> {
    durable::remove(made).map_err(|error| Error::io(format!("cannot remove `{}`", made.display()), error))
}
