//! What belongs to others, for an ordinary user.
//!
//! Only the user's own id and that of his group exist in his namespace, and what belongs to any other overlayfs cannot copy
//! up when it is written (`EOVERFLOW`: ids that are not mapped, user_namespaces(7)). So what he may write of it, where
//! the task is at work, is copied beforehand as his own, and lies as a second lower layer over the real directory.

use super::layer::{Layer, private_directory};
use super::mounts::{below, handle};
use super::shield::{MOST_BESIDE, Place, copy_beside};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// How an id that the namespace does not have is shown (/proc/sys/kernel/overflowuid).
const OTHER: u32 = 65534;
/// Most files and directories that are looked at below one place.
const MOST_ENTRIES: usize = 200_000;

/// What is to be copied of one layer's directory, by paths in it.
#[derive(Debug, Default)]
struct Others {
    directories: BTreeSet<PathBuf>,
    /// With their sizes.
    files: BTreeSet<(u64, PathBuf)>,
}

/// Copies to `copy` what a task at work in `places` may write of a layer's directory though it belongs to others. Nothing when
/// there is none. What had to be left out is added to `left`: a sentence each.
pub(super) fn take_over(
    layer: &Layer,
    places: &[Place],
    copy: &Path,
    left: &mut Vec<String>,
) -> io::Result<Option<OwnedFd>> {
    let real = below(&layer.lower).join(".");
    let mut others = Others::default();
    for place in places {
        if let Ok(inside) = place.path.strip_prefix(&layer.place) {
            others.look_along(&real, inside);
        }
    }
    for inside in wholes(layer, places) {
        if !others.look_below(&real, &inside) {
            left.push(format!(
                "below `{}`, which holds more than {MOST_ENTRIES} files, not all that belongs to others can be changed",
                layer.place.join(&inside).display()
            ));
        }
    }
    if others.directories.is_empty() && others.files.is_empty() {
        return Ok(None);
    }
    private_directory(copy)?;
    for directory in &others.directories {
        lay_directory(&real, copy, directory)?;
    }
    let mut bytes = 0;
    for (size, file) in &others.files {
        bytes += size;
        if bytes > MOST_BESIDE {
            left.push(format!(
                "`{}` and larger files of others cannot be changed: {} MiB of such files are copied",
                layer.place.join(file).display(),
                MOST_BESIDE >> 20
            ));
            break;
        }
        if let Err(error) = lay_file(&real, copy, file)
            && error.kind() != io::ErrorKind::NotFound
        {
            left.push(format!("`{}` of others cannot be changed: {error}", layer.place.join(file).display()));
        }
    }
    handle(copy).map(Some)
}

/// The parts of a layer's directory that belong to the task as a whole, without those inside others.
fn wholes(layer: &Layer, places: &[Place]) -> BTreeSet<PathBuf> {
    let inside = |place: &Place| match place.path.strip_prefix(&layer.place) {
        Ok(inside) => Some(inside.to_owned()),
        Err(_) => layer.place.starts_with(&place.path).then(PathBuf::new),
    };
    let all: BTreeSet<_> = places.iter().filter(|place| place.whole).filter_map(inside).collect();
    all.iter().filter(|one| !one.ancestors().skip(1).any(|above| all.contains(above))).cloned().collect()
}

impl Others {
    /// The directories on the way to a place.
    fn look_along(&mut self, real: &Path, inside: &Path) {
        let mut way = PathBuf::new();
        for part in inside {
            way.push(part);
            match fs::symlink_metadata(real.join(&way)) {
                Ok(found) if found.is_dir() => {
                    if is_of_others(&found) {
                        self.directories.insert(way.clone());
                    }
                }
                _ => return,
            }
        }
    }

    /// What may be written below a place; whether all of it was seen.
    fn look_below(&mut self, real: &Path, inside: &Path) -> bool {
        let mut seen = 0;
        for entry in WalkDir::new(real.join(inside)).into_iter().flatten() {
            seen += 1;
            if seen > MOST_ENTRIES {
                return false;
            }
            let kind = entry.file_type();
            let Ok(found) = entry.metadata() else { continue };
            let wanted = (kind.is_dir() || kind.is_file()) && is_of_others(&found);
            if !wanted || !may(entry.path(), Access::WRITE_OK) {
                continue;
            }
            let Ok(path) = entry.path().strip_prefix(real) else { continue };
            if kind.is_file() {
                self.files.insert((found.len(), path.to_owned()));
            } else if !path.as_os_str().is_empty() {
                self.directories.insert(path.to_owned());
            }
        }
        true
    }
}

fn is_of_others(found: &Metadata) -> bool {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    (found.uid(), found.gid()) != (user, group) || found.uid() == OTHER || found.gid() == OTHER
}

/// Whether the file's owner and mode allow it. That its mount is closed by now is said after those (faccessat in fs/open.c of
/// the kernel).
fn may(path: &Path, right: Access) -> bool {
    matches!(access(path, right), Ok(()) | Err(Errno::ROFS))
}

/// Makes a directory and those around it; its owner may do there what he may do in the real one.
fn lay_directory(real: &Path, copy: &Path, inside: &Path) -> io::Result<()> {
    let mut way = PathBuf::new();
    for part in inside {
        way.push(part);
        let (from, to) = (real.join(&way), copy.join(&way));
        if to.is_dir() {
            continue;
        }
        fs::create_dir(&to)?;
        let mut mode = fs::metadata(&from)?.mode() & 0o7777 & !0o700;
        for (right, bit) in [(Access::READ_OK, 0o400), (Access::WRITE_OK, 0o200), (Access::EXEC_OK, 0o100)] {
            if may(&from, right) {
                mode |= bit;
            }
        }
        fs::set_permissions(&to, Permissions::from_mode(mode))?;
    }
    Ok(())
}

fn lay_file(real: &Path, copy: &Path, inside: &Path) -> io::Result<()> {
    lay_directory(real, copy, inside.parent().unwrap_or(Path::new("")))?;
    let (from, to) = (real.join(inside), copy.join(inside));
    let found = fs::symlink_metadata(&from)?;
    copy_beside(&from, &to, &found)?;
    fs::set_permissions(&to, Permissions::from_mode(found.mode() & 0o7777 | 0o600))
}
