//! What can go wrong with the file, and what the caller is told.

use crate::stored::Unreadable;
use refrain_core::{Error, ErrorKind};
use rusqlite::ErrorCode;
use std::path::Path;

/// A failure inside the store, before the file's name is put to it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The engine failed.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// A stored text is not what this program writes.
    #[error(transparent)]
    Text(#[from] Unreadable),
    /// The file holds no tables at all.
    #[error("no tables")]
    Empty,
    /// The file is a database of something else.
    #[error("not a state")]
    NotAState,
    /// The file can be read only.
    #[error("read-only")]
    ReadOnly,
    /// Written, but whether the disk has it is not known.
    #[error("not durable")]
    NotDurable(std::io::Error),
    /// Has its message already.
    #[error(transparent)]
    Core(#[from] Error),
}

/// The hint for whoever has to give the file up. The sinks hold what matters.
const LOST: &str = "heads and publications are safe in the sinks. Move the file and its `-wal` and `-shm` away and run \
                    `refrain store init --replaces OLD_ID` (`refrain show PATH` of a publication tells the id), or put a \
                    backup in its place and run `refrain store restored`";

impl Fault {
    /// A stored text that cannot be read.
    pub(super) fn text(what: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Text(Unreadable::new(what, source))
    }

    /// The error for the caller.
    pub(super) fn at(self, path: &Path) -> Error {
        let path = path.display();
        match self {
            Self::Core(error) => error,
            Self::Empty => {
                Error::invalid(format!("the state `{path}` is empty: its creation was interrupted")).hint(format!(
                    "`refrain init` completes it; if it had content and its log was lost, move `{path}` away: \
                     `refrain store init` then tells how to replace it"
                ))
            }
            Self::NotAState => Error::invalid(format!("`{path}` is a database, but not a state of refrain"))
                .hint("name another file; `refrain init` makes a new state"),
            Self::Text(Unreadable { what, source }) => {
                Error::corrupt(format!("{what} in the state `{path}` cannot be read")).because(source).hint(LOST)
            }
            Self::NotDurable(source) => Error::io(format!("cannot make the state `{path}` durable"), source)
                .kind(ErrorKind::Unavailable)
                .hint("look at the disk's health and free space, then run again"),
            Self::ReadOnly => read_only(&path.to_string()),
            Self::Sqlite(source) => from_engine(&path.to_string(), source),
        }
    }
}

fn from_engine(path: &str, source: rusqlite::Error) -> Error {
    let code = source.sqlite_error_code();
    let error = match code {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            Error::new(ErrorKind::Unavailable, format!("the state `{path}` is locked by another process for too long"))
                .hint(format!("`fuser -v {path}` shows who has it open; a stopped process may hold the lock"))
        }
        Some(ErrorCode::DatabaseCorrupt) => Error::corrupt(format!("the state `{path}` is damaged")).hint(LOST),
        Some(ErrorCode::NotADatabase) => Error::corrupt(format!("the state `{path}` is not a database")).hint(LOST),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => read_only(path),
        Some(ErrorCode::DiskFull) => {
            Error::new(ErrorKind::Unavailable, format!("no space is left for the state `{path}`"))
                .hint("free some space, then run again")
        }
        _ => Error::new(ErrorKind::Internal, format!("the state `{path}` cannot be read or written")),
    };
    error.because(source)
}

fn read_only(path: &str) -> Error {
    Error::invalid(format!("the state `{path}` cannot be opened for writing"))
        .hint("make the file and its directory writable for this user: every attempt is recorded there")
}
