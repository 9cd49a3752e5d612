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
use std::io::{self, Read, Seek, Write};
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

/// So often a file is read that is touched meanwhile without being written to.
const LOOKS: u32 = 10;

/// The digest of a file that was listed with this stat, and its stat now: of one that was touched, it says so.
///
/// # Errors
/// `unavailable` when it is not the file that was listed, or is written to meanwhile; `internal` when it cannot be read.
pub(crate) fn digest_file(path: &Path, listed: &Stat) -> Result<(Hash, Stat)> {
    read_whole(path, listed, |file, _| feed(file, None).map_err(|error| unreadable(path, error)))
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
    let mut copy = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(to).map_err(failed)?;
    let (digest, _) = read_whole(from, listed, |file, now| {
        copy.set_len(0).and_then(|()| copy.rewind()).map_err(failed)?;
        let shared = match share {
            Share::Never => false,
            Share::Try => ioctl_ficlone(&copy, &*file).is_ok(),
            Share::Must => ioctl_ficlone(&copy, &*file).map(|()| true).map_err(|error| cannot_share(from, error))?,
        };
        match known.filter(|_| now == listed) {
            Some(known) if shared => Ok(known),
            _ if shared => feed(&mut copy, None).map_err(failed),
            _ => feed(file, Some(&mut copy)).map_err(failed),
        }
    })?;
    let mode = if listed.executable { 0o555 } else { 0o444 };
    copy.set_permissions(Permissions::from_mode(mode)).map_err(failed)?;
    let stat = Stat::of(&copy.metadata().map_err(failed)?);
    Ok((digest, stat))
}

/// Reads a file that was listed with this stat until it stays as it is meanwhile. A second name that it is given or loses
/// (another task's `pin = "link"`, a backup) changes its ctime alone: then it is read again, and counts as well once two
/// readings one after the other gave the same.
fn read_whole(
    path: &Path,
    listed: &Stat,
    mut read: impl FnMut(&mut File, &Stat) -> Result<Hash>,
) -> Result<(Hash, Stat)> {
    let mut former = None;
    for _ in 0..LOOKS {
        let mut file = open_listed(path)?;
        let before = still_listed(&file, path, listed)?;
        let digest = read(&mut file, &before)?;
        let after = still_listed(&file, path, listed)?;
        if after == before || former == Some(digest) {
            return Ok((digest, after));
        }
        former = Some(digest);
    }
    Err(changing(path))
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

fn open_listed(path: &Path) -> Result<File> {
    match open_file(path) {
        Ok(file) => Ok(file),
        // It became a link, or went.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) =>
        {
            Err(changing(path))
        }
        Err(error) => Err(unreadable(path, error)),
    }
}

/// The stat now, if it is still the file that was listed and was not written to.
fn still_listed(file: &File, path: &Path, listed: &Stat) -> Result<Stat> {
    let found = file.metadata().map_err(|error| unreadable(path, error))?;
    let now = Stat::of(&found);
    if found.is_file() && now.is_unwritten_since(listed) { Ok(now) } else { Err(changing(path)) }
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
