//! The shield: private layers over everything that a task may reach, so that whatever it writes lands in the scratch
//! directory, is seen by nobody else, and is known to the last file.
//!
//! It is a mount namespace with one overlay filesystem for each directory of `/` and for each mount (overlayfs,
//! Documentation/filesystems/overlayfs.rst of the kernel); what cannot be covered is read-only there. Only `/proc`, `/sys`
//! and the devices in `/dev` are as they are. An ordinary user gets it through a user namespace, where the kernel allows both
//! (Linux 5.11 and later, unless the system turns user namespaces off). The real directories are the lower layers, which
//! overlayfs never writes.
//!
//! The namespace is the calling process's own and ends with it: no mount outlives a check, however it is killed.

use super::layer::{Layer, private_directory};
use super::mounts::{self, below, handle};
use super::owners::take_over;
use super::writes::Write;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::collections::VecDeque;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A directory that the task uses.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// Without a layer over it there is no shield at all.
    pub(super) required: bool,
    /// Whether the task is at work in all of it, or makes it: it may be a file, too.
    pub(super) whole: bool,
}

/// The layers of this process.
#[derive(Debug)]
pub(super) struct Shield {
    scratch: PathBuf,
    /// The scratch directory itself, below all layers, on a mount of its own.
    scratch_handle: OwnedFd,
    /// Whether this is a user namespace, in which the mounts of the system cannot be taken apart.
    user: bool,
    places: Vec<Place>,
    /// What lies over the real directories, outer ones first.
    covers: Vec<Cover>,
    /// What is mounted for the present round, in this order.
    mounted: Vec<PathBuf>,
    sockets: Vec<(PathBuf, OwnedFd)>,
    round: u32,
    /// Mounts that were made read-only.
    closed: Vec<(PathBuf, MsFlags)>,
    /// What the task cannot write, because there is no layer over it, and why.
    pub(super) refused: Vec<(PathBuf, String)>,
    /// What the task cannot change, or does not see, though it may: a sentence each.
    pub(super) unowned: Vec<String>,
    /// What the task can really write.
    pub(super) open: Vec<(PathBuf, String)>,
}

/// What lies over a real directory.
#[derive(Debug)]
enum Cover {
    Layer(Layer),
    /// The directory or file itself, where an outer layer would hide it; read-only.
    Itself(PathBuf, OwnedFd),
}

impl Cover {
    fn place(&self) -> &Path {
        match self {
            Self::Layer(layer) => &layer.place,
            Self::Itself(place, _) => place,
        }
    }
}

/// A filesystem in memory, in the scratch directory of a shielded check.
pub(super) const MEMORY: &str = "memory";
/// Directories of the kernel's, which hold no files.
const KERNEL: &[&str] = &["/proc", "/sys", "/dev"];
/// Filesystems of the kernel's, which a chroot or a container may have elsewhere, too.
const KERNEL_FILESYSTEMS: &[&str] =
    &["proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "autofs", "fusectl", "binfmt_misc", "nsfs"];
/// Most of the files that are copied for an ordinary user: of those beside a mount, and of those that belong to others.
pub(super) const MOST_BESIDE: u64 = 256 << 20;

impl Shield {
    /// Puts this process behind a shield. It must have one thread only.
    ///
    /// # Errors
    /// When the system does not allow it, or a required place cannot be covered. Nothing was changed then but the
    /// namespaces of this process.
    pub(super) fn enter(scratch: &Path, places: &[Place]) -> io::Result<Self> {
        let user = leave_for_own_namespace()?;
        // Nothing of ours goes out, and what is unmounted outside goes here as well, so that a check holds no disk
        // (where the system shares its mounts; mount_namespaces(7)).
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)?;
        // A mount of its own stays writable when the one around it does not.
        mount(Some(scratch), scratch, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
        let memory = scratch.join(MEMORY);
        private_directory(&memory)?;
        mount(Some("refrain-check"), &memory, Some("tmpfs"), MsFlags::empty(), Some("mode=0700"))?;
        // Handles from before would belong to the namespace that was left.
        let scratch_handle = handle(scratch)?;
        let mut shield = Self {
            scratch: scratch.to_owned(),
            scratch_handle,
            user,
            places: places.iter().filter_map(resolved).collect(),
            covers: Vec::new(),
            mounted: Vec::new(),
            sockets: Vec::new(),
            round: 0,
            closed: Vec::new(),
            refused: Vec::new(),
            unowned: Vec::new(),
            open: Vec::new(),
        };
        shield.plan()?;
        shield.cover()?;
        if user {
            shield.unowned.push(
                "what belongs to others an ordinary user changes only in the home, in `cwd` and in the outputs"
                    .to_owned(),
            );
        }
        shield.sockets = shield.sockets();
        shield.bind_sockets();
        shield.demand()?;
        Ok(shield)
    }

    /// The directories that are covered.
    pub(super) fn covered(&self) -> impl Iterator<Item = &Path> {
        self.layers().map(|layer| layer.place.as_path())
    }

    fn layers(&self) -> impl Iterator<Item = &Layer> {
        self.covers.iter().filter_map(|cover| match cover {
            Cover::Layer(layer) => Some(layer),
            Cover::Itself(..) => None,
        })
    }

    /// Takes all mounts away, so that the scratch directory can be removed.
    fn leave(&mut self) {
        self.uncover();
        for (place, flags) in self.closed.drain(..).rev() {
            let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | flags;
            if let Err(error) = mount(None::<&str>, &place, None::<&str>, flags, None::<&str>) {
                tracing::debug!(%error, place = %place.display(), "it stays read-only for this process");
            }
        }
        // The innermost first: the layers' own, the memory, the scratch directory.
        let own = mounts::visible().unwrap_or_default();
        for mount in own.iter().rev().filter(|mount| mount.path.starts_with(&self.scratch)) {
            if let Err(error) = umount2(&mount.path, MntFlags::MNT_DETACH) {
                tracing::debug!(%error, place = %mount.path.display(), "it goes with this process");
            }
        }
    }

    /// Throws away everything that was written: the directories are again as they really are.
    pub(super) fn reset(&mut self) -> io::Result<()> {
        self.uncover();
        self.cover()?;
        self.bind_sockets();
        Ok(())
    }

    /// From now on only later writes are told.
    pub(super) fn mark(&mut self) -> io::Result<()> {
        self.covers.iter_mut().try_for_each(|cover| match cover {
            Cover::Layer(layer) => layer.mark(),
            Cover::Itself(..) => Ok(()),
        })
    }

    /// What was written since the last mark.
    pub(super) fn writes(&self) -> io::Result<Vec<Write>> {
        let mut writes = Vec::new();
        for layer in self.layers() {
            writes.extend(layer.writes()?.into_iter().filter(|write| !write.path.starts_with(&self.scratch)));
        }
        writes.sort();
        Ok(writes)
    }

    /// Finds what is to be covered, and closes everything for the case that it cannot be.
    fn plan(&mut self) -> io::Result<()> {
        let mounts = mounts::visible()?;
        let mut covers: Vec<Cover> = Vec::new();
        for entry in fs::read_dir("/")? {
            let entry = entry?;
            if entry.file_type()?.is_dir() && !is_kernels(&entry.path()) {
                covers.push(self.layer(entry.path(), handle(&entry.path())?));
            }
        }
        for mount in mounts {
            // There files are kept.
            let is_kernels = is_kernels(&mount.path) && mount.path != Path::new("/dev/shm");
            if is_kernels || mount.path.starts_with(&self.scratch) {
                continue;
            }
            if !mount.flags.contains(MsFlags::MS_RDONLY) {
                self.close(&mount.path, mount.flags);
            }
            if mount.path.parent().is_none() {
                continue;
            }
            covers.retain(|known| known.place() != mount.path);
            let is_directory = fs::metadata(below(&mount.root)).is_ok_and(|found| found.is_dir());
            covers.push(if is_directory && !KERNEL_FILESYSTEMS.contains(&mount.filesystem.as_str()) {
                self.layer(mount.path, mount.root)
            } else {
                Cover::Itself(mount.path, mount.root)
            });
        }
        self.covers = covers;
        Ok(())
    }

    fn close(&mut self, place: &Path, flags: MsFlags) {
        let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | flags;
        match mount(None::<&str>, place, None::<&str>, read_only, None::<&str>) {
            Ok(()) => self.closed.push((place.to_owned(), flags)),
            Err(error) => self.open.push((place.to_owned(), format!("it cannot be made read-only: {error}"))),
        }
    }

    fn layer(&self, place: PathBuf, lower: OwnedFd) -> Cover {
        let in_memory = self.scratch.starts_with(&place);
        Cover::Layer(Layer::new(place, lower, in_memory))
    }

    /// Fails when the task would not find a place of its own covered.
    fn demand(&self) -> io::Result<()> {
        for place in self.places.iter().filter(|place| place.required) {
            let over = self.covers.iter().rev().find(|cover| place.path.starts_with(cover.place()));
            if !matches!(over, Some(Cover::Layer(_))) {
                let within = over.map_or(Path::new("/"), Cover::place);
                let why = self.refused.iter().find(|(refused, _)| refused == within).map(|(_, why)| format!(": {why}"));
                return Err(io::Error::other(format!(
                    "`{}`, which the task uses, can have no layer over it{}",
                    place.path.display(),
                    why.unwrap_or_default()
                )));
            }
        }
        Ok(())
    }

    fn cover(&mut self) -> io::Result<()> {
        self.round += 1;
        let mut pending: VecDeque<Cover> = std::mem::take(&mut self.covers).into();
        outer_first(&mut pending);
        while let Some(cover) = pending.pop_front() {
            let cover = match cover {
                Cover::Layer(layer) => self.lay(layer, &mut pending)?,
                itself @ Cover::Itself(..) => itself,
            };
            if let Cover::Itself(place, real) = &cover
                && self.covers.iter().any(|outer| place.starts_with(outer.place()))
            {
                let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
                match mount(Some(&below(real)), place, None::<&str>, bind, None::<&str>) {
                    Ok(()) => self.mounted.push(place.clone()),
                    // It went away meanwhile, or stays hidden behind the outer layer.
                    Err(error) => tracing::debug!(%error, place = %place.display(), "it cannot be shown"),
                }
            }
            self.covers.push(cover);
        }
        let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(&below(&self.scratch_handle)), &self.scratch, None::<&str>, bind, None::<&str>)?;
        self.mounted.push(self.scratch.clone());
        Ok(())
    }

    /// Mounts a layer, or finds another way.
    fn lay(&mut self, mut layer: Layer, pending: &mut VecDeque<Cover>) -> io::Result<Cover> {
        // A directory that holds mounts is laid out anew below, and its directories come here again.
        let alone = pending.iter().all(|inner| !inner.place().starts_with(&layer.place));
        if self.user && self.round == 1 && alone {
            let copy = below(&self.scratch_handle).join(MEMORY).join(format!("others/{}", self.covers.len()));
            layer.taken_over = take_over(&layer, &self.places, &copy, &mut self.unowned)?;
        }
        let error = match self.mount(&mut layer) {
            Ok(()) => return Ok(Cover::Layer(layer)),
            Err(error) => error,
        };
        // What holds mounts cannot be copied without them by an ordinary user (mount_namespaces(7): "locked").
        let holds_mounts = self.user && error.raw_os_error() == Some(Errno::EINVAL as i32);
        let used = self.places.iter().any(|place| place.path.starts_with(&layer.place));
        if holds_mounts && used {
            let (mut copy, inner) = self.laid_out(&layer, pending)?;
            self.mount(&mut copy)?;
            pending.extend(inner);
            outer_first(pending);
            return Ok(Cover::Layer(copy));
        }
        let why = if holds_mounts {
            "something is mounted inside it, which an ordinary user cannot lay a layer around".to_owned()
        } else {
            error.to_string()
        };
        self.refused.push((layer.place.clone(), why));
        Ok(Cover::Itself(layer.place, layer.lower))
    }

    fn mount(&mut self, layer: &mut Layer) -> io::Result<()> {
        let number = self.mounted.len();
        let name = format!("layers/{}.{number}", self.round);
        // The scratch directory's own path may lie below a layer already.
        let scratch = below(&self.scratch_handle);
        let memory = scratch.join(MEMORY);
        // Some filesystems cannot hold an upper layer; memory can.
        let first = if layer.in_memory { memory.as_path() } else { scratch.as_path() };
        let mut laid = layer.cover(first, &name, self.user);
        if laid.is_err() && !layer.in_memory {
            laid = layer.cover(&memory, &name, self.user);
            layer.in_memory = laid.is_ok();
        }
        laid?;
        self.mounted.push(layer.place.clone());
        Ok(())
    }

    /// A directory that holds mounts, laid out anew: its files are copied, its directories get layers of their own.
    fn laid_out(&mut self, layer: &Layer, pending: &VecDeque<Cover>) -> io::Result<(Layer, Vec<Cover>)> {
        let copy = below(&self.scratch_handle).join(MEMORY).join(format!("beside/{}", self.covers.len()));
        private_directory(&copy)?;
        // Of what lies around the task's own directories it may do without the largest.
        let is_tasks = self.places.iter().any(|place| place.required && layer.place.starts_with(&place.path));
        let mut inner = Vec::new();
        let mut bytes = 0;
        for entry in fs::read_dir(below(&layer.lower))? {
            let entry = entry?;
            let (place, target) = (layer.place.join(entry.file_name()), copy.join(entry.file_name()));
            // Others may remove their files meanwhile.
            let Ok(found) = entry.metadata() else { continue };
            if found.is_dir() {
                fs::create_dir(&target)?;
                fs::set_permissions(&target, Permissions::from_mode(found.mode() & 0o7777))?;
                let known = pending.iter().any(|known| known.place() == place);
                if let (false, true, Ok(lower)) = (known, place != self.scratch, handle(&entry.path())) {
                    inner.push(self.layer(place, lower));
                }
                continue;
            }
            let size = if found.is_file() { found.len() } else { 0 };
            if bytes + size > MOST_BESIDE {
                let most = MOST_BESIDE >> 20;
                if is_tasks {
                    return Err(io::Error::other(format!(
                        "`{}` holds a mount and more than {most} MiB of files beside it",
                        layer.place.display()
                    )));
                }
                self.unowned.push(format!("`{}` is hidden: {most} MiB beside a mount are copied", place.display()));
                continue;
            }
            bytes += size;
            match copy_beside(&entry.path(), &target, &found) {
                // The task could not read it either, or it went away.
                Err(error) if [io::ErrorKind::PermissionDenied, io::ErrorKind::NotFound].contains(&error.kind()) => {}
                copied => copied?,
            }
        }
        let mode = fs::metadata(below(&layer.lower))?.mode() & 0o7777;
        fs::set_permissions(&copy, Permissions::from_mode(mode))?;
        let lower = handle(&copy)?;
        // A copy in memory has its upper layer there, too.
        Ok((Layer::new(layer.place.clone(), lower, true), inner))
    }

    /// The sockets in covered directories at which somebody listens: an overlay shows a socket, but does not lead to its
    /// server.
    fn sockets(&self) -> Vec<(PathBuf, OwnedFd)> {
        // proc(5): the path is the eighth field.
        let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let paths = table.lines().filter_map(|line| line.split_whitespace().nth(7)).map(PathBuf::from);
        let mut paths: Vec<_> = paths.filter(|path| path.is_absolute()).collect();
        paths.sort();
        paths.dedup();
        let real = |path: PathBuf| {
            let path = path.canonicalize().ok()?;
            let layer = self.layers().filter(|layer| path.starts_with(&layer.place)).last()?;
            let real = below(&layer.lower).join(path.strip_prefix(&layer.place).ok()?);
            let is_socket = fs::metadata(&real).is_ok_and(|found| found.file_type().is_socket());
            is_socket.then(|| handle(&real).ok()).flatten().map(|handle| (path, handle))
        };
        paths.into_iter().filter_map(real).collect()
    }

    fn bind_sockets(&mut self) {
        for (path, socket) in &self.sockets {
            match mount(Some(&below(socket)), path, None::<&str>, MsFlags::MS_BIND, None::<&str>) {
                Ok(()) => self.mounted.push(path.clone()),
                // A server that is gone by now cannot be spoken to anyway.
                Err(error) => tracing::debug!(%error, path = %path.display(), "a socket stays covered"),
            }
        }
    }

    fn uncover(&mut self) {
        for place in self.mounted.drain(..).rev() {
            // What is still in use is unmounted when its last user goes; the next layer lies over it.
            if let Err(error) = umount2(&place, MntFlags::MNT_DETACH) {
                tracing::debug!(%error, place = %place.display(), "a layer stays");
            }
        }
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A mount namespace, and where that takes it a user namespace in which this user is what he is outside; whether it did.
fn leave_for_own_namespace() -> io::Result<bool> {
    if unshare(CloneFlags::CLONE_NEWNS).is_ok() {
        return Ok(false);
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).map_err(|error| match error {
        // user_namespaces(7): the limit on their number is exceeded.
        Errno::ENOSPC | Errno::EUSERS => {
            io::Error::other("user namespaces are turned off or used up (sysctl user.max_user_namespaces)")
        }
        Errno::EPERM => io::Error::other(
            "an ordinary user may make no namespaces here (sysctl kernel.unprivileged_userns_clone, or a container that forbids it)",
        ),
        other => io::Error::other(format!("this system makes no namespaces: {other}")),
    })?;
    let map = || {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
    };
    map().map_err(|error| {
        io::Error::other(format!(
            "a user namespace has no rights here (sysctl kernel.apparmor_restrict_unprivileged_userns, or a container that forbids it): {error}"
        ))
    })?;
    Ok(true)
}

/// The place without links on the way to it; none for one that does not exist.
fn resolved(place: &Place) -> Option<Place> {
    let path = place.path.canonicalize().ok()?;
    (place.whole || path.is_dir()).then_some(Place { path, ..*place })
}

fn outer_first(covers: &mut VecDeque<Cover>) {
    let order = |cover: &Cover| (cover.place().components().count(), cover.place().to_owned());
    covers.make_contiguous().sort_by_cached_key(order);
}

fn is_kernels(path: &Path) -> bool {
    KERNEL.iter().any(|kernel| path.starts_with(kernel))
}

/// Copies a link, or a file with its times; others are left out.
pub(super) fn copy_beside(from: &Path, to: &Path, found: &fs::Metadata) -> io::Result<()> {
    if found.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if !found.is_file() {
        return Ok(());
    }
    fs::copy(from, to)?;
    let times = fs::FileTimes::new().set_modified(found.modified()?);
    File::open(to)?.set_times(times)
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
