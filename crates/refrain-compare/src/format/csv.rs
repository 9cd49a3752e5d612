//! Comma-separated values, with whatever delimiter.

use super::{Collector, ROW_BYTES};
use crate::error::Error;
use crate::options::Options;
use crate::rows::{Column, Stop, Table, Visit, Want};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 256 << 10;
const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];
const MARK: &[u8] = b"\xef\xbb\xbf";

/// A CSV file.
pub(crate) struct CsvTable {
    path: PathBuf,
    pub(crate) delimiter: u8,
    has_header: bool,
    columns: Vec<Column>,
}

/// Opens both sides, which have a header both or none; nothing when one of them has no rows of equal length.
pub(crate) fn open_pair(left: &Path, right: &Path, options: &Options) -> Result<Option<(CsvTable, CsvTable)>, Error> {
    let heads = (head(left)?, head(right)?);
    let (Some(delimiter_left), Some(delimiter_right)) = (delimiter(&heads.0), delimiter(&heads.1)) else {
        return Ok(None);
    };
    let first = |head: &[u8], delimiter| records(head, delimiter, true).into_iter().next().unwrap_or_default();
    let (first_left, first_right) = (first(&heads.0, delimiter_left), first(&heads.1, delimiter_right));
    let has_header = options.csv_header.unwrap_or_else(|| {
        let names: HashSet<_> = first_left.iter().collect();
        let shared = first_right.iter().filter(|name| names.contains(name)).count();
        let is_one_empty = first_left.is_empty() != first_right.is_empty();
        let shares_most = is_one_empty || shared * 2 >= first_left.len().min(first_right.len()).max(1);
        let looks = |first: &[Vec<u8>]| first.is_empty() || looks_like_header(first);
        looks(&first_left) && looks(&first_right) && shares_most
    });
    let table = |path: &Path, delimiter, first: Vec<Vec<u8>>| {
        let name = |(index, name): (usize, Vec<u8>)| {
            let name =
                String::from_utf8(name).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
            Column { name: if has_header { name } else { format!("{}", index + 1) }, kind: String::new() }
        };
        let columns = first.into_iter().enumerate().map(name).collect();
        CsvTable { path: path.to_owned(), delimiter, has_header, columns }
    };
    Ok(Some((table(left, delimiter_left, first_left), table(right, delimiter_right, first_right))))
}

/// The start of a file, without a byte order mark.
fn head(path: &Path) -> Result<Vec<u8>, Error> {
    let mut head = super::bytes::head(path, BUFFER_BYTES)?;
    if head.starts_with(MARK) {
        head.drain(..MARK.len());
    }
    Ok(head)
}

/// The delimiter under which all records of `head` have the same number of fields, the larger the better.
///
/// A file without any delimiter is one column; nothing when no delimiter fits.
pub(crate) fn delimiter(head: &[u8]) -> Option<u8> {
    let mut best: Option<(usize, u8)> = None;
    let mut is_ragged = false;
    for delimiter in DELIMITERS {
        let records = records(head, delimiter, false);
        let width = records.first().map_or(1, Vec::len);
        let fits = records.iter().all(|record| record.len() == width);
        is_ragged |= !fits;
        if fits && best.is_none_or(|(most, _)| width > most) {
            best = Some((width, delimiter));
        }
    }
    best.filter(|(width, _)| *width > 1 || !is_ragged).map(|(_, delimiter)| delimiter)
}

/// Whether `head` holds several columns of at least three records, whatever the file's name.
pub(crate) fn is_likely(head: &[u8]) -> bool {
    let Some(delimiter) = delimiter(head) else { return false };
    let records = records(head, delimiter, false);
    records.len() >= 3
        && records[0].len() >= 2
        && (delimiter == b'\t' || !records[0].iter().any(|field| field.starts_with(b" ")))
}

fn looks_like_header(first: &[Vec<u8>]) -> bool {
    let mut seen = HashSet::new();
    first.iter().all(|name| {
        let starts_well = name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_' || *byte >= 0x80);
        starts_well && seen.insert(name)
    })
}

/// The complete records of the start of a file; with `only_first` no more than one, complete or not.
fn records(head: &[u8], delimiter: u8, only_first: bool) -> Vec<Vec<Vec<u8>>> {
    let mut reader = builder(delimiter);
    let (mut output, mut ends) = (vec![0; head.len() + 1], vec![0; head.len() + 2]);
    let (mut found, mut rest) = (vec![], head);
    // A head that fills the buffer may end within a record, which then says nothing about the number of fields.
    let is_cut = head.len() + MARK.len() >= BUFFER_BYTES;
    let (mut written, mut ended) = (0, 0);
    loop {
        let (result, read, wrote, fields) = reader.read_record(rest, &mut output[written..], &mut ends[ended..]);
        let was_at_end = rest.is_empty();
        rest = &rest[read..];
        written += wrote;
        ended += fields;
        match result {
            ReadRecordResult::Record => {
                if !(was_at_end && is_cut && !only_first) {
                    found.push(split(&output[..written], &ends[..ended]));
                }
                (written, ended) = (0, 0);
                if only_first || found.len() > 1000 {
                    return found;
                }
            }
            ReadRecordResult::InputEmpty => {}
            ReadRecordResult::End | ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => return found,
        }
    }
}

fn split(output: &[u8], ends: &[usize]) -> Vec<Vec<u8>> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(|(start, end)| output[start..*end].to_vec()).collect()
}

fn builder(delimiter: u8) -> Reader {
    ReaderBuilder::new().delimiter(delimiter).build()
}

impl Table for CsvTable {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn scan(&self, want: Want, visit: &mut Visit<'_>) -> Result<(), Stop> {
        let mut file = File::open(&self.path).map_err(Error::read(&self.path))?;
        let mut rows = Rows { table: self, collector: Collector::new(want, self.columns.len()), number: 0 };
        let mut reader = builder(self.delimiter);
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut record = vec![0; 64 << 10];
        let mut ends = vec![0; self.columns.len() + 16];
        let (mut written, mut ended) = (0, 0);
        let mut is_start = true;
        loop {
            let count = file.read(&mut buffer).map_err(Error::read(&self.path))?;
            let mut input = &buffer[..count];
            if std::mem::take(&mut is_start) {
                input = input.strip_prefix(MARK).unwrap_or(input);
            }
            let is_end = count == 0;
            loop {
                let (result, read, wrote, fields) =
                    reader.read_record(input, &mut record[written..], &mut ends[ended..]);
                input = &input[read..];
                written += wrote;
                ended += fields;
                match result {
                    ReadRecordResult::InputEmpty => break,
                    ReadRecordResult::OutputFull if record.len() < ROW_BYTES => record.resize(record.len() * 2, 0),
                    ReadRecordResult::OutputFull => return Err(too_long(rows.number)),
                    ReadRecordResult::OutputEndsFull if ends.len() <= self.columns.len() + 16 => {
                        ends.resize(ends.len() * 2, 0);
                    }
                    ReadRecordResult::OutputEndsFull => return Err(rows.ragged(ends.len())),
                    ReadRecordResult::Record => {
                        let flow = rows.take(&record[..written], &ends[..ended], visit)?;
                        (written, ended) = (0, 0);
                        if flow.is_break() {
                            return Ok(());
                        }
                    }
                    ReadRecordResult::End => return rows.finish(visit),
                }
                if input.is_empty() && !is_end {
                    break;
                }
            }
        }
    }
}

fn too_long(number: u64) -> Stop {
    Stop::Broken(format!("record {} is longer than {} MiB", number + 1, ROW_BYTES >> 20))
}

/// The rows of one scan.
struct Rows<'a> {
    table: &'a CsvTable,
    collector: Collector,
    number: u64,
}

impl Rows<'_> {
    fn take(&mut self, record: &[u8], ends: &[usize], visit: &mut Visit<'_>) -> Result<ControlFlow<()>, Stop> {
        self.number += 1;
        if ends.len() != self.table.columns.len() {
            return Err(self.ragged(ends.len()));
        }
        if self.number == 1 && self.table.has_header {
            return Ok(ControlFlow::Continue(()));
        }
        let mut start = 0;
        for &end in ends {
            self.collector.cell(&record[start..end]);
            start = end;
        }
        if self.collector.end_row() { visit(self.collector.take()) } else { Ok(ControlFlow::Continue(())) }
    }

    fn ragged(&self, fields: usize) -> Stop {
        Stop::Broken(format!("record {} has {fields} fields, the first has {}", self.number, self.table.columns.len()))
    }

    fn finish(mut self, visit: &mut Visit<'_>) -> Result<(), Stop> {
        visit(self.collector.take()).map(|_| ())
    }
}
