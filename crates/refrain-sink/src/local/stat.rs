//! What the kernel says of a path, in one system call.

use rustix::fs::{AtFlags, CWD, FileType, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// One look at a file, directory or link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) kind: FileType,
    /// Permission bits, with setuid, setgid and sticky.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) links: u32,
    pub(crate) dev: (u32, u32),
    pub(crate) ino: u64,
    pub(crate) size: u64,
    /// Nanoseconds since the epoch; nothing where the filesystem does not keep the time of birth.
    pub(crate) birth: Option<i128>,
    pub(crate) mtime: i128,
    pub(crate) ctime: i128,
    mount: Option<u64>,
    mount_root: bool,
    /// Has the immutable or the append-only attribute (chattr(1)): no rename moves it.
    pub(crate) fixed: bool,
}

impl Stat {
    /// Looks at the path itself, not through a link. Nothing when there is nothing.
    pub(crate) fn of(path: &Path) -> io::Result<Option<Self>> {
        absent_is_none(Self::look(CWD, path, AtFlags::SYMLINK_NOFOLLOW))
    }

    /// Looks through links.
    pub(crate) fn through(path: &Path) -> io::Result<Option<Self>> {
        absent_is_none(Self::look(CWD, path, AtFlags::empty()))
    }

    /// Looks at an open file.
    pub(crate) fn of_open(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::look(file, Path::new(""), AtFlags::EMPTY_PATH)?)
    }

    fn look(at: impl AsFd, path: &Path, flags: AtFlags) -> rustix::io::Result<Self> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
        let mut seen = rustix::fs::statx(&at, path, flags, wanted)?;
        if seen.stx_nlink > 1 && FileType::from_raw_mode(seen.stx_mode.into()) == FileType::RegularFile {
            // FUSE remembers attributes for a second: a name that was removed meanwhile may be counted still.
            seen = rustix::fs::statx(&at, path, flags | AtFlags::STATX_FORCE_SYNC, wanted)?;
        }
        let got = StatxFlags::from_bits_retain(seen.stx_mask);
        let nanoseconds =
            |time: rustix::fs::StatxTimestamp| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
        let birth = nanoseconds(seen.stx_btime);
        Ok(Self {
            kind: FileType::from_raw_mode(seen.stx_mode.into()),
            mode: u32::from(seen.stx_mode) & 0o7777,
            uid: seen.stx_uid,
            gid: seen.stx_gid,
            links: seen.stx_nlink,
            dev: (seen.stx_dev_major, seen.stx_dev_minor),
            ino: seen.stx_ino,
            size: seen.stx_size,
            birth: (got.contains(StatxFlags::BTIME) && birth != 0).then_some(birth),
            mtime: nanoseconds(seen.stx_mtime),
            ctime: nanoseconds(seen.stx_ctime),
            mount: got.contains(StatxFlags::MNT_ID).then_some(seen.stx_mnt_id),
            mount_root: seen.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
            fixed: seen.stx_attributes.intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND),
        })
    }

    pub(crate) fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind == FileType::Directory
    }

    pub(crate) fn is_link(&self) -> bool {
        self.kind == FileType::Symlink
    }

    /// Whether something is mounted here.
    pub(crate) fn is_mount_point(&self) -> bool {
        self.mount_root
    }

    /// Whether a rename can go from there to here: the same mount of the same filesystem. A bind mount of one
    /// filesystem, and a subvolume within one mount, both give EXDEV (rename(2)).
    pub(crate) fn same_mount(&self, other: &Self) -> bool {
        self.dev == other.dev && self.mount == other.mount
    }

    /// Whether nothing was done to it between two looks.
    pub(crate) fn untouched(&self, other: &Self) -> bool {
        let of = |stat: &Self| (stat.kind, stat.ino, stat.size, stat.mtime, stat.ctime, stat.links);
        of(self) == of(other)
    }

    /// The word for what it is, with its article.
    pub(crate) fn noun(&self) -> &'static str {
        match self.kind {
            FileType::RegularFile => "a file",
            FileType::Directory => "a directory",
            FileType::Symlink => "a symbolic link",
            FileType::Fifo => "a named pipe",
            FileType::Socket => "a socket",
            FileType::CharacterDevice | FileType::BlockDevice => "a device",
            FileType::Unknown => "something unknown",
        }
    }
}

fn absent_is_none(look: rustix::io::Result<Stat>) -> io::Result<Option<Stat>> {
    match look {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
