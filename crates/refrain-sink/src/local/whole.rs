//! Small files of the program's own that a reader must see whole or not at all.

use super::durable;
use rustix::fs::{PROC_SUPER_MAGIC, statfs};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Component, Path, PathBuf};

/// More symbolic links than this in a row are a loop (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Writes a file by a temporary name beside it and a rename. Links stay: the file that they lead to is replaced, and has the
/// mode of the former one. What is no regular file (a pipe, a terminal), or is reached through `/proc` as `/dev/stdout`
/// and `/dev/fd/3` are, is written to as it stands, behind what it holds.
///
/// # Crash safety
/// The old file or the new one, whole. Not synced: the file tells of what happened, it decides nothing.
///
/// # Errors
/// As the system reports them.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let Some(path) = file_behind(path)? else {
        return File::options().append(true).open(path)?.write_all(bytes);
    };
    // One name per process: what a killed one left is removed by the next with its number.
    let temporary = directory_of(&path).join(format!(".refrain-{}.tmp", std::process::id()));
    let written = durable::remove(&temporary)
        .and_then(|()| create_like(path.metadata().ok(), &temporary))
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| durable::replace(&temporary, &path));
    if written.is_err() {
        durable::best_effort(durable::remove(&temporary));
    }
    written
}

/// The place, canonical but for its last part, whose file [`write_whole`] replaces or adds to; nothing where it fails.
pub fn written_place(path: &Path) -> Option<PathBuf> {
    let Some(file) = file_behind(path).ok()? else { return path.canonicalize().ok() };
    Some(eventual(directory_of(&file), MOST_LINKS)?.join(file.file_name()?))
}

/// The canonical name of a directory that may not be there yet: a publication may be what makes it.
fn eventual(directory: &Path, links: usize) -> Option<PathBuf> {
    if let Ok(found) = directory.canonicalize() {
        return Some(found);
    }
    let above = directory_of(directory);
    if let Ok(link) = directory.read_link() {
        return eventual(&above.join(link), links.checked_sub(1)?);
    }
    let above = eventual(above, links)?;
    match directory.components().next_back()? {
        Component::Normal(name) => Some(above.join(name)),
        Component::ParentDir => above.parent().map(Path::to_owned),
        _ => None,
    }
}

/// The regular file that a path leads to, whether it is there or not; nothing where it leads to something else, or through
/// `/proc`: a link there is an open descriptor, whose file may have another name by now, or none.
fn file_behind(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match statfs(directory_of(&path)) {
            Ok(filesystem) if filesystem.f_type == PROC_SUPER_MAGIC => return Ok(None),
            Err(Errno::NOENT) => return Ok(Some(path)),
            other => drop(other?),
        }
        match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => path = directory_of(&path).join(path.read_link()?),
            Ok(found) => return Ok(found.is_file().then_some(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(path)),
            Err(error) => return Err(error),
        }
    }
    Err(Errno::LOOP.into())
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

/// Makes an empty file that nobody else can open who could not open the former one.
fn create_like(former: Option<Metadata>, path: &Path) -> io::Result<File> {
    let mode = if former.is_some() { 0o600 } else { 0o666 };
    let file = File::options().write(true).create_new(true).mode(mode).open(path)?;
    if let Some(former) = former {
        // Only root can, and only root replaces files of others so that they could not read them any more.
        durable::best_effort(fchown(&file, Some(former.uid()), Some(former.gid())));
        file.set_permissions(former.permissions())?;
    }
    Ok(file)
}
