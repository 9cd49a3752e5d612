//! The home: the directory with `.refrain/`, as a repository is one with `.git/`.

use crate::config::{Config, FILE_NAME, TEMPLATE};
use refrain_core::{Error, Result};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The name of the state directory.
pub const STATE_DIRECTORY: &str = ".refrain";

/// A directory that holds a configuration, state, staging and kept versions.
#[derive(Clone, Debug)]
pub struct Home {
    /// The directory itself, canonical.
    pub directory: PathBuf,
    /// Its configuration.
    pub config: Config,
}

impl Home {
    /// The home at `directory`, or, without one, the nearest directory at or above `from` that has a
    /// `refrain.toml` or a `.refrain/`.
    ///
    /// # Errors
    /// `invalid` when there is none, or its configuration is wrong.
    pub fn find(directory: Option<&Path>, from: &Path) -> Result<Self> {
        let directory = match directory {
            Some(directory) if is_home(directory) => directory.to_owned(),
            Some(directory) if is_closed(directory) => {
                let error = std::io::Error::from(ErrorKind::PermissionDenied);
                return Err(Error::io(format!("cannot look into the home `{}`", directory.display()), error));
            }
            Some(directory) => return Err(no_home(&format!("`{}` is no home", directory.display()), directory)),
            None => from
                .ancestors()
                .find(|candidate| is_home(candidate))
                .ok_or_else(|| {
                    no_home(
                        &format!("there is no {FILE_NAME} and no {STATE_DIRECTORY}/ in `{}` or above", from.display()),
                        Path::new("."),
                    )
                })?
                .to_owned(),
        };
        let directory = fs::canonicalize(&directory)
            .map_err(|error| Error::io(format!("cannot open the home `{}`", directory.display()), error))?;
        let config = Config::load(&directory)?;
        Ok(Self { directory, config })
    }

    /// The same, and nothing where none is named and there is none in `from` or above.
    ///
    /// # Errors
    /// As [`find`](Self::find), of a home that is there.
    pub fn find_any(directory: Option<&Path>, from: &Path) -> Result<Option<Self>> {
        if directory.is_none() && !from.ancestors().any(is_home) {
            return Ok(None);
        }
        Self::find(directory, from).map(Some)
    }

    /// Where state, staging and versions lie.
    pub fn state(&self) -> PathBuf {
        self.directory.join(STATE_DIRECTORY)
    }

    /// The database of the embedded state store.
    pub fn database(&self) -> PathBuf {
        self.state().join("state.db")
    }

    /// Makes what is missing of a home; what is there is left as it is. Returns what it made.
    ///
    /// # Crash safety
    /// Each thing is complete or absent; repeating the call makes the rest.
    pub fn make(directory: &Path) -> Result<Vec<PathBuf>> {
        let mut made = Vec::new();
        fs::create_dir_all(directory).map_err(|error| cannot_make(directory, error))?;
        if Self::make_state(directory)? {
            made.push(directory.join(STATE_DIRECTORY));
        }
        let file = directory.join(FILE_NAME);
        match OpenOptions::new().write(true).create_new(true).open(&file) {
            Ok(mut created) => {
                created.write_all(TEMPLATE.as_bytes()).map_err(|error| cannot_make(&file, error))?;
                made.push(file);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot_make(&file, error)),
        }
        Ok(made)
    }

    /// Makes the state directory, 0700; false when it was there.
    pub(crate) fn make_state(directory: &Path) -> Result<bool> {
        let state = directory.join(STATE_DIRECTORY);
        match DirBuilder::new().mode(0o700).create(&state) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(cannot_make(&state, error)),
        }
    }
}

fn is_home(directory: &Path) -> bool {
    directory.join(FILE_NAME).is_file() || directory.join(STATE_DIRECTORY).is_dir()
}

/// Whether this user may not look whether it is a home.
fn is_closed(directory: &Path) -> bool {
    fs::metadata(directory.join(FILE_NAME)).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

fn no_home(message: &str, directory: &Path) -> Error {
    Error::invalid(message).hint(if directory == Path::new(".") {
        "make one here: refrain init".to_owned()
    } else {
        format!("make one there: refrain --home {} init", directory.display())
    })
}

fn cannot_make(path: &Path, error: std::io::Error) -> Error {
    Error::io(format!("cannot make `{}`", path.display()), error)
}
