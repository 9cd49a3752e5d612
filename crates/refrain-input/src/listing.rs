//! What an input consists of: names, kinds and stats, in one fixed order, whatever order the filesystem lists them in.
//!
//! A link within a directory that leads to a place inside the directory stays a link. One that leads out of it is
//! followed, and what it leads to is part of the input: otherwise the input could change without any of its files
//! changing. A link that leads nowhere stays what it is.

use crate::cores::on_all_cores;
use crate::location::Location;
use crate::stat::Stat;
use blake3::{Hash, Hasher};
use refrain_core::{Error, ErrorKind, Result};
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// From so many names in one directory on, they are looked at on all cores.
const MANY: usize = 1000;
const FLUSH_BYTES: usize = 64 * 1024;

/// Everything that an input consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    /// The input is one file, and its entry has no name.
    pub(crate) is_file: bool,
    /// Where the entries lie.
    pub(crate) root: PathBuf,
    /// By path; a directory before what is in it.
    pub(crate) entries: Vec<Entry>,
    /// Where links led out of the directory.
    pub(crate) followed: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Below the root.
    pub(crate) path: PathBuf,
    pub(crate) node: Node,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    File {
        /// Where it is, if a link was followed to it.
        place: Option<PathBuf>,
        stat: Stat,
        /// Of its content, once that is known.
        digest: Option<Hash>,
    },
    Link(PathBuf),
    Directory,
}

impl Listing {
    /// Lists what is at a location now, without reading content.
    ///
    /// # Errors
    /// `invalid` when nothing is there, or something that is neither a file, a directory nor a link; `unavailable` when
    /// it changes while it is listed; `internal` when it cannot be listed.
    pub(crate) fn take(location: &Location) -> Result<Self> {
        let path = match location {
            Location::Pattern(pattern) => return pattern.list(),
            Location::Path(path) => path,
        };
        let root = fs::canonicalize(path).map_err(|error| missing_or_unreadable(path, error))?;
        let found = fs::symlink_metadata(&root).map_err(|error| missing_or_unreadable(path, error))?;
        let mut walk = Walk::new(path, &root);
        if found.is_dir() {
            walk.descend(&root, Path::new(""), &mut vec![identity(&found)])?;
        } else {
            walk.is_file = true;
            walk.add_file(PathBuf::new(), None, &found, path)?;
        }
        Ok(walk.done())
    }

    /// Where an entry is to be read.
    pub(crate) fn place(&self, entry: &Entry) -> PathBuf {
        match &entry.node {
            Node::File { place: Some(place), .. } => place.clone(),
            _ if self.is_file => self.root.clone(),
            _ => self.root.join(&entry.path),
        }
    }

    /// Files, with the digests that are known.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Entry, &Stat, Option<Hash>)> {
        self.entries.iter().filter_map(|entry| match &entry.node {
            Node::File { stat, digest, .. } => Some((entry, stat, *digest)),
            _ => None,
        })
    }

    pub(crate) fn files_mut(&mut self) -> impl Iterator<Item = (&mut Stat, &mut Option<Hash>)> {
        self.entries.iter_mut().filter_map(|entry| match &mut entry.node {
            Node::File { stat, digest, .. } => Some((stat, digest)),
            _ => None,
        })
    }

    /// Size of all files, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files().map(|(_, stat, _)| stat.bytes).sum()
    }

    /// The digest of a file's content, or of the names, kinds and contents of everything in a directory, in the form
    /// that docs/FORMATS.md gives; nothing while a content is not known.
    pub(crate) fn version(&self) -> Option<String> {
        if self.is_file {
            let (_, _, digest) = self.files().next()?;
            return Some(format!("blake3:{}", digest?.to_hex()));
        }
        let mut hasher = Hasher::new();
        // Many small updates of the hasher cost more than the hashing.
        let mut text = b"refrain directory 1\0".to_vec();
        for entry in &self.entries {
            if text.len() > FLUSH_BYTES {
                hasher.update(&text);
                text.clear();
            }
            let path = entry.path.as_os_str().as_bytes();
            let mut name = |kind: u8| {
                text.push(kind);
                text.extend_from_slice(&(path.len() as u64).to_le_bytes());
                text.extend_from_slice(path);
            };
            match &entry.node {
                Node::File { stat, digest, .. } => {
                    let digest = (*digest)?;
                    name(if stat.executable { b'x' } else { b'f' });
                    text.extend_from_slice(&stat.bytes.to_le_bytes());
                    text.extend_from_slice(digest.as_bytes());
                }
                Node::Link(target) => {
                    name(b'l');
                    let target = target.as_os_str().as_bytes();
                    text.extend_from_slice(&(target.len() as u64).to_le_bytes());
                    text.extend_from_slice(target);
                }
                Node::Directory => name(b'd'),
            }
        }
        hasher.update(&text);
        Some(format!("blake3:{}", hasher.finalize().to_hex()))
    }

    /// Whether it lists the same files, none of which was written to, whatever is known of their contents.
    pub(crate) fn is_unwritten_since(&self, before: &Self) -> bool {
        let same = |(one, other): (&Entry, &Entry)| {
            one.path == other.path
                && match (&one.node, &other.node) {
                    (Node::File { stat: one, .. }, Node::File { stat: other, .. }) => one.is_unwritten_since(other),
                    (one, other) => one == other,
                }
        };
        self.entries.len() == before.entries.len() && self.entries.iter().zip(&before.entries).all(same)
    }
}

/// A listing that is being made.
pub(crate) struct Walk {
    is_file: bool,
    declared: PathBuf,
    root: PathBuf,
    entries: Vec<Entry>,
    pub(crate) followed: Vec<PathBuf>,
}

impl Walk {
    /// Below `root`, which the task declares as `declared`.
    pub(crate) fn new(declared: &Path, root: &Path) -> Self {
        let (declared, root) = (declared.to_owned(), root.to_owned());
        Self { is_file: false, declared, root, entries: Vec::new(), followed: Vec::new() }
    }

    pub(crate) fn done(self) -> Listing {
        let Self { is_file, root, entries, followed, .. } = self;
        Listing { is_file, root, entries, followed }
    }

    pub(crate) fn add_directory(&mut self, path: &Path) {
        self.entries.push(Entry { path: path.to_owned(), node: Node::Directory });
    }

    /// Adds a file that a pattern matched, or that a matched link leads to.
    pub(crate) fn add_match(&mut self, path: &Path) -> Result<()> {
        let declared = self.root.join(path);
        let found = fs::symlink_metadata(&declared).map_err(|error| vanished_or_unreadable(&declared, error))?;
        if !found.is_symlink() {
            return self.add_file(path.to_owned(), None, &found, &declared);
        }
        let target = fs::canonicalize(&declared).map_err(|error| bad_link(&declared, error))?;
        let found = fs::symlink_metadata(&target).map_err(|error| vanished_or_unreadable(&declared, error))?;
        self.followed.push(target.clone());
        self.add_file(path.to_owned(), Some(target), &found, &declared)
    }

    fn add_file(&mut self, path: PathBuf, place: Option<PathBuf>, found: &Metadata, declared: &Path) -> Result<()> {
        if !found.is_file() {
            return Err(Error::invalid(format!(
                "the input `{}` is neither a file, a directory nor a link",
                declared.display()
            )));
        }
        self.entries.push(Entry { path, node: Node::File { place, stat: Stat::of(found), digest: None } });
        Ok(())
    }

    /// `above` are the directories that the walk is in, so that no link leads it in a circle.
    fn descend(&mut self, at: &Path, below: &Path, above: &mut Vec<(u64, u64)>) -> Result<()> {
        // An entry's stat is taken relative to its opened directory, which is cheaper than by the whole path.
        let list = || -> io::Result<Vec<DirEntry>> {
            let mut entries = fs::read_dir(at)?.collect::<io::Result<Vec<_>>>()?;
            entries.sort_by_cached_key(DirEntry::file_name);
            Ok(entries)
        };
        // Only a followed link leads out of the root, and then everything below it has a place of its own.
        let outside = !at.starts_with(&self.root);
        let listed = list().map_err(|error| Error::io(format!("cannot list `{}`", at.display()), error))?;
        let look = |entry: &DirEntry| entry.metadata().map_err(|error| vanished_or_unreadable(&entry.path(), error));
        let looks = if listed.len() < MANY { Vec::new() } else { on_all_cores(&listed, look)? };
        let mut looks = looks.into_iter();
        for entry in listed {
            let name = entry.file_name();
            let (path, place) = (below.join(&name), at.join(&name));
            let found = looks.next().map_or_else(|| look(&entry), Ok)?;
            if found.is_symlink() {
                self.add_link(path, &place, above)?;
            } else if found.is_dir() {
                self.add_directory(&path);
                self.enter(&place, &path, &found, above)?;
            } else {
                let declared = place.clone();
                self.add_file(path, outside.then_some(place), &found, &declared)?;
            }
        }
        Ok(())
    }

    fn enter(&mut self, at: &Path, below: &Path, found: &Metadata, above: &mut Vec<(u64, u64)>) -> Result<()> {
        if above.contains(&identity(found)) {
            let path = self.declared.join(below);
            return Err(Error::invalid(format!("the input `{}` is a link to a directory above it", path.display())));
        }
        above.push(identity(found));
        self.descend(at, below, above)?;
        above.pop();
        Ok(())
    }

    fn add_link(&mut self, path: PathBuf, place: &Path, above: &mut Vec<(u64, u64)>) -> Result<()> {
        let target = match fs::canonicalize(place) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let text = fs::read_link(place).map_err(|error| vanished_or_unreadable(place, error))?;
                self.entries.push(Entry { path, node: Node::Link(text) });
                return Ok(());
            }
            Err(error) => return Err(bad_link(place, error)),
        };
        if let Ok(inside) = target.strip_prefix(&self.root) {
            let text = relative(&path, inside);
            self.entries.push(Entry { path, node: Node::Link(text) });
            return Ok(());
        }
        let found = fs::symlink_metadata(&target).map_err(|error| vanished_or_unreadable(place, error))?;
        self.followed.push(target.clone());
        if found.is_dir() {
            self.add_directory(&path);
            return self.enter(&target, &path, &found, above);
        }
        self.add_file(path, Some(target), &found, place)
    }
}

/// The text of a link at `link` that leads to `target`, both below the same root.
fn relative(link: &Path, target: &Path) -> PathBuf {
    let from: Vec<Component<'_>> = link.parent().map(|parent| parent.components().collect()).unwrap_or_default();
    let to: Vec<Component<'_>> = target.components().collect();
    let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n(Component::ParentDir, from.len() - common);
    let text: PathBuf = up.chain(to.into_iter().skip(common)).collect();
    if text.as_os_str().is_empty() { PathBuf::from(".") } else { text }
}

fn identity(found: &Metadata) -> (u64, u64) {
    let stat = Stat::of(found);
    (stat.device, stat.inode)
}

fn bad_link(path: &Path, error: io::Error) -> Error {
    let what = match error.kind() {
        io::ErrorKind::NotFound => "is a link that leads nowhere",
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => "is a link that leads to itself",
        _ => return Error::io(format!("cannot follow the link `{}`", path.display()), error),
    };
    Error::invalid(format!("the input `{}` {what}", path.display()))
}

fn vanished_or_unreadable(path: &Path, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::NotFound {
        return changing(path);
    }
    Error::io(format!("cannot read the input `{}`", path.display()), error)
}

fn missing_or_unreadable(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => bad_link(path, error),
        io::ErrorKind::NotFound => Error::invalid(format!("the input `{}` does not exist", path.display())),
        io::ErrorKind::NotADirectory => {
            Error::invalid(format!("the input `{}` does not exist: a part of its path is a file", path.display()))
        }
        _ => bad_link(path, error),
    }
}

/// The input changes under the reader's hands.
pub(crate) fn changing(path: &Path) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the input `{}` changed while it was being pinned", path.display()))
        .hint("run again when its writer has finished")
}
