//! Input and output errors as a person can use them.

use super::durable;
use super::stat::Stat;
use crate::directory::{Go, walk};
use refrain_core::{Error, Result};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// An error that says what was tried with which path; a full disk, an exceeded quota and a read-only filesystem are
/// named with the mount that they are true of.
pub(crate) fn problem(action: &str, path: &Path, source: io::Error) -> Error {
    let full = |what: &str, hint: &str| {
        let mount = mount_of(path);
        Error::io(format!("cannot {action} `{}`: {what} `{mount}`", path.display()), clone_of(&source))
            .hint(hint.replace("{mount}", &mount))
    };
    if durable::is(&source, Errno::NOSPC) {
        return full("no space is left on", "make room on `{mount}`, then repeat the call");
    }
    if durable::is(&source, Errno::DQUOT) {
        return full("the disk quota is used up on", "free some of your quota on `{mount}`, then repeat the call");
    }
    if durable::is(&source, Errno::ROFS) {
        return full("read-only is the filesystem at", "mount `{mount}` read-write, then repeat the call");
    }
    Error::io(format!("cannot {action} `{}`", path.display()), source)
}

/// The same for what cannot be moved or removed: names what an attribute of a file or directory fixes there.
pub(crate) fn immovable(action: &str, path: &Path, source: io::Error) -> Error {
    let fixed = durable::is(&source, Errno::PERM).then(|| fixed_at(path)).flatten();
    let error = problem(action, path, source);
    let Some(fixed) = fixed else { return error };
    let fixed = fixed.display();
    error.hint(format!("`{fixed}` has the immutable or the append-only attribute: chattr -i -a {fixed}"))
}

/// The first that has the attribute: the path itself, or what is below it.
fn fixed_at(path: &Path) -> Option<PathBuf> {
    let stat = Stat::of(path).ok()??;
    if stat.fixed {
        return Some(path.to_owned());
    }
    let mut fixed = None;
    if stat.is_directory() {
        let walked = walk(path, &mut |entry| {
            fixed = entry.stat.fixed.then_some(entry.place);
            Ok(if fixed.is_some() { Go::Stop } else { Go::On })
        });
        walked.ok()?;
    }
    fixed
}

/// Looks at the path itself, not through a link. Nothing when there is nothing.
pub(crate) fn look(path: &Path) -> Result<Option<Stat>> {
    Stat::of(path).map_err(|error| problem("look at", path, error))
}

/// The directory at which the path's filesystem is mounted.
pub(crate) fn mount_of(path: &Path) -> String {
    let mut mount = path;
    let mut inner: Option<Stat> = None;
    for ancestor in path.ancestors() {
        let Ok(Some(stat)) = Stat::through(ancestor) else { continue };
        if inner.is_some_and(|inner| !inner.same_mount(&stat)) {
            break;
        }
        inner = Some(stat);
        mount = ancestor;
    }
    mount.display().to_string()
}

fn clone_of(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::from(error.kind()), io::Error::from_raw_os_error)
}
