//! The shield: private layers over the directories that a task may reach, so that whatever it writes there lands in the
//! scratch directory, is seen by nobody else, and is known to the last file.
//!
//! It is a mount namespace with one overlay filesystem for each directory (overlayfs, Documentation/filesystems/overlayfs.rst
//! of the kernel). An ordinary user gets it through a user namespace, where the kernel allows both (Linux 5.11 and later,
//! unless the system turns user namespaces off). The real directories are the lower layers, which overlayfs never writes.
//!
//! The namespace is the calling process's own and ends with it: no mount outlives a check, however it is killed.

use super::writes::{How, Write, is_cache};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Mode, OFlags, open};
use std::collections::HashMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// A directory to lay a layer over.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// Without a layer over it there is no shield at all.
    pub(super) required: bool,
}

/// The layers of this process.
#[derive(Debug)]
pub(super) struct Shield {
    scratch: PathBuf,
    /// The scratch directory itself, below all layers.
    scratch_handle: OwnedFd,
    layers: Vec<Layer>,
    sockets: Vec<(PathBuf, OwnedFd)>,
    round: u32,
    /// What was written before [`Shield::mark`].
    marked: HashMap<PathBuf, Stamp>,
    /// Places that have no layer, and why.
    pub(super) open: Vec<(PathBuf, String)>,
}

#[derive(Debug)]
struct Layer {
    place: PathBuf,
    required: bool,
    lower: OwnedFd,
    /// In memory: an upper layer cannot lie below its own lower one.
    in_memory: bool,
    upper: PathBuf,
    mounted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(u64, u64, i64, i64, i64, i64);

impl Stamp {
    fn of(found: &fs::Metadata) -> Self {
        Self(found.ino(), found.size(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec())
    }
}

/// A filesystem in memory, in the scratch directory of a shielded check.
pub(super) const MEMORY: &str = "memory";
/// Directories of the kernel's and of services, which are no place for results.
const SYSTEM: &[&str] = &["/proc", "/sys", "/dev", "/run"];

impl Shield {
    /// Puts this process behind a shield. It must have one thread only.
    ///
    /// # Errors
    /// When the system does not allow it, or a required place cannot be covered. Nothing was changed then but the
    /// namespaces of this process.
    pub(super) fn enter(scratch: &Path, places: Vec<Place>) -> io::Result<Self> {
        leave_for_own_namespace()?;
        // Nothing of ours goes out, and what is unmounted outside goes here as well, so that a check holds no disk
        // (where the system shares its mounts; mount_namespaces(7)).
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)?;
        let memory = scratch.join(MEMORY);
        private_directory(&memory)?;
        mount(Some("refrain-check"), &memory, Some("tmpfs"), MsFlags::empty(), Some("mode=0700"))?;
        // Handles from before would belong to the namespace that was left.
        let scratch_handle = handle(scratch)?;
        let mut shield = Self {
            scratch: scratch.to_owned(),
            scratch_handle,
            layers: Vec::new(),
            sockets: Vec::new(),
            round: 0,
            marked: HashMap::new(),
            open: Vec::new(),
        };
        for place in in_order(places, scratch) {
            match handle(&place.path) {
                Ok(lower) => shield.layers.push(Layer {
                    in_memory: scratch.starts_with(&place.path),
                    place: place.path,
                    required: place.required,
                    lower,
                    upper: PathBuf::new(),
                    mounted: false,
                }),
                Err(error) if place.required => return Err(error),
                Err(error) => shield.open.push((place.path, error.to_string())),
            }
        }
        shield.sockets = sockets(&shield.layers);
        shield.cover()?;
        Ok(shield)
    }

    /// The directories that are covered.
    pub(super) fn covered(&self) -> impl Iterator<Item = &Path> {
        self.layers.iter().map(|layer| layer.place.as_path())
    }

    /// Takes all mounts away, so that the scratch directory can be removed.
    fn leave(&mut self) {
        self.uncover();
        // The fields of proc_pid_mountinfo(5); the fifth is where it is mounted.
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mounted = table.lines().rev().filter_map(|line| line.split(' ').nth(4)).map(Path::new);
        for place in mounted.filter(|place| place.starts_with(&self.scratch)) {
            if let Err(error) = umount2(place, MntFlags::MNT_DETACH) {
                tracing::debug!(%error, place = %place.display(), "it goes with this process");
            }
        }
    }

    /// Throws away everything that was written: the directories are again as they really are.
    pub(super) fn reset(&mut self) -> io::Result<()> {
        self.uncover();
        self.marked.clear();
        self.cover()
    }

    /// From now on only later writes are told.
    pub(super) fn mark(&mut self) -> io::Result<()> {
        let mut marked = HashMap::new();
        for layer in &self.layers {
            for (path, found) in entries(&layer.upper)? {
                marked.insert(path, Stamp::of(&found));
            }
        }
        self.marked = marked;
        Ok(())
    }

    /// What was written since the last mark.
    pub(super) fn writes(&self) -> io::Result<Vec<Write>> {
        let mut writes = Vec::new();
        for layer in &self.layers {
            for (path, found) in entries(&layer.upper)? {
                let relative = path.strip_prefix(&layer.upper).unwrap_or(&path);
                let place = layer.place.join(relative);
                if self.marked.get(&path) == Some(&Stamp::of(&found)) || place.starts_with(&self.scratch) {
                    continue;
                }
                let before = fs::symlink_metadata(below(&layer.lower).join(relative)).ok();
                let how = match before {
                    _ if is_whiteout(&found) => How::Removed,
                    None => How::Created,
                    // A directory is copied up for what happens inside it, which is told by itself.
                    Some(_) if found.is_dir() => continue,
                    Some(_) => How::Changed,
                };
                if found.is_dir() && !is_empty(&path) || is_cache(&place) {
                    continue;
                }
                writes.push(Write { path: place, how });
            }
        }
        writes.sort();
        Ok(writes)
    }

    fn cover(&mut self) -> io::Result<()> {
        self.round += 1;
        let mut done = Vec::new();
        for (index, mut layer) in std::mem::take(&mut self.layers).into_iter().enumerate() {
            let name = format!("layers/{}.{index}", self.round);
            // Some filesystems cannot hold an upper layer; memory can.
            // The scratch directory's own path may lie below a layer already.
            let scratch = below(&self.scratch_handle);
            let covered = match layer.cover(&scratch, &name) {
                Err(_) if !layer.in_memory => {
                    layer.in_memory = true;
                    layer.cover(&scratch, &name)
                }
                covered => covered,
            };
            match covered {
                Ok(()) => done.push(layer),
                Err(error) if layer.required => {
                    self.layers = done;
                    return Err(error);
                }
                Err(error) => self.open.push((layer.place, error.to_string())),
            }
        }
        self.layers = done;
        if self.layers.iter().any(|layer| self.scratch.starts_with(&layer.place)) {
            let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
            mount(Some(&below(&self.scratch_handle)), &self.scratch, None::<&str>, bind, None::<&str>)?;
        }
        for (path, socket) in &self.sockets {
            // A server that is gone by now cannot be spoken to anyway.
            if let Err(error) = mount(Some(&below(socket)), path, None::<&str>, MsFlags::MS_BIND, None::<&str>) {
                tracing::debug!(%error, path = %path.display(), "a socket stays covered");
            }
        }
        Ok(())
    }

    fn uncover(&mut self) {
        let sockets = self.sockets.iter().map(|(path, _)| path.as_path());
        let scratch = self.layers.iter().any(|layer| self.scratch.starts_with(&layer.place));
        let bound = sockets.chain(scratch.then_some(self.scratch.as_path()));
        for path in bound {
            if let Err(error) = umount2(path, MntFlags::MNT_DETACH) {
                tracing::debug!(%error, path = %path.display(), "nothing lies over it");
            }
        }
        for layer in self.layers.iter_mut().rev().filter(|layer| layer.mounted) {
            // What is still in use is unmounted when its last user goes; the next layer lies over it.
            if let Err(error) = umount2(&layer.place, MntFlags::MNT_DETACH) {
                tracing::debug!(%error, place = %layer.place.display(), "a layer stays");
            }
            layer.mounted = false;
        }
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Layer {
    fn cover(&mut self, scratch: &Path, name: &str) -> io::Result<()> {
        let root = if self.in_memory { scratch.join(MEMORY) } else { scratch.to_owned() };
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
        let [lower, over, work] = [&self.lower, &upper_handle, &work_handle].map(|it| below(it).display().to_string());
        let options = format!("lowerdir={lower},upperdir={over},workdir={work},userxattr");
        mount(Some("refrain-check"), &self.place, Some("overlay"), MsFlags::empty(), Some(options.as_str()))?;
        self.upper = upper;
        self.mounted = true;
        Ok(())
    }
}

/// A mount namespace, and where that takes it a user namespace in which this user is what he is outside.
fn leave_for_own_namespace() -> io::Result<()> {
    if unshare(CloneFlags::CLONE_NEWNS).is_ok() {
        return Ok(());
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Directories that can be covered, each once, outer ones before those inside them.
fn in_order(places: Vec<Place>, scratch: &Path) -> Vec<Place> {
    let mut ordered: Vec<Place> = Vec::new();
    for place in places {
        let Ok(path) = place.path.canonicalize() else { continue };
        let system = SYSTEM.iter().any(|system| path.starts_with(system));
        if path.parent().is_none() || !path.is_dir() || system && !place.required {
            continue;
        }
        match ordered.iter_mut().find(|known| known.path == path) {
            Some(known) => known.required |= place.required,
            None => ordered.push(Place { path, ..place }),
        }
    }
    ordered.sort_by_key(|place| place.path.components().count());
    // What lies in a required directory, on the same filesystem, is covered with it. In others it has a layer of its own,
    // which is then required, too.
    let device = |path: &Path| fs::metadata(path).ok().map(|found| found.dev());
    let outer: Vec<Place> =
        ordered.iter().filter(|place| place.required && !scratch.starts_with(&place.path)).cloned().collect();
    ordered.retain(|place| {
        let within = |outer: &Place| place.path != outer.path && place.path.starts_with(&outer.path);
        !outer.iter().any(|outer| within(outer) && device(&outer.path) == device(&place.path))
    });
    ordered
}

/// The sockets in covered directories at which somebody listens: an overlay shows a socket, but does not lead to its server.
fn sockets(layers: &[Layer]) -> Vec<(PathBuf, OwnedFd)> {
    // proc(5): the path is the eighth field.
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let paths = table.lines().filter_map(|line| line.split_whitespace().nth(7)).map(PathBuf::from);
    let mut paths: Vec<_> = paths
        .filter(|path| layers.iter().any(|layer| path.starts_with(&layer.place)))
        .filter(|path| fs::metadata(path).is_ok_and(|found| found.file_type().is_socket()))
        .collect();
    paths.sort();
    paths.dedup();
    paths.into_iter().filter_map(|path| Some((path.clone(), handle(&path).ok()?))).collect()
}

fn entries(upper: &Path) -> io::Result<Vec<(PathBuf, fs::Metadata)>> {
    let walk = WalkDir::new(upper).min_depth(1).sort_by_file_name().into_iter();
    walk.map(|entry| {
        let entry = entry?;
        let found = entry.metadata()?;
        Ok((entry.into_path(), found))
    })
    .collect()
}

/// How overlayfs marks what was removed: a character device 0/0.
fn is_whiteout(found: &fs::Metadata) -> bool {
    found.file_type().is_char_device() && found.rdev() == 0
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(path)
}

fn handle(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// What lies behind a handle, whatever has been mounted over its path since.
fn below(handle: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}

/// A program that stands in for another one as long as this value lives.
#[derive(Debug)]
pub(super) struct StandIn(PathBuf);

impl Drop for StandIn {
    fn drop(&mut self) {
        if let Err(error) = umount2(&self.0, MntFlags::MNT_DETACH) {
            tracing::debug!(%error, path = %self.0.display(), "a stand-in stays");
        }
    }
}

impl StandIn {
    /// Lets `program` stand in for the one at `place`, for this process and what it starts: only behind a shield, where
    /// nobody else sees it.
    pub(super) fn of(program: &Path, place: &Path) -> Option<Self> {
        let place = place.canonicalize().ok()?;
        if place == program.canonicalize().ok()? {
            return None;
        }
        let bind = mount(Some(program), &place, None::<&str>, MsFlags::MS_BIND, None::<&str>);
        bind.ok().map(|()| Self(place))
    }
}
