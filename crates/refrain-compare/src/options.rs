//! What the caller knows and allows.

use crate::error::{Error, Result};
use crate::story::Background;
use std::io;
use std::path::PathBuf;
use tempfile::TempDir;

/// Something that is known to differ between the two sides, such as the paths of the two stagings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// What it is, as it stands in a sentence: `the staging path`, `the attempt's id`.
    pub what: String,
    /// How it reads on the left side.
    pub left: String,
    /// How it reads on the right side.
    pub right: String,
}

impl Known {
    /// Two readings of the same thing.
    pub fn new(what: impl Into<String>, left: impl Into<String>, right: impl Into<String>) -> Self {
        Self { what: what.into(), left: left.into(), right: right.into() }
    }
}

/// How to compare.
#[derive(Clone, Debug)]
pub struct Options {
    /// Strings that may have leaked into the outputs.
    pub known: Vec<Known>,
    /// The name of the machine that wrote the outputs, when it may have leaked.
    pub host_name: Option<String>,
    /// Differences of numbers up to this relative size count as the same content. `None`, the default, accepts none:
    /// noise is named, and it is a difference.
    pub tolerance: Option<f64>,
    /// Whether the first row of a CSV file has the names of the columns. `None`: it is looked at.
    pub csv_header: Option<bool>,
    /// The names that the outputs have for their readers, when `compare` is given two single files whose own names say
    /// nothing about what they hold.
    pub name: Option<String>,
    /// Where large comparisons spill and archives are unpacked; the system's directory for temporary files by default.
    /// Nothing stays there.
    pub temporary: Option<PathBuf>,
    /// Memory for the hashes of rows, in bytes; more rows than that go to temporary files.
    pub memory_bytes: usize,
    /// How many bytes one file may unpack to; more is compared as a stream of bytes.
    pub unpack_bytes: u64,
    /// How many differing values a finding shows.
    pub examples: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            known: vec![],
            host_name: None,
            tolerance: None,
            csv_header: None,
            name: None,
            temporary: None,
            memory_bytes: 128 << 20,
            unpack_bytes: 8 << 30,
            examples: 3,
        }
    }
}

impl Options {
    pub(crate) fn background(&self) -> Background<'_> {
        Background { known: &self.known, host_name: self.host_name.as_deref(), examples: self.examples }
    }

    /// A fresh directory that goes when it is dropped.
    pub(crate) fn scratch(&self) -> Result<TempDir> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("refrain-compare-");
        let made = match &self.temporary {
            Some(directory) => builder.tempdir_in(directory),
            None => builder.tempdir(),
        };
        made.map_err(|source| Error::Temporary { directory: self.temporary.clone(), source })
    }

    /// An error of the directory for temporary files.
    pub(crate) fn no_room(&self) -> impl Fn(io::Error) -> Error {
        let directory = self.temporary.clone();
        move |source| Error::Temporary { directory: directory.clone(), source }
    }
}
