//! Whether anybody else has a file open for writing: any process, of any user, in any container, also by a shared mapping. Only
//! the kernel knows; `/proc` shows the processes of one's own user and namespace, and none without reading all of it.
//!
//! The kernel gives a read lease only on a file that nobody has open for writing (`F_SETLEASE(2const)`, Linux). The lease is
//! given back at once: it is asked for, not held.

#![allow(unsafe_code, reason = "fcntl(2) with a file lease: no library has a safe call for it")]

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Which signal tells of a lease that somebody waits for: `asm-generic/fcntl.h`.
#[cfg(target_os = "linux")]
const F_SETSIG: libc::c_int = 10;

/// Whether another process has this file, which must be open for reading alone, open for writing; nothing where it cannot be
/// told: a filesystem without leases, a file of another user, or one that this process has open for writing, too.
#[cfg(target_os = "linux")]
#[must_use]
pub fn is_written(file: &File) -> Option<bool> {
    // Whoever opens the file for writing in the moment of the lease makes the kernel send a signal: one that does nothing by
    // itself, in the place of SIGIO, which ends a program.
    fcntl(file, F_SETSIG, libc::SIGURG).ok()?;
    if fcntl(file, libc::F_SETLEASE, libc::F_RDLCK).is_ok() {
        // A lease that cannot be given back ends with the descriptor.
        drop(fcntl(file, libc::F_SETLEASE, libc::F_UNLCK));
        return Some(false);
    }
    let somebody = io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock;
    (somebody && !is_written_here(file).ok()?).then_some(true)
}

/// Whether this process has the file open for writing (`proc_pid_fdinfo(5)`).
#[cfg(target_os = "linux")]
fn is_written_here(file: &File) -> io::Result<bool> {
    let id = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let wanted = id(file.metadata()?);
    for descriptor in fs::read_dir("/proc/self/fd")? {
        let descriptor = descriptor?;
        // One of another thread may be closed by now.
        if !fs::metadata(descriptor.path()).is_ok_and(|metadata| id(metadata) == wanted) {
            continue;
        }
        let about = fs::read_to_string(Path::new("/proc/self/fdinfo").join(descriptor.file_name()))?;
        if is_for_writing(&about) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether what `proc_pid_fdinfo(5)` says of a descriptor is that it is open for writing: whether the access mode among the octal
/// flags, as open(2) takes them, is another than `O_RDONLY`.
#[must_use]
pub fn is_for_writing(about: &str) -> bool {
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| libc::c_int::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
}

/// Nothing: only Linux has leases.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn is_written(_: &File) -> Option<bool> {
    None
}

#[cfg(target_os = "linux")]
fn fcntl(file: &File, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as `file` lives, and the argument of both commands is a number.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
