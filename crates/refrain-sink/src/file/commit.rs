//! How a file becomes visible.

use crate::local::{FRESH_COPY, Intent, Site, Stat, Surprise, durable};
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Moves or exchanges; where the filesystem has no such operation, the old content gets a second name among the
/// versions and the new one is renamed over it.
pub(crate) fn switch(site: &Site<'_>, staged: &Path, intent: &Intent, surprise: Surprise) -> io::Result<()> {
    match site.switch_names(staged, intent, surprise) {
        Err(error) if durable::is_lacking(&error) => switch_without_exchange(site, staged, intent, surprise),
        result => result,
    }
}

fn switch_without_exchange(site: &Site<'_>, staged: &Path, intent: &Intent, surprise: Surprise) -> io::Result<()> {
    let target = &site.target;
    if Stat::of(target)?.is_none() {
        match durable::link(staged, target) {
            // The second name goes now; should that fail, recovery removes it.
            Ok(()) => {
                durable::best_effort(fs::remove_file(staged));
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // No hard links either: the lock keeps other publishers away, and nobody else was there a moment ago.
            Err(_) => return durable::replace(staged, target),
        }
    }
    let Some(standing) = Stat::of(target)? else { return Err(io::ErrorKind::NotFound.into()) };
    if intent.displaced.is_none() && surprise == Surprise::Refuse {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    site.keep_as(&site.label_of(intent.displaced.as_ref(), target, &standing), |place| {
        match durable::link(target, place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && are_one(target, place)? => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            Err(_) => copy_durably(target, place),
            Ok(()) => Ok(()),
        }
    })?;
    durable::replace(staged, target)
}

/// Whether a crash came between the second name and the rename.
fn are_one(one: &Path, other: &Path) -> io::Result<bool> {
    let inode = |path: &Path| Ok::<_, io::Error>(Stat::of(path)?.map(|stat| (stat.dev, stat.ino)));
    Ok(inode(one)? == inode(other)?)
}

fn copy_durably(from: &Path, to: &Path) -> io::Result<()> {
    if Stat::of(to)?.is_some() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    // Under another name first: what bears the version's name is whole.
    let fresh = to.parent().unwrap_or(to).with_extension(FRESH_COPY);
    durable::remove(&fresh)?;
    copy(from, &fresh)?;
    File::open(&fresh).and_then(|file| durable::sync_file(&file))?;
    durable::replace(&fresh, to)
}

/// Copies content and mode; where the filesystem can, the copies share their blocks.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_fails_in_the_middle_has_not_the_name_of_a_version() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("1-x/out");
        fs::create_dir(dir.path().join("1-x")).unwrap();
        // A file that can be opened and not be read.
        copy_durably(Path::new("/proc/self/mem"), &place).unwrap_err();
        assert_eq!(Stat::of(&place).unwrap(), None);
        fs::write(dir.path().join("from"), "whole").unwrap();
        copy_durably(&dir.path().join("from"), &place).unwrap();
        assert_eq!(fs::read_to_string(&place).unwrap(), "whole");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "what the first one left is gone");
    }
}
