//! The record that a server means by a line number.
//!
//! A server counts records, and the line ends within quotes only where they are of the kind that it has seen first: a file with
//! CR LF between its records and a lone LF within a field has more lines to an editor than to the server. Before the first record has
//! ended it counts carriage returns. Source: `CopyReadLineText` in PostgreSQL's `copyfromparse.c`.

use super::{QUOTE, header};
use crate::input::Input;
use crate::place::Place;
use std::io::Read;
use std::path::Path;

/// Bytes of a record that are kept to find a value in.
const KEPT_BYTES: usize = 1 << 20;

/// Finds a server's line in a file; nothing when it is not there or the file cannot be read any more.
pub(super) fn find(
    path: &Path,
    delimiter: u8,
    server_line: u64,
    column: Option<&str>,
    columns: &[String],
) -> Option<Place> {
    let mut input = Input::open(path).ok()?;
    let mut buffer = vec![0; 256 << 10];
    let mut count =
        Count { ends: Ends::Unknown, is_in_quotes: false, server: 1, line: 1, before: 0, row: 0, begins: 1 };
    let mut record = vec![];
    loop {
        let read = input.read(&mut buffer).ok()?;
        for byte in &buffer[..read] {
            let ended = count.take(*byte);
            if ended && count.server > server_line {
                return Some(place(&count, &record, delimiter, column, columns));
            }
            if ended {
                count.begin();
                record.clear();
            } else if record.len() < KEPT_BYTES {
                record.push(*byte);
            }
        }
        if read == 0 {
            return (!record.is_empty()).then(|| place(&count, &record, delimiter, column, columns));
        }
    }
}

fn place(count: &Count, record: &[u8], delimiter: u8, column: Option<&str>, columns: &[String]) -> Place {
    let place = Place { line: Some(count.begins), row: count.row, column: column.map(str::to_owned), value: None };
    let index = columns.iter().position(|name| Some(name.as_str()) == column);
    match index.and_then(|index| header::field(record, delimiter, index)) {
        Some(value) => place.with_value(&value),
        None => place,
    }
}

/// Which line ends the server has seen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Unknown,
    Lf,
    Cr,
    CrLf,
}

/// The numbers of the record that is being read.
struct Count {
    ends: Ends,
    is_in_quotes: bool,
    /// The server's number of the line.
    server: u64,
    /// An editor's.
    line: u64,
    before: u8,
    /// The record, from zero: the header is the first.
    row: u64,
    /// The line on which the record begins.
    begins: u64,
}

impl Count {
    /// Takes a byte; true when it ends a record, and then the server is at the next line.
    fn take(&mut self, byte: u8) -> bool {
        let before = std::mem::replace(&mut self.before, byte);
        let is_pair = byte == b'\n' && before == b'\r';
        if matches!(byte, b'\n' | b'\r') && !is_pair {
            self.line += 1;
        }
        if is_pair && self.ends == Ends::Cr && !self.is_in_quotes {
            self.ends = Ends::CrLf;
            self.begins = self.line;
            return false;
        }
        match byte {
            QUOTE => self.is_in_quotes = !self.is_in_quotes,
            b'\n' | b'\r' if self.is_in_quotes => {
                let counted = if self.ends == Ends::Lf { b'\n' } else { b'\r' };
                self.server += u64::from(byte == counted);
            }
            b'\r' if self.ends == Ends::Unknown => {
                self.ends = Ends::Cr;
                self.server += 1;
                return true;
            }
            b'\n' if self.ends == Ends::Unknown => {
                self.ends = Ends::Lf;
                self.server += 1;
                return true;
            }
            b'\n' if self.ends == Ends::Lf || (self.ends == Ends::CrLf && is_pair) => {
                self.server += 1;
                return true;
            }
            b'\r' if self.ends == Ends::Cr => {
                self.server += 1;
                return true;
            }
            _ => {}
        }
        false
    }

    fn begin(&mut self) {
        self.row += 1;
        self.begins = self.line;
    }
}
