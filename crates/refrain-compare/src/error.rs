//! Why a comparison could not be made at all.

use std::io;
use std::path::{Path, PathBuf};

/// A comparison that has no result. What is wrong *inside* a file is a finding and not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An output is not there or cannot be read: look at the path and its permissions.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The directory for temporary files cannot be used or is full: name another one in
    /// [`Options::temporary`](crate::Options::temporary).
    #[error("cannot write temporary files{}", directory.as_deref().map(|path| format!(" in `{}`", path.display())).unwrap_or_default())]
    Temporary {
        /// The directory, when the caller named one.
        directory: Option<PathBuf>,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Read { path, source }
    }
}

/// The result of something that may fail as a whole.
pub type Result<T> = std::result::Result<T, Error>;
