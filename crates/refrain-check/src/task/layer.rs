//! One layer: an overlay filesystem over one directory, and what was written into it.
//!
//! How overlayfs marks what was removed is told in Documentation/filesystems/overlayfs.rst of the kernel: a character
//! device 0/0 for a single name, an attribute `opaque` for a directory that was removed and made again.

use super::mounts::{below, handle};
use super::writes::{How, Write};
use nix::mount::{MsFlags, mount};
use std::collections::HashMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// A directory with a layer over it.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) place: PathBuf,
    pub(super) lower: OwnedFd,
    /// In memory: an upper layer cannot lie below its own lower one.
    pub(super) in_memory: bool,
    /// What of the directory belongs to others, as an ordinary user's own; it lies over `lower`.
    pub(super) taken_over: Option<OwnedFd>,
    upper: PathBuf,
    /// How the upper directory was laid: an ordinary user cannot give it to the owner of the real one.
    laid: (u32, u32, u32),
    /// What was written before the last mark.
    marked: HashMap<PathBuf, Mark>,
}

/// What identifies one state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    inode: u64,
    state: [i64; 5],
    removed: bool,
    opaque: bool,
}

impl Layer {
    pub(super) fn new(place: PathBuf, lower: OwnedFd, in_memory: bool) -> Self {
        Self {
            place,
            lower,
            in_memory,
            taken_over: None,
            upper: PathBuf::new(),
            laid: (0, 0, 0),
            marked: HashMap::new(),
        }
    }

    /// Mounts it; what it held before is gone. `root` takes what will be written, below `name`.
    pub(super) fn cover(&mut self, root: &Path, name: &str, user: bool) -> io::Result<()> {
        self.marked.clear();
        let (upper, work) = (root.join(name).join("upper"), root.join(name).join("work"));
        private_directory(&upper)?;
        private_directory(&work)?;
        // The directory itself is the upper one: it must look as the real one does.
        let real = fs::metadata(below(&self.lower))?;
        if let Err(error) = chown(&upper, Some(real.uid()), Some(real.gid())) {
            tracing::debug!(%error, place = %self.place.display(), "the layer has another owner");
        }
        fs::set_permissions(&upper, Permissions::from_mode(real.mode() & 0o7777))?;
        let (upper_handle, work_handle) = (handle(&upper)?, handle(&work)?);
        self.laid = mode_and_owner(&fs::metadata(&upper)?);
        let [lower, over, work] = [&self.lower, &upper_handle, &work_handle].map(|it| below(it).display().to_string());
        let lower = match &self.taken_over {
            Some(own) => format!("{}:{lower}", below(own).display()),
            None => lower,
        };
        let attributes = if user { ",userxattr" } else { "" };
        let options = format!("lowerdir={lower},upperdir={over},workdir={work}{attributes}");
        mount(Some("refrain-check"), &self.place, Some("overlay"), MsFlags::empty(), Some(options.as_str()))?;
        self.upper = upper;
        Ok(())
    }

    /// From now on only later writes are told.
    pub(super) fn mark(&mut self) -> io::Result<()> {
        let entries = entries(&self.upper)?;
        self.marked = entries.into_iter().map(|(path, found)| (path.clone(), Mark::of(&path, &found))).collect();
        Ok(())
    }

    /// What was written since the last mark, by the paths that the task sees.
    pub(super) fn writes(&self) -> io::Result<Vec<Write>> {
        let mut writes = Vec::new();
        let mut seen = HashMap::new();
        for (path, found) in entries(&self.upper)? {
            let mark = Mark::of(&path, &found);
            let marked = self.marked.get(&path).copied();
            if marked != Some(mark) {
                self.tell(&path, &found, mark, marked, &mut writes);
            }
            seen.insert(path, mark);
        }
        // What was written before the mark only, and is gone, leaves nothing behind.
        let lost = self.marked.iter().filter(|(path, mark)| !mark.removed && !seen.contains_key(*path));
        for (path, _) in lost {
            writes.push(Write { path: self.place(self.relative(path)), how: How::Removed });
        }
        Ok(writes)
    }

    fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.upper).unwrap_or(path)
    }

    /// Where the task sees it.
    fn place(&self, relative: &Path) -> PathBuf {
        if relative.as_os_str().is_empty() { self.place.clone() } else { self.place.join(relative) }
    }

    fn tell(&self, path: &Path, found: &fs::Metadata, mark: Mark, marked: Option<Mark>, writes: &mut Vec<Write>) {
        let relative = self.relative(path);
        let place = self.place(relative);
        // With a `.` behind it also the root of the layer is a directory and no link to one.
        let real = below(&self.lower).join(".").join(relative);
        let before = self.before(relative, &real);
        let was_directory = before.as_ref().is_some_and(fs::Metadata::is_dir);
        let replaced = was_directory && !mark.removed && (mark.opaque || !found.is_dir());
        let known = marked.is_some_and(|marked| marked.inode == mark.inode && marked.opaque == mark.opaque);
        if replaced && !known {
            self.tell_replaced(path, &real, writes);
        }
        let how = match before {
            _ if mark.removed => How::Removed,
            // A new directory is told by what is in it.
            None if found.is_dir() && (marked.is_some() || !is_empty(path)) => return,
            None if marked.is_some() => How::Changed,
            None => How::Created,
            // A directory is copied up for what happens inside it, which is told by itself.
            Some(before) if found.is_dir() && before.is_dir() => {
                let known = if relative.as_os_str().is_empty() { self.laid } else { mode_and_owner(&before) };
                if known == mode_and_owner(found) {
                    return;
                }
                How::Changed
            }
            Some(_) => How::Changed,
        };
        writes.push(Write { path: place, how });
    }

    /// What the task found there; `real` is the real file.
    fn before(&self, relative: &Path, real: &Path) -> Option<fs::Metadata> {
        let own = self.taken_over.as_ref().and_then(|own| fs::symlink_metadata(below(own).join(relative)).ok());
        own.or_else(|| fs::symlink_metadata(real).ok())
    }

    /// All that a directory held which is another one now, and was not made again.
    fn tell_replaced(&self, path: &Path, real: &Path, writes: &mut Vec<Write>) {
        for entry in WalkDir::new(real).min_depth(1).into_iter().flatten() {
            let rest = entry.path().strip_prefix(real).unwrap_or(entry.path());
            if fs::symlink_metadata(path.join(rest)).is_err() {
                writes.push(Write { path: self.place(self.relative(path)).join(rest), how: How::Removed });
            }
        }
    }
}

impl Mark {
    fn of(path: &Path, found: &fs::Metadata) -> Self {
        let size = i64::try_from(found.size()).unwrap_or(i64::MAX);
        Self {
            inode: found.ino(),
            state: [size, found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()],
            removed: found.file_type().is_char_device() && found.rdev() == 0,
            opaque: found.is_dir() && is_opaque(path),
        }
    }
}

fn mode_and_owner(found: &fs::Metadata) -> (u32, u32, u32) {
    (found.mode(), found.uid(), found.gid())
}

fn is_opaque(directory: &Path) -> bool {
    let mut value = [0_u8; 1];
    ["trusted.overlay.opaque", "user.overlay.opaque"].iter().any(|name| {
        rustix::fs::lgetxattr(directory, *name, &mut value).is_ok_and(|length| length == 1) && value == *b"y"
    })
}

fn entries(upper: &Path) -> io::Result<Vec<(PathBuf, fs::Metadata)>> {
    let walk = WalkDir::new(upper).sort_by_file_name().into_iter();
    walk.map(|entry| {
        let entry = entry?;
        let found = entry.metadata()?;
        Ok((entry.into_path(), found))
    })
    .collect()
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

/// Makes a directory that only its owner enters.
pub(super) fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(path)
}
