//! Where there can be no shield: a copy of the home in which the task runs, and a look at what changed.
//!
//! Relative paths lead into the copy. An absolute path leads where it says: that is not prevented here, but it is found,
//! because the real directories are looked at before and after.

use super::writes::{How, Write};
use refrain::core::{Error, Result};
use refrain::home::STATE_DIRECTORY;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

/// Most that is copied.
pub(super) const MOST_BYTES: u64 = 2 << 30;
/// Most files that are looked at in a directory outside the copy.
const MOST_FILES: usize = 200_000;

/// A copy of a directory, and the real directories that are looked at.
#[derive(Debug)]
pub(super) struct Copied {
    real: PathBuf,
    copy: PathBuf,
    scratch: PathBuf,
    watched: Vec<PathBuf>,
    marked: BTreeMap<PathBuf, Stamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp([i64; 5], u64);

impl Copied {
    /// Copies `real` into the scratch directory, without Refrain's state.
    ///
    /// # Errors
    /// `invalid` when that is too much, `internal` when it cannot be copied.
    pub(super) fn make(real: &Path, scratch: &Path, others: Vec<PathBuf>) -> Result<Self> {
        let copy = &scratch.join("project");
        let mut bytes = 0;
        for entry in walk(real, scratch) {
            let entry = entry.map_err(|error| failed(real, error.into()))?;
            let target = copy.join(entry.path().strip_prefix(real).unwrap_or(entry.path()));
            let done = match entry.file_type() {
                kind if kind.is_dir() => fs::create_dir_all(&target),
                kind if kind.is_symlink() => fs::read_link(entry.path()).and_then(|link| symlink(link, &target)),
                kind if kind.is_file() => fs::copy(entry.path(), &target).map(|copied| bytes += copied),
                _ => Ok(()),
            };
            done.map_err(|error| failed(entry.path(), error))?;
            if bytes > MOST_BYTES {
                return Err(Error::invalid(format!(
                    "`{}` holds more than {} GiB: too much to copy for a check without a shield",
                    real.display(),
                    MOST_BYTES >> 30
                ))
                .hint("run the check where user namespaces are allowed: then nothing is copied"));
            }
        }
        let mut watched = vec![real.to_owned()];
        watched.extend(others.into_iter().filter(|other| !other.starts_with(real)));
        let [real, copy, scratch] = [real, copy, scratch].map(Path::to_owned);
        Ok(Self { real, copy, scratch, watched, marked: BTreeMap::new() })
    }

    /// Where a directory of the home is in the copy; a directory elsewhere stays where it is.
    pub(super) fn inside(&self, directory: &Path) -> PathBuf {
        directory.strip_prefix(&self.real).map_or_else(|_| directory.to_owned(), |rest| self.copy.join(rest))
    }

    pub(super) fn watched(&self) -> &[PathBuf] {
        &self.watched
    }

    pub(super) fn mark(&mut self) {
        self.marked = self.stamps();
    }

    /// What changed since the last mark, by the real names of the files.
    pub(super) fn writes(&self) -> Vec<Write> {
        let now = self.stamps();
        let changed = now.iter().filter_map(|(path, stamp)| match self.marked.get(path) {
            None => Some((path, How::Created)),
            Some(before) if before != stamp => Some((path, How::Changed)),
            Some(_) => None,
        });
        let removed = self.marked.keys().filter(|path| !now.contains_key(*path)).map(|path| (path, How::Removed));
        let named = |(path, how): (&PathBuf, How)| {
            let path = path.strip_prefix(&self.copy).map_or_else(|_| path.clone(), |rest| self.real.join(rest));
            Write { path, how }
        };
        let mut writes: Vec<_> = changed.chain(removed).map(named).collect();
        writes.sort();
        writes.dedup();
        writes
    }

    fn stamps(&self) -> BTreeMap<PathBuf, Stamp> {
        let roots = self.watched.iter().chain([&self.copy]);
        let files = roots.flat_map(|root| walk(root, &self.scratch).flatten().take(MOST_FILES));
        files.filter_map(|entry| stamp(&entry)).collect()
    }
}

/// Files and links, with what changes when they are written. Directories are not told: what happens inside them is.
fn stamp(entry: &DirEntry) -> Option<(PathBuf, Stamp)> {
    if entry.file_type().is_dir() {
        return None;
    }
    let found = entry.metadata().ok()?;
    let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
    let size = i64::try_from(found.size()).unwrap_or(i64::MAX);
    Some((entry.path().to_owned(), Stamp([times[0], times[1], times[2], times[3], size], found.ino())))
}

/// Everything below `root` but Refrain's state and the scratch directory.
fn walk<'a>(root: &Path, scratch: &'a Path) -> impl Iterator<Item = walkdir::Result<DirEntry>> + use<'a> {
    let all = WalkDir::new(root).into_iter();
    all.filter_entry(move |entry| entry.file_name() != STATE_DIRECTORY && entry.path() != scratch)
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    Error::io(format!("cannot copy `{}`", path.display()), error)
}
