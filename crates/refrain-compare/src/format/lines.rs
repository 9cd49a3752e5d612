//! Text as a table of lines with one column.

use super::{Collector, ROW_BYTES};
use crate::error::Error;
use crate::rows::{Column, Stop, Table, Visit, Want};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The lines of a file, without their ends.
pub(crate) struct Lines {
    path: PathBuf,
    columns: [Column; 1],
}

impl Lines {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), columns: [Column { name: "line".to_owned(), kind: String::new() }] }
    }
}

/// Calls `visit` for each line without its end; false ends it.
pub(crate) fn each(path: &Path, mut visit: impl FnMut(&[u8]) -> Result<bool, Stop>) -> Result<(), Stop> {
    let file = File::open(path).map_err(Error::read(path))?;
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let mut line = vec![];
    let mut number = 0_u64;
    loop {
        line.clear();
        number += 1;
        let mut limited = reader.by_ref().take(ROW_BYTES as u64 + 1);
        let count = limited.read_until(b'\n', &mut line).map_err(Error::read(path))?;
        if count == 0 {
            return Ok(());
        }
        if count > ROW_BYTES {
            return Err(Stop::Broken(format!("line {number} is longer than {} MiB", ROW_BYTES >> 20)));
        }
        let mut text = line.strip_suffix(b"\n").unwrap_or(&line);
        text = text.strip_suffix(b"\r").unwrap_or(text);
        if number == 1 {
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        if !visit(text)? {
            return Ok(());
        }
    }
}

impl Table for Lines {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn scan(&self, want: Want, visit: &mut Visit<'_>) -> Result<(), Stop> {
        let mut collector = Collector::new(want, 1);
        let mut is_over = false;
        each(&self.path, |line| {
            collector.cell(line);
            is_over = collector.end_row() && visit(collector.take())?.is_break();
            Ok(!is_over)
        })?;
        if is_over { Ok(()) } else { visit(collector.take()).map(|_| ()) }
    }
}
