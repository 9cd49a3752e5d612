//! What is mounted where, as this process sees it.

use nix::mount::MsFlags;
use rustix::fs::{Mode, OFlags, open};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount that can be reached by its path.
#[derive(Debug)]
pub(super) struct Mount {
    pub(super) path: PathBuf,
    /// The filesystem, as in `ext4`.
    pub(super) filesystem: String,
    /// What must be repeated when it is mounted again with other options.
    pub(super) flags: MsFlags,
    pub(super) root: OwnedFd,
}

/// All mounts that no other one hides, in the order in which they were made.
pub(super) fn visible() -> io::Result<Vec<Mount>> {
    let table = fs::read("/proc/self/mountinfo")?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(mount).collect())
}

/// Reads a line of proc_pid_mountinfo(5): `36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw`.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?;
    let path = unescaped(fields.nth(3)?);
    let options = String::from_utf8_lossy(fields.next()?).into_owned();
    let filesystem = String::from_utf8_lossy(fields.skip_while(|field| *field != b"-").nth(1)?).into_owned();
    let mut flags = MsFlags::empty();
    for option in options.split(',') {
        flags |= match option {
            "ro" => MsFlags::MS_RDONLY,
            "nosuid" => MsFlags::MS_NOSUID,
            "nodev" => MsFlags::MS_NODEV,
            "noexec" => MsFlags::MS_NOEXEC,
            _ => MsFlags::empty(),
        };
    }
    let root = handle(&path).ok()?;
    is_of(&root, id).then_some(Mount { path, filesystem, flags, root })
}

/// Whether a handle lies on the mount of this number.
fn is_of(handle: &OwnedFd, id: &str) -> bool {
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd())).unwrap_or_default();
    told.lines().any(|line| line.strip_prefix("mnt_id:").is_some_and(|found| found.trim() == id))
}

/// Spaces and the like are written as `\040`.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, behind)) = rest.split_first() {
        let octal = (*first == b'\\').then(|| behind.get(..3)).flatten();
        let byte = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &behind[3..] } else { behind };
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// A file or directory, by a handle that neither reads nor writes it.
pub(super) fn handle(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// What lies behind a handle, whatever has been mounted over its path since.
pub(super) fn below(handle: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::{mount, unescaped};
    use std::path::Path;

    #[test]
    fn names_with_spaces_are_read() {
        assert_eq!(unescaped(br"/mnt/a\040b\134"), Path::new(r"/mnt/a b\"));
        assert_eq!(unescaped(br"/mnt/\0"), Path::new(r"/mnt/\0"));
    }

    #[test]
    fn what_another_mount_hides_is_none() {
        assert!(mount(b"999999 1 8:1 / / rw - ext4 /dev/sda rw").is_none());
        assert!(mount(b"").is_none());
    }
}
