//! What the system says of a file without reading it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Identity, size and times of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) bytes: u64,
    /// When content was last written (mtime).
    pub(crate) written_ns: i64,
    /// When anything of it was last changed (ctime); nobody can set it.
    pub(crate) changed_ns: i64,
    /// Whether its owner may execute it.
    pub(crate) executable: bool,
}

impl Stat {
    pub(crate) fn of(found: &Metadata) -> Self {
        let ns = |seconds: i64, fraction: i64| seconds.saturating_mul(1_000_000_000).saturating_add(fraction);
        Self {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.size(),
            written_ns: ns(found.mtime(), found.mtime_nsec()),
            changed_ns: ns(found.ctime(), found.ctime_nsec()),
            executable: found.mode() & 0o100 != 0,
        }
    }

    /// Whether it is the same file, and nothing says that it was written to: only its ctime may differ, which a second
    /// name changes, too.
    pub(crate) fn is_unwritten_since(&self, before: &Self) -> bool {
        *self == Self { changed_ns: self.changed_ns, ..*before }
    }
}
