//! The first record of a file: the names of its columns.

use super::QUOTE;
use crate::input::{Input, unreadable};
use csv_core::{ReadRecordResult, ReaderBuilder};
use memchr::memchr3_iter;
use refrain_core::{Error, Result};
use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

const MOST_BYTES: usize = 1 << 20;
const BLOCK_BYTES: u64 = 64 << 10;
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The header, and all that was read to find it.
pub(super) struct Header {
    pub(super) columns: Vec<String>,
    pub(super) line_end: u8,
    /// The start of the file without a byte order mark.
    pub(super) read: Vec<u8>,
}

/// Reads the header.
pub(super) fn read(path: &Path, input: &mut Input, delimiter: u8) -> Result<Header> {
    let shown = path.display();
    let mut read = vec![];
    let end = loop {
        let count = input.by_ref().take(BLOCK_BYTES).read_to_end(&mut read).map_err(|error| unreadable(path, error))?;
        if read.starts_with(MARK) {
            read.drain(..MARK.len());
        }
        if read.starts_with(b"\xff\xfe") || read.starts_with(b"\xfe\xff") {
            return Err(Error::guard(format!("`{shown}` is UTF-16"))
                .hint("write the file in UTF-8; `iconv -f UTF-16 -t UTF-8` converts one"));
        }
        let is_over = (count as u64) < BLOCK_BYTES;
        match end_of_record(&read, is_over) {
            Some(end) => break end,
            None if is_over => break read.len(),
            None if read.len() > MOST_BYTES => {
                return Err(Error::guard(format!("the header of `{shown}` is longer than 1 MiB"))
                    .hint("look whether its first line has a quote that is not closed"));
            }
            None => {}
        }
    };
    if read.is_empty() {
        return Err(Error::guard(format!("`{shown}` is empty: it has no header"))
            .hint("write the names of the columns as the first line, also when there are no rows"));
    }
    let columns = names(&read[..end], delimiter).ok_or_else(|| {
        Error::guard(format!("the first line of `{shown}` is no header in UTF-8"))
            .hint("write the names of the columns as the first line")
    })?;
    check(&columns, path)?;
    let line_end = if read[..end].ends_with(b"\r") { b'\r' } else { b'\n' };
    Ok(Header { columns, line_end, read })
}

/// The end of the first record, behind its line end; nothing when more must be read to know it.
fn end_of_record(read: &[u8], is_over: bool) -> Option<usize> {
    let mut is_in_quotes = false;
    for place in memchr3_iter(QUOTE, b'\n', b'\r', read) {
        match read[place] {
            QUOTE => is_in_quotes = !is_in_quotes,
            _ if is_in_quotes => {}
            b'\n' => return Some(place + 1),
            _ => match read.get(place + 1) {
                Some(b'\n') => return Some(place + 2),
                None if !is_over => return None,
                _ => return Some(place + 1),
            },
        }
    }
    None
}

/// The fields of one record; nothing when it has none or is no text.
fn names(record: &[u8], delimiter: u8) -> Option<Vec<String>> {
    let mut reader = ReaderBuilder::new().delimiter(delimiter).build();
    let (mut text, mut ends) = (vec![0; record.len() + 1], vec![0; record.len() + 1]);
    let (mut input, mut written, mut fields) = (record, 0, 0);
    loop {
        let (result, read, wrote, ended) = reader.read_record(input, &mut text[written..], &mut ends[fields..]);
        (input, written, fields) = (&input[read..], written + wrote, fields + ended);
        match result {
            ReadRecordResult::Record => break,
            ReadRecordResult::InputEmpty => {}
            ReadRecordResult::End | ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => return None,
        }
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let names =
        starts.zip(&ends[..fields]).map(|(start, end)| std::str::from_utf8(&text[start..*end]).map(str::to_owned));
    names.collect::<Result<_, _>>().ok()
}

fn check(columns: &[String], path: &Path) -> Result<()> {
    let shown = path.display();
    if let Some(place) = columns.iter().position(String::is_empty) {
        return Err(Error::guard(format!("column {} of `{shown}` has no name in the header", place + 1))
            .hint("name every column; with pandas, `to_csv(..., index=False)`"));
    }
    let mut seen = HashSet::new();
    match columns.iter().find(|name| !seen.insert(*name)) {
        Some(name) => Err(Error::guard(format!("the header of `{shown}` has the column `{name}` twice"))
            .hint("give every column a name of its own")),
        None => Ok(()),
    }
}

/// The text of one field of a record; nothing when it is not there.
pub(super) fn field(record: &[u8], delimiter: u8, index: usize) -> Option<String> {
    names(&[record, b"\n"].concat(), delimiter)?.into_iter().nth(index)
}
