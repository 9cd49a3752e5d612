//! Compares two outputs of the same task, typed, and says why they differ.
//!
//! Two executions of a repeatable task write the same content. When they do not, a pair of checksums says no more than
//! "differs"; this crate says *which* rows and columns differ and what the difference looks like: a wall-clock time, a
//! random UUID, the time in a gzip header, another order of the same rows, the last digits of a sum.
//!
//! It reads CSV and TSV, JSON Lines and JSON, Parquet, SQLite databases, text, and gzip, zstd, bzip2, xz, zip and tar
//! around them, by their content first and by their name second. Memory is bounded: files are read as streams, rows are
//! hashed, and what does not fit goes to temporary files.
//!
//! ```no_run
//! use refrain_compare::{Known, Options, compare};
//! use std::path::Path;
//!
//! # fn main() -> Result<(), refrain_compare::Error> {
//! let known = vec![Known::new("the staging path", "/home/a/.refrain/staging/1", "/home/a/.refrain/staging/2")];
//! let comparison = compare(Path::new("first"), Path::new("second"), &Options { known, ..Options::default() })?;
//! for (file, finding) in comparison.findings() {
//!     println!("{}: {finding}", file.name());
//! }
//! # Ok(())
//! # }
//! ```

mod archive;
mod error;
mod file;
mod format;
mod names;
mod options;
mod report;
mod rows;
mod story;
mod tree;
mod unpack;

pub use error::{Error, Result};
pub use options::{Known, Options};
pub use report::{Cause, Comparison, Example, FileComparison, Finding, FindingKind, Format, Verdict};

use std::path::Path;

/// How far apart two numbers may be, relative to the larger one, to be called noise: sums of floating-point numbers in
/// another order, other versions of a mathematical library.
pub const NOISE: f64 = 1e-9;

/// Compares two files or two directory trees.
///
/// Symbolic links inside a tree are compared as links and never followed. A broken file is a finding, not an error: it
/// is said to be broken and compared as bytes.
///
/// # Errors
///
/// [`Error::Read`] when a side cannot be read at all, [`Error::Temporary`] when there is no room to unpack or to spill.
///
/// # Crash safety
///
/// Writes only below [`Options::temporary`]; the outputs are opened for reading. A crash may leave a directory
/// `refrain-compare-*` there, which nothing needs.
pub fn compare(left: &Path, right: &Path, options: &Options) -> Result<Comparison> {
    tree::compare(left, right, options)
}
