//! Directories of servers, which go with the test process that made them or, where that was killed, with a later one.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The file that a living test process holds a lock on.
const ALIVE: &str = "alive";

/// The directory of one server. It goes when the value is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    directory: TempDir,
    /// Locked as long as the test process lives.
    _alive: File,
}

impl Place {
    /// A new directory in `base`. Those whose process has ended are handed to `clear` and removed.
    pub(crate) fn fresh(base: &Path, clear: impl Fn(&Path)) -> Self {
        let _lock = locked(base);
        sweep(base, clear);
        let directory = tempfile::Builder::new().prefix("s-").tempdir_in(base).expect("make a server's directory");
        let alive = File::create(directory.path().join(ALIVE)).expect("make a server's lock file");
        flock(&alive, FlockOperation::NonBlockingLockExclusive).expect("lock a file that is new");
        Self { directory, _alive: alive }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// The directory of all servers of a kind of this user. Short, since it begins the paths of sockets.
pub(crate) fn base(kind: &str) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    let base = PathBuf::from(format!("/tmp/refrain-{kind}-{user}"));
    fs::create_dir_all(&base).unwrap_or_else(|error| panic!("cannot make {}: {error}", base.display()));
    let owner = fs::symlink_metadata(&base).expect("look at the directory of servers").uid();
    assert!(owner == user, "{} belongs to user {owner}, not to {user}", base.display());
    fs::set_permissions(&base, fs::Permissions::from_mode(0o755)).expect("open the directory of servers");
    base
}

/// The lock under which directories are made and removed; held until it is dropped.
pub(crate) fn locked(base: &Path) -> File {
    let lock = File::create(base.join("lock")).expect("make the lock file of all servers");
    flock(&lock, FlockOperation::LockExclusive).expect("lock the directory of servers");
    lock
}

/// Removes the directories of processes that ended without doing so.
fn sweep(base: &Path, clear: impl Fn(&Path)) {
    for entry in fs::read_dir(base).expect("list the directories of servers").flatten() {
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with("s-") {
            continue;
        }
        let is_abandoned = File::open(path.join(ALIVE))
            .map_or(true, |alive| flock(&alive, FlockOperation::NonBlockingLockExclusive).is_ok());
        if is_abandoned {
            clear(&path);
            // Another server's last files may still be on their way out; the next sweep removes what is left.
            let _removed_or_left = fs::remove_dir_all(&path);
        }
    }
}
