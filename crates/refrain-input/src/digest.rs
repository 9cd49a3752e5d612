//! One digest for a file or a whole directory.

use refrain_core::{Error, Result};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use walkdir::WalkDir;

const BUFFER_BYTES: usize = 256 * 1024;

/// A digest and what it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// `blake3:<hex>`.
    pub digest: String,
    /// Size of all files, in bytes.
    pub bytes: u64,
}

/// Digests the content of a file, or names and contents of everything in a directory. Modes, owners and times
/// do not enter: they do not change what a task reads.
///
/// # Errors
/// `invalid` when there is nothing at the path, `internal` when it cannot be read.
pub fn digest_path(path: &Path) -> Result<Digest> {
    let kind = fs::metadata(path).map_err(|error| missing_or_unreadable(path, error))?;
    let mut hasher = blake3::Hasher::new();
    let mut bytes = 0;
    if kind.is_dir() {
        for entry in WalkDir::new(path).min_depth(1).sort_by_file_name() {
            let entry = entry.map_err(|error| Error::io(format!("cannot list `{}`", path.display()), error.into()))?;
            let name = entry.path().strip_prefix(path).unwrap_or(entry.path()).as_os_str().as_bytes();
            frame(&mut hasher, name);
            if entry.file_type().is_file() {
                let mut content = blake3::Hasher::new();
                bytes += feed(&mut content, entry.path())?;
                frame(&mut hasher, content.finalize().as_bytes());
            } else if entry.file_type().is_symlink() {
                let target = fs::read_link(entry.path()).map_err(|error| unreadable(entry.path(), error))?;
                frame(&mut hasher, target.as_os_str().as_bytes());
            } else {
                frame(&mut hasher, b"/");
            }
        }
    } else {
        bytes = feed(&mut hasher, path)?;
    }
    Ok(Digest { digest: format!("blake3:{}", hasher.finalize().to_hex()), bytes })
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
            let found = entry.metadata().map_err(|error| unreadable(entry.path(), error.into()))?;
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

fn feed(hasher: &mut blake3::Hasher, path: &Path) -> Result<u64> {
    let mut file = File::open(path).map_err(|error| missing_or_unreadable(path, error))?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut total = 0;
    loop {
        let count = file.read(&mut buffer).map_err(|error| unreadable(path, error))?;
        if count == 0 {
            return Ok(total);
        }
        hasher.update(&buffer[..count]);
        total += count as u64;
    }
}

fn unreadable(path: &Path, error: std::io::Error) -> Error {
    Error::io(format!("cannot read the input `{}`", path.display()), error)
}

fn missing_or_unreadable(path: &Path, error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        return Error::invalid(format!("the input `{}` does not exist", path.display()));
    }
    unreadable(path, error)
}
