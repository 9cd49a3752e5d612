//! A staged file as a source of chunks for COPY.

use crate::arrow::Batched;
use crate::delimited::Delimited;
use crate::dialect::Dialect;
use crate::format::Format;
use crate::json_lines::JsonLines;
use crate::options::Options;
use crate::place::Place;
use blake3::Hash;
use refrain_core::Result;
use std::path::Path;

/// A file on its way to the server.
pub struct Source {
    reader: Reader,
}

enum Reader {
    Delimited(Box<Delimited>),
    JsonLines(Box<JsonLines>),
    Batched(Box<Batched>),
}

/// Opens a staged file. JSON Lines are read through once to find their keys.
///
/// # Errors
/// - `guard`: the file is not what `format` says, has no header, names a column twice, or is damaged.
/// - `invalid`: the options are such as COPY cannot take.
/// - `internal`: it cannot be read.
pub fn open(path: impl AsRef<Path>, format: Format, options: &Options) -> Result<Source> {
    let path = path.as_ref();
    let reader = match format {
        Format::Csv | Format::Tsv => Reader::Delimited(Box::new(Delimited::open(path, format, options)?)),
        Format::JsonLines => Reader::JsonLines(Box::new(JsonLines::open(path, options)?)),
        Format::Parquet | Format::ArrowIpc => Reader::Batched(Box::new(Batched::open(path, format, options)?)),
    };
    Ok(Source { reader })
}

impl Source {
    /// The names of the columns: of the header, of the schema, or the keys of all objects. None when JSON Lines have no object.
    pub fn columns(&self) -> &[String] {
        match &self.reader {
            Reader::Delimited(file) => file.columns(),
            Reader::JsonLines(file) => file.columns(),
            Reader::Batched(file) => file.columns(),
        }
    }

    /// What stands behind `COPY t (columns) FROM STDIN`, the columns in the order of [`columns`](Self::columns).
    pub fn dialect(&self) -> Dialect {
        match &self.reader {
            Reader::Delimited(file) => file.dialect(),
            Reader::JsonLines(_) | Reader::Batched(_) => Dialect::Text,
        }
    }

    /// Replaces `chunk` with the next bytes, 256 KiB or, when a row is larger than that, the row; they may be none. False: that
    /// was all. A `chunk` that is taken away and replaced by an empty one is as good as the same one again.
    ///
    /// # Errors
    /// - `guard`: a row that cannot be loaded, named by its line or number; the file is damaged. What was sent must not be kept.
    /// - `internal`: the file cannot be read.
    pub fn next_chunk(&mut self, chunk: &mut Vec<u8>) -> Result<bool> {
        match &mut self.reader {
            Reader::Delimited(file) => file.next_chunk(chunk),
            Reader::JsonLines(file) => file.next_chunk(chunk),
            Reader::Batched(file) => file.next_chunk(chunk),
        }
    }

    /// The BLAKE3 digest of the file's bytes, packed as they are. Of the whole file only after [`next_chunk`](Self::next_chunk)
    /// said that it was all.
    pub fn digest(&self) -> Hash {
        self.measured().0
    }

    /// The size of the file in bytes, under the same condition.
    pub fn bytes(&self) -> u64 {
        self.measured().1
    }

    fn measured(&self) -> (Hash, u64) {
        match &self.reader {
            Reader::Delimited(file) => file.input().measured(),
            Reader::JsonLines(file) => file.input().measured(),
            Reader::Batched(file) => file.measured(),
        }
    }

    /// The number of rows: of Parquet and JSON Lines at once, of the others after the last chunk. The number that the server's COPY
    /// answers must be the same: otherwise it has read the file in another way.
    pub fn rows(&self) -> Option<u64> {
        match &self.reader {
            Reader::Delimited(file) => file.rows(),
            Reader::JsonLines(file) => Some(file.rows()),
            Reader::Batched(file) => file.rows(),
        }
    }

    /// Where in the file the line stands that the server named in the context of an error, and what stands there. Reads the
    /// file again. What cannot be found is left out.
    pub fn explain(&self, server_line: u64, column: Option<&str>) -> Place {
        match &self.reader {
            Reader::Delimited(file) => file.explain(server_line, column),
            Reader::JsonLines(file) => file.explain(server_line, column),
            Reader::Batched(file) => file.explain(server_line, column),
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("columns", &self.columns()).field("rows", &self.rows()).finish_non_exhaustive()
    }
}
