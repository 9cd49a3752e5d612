//! Takes from a copy what would let a task change it by accident.

use refrain_core::{Error, Result};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use walkdir::WalkDir;

/// Makes every file below `root` read-only, and every directory one that its owner can remove again. Links are left as
/// they are.
///
/// # Errors
/// `internal` when something cannot be listed or changed.
pub fn make_read_only(root: &Path) -> Result<()> {
    let failed = |error| Error::io(format!("cannot make `{}` read-only", root.display()), error);
    for entry in WalkDir::new(root) {
        let entry = entry.map_err(|error| failed(error.into()))?;
        let kind = entry.file_type();
        if kind.is_symlink() {
            continue;
        }
        let mode = entry.metadata().map_err(|error| failed(error.into()))?.permissions().mode() & 0o7777;
        let wanted = if kind.is_dir() { mode | 0o700 } else { mode & !0o222 | 0o400 };
        if wanted != mode {
            fs::set_permissions(entry.path(), Permissions::from_mode(wanted)).map_err(failed)?;
        }
    }
    Ok(())
}
