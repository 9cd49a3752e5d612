//! The one module of this crate that renames, links and removes. Nothing here is durable and nothing is seen by readers
//! of outputs: it all lies in the state directory, and what a power cut tears is found by its digest.

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Opens a file for reading without following a link in its last component and without waiting for a writer of a pipe.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Makes a directory, and those above it, for their owner alone.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Moves to a name that must be free: `AlreadyExists` otherwise.
pub(crate) fn move_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // xfs says so of a directory that is not empty.
        Err(rustix::io::Errno::NOTEMPTY) => Err(ErrorKind::AlreadyExists.into()),
        // A filesystem without the flag (renameat2(2)): a directory never replaces one that has something in it.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            fs::rename(from, to).map_err(|error| match error.kind() {
                ErrorKind::DirectoryNotEmpty => ErrorKind::AlreadyExists.into(),
                _ => error,
            })
        }
        other => Ok(other?),
    }
}

/// Moves over whatever file has the name.
pub(crate) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Gives a file a second name, which must be free. A link is not followed.
pub(crate) fn link(file: &Path, name: &Path) -> io::Result<()> {
    Ok(rustix::fs::linkat(CWD, file, CWD, name, AtFlags::empty())?)
}

/// Locks a directory until the handle is dropped or the process ends; nothing when another holds a lock against it, or
/// the directory is gone or was replaced meanwhile.
pub(crate) fn lock(directory: &Path, operation: FlockOperation) -> io::Result<Option<File>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(directory);
    let handle = match opened {
        Ok(handle) => handle,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match rustix::fs::flock(&handle, operation) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    Ok(is_still_at(&handle, directory)?.then_some(handle))
}

/// Whether the name still leads to the opened file or directory.
pub(crate) fn is_still_at(handle: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let identity = |found: &fs::Metadata| (found.dev(), found.ino());
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(identity(&found) == identity(&handle.metadata()?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes a file, a link (never what it points to) or a tree, whose directories may be read-only. Nothing happens when
/// it is gone.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let result = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => remove_tree(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

fn open_up(directory: &Path) -> io::Result<()> {
    rustix::fs::chmod(directory, Mode::RWXU)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

/// Nobody may add to a directory or remove from it.
pub(crate) fn close_directory(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o555))
}
