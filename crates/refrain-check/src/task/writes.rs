//! What a task wrote outside its outputs.

use serde::Serialize;
use std::path::{Path, PathBuf};

/// One file that was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Write {
    /// Where, as the task sees it.
    pub path: PathBuf,
    /// What happened to it.
    pub how: How,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It was not there before.
    Created,
    /// Its content or its metadata.
    Changed,
    /// It was there before.
    Removed,
}

impl How {
    /// As a word in a sentence.
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
}

/// What programs keep for the next time, beside their sources or in `.cache`: it should decide nothing.
pub(super) fn is_cache(path: &Path) -> bool {
    is_compiled(path) || path.components().any(|part| part.as_os_str() == ".cache")
}

/// What an interpreter makes of its sources.
pub(super) fn is_compiled(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "__pycache__")
        || path.extension().is_some_and(|extension| extension == "pyc")
}
