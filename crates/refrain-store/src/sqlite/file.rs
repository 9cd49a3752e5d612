//! The file and its directory: where a state may lie, and how its companions are named.

use refrain_core::{Error, ErrorKind, Result};
use rustix::fs::{StatVfs, StatVfsMountFlags, statfs, statvfs};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Filesystems that other hosts write to as well, by the number that statfs(2) calls their type. SQLite's
/// write-ahead log needs memory shared by all who have the file open, which no other host takes part in
/// (<https://sqlite.org/wal.html>), and kernel locks may be granted to two hosts at once.
const SHARED_BETWEEN_HOSTS: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xfe53_4d42, "SMB2"),
    (0xff53_4d42, "CIFS"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0xaad7_aaea, "PanFS"),
];

/// The type of everything under FUSE, near or far.
const FUSE: u32 = 0x6573_5546;

/// Programs behind FUSE that reach another host or an object store.
const REMOTE_FUSE: &[&str] = &[
    "sshfs",
    "glusterfs",
    "s3fs",
    "gcsfuse",
    "rclone",
    "ceph",
    "juicefs",
    "davfs",
    "curlftpfs",
    "smbnetfs",
    "moosefs",
    "mfs",
    "blobfuse",
    "blobfuse2",
    "goofys",
    "seaweedfs",
    "mount-s3",
    "mountpoint-s3",
    "alluxio",
    "beegfs",
    "lizardfs",
];

/// The write-ahead log of a state.
pub(super) fn wal(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// The directory that a state lies in.
pub(super) fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Whether a state may be opened: there is a file, and it lies where locks work. Gives its size in bytes.
///
/// Only names are looked at. Opening and closing the database's file beside SQLite would drop the locks that
/// this process holds on it: POSIX locks belong to the process, not to the descriptor (fcntl(2)).
pub(super) fn check(path: &Path) -> Result<u64> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            return Err(Error::invalid(format!("there is no state at `{}`", path.display()))
                .because(source)
                .hint("`refrain init` makes a new one; if it was lost, `refrain store init --replaces OLD_ID`"));
        }
        Err(source) => {
            return Err(Error::io(format!("cannot look at the state `{}`", path.display()), source)
                .kind(ErrorKind::Invalid)
                .hint("make the directory readable for this user"));
        }
    };
    if !metadata.is_file() {
        return Err(Error::invalid(format!("the state `{}` is not a file", path.display())));
    }
    check_filesystem(directory(path), metadata.dev())?;
    check_space(path)?;
    Ok(metadata.len())
}

/// The turn of the process that makes a state in this directory; waits while another one has it. The kernel ends it with the
/// process (flock(2)).
pub(super) fn creation(path: &Path) -> Result<File> {
    let directory = directory(path);
    let turn = File::open(directory).and_then(|handle| handle.lock().map(|()| handle));
    turn.map_err(|source| Error::io(format!("cannot lock `{}`", directory.display()), source).kind(ErrorKind::Invalid))
}

/// Makes the empty file, readable and writable for its owner only; SQLite gives its companions the same mode.
/// A file that is there already is left alone.
pub(super) fn create_private(path: &Path) -> Result<()> {
    let directory = directory(path);
    let device = std::fs::metadata(directory)
        .map_err(|source| {
            Error::io(format!("cannot look at `{}`", directory.display()), source).kind(ErrorKind::Invalid)
        })?
        .dev();
    check_filesystem(directory, device)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(source) if source.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(Error::io(format!("cannot make the state `{}`", path.display()), source)
            .kind(ErrorKind::Invalid)
            .hint("make the directory writable for this user")),
    }
}

fn check_filesystem(directory: &Path, device: u64) -> Result<()> {
    let kind = statfs(directory)
        .map_err(|source| {
            Error::io(format!("cannot ask for the filesystem of `{}`", directory.display()), source.into())
        })?
        .f_type;
    // The field's width and sign differ between architectures; the numbers have 32 bits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "only the low 32 bits carry the type")]
    let kind = kind as u32;
    let far = if kind == FUSE {
        remote_fuse(&mounts()?, device)
    } else {
        SHARED_BETWEEN_HOSTS.iter().find(|(number, _)| *number == kind).map(|(_, name)| (*name).to_owned())
    };
    match far {
        None => Ok(()),
        Some(name) => Err(Error::new(
            ErrorKind::Unsupported,
            format!("the state cannot lie in `{}`: it is on {name}, where locks do not work", directory.display()),
        )
        .hint("keep the home on a local disk; several hosts need a store that they all reach")),
    }
}

/// Every process maps the index of the log (`-shm`, <https://sqlite.org/walformat.html>), and whoever opens a state alone makes
/// it anew. SQLite has the filesystem allocate one byte of each 4096: of smaller blocks the rest is allocated when it is
/// touched, and where none is left the kernel ends the process (SIGBUS), which nobody could tell.
fn check_space(path: &Path) -> Result<()> {
    let directory = directory(path);
    let volume = statvfs(directory)
        .map_err(|source| Error::io(format!("cannot ask for the space in `{}`", directory.display()), source.into()))?;
    if !is_too_full(&volume) {
        return Ok(());
    }
    let free = volume.f_bavail.saturating_mul(volume.f_frsize);
    Err(Error::new(
        ErrorKind::Unavailable,
        format!("no space is left for the state `{}`: {free} bytes, and {INDEX_NEEDS} are needed", path.display()),
    )
    .hint("free some space, then run again"))
}

/// The index has 32 KiB; as much again for what the filesystem and the log need beside it.
const INDEX_NEEDS: u64 = 64 << 10;
/// The pages of which SQLite has the filesystem allocate one byte each.
const INDEX_PAGE: u64 = 4096;

/// What has no blocks at all does not tell its space.
fn is_too_full(volume: &StatVfs) -> bool {
    volume.f_frsize < INDEX_PAGE
        && volume.f_blocks > 0
        && !volume.f_flag.contains(StatVfsMountFlags::RDONLY)
        && volume.f_bavail.saturating_mul(volume.f_frsize) < INDEX_NEEDS
}

fn mounts() -> Result<String> {
    const MOUNTS: &str = "/proc/self/mountinfo";
    std::fs::read_to_string(MOUNTS).map_err(|source| Error::io(format!("cannot read `{MOUNTS}`"), source))
}

/// The kind of the FUSE mount with this device, if it is a remote one. The fields of mountinfo are told in
/// proc_pid_mountinfo(5): the device is the third, the type follows a lone `-`.
fn remote_fuse(mounts: &str, device: u64) -> Option<String> {
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        if fields.nth(2) != Some(device.as_str()) {
            return None;
        }
        let kind = fields.skip_while(|field| *field != "-").nth(1)?;
        let program = kind.strip_prefix("fuse.")?;
        REMOTE_FUSE.contains(&program).then(|| kind.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
40 21 0:45 / /mnt/far rw,nosuid shared:7 - fuse.sshfs host:/data rw,user_id=0
41 21 0:46 / /mnt/near rw,nosuid - fuse.bindfs /data rw
42 21 0:47 / /mnt/disk rw - fuseblk /dev/sdb1 rw
";

    #[test]
    fn lease_10_a_remote_fuse_mount_is_told_from_a_local_one() {
        let kind = |minor| remote_fuse(MOUNTS, rustix::fs::makedev(0, minor));
        assert_eq!(kind(45).as_deref(), Some("fuse.sshfs"));
        assert_eq!(kind(46), None);
        assert_eq!(kind(47), None);
        assert_eq!(kind(99), None);
    }
}
