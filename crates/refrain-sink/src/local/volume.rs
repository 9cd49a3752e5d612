//! A volume: the directory that holds heads, staging and kept versions for the targets on its filesystem.

use super::durable;
use super::problem::{mount_of, problem};
use super::stat::Stat;
use refrain_core::{Error, ErrorKind, Result};
use rustix::fs::Mode;
use std::path::{Path, PathBuf};

/// Name of the home's own directory.
pub(crate) const HOME_DIRECTORY: &str = ".refrain";

/// `f_type` of statfs(2) of filesystems on which a lock of the kernel may be lost while its holder lives (9.2).
const NETWORK_FILESYSTEMS: &[(u64, &str)] = &[
    (0x6969, "NFS"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB"),
    (0x517B, "SMB"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "AFS"),
    (0x00C3_6400, "Ceph"),
    (0x0BD0_0BD0, "Lustre"),
    (0x0102_1997, "9P"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
];
const FUSE: u64 = 0x6573_5546;
/// Types of FUSE filesystems, as in /proc/self/mountinfo, behind which there is a network.
const NETWORK_FUSE: &[&str] = &[
    "fuse.sshfs",
    "fuse.glusterfs",
    "fuse.ceph",
    "fuse.s3fs",
    "fuse.rclone",
    "fuse.gcsfuse",
    "fuse.goofys",
    "fuse.mount-s3",
    "fuse.davfs",
];

/// A place for state on one filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) root: PathBuf,
}

impl Volume {
    /// One flat directory of heads, locks, and staging of attempts: one fsync of it makes a new head and a new
    /// attempt's staging durable together.
    pub(crate) fn slots(&self) -> PathBuf {
        self.root.join("slots")
    }

    /// The head of a slot.
    pub(crate) fn head_path(&self, key: &str) -> PathBuf {
        self.slots().join(format!("{key}.head"))
    }

    /// Kept versions, in a directory per slot.
    pub(crate) fn versions(&self) -> PathBuf {
        self.root.join("versions")
    }

    /// Two empty directories with which it is tried out whether the filesystem can exchange.
    pub(crate) fn exchange_trial(&self) -> PathBuf {
        self.root.join("exchange")
    }

    /// Makes what is missing of the volume, durably. The parent of its root must exist.
    pub(crate) fn prepare(&self) -> Result<()> {
        let mut missing = Vec::new();
        for directory in [self.slots(), self.versions()] {
            if Stat::through(&directory).map_err(|error| problem("look at", &directory, error))?.is_none() {
                missing.push(directory);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        self.make_root()?;
        missing
            .iter()
            .try_for_each(|directory| durable::make_private_directory(directory))
            .and_then(|()| rustix::fs::chmod(self.versions(), Mode::from_raw_mode(0o711)).map_err(Into::into))
            .and_then(|()| durable::sync_directory(&self.root))
            .map_err(|error| problem("make the directories in", &self.root, error))
    }

    fn make_root(&self) -> Result<()> {
        let found = Stat::through(&self.root).map_err(|error| problem("look at", &self.root, error))?;
        if found.is_some() {
            return Ok(());
        }
        durable::make_private_directory(&self.root)
            .and_then(|()| self.root.parent().map_or(Ok(()), durable::sync_directory))
            .map_err(|error| problem("make the directory", &self.root, error))
    }

    /// Refuses a filesystem on which the kernel's locks cannot be relied on (9.2).
    pub(crate) fn demand_local(&self) -> Result<()> {
        let at = nearest_directory(&self.root)?.0;
        let filesystem = rustix::fs::statfs(&at).map_err(|error| problem("look at", &at, error.into()))?;
        // `f_type` is a word of the machine's size, and some magic numbers have the top bit set.
        let magic = u64::try_from(i128::from(filesystem.f_type) & 0xFFFF_FFFF).unwrap_or_default();
        let name = NETWORK_FILESYSTEMS.iter().find(|(known, _)| *known == magic).map(|(_, name)| (*name).to_owned());
        let name = name.or_else(|| (magic == FUSE).then(|| network_fuse(&at)).flatten());
        let Some(name) = name else { return Ok(()) };
        Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "`{}` lies on a network filesystem ({name}), where a lock may be lost while its holder still works",
                self.root.display()
            ),
        )
        .hint(
            "keep the home and the staging directories on a local disk; the targets of a run must lie on that disk too",
        ))
    }
}

/// Makes a volume's directories, durably, so that the first run need not: part of `refrain init`.
///
/// # Errors
/// `internal` when they cannot be made.
pub fn prepare_volume(root: &Path) -> Result<()> {
    Volume { root: root.to_owned() }.prepare()
}

fn network_fuse(path: &Path) -> Option<String> {
    let mount = mount_of(path);
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = table.lines().rfind(|line| line.split(' ').nth(4) == Some(mount.as_str()))?;
    let kind = line.split(" - ").nth(1)?.split(' ').next()?;
    NETWORK_FUSE.iter().find(|known| kind.starts_with(**known)).map(|known| (*known).to_owned())
}

/// The nearest directory at or above the path that exists, seen through links.
pub(crate) fn nearest_directory(path: &Path) -> Result<(PathBuf, Stat)> {
    for ancestor in path.ancestors() {
        let found = Stat::through(ancestor).map_err(|error| problem("look at", ancestor, error))?;
        match found {
            Some(stat) if stat.is_directory() => return Ok((ancestor.to_owned(), stat)),
            Some(stat) => {
                return Err(Error::invalid(format!(
                    "nothing can lie below `{}`: it is {}",
                    ancestor.display(),
                    stat.noun()
                )));
            }
            None => {}
        }
    }
    Err(Error::invalid(format!("`{}` has no parent directory", path.display())))
}

/// A configured staging directory is for another filesystem than the home's. If it lies on the home's, that other one is
/// not mounted: what is below its mount point would be published where nobody looks, and its heads cannot be seen.
fn demand_mounted(volumes: &[Volume], target: &Path) -> Result<()> {
    let Some((home, others)) = volumes.split_first() else { return Ok(()) };
    for volume in others {
        let Some(mount) = volume.root.parent().filter(|mount| target.starts_with(mount)) else { continue };
        if nearest_directory(&volume.root)?.1.same_mount(&nearest_directory(&home.root)?.1) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "`{}` lies below `{}`, whose staging directory `{}` is on the home's own filesystem",
                    target.display(),
                    mount.display(),
                    volume.root.display()
                ),
            )
            .hint(format!(
                "mount what belongs at `{}`; or, if nothing does, take the directory out of `staging` in refrain.toml",
                mount.display()
            )));
        }
    }
    Ok(())
}

/// The volume on the target's filesystem.
pub(crate) fn choose<'a>(volumes: &'a [Volume], target: &Path) -> Result<&'a Volume> {
    let parent = target.parent().unwrap_or(target);
    let (nearest, there) = nearest_directory(parent)?;
    demand_mounted(volumes, target)?;
    for volume in volumes {
        if nearest_directory(&volume.root)?.1.same_mount(&there) {
            return Ok(volume);
        }
    }
    let mount = mount_of(&nearest);
    let home = volumes.first().map(|volume| mount_of(&volume.root)).unwrap_or_default();
    Err(Error::invalid(format!(
        "`{}` lies on the filesystem at `{mount}`, the home on the one at `{home}`: no rename goes from one to the other",
        target.display()
    ))
    .hint(format!(
        "add `staging = [\"{}/.refrain-staging\"]` to refrain.toml",
        mount.trim_end_matches('/')
    )))
}
