//! A staged file as rows for a database.
//!
//! A task writes a file; this crate turns it into what `COPY t (columns) FROM STDIN` takes, chunk by chunk, in bounded memory,
//! and says afterwards where in the *file* a row stands that the server refused. It knows files and PostgreSQL's text formats;
//! it knows no server, no sink, and nothing of what a table should hold.
//!
//! ```text
//! Format::of(path) -> open(path, format, &options) -> Source
//!     columns()      names, to be matched by the caller
//!     dialect()      what stands behind COPY ... FROM STDIN
//!     next_chunk()   until it says false
//!     digest(), bytes(), rows()
//!     explain()      the place in the file of a line that the server named
//! ```
//!
//! # What each format is to the server
//!
//! - **CSV and TSV** are passed on as they are (`FORMAT csv, HEADER true`): the server parses the fields, this crate reads the header
//!   and looks at the rest for what the server would not tell well: bytes that are no UTF-8, NUL bytes, and lines with
//!   nothing but `\.`, at which servers before version 18 stop reading without an error.
//! - **JSON Lines, Parquet and Arrow IPC** become `FORMAT text`.
//!
//! CSV, TSV and JSON Lines may be packed with gzip or zstd, by their first bytes and whatever their name is.
//!
//! # Types
//!
//! Text goes in and the server's input functions decide, so that any target type takes what its text form allows. Numbers keep
//! every digit that the file has. Where one value has two spellings the [`Shape`] of the target column decides: lists are
//! array literals (`{1,2}`) or JSON, binary values are `\x` and hexadecimal digits or text. Times without a zone are written without
//! one, times with a zone in UTC with `+00`: whoever loads the former into `timestamptz` must say which zone the session is in.
//!
//! # Caveats
//!
//! - A record batch of an Arrow IPC file is read whole, so that memory is bounded by the batches that the writer chose.
//! - PostgreSQL keeps microseconds: it rounds nanoseconds that are not a multiple of 1000.
//! - Source of what is said about COPY: <https://www.postgresql.org/docs/current/sql-copy.html>; of `\.`:
//!   <https://www.postgresql.org/docs/18/release-18.html>.

mod array_text;
mod arrow;
mod copy_text;
mod delimited;
mod dialect;
mod format;
mod input;
mod json_lines;
mod options;
mod place;
mod source;

pub use dialect::Dialect;
pub use format::Format;
pub use options::{Options, Shape};
pub use place::{Place, parse_context};
pub use source::{Source, open};
