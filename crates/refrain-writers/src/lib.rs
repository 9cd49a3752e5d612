//! Whether anybody has a file open for writing: any process, of any user, in any container, also by a shared mapping. Only
//! the kernel knows; `/proc` shows the processes of one's own user and namespace, and none without reading all of it.
//!
//! The kernel gives a read lease only on a file that nobody has open for writing (`F_SETLEASE(2const)`, Linux). The lease is
//! given back at once: it is asked for, not held.

#![allow(unsafe_code, reason = "fcntl(2) with a file lease: no library has a safe call for it")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Which signal tells of a lease that somebody waits for: `asm-generic/fcntl.h`.
#[cfg(target_os = "linux")]
const F_SETSIG: libc::c_int = 10;

/// Whether somebody has this file, which must be open for reading alone, open for writing; nothing where it cannot be told: a
/// filesystem without leases, or a file of another user.
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
    (io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock).then_some(true)
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::is_written;
    use std::fs::{File, OpenOptions};

    #[test]
    fn an_open_writer_is_told_and_a_closed_one_and_readers_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        let writer = File::create(&path).unwrap();
        let (file, _reader) = (File::open(&path).unwrap(), File::open(&path).unwrap());
        assert_eq!(is_written(&file), Some(true));
        drop(writer);
        assert_eq!(is_written(&file), Some(false));
        let appender = OpenOptions::new().append(true).open(&path).unwrap();
        assert_eq!(is_written(&file), Some(true), "the lease was given back: the writer did not have to wait for it");
        drop(appender);
        assert_eq!(is_written(&file), Some(false));
    }
}
