//! Copies an input to where nobody changes it.

use refrain_core::{Error, Result};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use walkdir::WalkDir;

/// Copies a file or a directory. The copy shares blocks with the original where the filesystem can
/// (`copy_file_range` makes reflinks). Files of the copy are read-only, so that a task that writes to its input
/// by mistake is told.
///
/// # Errors
/// `unavailable` when the original changed while it was copied; `internal` for other failures.
pub(crate) fn copy_path(from: &Path, to: &Path) -> Result<()> {
    if !fs::metadata(from).map_err(|error| failed(from, error))?.is_dir() {
        return copy_file(from, to);
    }
    for entry in WalkDir::new(from) {
        let entry = entry.map_err(|error| failed(from, error.into()))?;
        let target = to.join(entry.path().strip_prefix(from).unwrap_or(entry.path()));
        let kind = entry.file_type();
        if kind.is_dir() || (entry.depth() == 0 && kind.is_symlink()) {
            // Not `create_dir_all`: a copy whose parent vanished must fail, not go on with a part.
            fs::create_dir(&target).map_err(|error| failed(&target, error))?;
        } else if kind.is_symlink() {
            let link = fs::read_link(entry.path()).map_err(|error| failed(entry.path(), error))?;
            symlink(link, &target).map_err(|error| failed(&target, error))?;
        } else if kind.is_file() {
            copy_file(entry.path(), &target)?;
        } else {
            let path = entry.path().display();
            return Err(Error::invalid(format!("the input `{path}` is neither a file, a directory nor a link")));
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let state = |path: &Path| fs::metadata(path).map(|m| (m.ino(), m.size(), m.mtime(), m.mtime_nsec()));
    let before = state(from).map_err(|error| failed(from, error))?;
    fs::copy(from, to).map_err(|error| failed(from, error))?;
    let after = state(from).map_err(|error| failed(from, error))?;
    if before != after {
        return Err(Error::new(
            refrain_core::ErrorKind::Unavailable,
            format!("the input `{}` changed while it was being pinned", from.display()),
        )
        .hint("run again when its writer has finished"));
    }
    fs::set_permissions(to, Permissions::from_mode(0o444)).map_err(|error| failed(to, error))
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    Error::io(format!("cannot copy the input at `{}`", path.display()), error)
}
