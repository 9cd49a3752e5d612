//! Sorting more keys than fit into memory: sorted runs in temporary files, merged as they are read.

use crate::error::Error;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// A key, the number of its row, and what else belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) key: u128,
    pub(super) row: u64,
    pub(super) extra: Vec<u64>,
}

/// Takes records in the order of their rows and gives them back by key, then by row.
pub(super) struct Sorter<'a> {
    keys: Vec<(u128, u64, usize)>,
    extra: Vec<u64>,
    width: usize,
    most: usize,
    directory: Option<&'a Path>,
    runs: Vec<File>,
}

impl<'a> Sorter<'a> {
    /// A sorter of records with `width` extra numbers, which keeps at most `memory_bytes` of them in memory.
    pub(super) fn new(width: usize, memory_bytes: usize, directory: Option<&'a Path>) -> Self {
        let record = size_of::<(u128, u64, usize)>() + width * size_of::<u64>();
        let most = (memory_bytes / record).max(1024);
        Self { keys: vec![], extra: vec![], width, most, directory, runs: vec![] }
    }

    pub(super) fn push(&mut self, key: u128, row: u64, extra: impl Iterator<Item = u64>) -> Result<(), Error> {
        if self.keys.len() >= self.most {
            self.spill().map_err(|source| self.failed(source))?;
        }
        self.keys.push((key, row, self.keys.len()));
        self.extra.extend(extra);
        Ok(())
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Temporary { directory: self.directory.map(PathBuf::from), source }
    }

    fn spill(&mut self) -> io::Result<()> {
        self.keys.sort_unstable();
        let file = match self.directory {
            Some(directory) => tempfile::tempfile_in(directory)?,
            None => tempfile::tempfile()?,
        };
        let mut writer = BufWriter::with_capacity(1 << 18, file);
        for &(key, row, place) in &self.keys {
            writer.write_all(&key.to_le_bytes())?;
            writer.write_all(&row.to_le_bytes())?;
            for number in &self.extra[place * self.width..(place + 1) * self.width] {
                writer.write_all(&number.to_le_bytes())?;
            }
        }
        let mut file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        self.runs.push(file);
        self.keys.clear();
        self.extra.clear();
        Ok(())
    }

    /// The records in their order.
    pub(super) fn sorted(mut self) -> Result<Sorted, Error> {
        let directory = self.directory.map(PathBuf::from);
        if self.runs.is_empty() {
            self.keys.sort_unstable();
            let memory = Memory { keys: self.keys.into_iter(), extra: self.extra, width: self.width };
            return Ok(Sorted { memory: Some(memory), runs: vec![], directory });
        }
        self.spill().map_err(|source| self.failed(source))?;
        self.keys = vec![];
        self.extra = vec![];
        let width = self.width;
        let mut runs = vec![];
        for file in self.runs {
            let mut run = Run { reader: BufReader::with_capacity(1 << 17, file), head: None, width };
            run.advance().map_err(|source| Error::Temporary { directory: directory.clone(), source })?;
            runs.push(run);
        }
        Ok(Sorted { memory: None, runs, directory })
    }
}

struct Memory {
    keys: std::vec::IntoIter<(u128, u64, usize)>,
    extra: Vec<u64>,
    width: usize,
}

struct Run {
    reader: BufReader<File>,
    head: Option<Record>,
    width: usize,
}

impl Run {
    /// Moves to the next record and returns the one before.
    fn advance(&mut self) -> io::Result<Option<Record>> {
        let mut key = [0; 16];
        let next = match self.reader.read_exact(&mut key) {
            Ok(()) => {
                let row = self.number()?;
                let extra = (0..self.width).map(|_| self.number()).collect::<io::Result<_>>()?;
                Some(Record { key: u128::from_le_bytes(key), row, extra })
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => return Err(error),
        };
        Ok(std::mem::replace(&mut self.head, next))
    }

    fn number(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.reader.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Sorted records, read one by one.
pub(super) struct Sorted {
    memory: Option<Memory>,
    runs: Vec<Run>,
    directory: Option<PathBuf>,
}

impl Sorted {
    pub(super) fn next(&mut self) -> Result<Option<Record>, Error> {
        if let Some(memory) = &mut self.memory {
            return Ok(memory.keys.next().map(|(key, row, place)| {
                let extra = memory.extra[place * memory.width..(place + 1) * memory.width].to_vec();
                Record { key, row, extra }
            }));
        }
        let heads = self.runs.iter_mut().filter(|run| run.head.is_some());
        let first = heads.min_by_key(|run| run.head.as_ref().map(|head| (head.key, head.row)));
        let Some(run) = first else { return Ok(None) };
        run.advance().map_err(|source| Error::Temporary { directory: self.directory.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::Sorter;

    #[test]
    fn spilled_runs_come_back_in_order() {
        let mut sorter = Sorter::new(2, 0, None);
        for row in 0..10_000_u64 {
            sorter.push(u128::from(row * 7919 % 1000), row, [row, row + 1].into_iter()).unwrap();
        }
        let mut records = sorter.sorted().unwrap();
        let mut last = None;
        let mut count = 0;
        while let Some(record) = records.next().unwrap() {
            assert!(last < Some((record.key, record.row)));
            assert_eq!(record.key, u128::from(record.row * 7919 % 1000));
            assert_eq!(record.extra, [record.row, record.row + 1]);
            last = Some((record.key, record.row));
            count += 1;
        }
        assert_eq!(count, 10_000);
    }
}
