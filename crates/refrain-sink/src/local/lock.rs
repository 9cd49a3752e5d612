//! The lock of a slot: the kernel's, so that it ends with its process and cannot be stolen (PROTOCOL 9.1, 9.2).

use super::problem::problem;
use super::stat::Stat;
use refrain_core::{Error, ErrorKind, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The lock of one slot, held until it is dropped.
#[derive(Debug)]
pub(crate) struct SlotLock {
    file: File,
    path: PathBuf,
}

impl SlotLock {
    /// Takes the lock, waiting no longer than `patience`, and not once `signalled` is set.
    pub(crate) fn take(path: &Path, patience: Duration, signalled: &AtomicBool) -> Result<Self> {
        let started = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let lock = Self { file: open(path)?, path: path.to_owned() };
            match lock.file.try_lock() {
                Ok(()) if lock.is_in_place()? => {
                    // For the message of whoever waits in vain; nothing is decided by it.
                    let pid = format!("{:<10}\n", std::process::id());
                    super::durable::best_effort(lock.file.write_all_at(pid.as_bytes(), 0));
                    return Ok(lock);
                }
                // Somebody removed the file while it was opened: what was locked is not what others will lock.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let waited = started.elapsed();
                    if waited >= patience || signalled.load(Ordering::Relaxed) {
                        return Err(blocked(&lock, waited));
                    }
                    sleep(pause.min(patience.saturating_sub(waited)));
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(TryLockError::Error(error)) => return Err(unlockable(path, error)),
            }
        }
    }

    /// Makes sure that the file at the path is still the one that is locked: a cleaner of old files may have removed
    /// it, and another process locked a new one.
    pub(crate) fn demand_in_place(&self) -> Result<()> {
        if self.is_in_place()? {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("the lock file `{}` was removed or replaced while it was held", self.path.display()),
        )
        .hint("exclude the directory from whatever cleans up old files, then repeat the call"))
    }

    fn is_in_place(&self) -> Result<bool> {
        let look = || Ok((Stat::of_open(&self.file)?, Stat::of(&self.path)?));
        let (held, standing) = look().map_err(|error: io::Error| problem("look at", &self.path, error))?;
        Ok(standing.is_some_and(|standing| (standing.ino, standing.dev) == (held.ino, held.dev)))
    }
}

fn open(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| problem("open the lock file", path, error))
}

fn blocked(lock: &SlotLock, waited: Duration) -> Error {
    let mut text = [0; 10];
    let read = lock.file.read_at(&mut text, 0).unwrap_or_default();
    let pid = String::from_utf8_lossy(text.get(..read).unwrap_or_default()).trim().to_owned();
    let holder = if pid.is_empty() { "another process".to_owned() } else { format!("process {pid}") };
    let hint = if pid.is_empty() {
        "repeat the call".to_owned()
    } else {
        format!("repeat the call; if process {pid} is stopped or hangs, continue it or end it with `kill -9 {pid}`")
    };
    Error::new(
        ErrorKind::Unavailable,
        format!("{holder} has held the lock `{}` for more than {} ms", lock.path.display(), waited.as_millis()),
    )
    .hint(hint)
}

/// LEASE-10: EBADF, ENOLCK and their like mean that there are no locks here.
fn unlockable(path: &Path, error: io::Error) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("the filesystem gives no lock on `{}`, and without locks nothing is published", path.display()),
    )
    .hint("keep the home and the staging directories on a local disk")
    .because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    static NEVER: AtomicBool = AtomicBool::new(false);

    #[test]
    fn the_second_waits_and_is_told_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.lock");
        let held = SlotLock::take(&path, Duration::ZERO, &NEVER).unwrap();
        let error = SlotLock::take(&path, Duration::from_millis(20), &NEVER).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains(&format!("process {}", std::process::id())), "{error}");
        drop(held);
        SlotLock::take(&path, Duration::ZERO, &NEVER).unwrap();
    }

    #[test]
    fn a_signal_ends_the_wait_and_takes_no_free_lock_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.lock");
        let signalled = AtomicBool::new(true);
        let held = SlotLock::take(&path, Duration::MAX, &signalled).unwrap();
        let error = SlotLock::take(&path, Duration::MAX, &signalled).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        drop(held);
    }

    #[test]
    fn fs_14_a_removed_lock_file_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.lock");
        let held = SlotLock::take(&path, Duration::ZERO, &NEVER).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = SlotLock::take(&path, Duration::ZERO, &NEVER).unwrap();
        assert_eq!(held.demand_in_place().unwrap_err().kind, ErrorKind::Unavailable);
        second.demand_in_place().unwrap();
    }
}
