//! The lines of a file that are not blank.

use crate::input::{Input, unreadable};
use refrain_core::{Error, Result};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// A row of more bytes is refused, so that memory has a bound.
const MOST_BYTES: usize = 16 << 20;

/// A reader of lines.
pub(super) struct Lines {
    path: PathBuf,
    reader: BufReader<Input>,
    line: String,
    number: u64,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let reader = BufReader::with_capacity(256 << 10, Input::open(path)?);
        Ok(Self { path: path.to_owned(), reader, line: String::new(), number: 0 })
    }

    /// Goes to the next line with something on it; false at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        loop {
            let mut line = std::mem::take(&mut self.line).into_bytes();
            line.clear();
            let mut limited = self.reader.by_ref().take(MOST_BYTES as u64 + 1);
            let count = limited.read_until(b'\n', &mut line).map_err(|error| unreadable(&self.path, error))?;
            if count == 0 {
                return Ok(false);
            }
            self.number += 1;
            if count > MOST_BYTES {
                return Err(bad(&self.path, self.number, "it is longer than 16 MiB"));
            }
            if self.number == 1 && line.starts_with(b"\xef\xbb\xbf") {
                line.drain(..3);
            }
            self.line = String::from_utf8(line).map_err(|error| {
                let byte = error.as_bytes()[error.utf8_error().valid_up_to()];
                bad(&self.path, self.number, &format!("it is not UTF-8: it has the byte 0x{byte:02x}"))
            })?;
            if !self.line.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    /// The line without spaces around it.
    pub(super) fn current(&self) -> &str {
        self.line.trim_ascii()
    }

    /// Its number, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn input(&self) -> &Input {
        self.reader.get_ref()
    }
}

/// The error for a line that is no row.
pub(super) fn bad(path: &Path, number: u64, reason: &str) -> Error {
    Error::guard(format!("line {number} of `{}` is no row: {reason}", path.display()))
}
