//! CSV and TSV: passed on as they are.
//!
//! What is done with every byte is what vectorised search does at many bytes a cycle; fields are the server's business.

mod header;
mod records;

use crate::dialect::Dialect;
use crate::format::Format;
use crate::input::{Input, unreadable};
use crate::options::Options;
use crate::place::Place;
use header::Header;
use memchr::{memchr, memchr_iter, memchr2_iter, memmem, memrchr};
use refrain_core::{Error, Result};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a chunk, at most.
const CHUNK_BYTES: usize = 256 << 10;

/// The start of a line is kept for the next chunk up to this size.
const TAIL_BYTES: usize = 64 << 10;

/// The mark at which servers before version 18 stop reading, also in CSV.
const END_MARK: &[u8] = b"\\.";

const QUOTE: u8 = b'"';

/// A CSV or TSV file on its way to the server.
pub(crate) struct Delimited {
    path: PathBuf,
    input: Input,
    dialect: Dialect,
    delimiter: u8,
    columns: Vec<String>,
    /// What ends a line: a line feed, perhaps behind a carriage return; a lone carriage return in files of old.
    line_end: u8,
    /// What was read and not handed on.
    rest: Vec<u8>,
    /// What is known of all that was handed on.
    seen: Seen,
    is_over: bool,
}

/// What the server makes of what was handed on.
struct Seen {
    is_in_quotes: bool,
    is_at_line_start: bool,
    lines: u64,
    records: u64,
}

impl Delimited {
    pub(crate) fn open(path: &Path, format: Format, options: &Options) -> Result<Self> {
        let (delimiter, null) = spelling(format, options)?;
        let mut input = Input::open(path)?;
        let Header { columns, line_end, read } = header::read(path, &mut input, delimiter)?;
        Ok(Self {
            path: path.to_owned(),
            input,
            dialect: Dialect::Csv { delimiter: char::from(delimiter), null },
            delimiter,
            columns,
            line_end,
            rest: read,
            seen: Seen { is_in_quotes: false, is_at_line_start: true, lines: 0, records: 0 },
            is_over: false,
        })
    }

    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect.clone()
    }

    pub(crate) fn input(&self) -> &Input {
        &self.input
    }

    /// The records without the header, once all was handed on.
    pub(crate) fn rows(&self) -> Option<u64> {
        self.is_over.then(|| self.seen.records.saturating_sub(1))
    }

    pub(crate) fn next_chunk(&mut self, chunk: &mut Vec<u8>) -> Result<bool> {
        chunk.clear();
        if self.is_over {
            return Ok(false);
        }
        chunk.reserve(CHUNK_BYTES);
        chunk.append(&mut self.rest);
        let wanted = CHUNK_BYTES.saturating_sub(chunk.len()).max(TAIL_BYTES) as u64;
        let read = self.input.by_ref().take(wanted).read_to_end(chunk);
        self.is_over = (read.map_err(|error| unreadable(&self.path, error))? as u64) < wanted;
        if !self.is_over {
            self.keep_tail(chunk);
        }
        self.check_text(chunk)?;
        self.disarm_end_marks(chunk);
        self.seen.take(chunk, self.line_end);
        if self.is_over && !self.seen.is_at_line_start {
            self.seen.records += 1;
        }
        Ok(true)
    }

    pub(crate) fn explain(&self, server_line: u64, column: Option<&str>) -> Place {
        records::find(&self.path, self.delimiter, server_line, column, &self.columns)
            .unwrap_or_else(|| Place { row: server_line.saturating_sub(1), ..Place::default() })
    }

    /// Keeps the last line for the next chunk if its end is not there yet; of a very long one no more than a character.
    fn keep_tail(&mut self, chunk: &mut Vec<u8>) {
        let start = memrchr(self.line_end, chunk).map_or(0, |end| end + 1);
        let start = if chunk.len() - start <= TAIL_BYTES {
            start
        } else {
            let last = &chunk[chunk.len() - 4..];
            let boundary = (1..=4).find(|back| last[4 - back] & 0xc0 != 0x80);
            chunk.len() - boundary.filter(|back| std::str::from_utf8(&last[4 - back..]).is_err()).unwrap_or(0)
        };
        self.rest.extend_from_slice(&chunk[start..]);
        chunk.truncate(start);
    }

    /// Refuses what a text of PostgreSQL cannot hold, and names the line, as editors count.
    fn check_text(&self, chunk: &[u8]) -> Result<()> {
        let (place, what) = match (memchr(0, chunk), std::str::from_utf8(chunk)) {
            (None, Ok(_)) => return Ok(()),
            (Some(place), _) => (place, "has a NUL byte".to_owned()),
            (None, Err(error)) => {
                (error.valid_up_to(), format!("is not UTF-8: it has the byte 0x{:02x}", chunk[error.valid_up_to()]))
            }
        };
        let line = self.seen.lines + memchr_iter(self.line_end, &chunk[..place]).count() as u64 + 1;
        Err(Error::guard(format!("line {line} of `{}` {what}", self.path.display()))
            .hint("write the file in UTF-8; `iconv -f LATIN1 -t UTF-8` converts one"))
    }

    /// Quotes fields that are the end mark of COPY and the only ones of their line, for quoted they are data to every server.
    fn disarm_end_marks(&self, chunk: &mut Vec<u8>) {
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let marks = memmem::find_iter(chunk, END_MARK).filter(|&mark| {
            let follows = if mark == 0 { self.seen.is_at_line_start } else { is_end(&chunk[mark - 1]) };
            let ends = chunk.get(mark + END_MARK.len()).map_or(self.is_over, is_end);
            let is_quoted = || self.seen.is_in_quotes ^ (memchr_iter(QUOTE, &chunk[..mark]).count() % 2 == 1);
            follows && ends && !is_quoted()
        });
        let marks: Vec<usize> = marks.collect();
        if marks.is_empty() {
            return;
        }
        let mut quoted = Vec::with_capacity(chunk.len() + 2 * marks.len());
        let mut start = 0;
        for mark in marks {
            quoted.extend_from_slice(&chunk[start..mark]);
            quoted.extend_from_slice(b"\"\\.\"");
            start = mark + END_MARK.len();
        }
        quoted.extend_from_slice(&chunk[start..]);
        *chunk = quoted;
    }
}

impl Seen {
    /// Counts lines and records. A quote within quotes is doubled, so that being between quotes is a matter of even and odd.
    fn take(&mut self, chunk: &[u8], line_end: u8) {
        let ends = memchr_iter(line_end, chunk).count() as u64;
        self.lines += ends;
        if memchr(QUOTE, chunk).is_none() {
            self.records += if self.is_in_quotes { 0 } else { ends };
        } else {
            for place in memchr2_iter(QUOTE, line_end, chunk) {
                if chunk[place] == QUOTE {
                    self.is_in_quotes = !self.is_in_quotes;
                } else if !self.is_in_quotes {
                    self.records += 1;
                }
            }
        }
        if let Some(last) = chunk.last() {
            self.is_at_line_start = *last == line_end && !self.is_in_quotes;
        }
    }
}

/// The delimiter and the text of NULL, as COPY allows them.
fn spelling(format: Format, options: &Options) -> Result<(u8, String)> {
    let delimiter = options.delimiter.unwrap_or(if format == Format::Tsv { '\t' } else { ',' });
    let byte =
        u8::try_from(delimiter).ok().filter(|byte| byte.is_ascii() && !matches!(*byte, 0 | b'\n' | b'\r' | QUOTE));
    let Some(byte) = byte else {
        return Err(Error::invalid(format!("{delimiter:?} cannot stand between fields"))
            .hint("name one ASCII character, such as \";\" or \"|\""));
    };
    let null = options.null.clone().unwrap_or_default();
    let is_odd = |c: char| matches!(c, '\0' | '\n' | '\r' | '"') || c == delimiter;
    if null.contains(is_odd) || null.as_bytes() == END_MARK {
        return Err(Error::invalid(format!("{null:?} cannot stand for NULL"))
            .hint("name a text without line ends, quotes and the delimiter, such as \"NA\""));
    }
    Ok((byte, null))
}
