//! The one module that renames, exchanges, links and makes durable.
//!
//! A rename is not durable before the directory that it changed is fsynced, and a file's name may outlive its
//! content unless the file was fsynced before; the callers of this module are the seal (content first) and the
//! switch (name second). No other module of the workspace renames anything.

use super::stat::Stat;
use rustix::fs::{CWD, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Makes a file's content and metadata durable.
pub(crate) fn sync_file(file: &File) -> io::Result<()> {
    file.sync_all()
}

/// Makes appended content durable.
pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Makes the entries of a directory durable: what was created, renamed or removed in it.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    open_directory(path)?.sync_all()
}

/// The same of the nearest directory that is there: where one was removed, that it is gone is all there is to make durable.
pub(crate) fn sync_what_is_left_of(path: &Path) -> io::Result<()> {
    match (sync_directory(path), path.parent()) {
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => sync_what_is_left_of(parent),
        (result, _) => result,
    }
}

/// Makes everything on the filesystem durable. Since Linux 5.8 an error of any writeback since `witness` was opened
/// is reported here (syncfs(2)).
pub(crate) fn sync_filesystem(witness: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::syncfs(witness)?)
}

/// Opens a directory without following a link in its last component.
pub(crate) fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Opens a file for reading without following a link in its last component.
///
/// Reading leaves its time of access alone where the system allows that, to the file's owner and to root (open(2)). The
/// first reading of a new file would else change it: for a directory of many files that is metadata which the next fsync,
/// the one of the commit, has to wait for.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open = |flags: OFlags| fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    match open(flags | OFlags::NOATIME) {
        Err(error) if is(&error, Errno::PERM) || is(&error, Errno::INVAL) => open(flags),
        opened => opened,
    }
}

/// Moves to a name that must be free: EEXIST otherwise.
pub(crate) fn move_to_free(from: &Path, to: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Exchanges two names in one step; both must exist.
pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// Moves over whatever file or link has the name.
pub(crate) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Gives a file a second name, which must be free.
pub(crate) fn link(file: &Path, name: &Path) -> io::Result<()> {
    fs::hard_link(file, name)
}

/// Makes a symbolic link; the name must be free.
pub(crate) fn symlink(destination: &Path, name: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(destination, name)
}

/// Whether the error says that the filesystem has no such operation, as opposed to: not with these names.
///
/// EINVAL is what FUSE and most network filesystems say to unknown rename flags (renameat2(2)).
pub(crate) fn is_lacking(error: &io::Error) -> bool {
    [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP].iter().any(|errno| is(error, *errno))
}

/// Whether the error is this errno.
pub(crate) fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Whether the filesystem can exchange two directories: tried out with two that are made there once and stay. Any
/// number of processes may exchange them at once, and none can be killed with something left to remove.
pub(crate) fn can_exchange(within: &Path) -> io::Result<bool> {
    let [one, other] = ["a", "b"].map(|name| within.join(name));
    for directory in [within, &one, &other] {
        make_private_directory(directory)?;
    }
    match exchange(&one, &other) {
        Ok(()) => Ok(true),
        Err(error) if is_lacking(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a directory that only its owner may enter. Nothing happens when it is there.
pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Makes the missing ones of a directory and its parents, as the umask says, each durable in its own parent.
/// Returns what it made, the outermost first.
pub(crate) fn make_directories(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut missing = Vec::new();
    let mut at = path;
    while Stat::through(at)?.is_none() {
        missing.push(at.to_owned());
        match at.parent() {
            Some(parent) => at = parent,
            None => break,
        }
    }
    missing.reverse();
    for directory in &missing {
        match fs::create_dir(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if let Some(parent) = directory.parent() {
            sync_directory(parent)?;
        }
    }
    Ok(missing)
}

/// For steps whose failure changes nothing that matters: whoever comes next repeats them.
pub(crate) fn best_effort(result: io::Result<()>) {
    drop(result);
}

/// Removes a file, a link (never what it points to) or a whole tree. Nothing happens when it is gone.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let result = match Stat::of(path)? {
        None => return Ok(()),
        Some(stat) if stat.is_directory() => remove_tree(path),
        Some(_) => fs::remove_file(path),
    };
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A task may have made directories that even their owner cannot write to; those are opened up and tried again.
fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

fn open_up(directory: &Path) -> io::Result<()> {
    rustix::fs::chmod(directory, rustix::fs::Mode::RWXU)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

/// Renames of directories write to them (their `..` changes), so that one without write permission for its owner cannot be
/// moved. Gives that permission for the moment of the step; what arrives at `target` gets its own mode back.
///
/// # Crash safety
/// Dying inside leaves a directory that its owner may write to.
pub(crate) fn while_movable(from: &Path, target: &Path, step: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let moved = lend_write_permission(from)?;
    let replaced = lend_write_permission(target)?;
    let done = step();
    let back = |path: &Path, mode: Option<Permissions>| mode.map_or(Ok(()), |mode| fs::set_permissions(path, mode));
    match done {
        Ok(()) => back(target, moved)?,
        Err(error) => {
            best_effort(back(from, moved));
            best_effort(back(target, replaced));
            return Err(error);
        }
    }
    Ok(())
}

/// The former permissions of a directory that had to be changed.
fn lend_write_permission(path: &Path) -> io::Result<Option<Permissions>> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => found.permissions(),
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if found.mode() & 0o200 != 0 {
        return Ok(None);
    }
    // Where we may not, the step itself says so.
    let lent = fs::set_permissions(path, Permissions::from_mode(found.mode() | 0o200)).is_ok();
    Ok(lent.then_some(found))
}
