//! What a task wrote outside its outputs.

use serde::Serialize;
use std::path::{Component, Path, PathBuf};

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

/// What interpreters keep beside their sources: it decides nothing.
pub(super) fn is_cache(path: &Path) -> bool {
    let named = |part: Component<'_>| matches!(part.as_os_str().to_str(), Some("__pycache__" | ".cache"));
    path.components().any(named) || path.extension().is_some_and(|extension| extension == "pyc")
}
