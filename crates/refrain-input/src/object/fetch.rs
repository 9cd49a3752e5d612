//! Copies of objects, as they come from the store: several at once, part by part, each part of the version that was
//! listed. What is there already of an interrupted fetch is not asked for again.

use super::found::{Found, Listed};
use crate::content::cannot_copy;
use crate::cores::at_once;
use crate::place;
use crate::stat::Stat;
use blake3::{Hash, Hasher};
use refrain_core::{Error, ErrorKind, Result};
use refrain_object::{Bucket, Version};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How much of an object is asked for at once. With [`AT_ONCE`] it bounds the memory of a fetch, and a request stays
/// short on a slow line.
const PART: u64 = 2 << 20;
/// How many objects are underway at once.
const AT_ONCE: usize = 8;

/// An object that was fetched.
pub(super) struct Copy {
    pub(super) file: PathBuf,
    pub(super) stat: Stat,
    pub(super) digest: Hash,
    /// As the store told when it sent the content.
    pub(super) version: Version,
}

/// Fetches all objects to their names below `root`, or one to `root` itself. Nothing for what turns out to be the marker
/// of a directory.
///
/// # Errors
/// `unavailable` when an object is not the version that was listed any more; those of the store and the disk.
///
/// # Crash safety
/// Files only grow, and of one that is short the rest is asked for by the next call for the same versions. Nothing is
/// synced: after a power cut nobody may go on from what is there.
pub(super) fn fetch(bucket: &Bucket, found: &Found, root: &Path) -> Result<Vec<Option<Copy>>> {
    let is_tree = found.address.is_prefix();
    let place = |object: &Listed| if is_tree { root.join(&object.name) } else { root.to_owned() };
    let mut directories: BTreeSet<PathBuf> =
        found.objects.iter().filter_map(|object| place(object).parent().map(Path::to_owned)).collect();
    directories.extend(is_tree.then(|| root.to_owned()));
    for directory in directories {
        fs::create_dir_all(&directory).map_err(|error| cannot_copy(&directory, error))?;
    }
    at_once(&found.objects, AT_ONCE, |object| one(bucket, (&found.key(object), object), &place(object), is_tree))
}

fn one(bucket: &Bucket, (key, object): (&str, &Listed), file: &Path, is_tree: bool) -> Result<Option<Copy>> {
    let failed = |error| cannot_copy(file, error);
    let mut version = object.version();
    let mut hasher = Hasher::new();
    let mut there = hash_there(file, object.bytes, &mut hasher).map_err(failed)?;
    if object.bytes == 0 {
        match bucket.head(key)? {
            Some(now) if now.size == 0 && now.version.is(&version) => version = now.version,
            None if is_tree => return Ok(None),
            _ => return Err(moved(bucket, key)),
        }
    }
    if there == object.bytes && file.exists() {
        return copied(file, &hasher, version).map(Some).map_err(failed);
    }
    let mut opened = OpenOptions::new().append(true).create(true).mode(0o600).open(file).map_err(failed)?;
    while there < object.bytes {
        let wanted = PART.min(object.bytes - there);
        let part = bucket.get_range(key, there, wanted)?.ok_or_else(|| moved(bucket, key))?;
        if !part.version.is(&version) || part.size != object.bytes || part.content.len() as u64 != wanted {
            return Err(moved(bucket, key));
        }
        hasher.update(&part.content);
        opened.write_all(&part.content).map_err(failed)?;
        there += wanted;
        // Of the first answer on, all are of one version id.
        version = part.version;
    }
    opened.set_permissions(Permissions::from_mode(0o444)).map_err(failed)?;
    copied(file, &hasher, version).map(Some).map_err(failed)
}

fn copied(file: &Path, hasher: &Hasher, version: Version) -> io::Result<Copy> {
    let stat = Stat::of(&fs::symlink_metadata(file)?);
    Ok(Copy { file: file.to_owned(), stat, digest: hasher.finalize(), version })
}

/// Digests what is there; of a file that is longer than it may be nothing stays.
fn hash_there(file: &Path, most: u64, hasher: &mut Hasher) -> io::Result<u64> {
    let opened = match place::open_file(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    if opened.metadata()?.len() > most {
        place::remove(file)?;
        return Ok(0);
    }
    feed(opened, hasher)
}

fn feed(mut file: File, hasher: &mut Hasher) -> io::Result<u64> {
    let mut buffer = vec![0; 1 << 20];
    let mut fed = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(fed);
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
        fed += count as u64;
    }
}

fn moved(bucket: &Bucket, key: &str) -> Error {
    let address = bucket.address(key);
    Error::new(ErrorKind::Unavailable, format!("the input `{address}` changed while it was being pinned"))
        .hint("run again when its writer has finished")
}
