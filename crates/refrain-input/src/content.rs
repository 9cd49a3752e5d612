//! Reads contents: digests them, and copies them, sharing blocks where the filesystem can.

use crate::listing::changing;
use crate::place::open_file;
use crate::stat::Stat;
use blake3::{Hash, Hasher};
use refrain_core::{Error, ErrorKind, Result};
use rustix::fs::ioctl_ficlone;
use rustix::io::Errno;
use std::cell::RefCell;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

const BUFFER_BYTES: usize = 256 * 1024;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER_BYTES]);
}

/// Whether a copy shares its blocks with the original (FICLONE, ioctl_ficlonerange(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Every byte is copied.
    Never,
    /// Where the filesystem can.
    Try,
    /// It must, or there is no copy.
    Must,
}

/// The digest of a file that was listed with this stat.
///
/// # Errors
/// `unavailable` when it is not the file that was listed, or changes meanwhile; `internal` when it cannot be read.
pub(crate) fn digest_file(path: &Path, listed: &Stat) -> Result<Hash> {
    let mut file = open_listed(path, listed)?;
    let digest = feed(&mut file, None).map_err(|error| unreadable(path, error))?;
    still_listed(&file, path, listed)?;
    Ok(digest)
}

/// Copies a file that was listed with this stat to a name that must be free, read-only. Returns the digest of what was
/// written, and the copy's stat. A digest that is known is taken, where blocks are shared, instead of reading them.
///
/// # Errors
/// As [`digest_file`]; `unsupported` when blocks must be shared and cannot be.
pub(crate) fn copy_file(
    from: &Path,
    listed: &Stat,
    known: Option<Hash>,
    to: &Path,
    share: Share,
) -> Result<(Hash, Stat)> {
    let failed = |error: io::Error| cannot_copy(from, error);
    let mut file = open_listed(from, listed)?;
    let mut copy = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(to).map_err(failed)?;
    let shared = match share {
        Share::Never => false,
        Share::Try => ioctl_ficlone(&copy, &file).is_ok(),
        Share::Must => ioctl_ficlone(&copy, &file).map(|()| true).map_err(|error| cannot_share(from, error))?,
    };
    let digest = match known {
        Some(known) if shared => known,
        None if shared => feed(&mut copy, None).map_err(failed)?,
        _ => feed(&mut file, Some(&mut copy)).map_err(failed)?,
    };
    still_listed(&file, from, listed)?;
    let mode = if listed.executable { 0o555 } else { 0o444 };
    copy.set_permissions(Permissions::from_mode(mode)).map_err(failed)?;
    let stat = Stat::of(&copy.metadata().map_err(failed)?);
    Ok((digest, stat))
}

/// What a failed copy is called; a full disk has a way out.
pub(crate) fn cannot_copy(path: &Path, error: io::Error) -> Error {
    let full = [Errno::NOSPC, Errno::DQUOT].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
    let error = Error::io(format!("cannot copy the input `{}`", path.display()), error);
    if full {
        error.hint("make room, or declare the input with `pin = \"verify\"`, which copies nothing")
    } else {
        error
    }
}

fn cannot_share(path: &Path, error: Errno) -> Error {
    if error == Errno::NOSPC {
        return cannot_copy(path, error.into());
    }
    Error::new(
        ErrorKind::Unsupported,
        format!("the input `{}` cannot be pinned as a reflink in the home: {error}", path.display()),
    )
    .hint("use `pin = \"auto\"`, which copies where blocks cannot be shared, or `pin = \"verify\"`")
}

fn open_listed(path: &Path, listed: &Stat) -> Result<File> {
    let file = match open_file(path) {
        Ok(file) => file,
        // It became a link, or went.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) =>
        {
            return Err(changing(path));
        }
        Err(error) => return Err(unreadable(path, error)),
    };
    still_listed(&file, path, listed)?;
    Ok(file)
}

fn still_listed(file: &File, path: &Path, listed: &Stat) -> Result<()> {
    let found = file.metadata().map_err(|error| unreadable(path, error))?;
    if found.is_file() && Stat::of(&found) == *listed { Ok(()) } else { Err(changing(path)) }
}

fn feed(file: &mut File, mut copy: Option<&mut File>) -> io::Result<Hash> {
    BUFFER.with_borrow_mut(|buffer| {
        let mut hasher = Hasher::new();
        loop {
            let count = match file.read(buffer) {
                Ok(0) => return Ok(hasher.finalize()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let part = buffer.get(..count).unwrap_or_default();
            hasher.update(part);
            if let Some(copy) = copy.as_deref_mut() {
                copy.write_all(part)?;
            }
        }
    })
}

fn unreadable(path: &Path, error: io::Error) -> Error {
    Error::io(format!("cannot read the input `{}`", path.display()), error)
}
