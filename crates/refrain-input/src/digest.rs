//! One digest for a file or a whole directory.

use crate::listing::{Listing, changing};
use crate::location::Location;
use crate::seen::Seen;
use refrain_core::{Error, Result};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use walkdir::WalkDir;

/// A digest and what it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// `blake3:<hex>`.
    pub digest: String,
    /// Size of all files, in bytes.
    pub bytes: u64,
}

/// Digests the content of a file, or names, kinds and contents of everything in a directory, as an output of that
/// content is digested. Owners, times and modes other than executability do not enter.
///
/// # Errors
/// `invalid` when there is nothing at the path, `internal` when it cannot be read.
pub fn digest_path(path: &Path) -> Result<Digest> {
    let mut listing = Listing::take(&Location::Path(path.to_owned()))?;
    Seen::nothing().complete(&mut listing)?;
    let digest = listing.version().ok_or_else(|| changing(path))?;
    Ok(Digest { digest, bytes: listing.bytes() })
}

/// Digests what the system says of a file or of everything in a directory, without reading content: differs when
/// something was written, added, removed or replaced in between. Nothing at the path is a state, too.
///
/// # Errors
/// `internal` when a directory cannot be listed.
pub fn stat_digest(path: &Path) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    if fs::symlink_metadata(path).is_ok() {
        for entry in WalkDir::new(path).sort_by_file_name() {
            let entry = entry.map_err(|error| Error::io(format!("cannot list `{}`", path.display()), error.into()))?;
            let found = entry
                .metadata()
                .map_err(|error| Error::io(format!("cannot look at `{}`", entry.path().display()), error.into()))?;
            frame(&mut hasher, entry.path().as_os_str().as_bytes());
            let (inode, size) = (found.ino(), found.size());
            let (written, changed) = ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()));
            frame(&mut hasher, format!("{inode} {size} {written:?} {changed:?}").as_bytes());
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// A length before each part, so that moving a byte from one part to the next changes the digest.
fn frame(hasher: &mut blake3::Hasher, part: &[u8]) {
    hasher.update(&(part.len() as u64).to_le_bytes());
    hasher.update(part);
}
