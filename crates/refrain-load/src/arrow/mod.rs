//! Parquet and Arrow IPC: record batches as rows of COPY's text format.

mod batches;
mod civil;
mod column;
mod nested;
mod number;

use crate::format::Format;
use crate::input::Trail;
use crate::options::{Options, Shape};
use crate::place::Place;
use arrow_array::RecordBatch;
use batches::Batches;
use blake3::Hash;
use column::{Bad, Column};
use refrain_core::{Error, Result};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Bytes of a chunk after which it is handed on.
const CHUNK_BYTES: usize = 128 << 10;

/// A file of record batches on its way to the server.
pub(crate) struct Batched {
    path: PathBuf,
    format: Format,
    batches: Batches,
    trail: Trail,
    columns: Vec<String>,
    forms: Vec<Form>,
    current: Vec<Column>,
    /// Rows of the current batch, and how many of them are done.
    in_batch: usize,
    done: usize,
    rows: u64,
    scratch: Vec<u8>,
    is_over: bool,
}

/// What is known of a column beside its type.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Form {
    pub(crate) shape: Shape,
    /// Sixteen bytes are a UUID.
    pub(crate) is_uuid: bool,
}

impl Batched {
    pub(crate) fn open(path: &Path, format: Format, options: &Options) -> Result<Self> {
        let batches = Batches::open(path, format)?;
        let schema = batches.schema();
        let columns: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let mut seen = HashSet::new();
        if let Some(name) = columns.iter().find(|name| name.is_empty() || !seen.insert(*name)) {
            let what = if name.is_empty() { "a column without a name" } else { "two columns of the same name" };
            return Err(Error::guard(format!("`{}` has {what}: `{name}`", path.display()))
                .hint("give every column a name of its own"));
        }
        let forms: Vec<Form> = columns
            .iter()
            .enumerate()
            .map(|(place, name)| Form { shape: options.shape(name), is_uuid: batches.is_uuid(place) })
            .collect();
        for field in schema.fields() {
            column::check(field.data_type()).map_err(|kind| {
                Error::guard(format!("column `{}` of `{}` is of the type {kind}", field.name(), path.display()))
                    .hint("write it as a type that PostgreSQL has, or as text")
            })?;
        }
        let trail = Trail::open(path).map_err(|error| Error::io(format!("cannot read `{}`", path.display()), error))?;
        let path = path.to_owned();
        let (current, scratch) = (vec![], vec![]);
        Ok(Self {
            path,
            format,
            batches,
            trail,
            columns,
            forms,
            current,
            in_batch: 0,
            done: 0,
            rows: 0,
            scratch,
            is_over: false,
        })
    }

    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    pub(crate) fn rows(&self) -> Option<u64> {
        self.batches.rows().or_else(|| self.is_over.then_some(self.rows))
    }

    pub(crate) fn measured(&self) -> (Hash, u64) {
        self.trail.measured()
    }

    pub(crate) fn next_chunk(&mut self, chunk: &mut Vec<u8>) -> Result<bool> {
        chunk.clear();
        if self.is_over {
            return Ok(false);
        }
        chunk.reserve(CHUNK_BYTES + CHUNK_BYTES / 8);
        while chunk.len() < CHUNK_BYTES {
            if self.done == self.in_batch && !self.next_batch()? {
                self.is_over = true;
                break;
            }
            self.add_rows(chunk)?;
        }
        Ok(true)
    }

    fn next_batch(&mut self) -> Result<bool> {
        self.current.clear();
        let Some(batch) = self.batches.next(&self.path, self.rows)? else {
            self.follow(u64::MAX)?;
            return Ok(false);
        };
        self.follow(self.batches.reached(self.trail.size()))?;
        (self.current, self.in_batch, self.done) = (self.columns_of(&batch), batch.num_rows(), 0);
        Ok(true)
    }

    fn follow(&mut self, place: u64) -> Result<()> {
        let path = &self.path;
        self.trail.follow(place).map_err(|error| Error::io(format!("cannot read `{}`", path.display()), error))
    }

    fn columns_of(&self, batch: &RecordBatch) -> Vec<Column> {
        batch.columns().iter().zip(&self.forms).map(|(array, form)| Column::new(array.as_ref(), *form)).collect()
    }

    /// Adds rows of the current batch until the chunk is full.
    fn add_rows(&mut self, chunk: &mut Vec<u8>) -> Result<()> {
        while self.done < self.in_batch && chunk.len() < CHUNK_BYTES {
            for (place, column) in self.current.iter().enumerate() {
                if place > 0 {
                    chunk.push(b'\t');
                }
                column.field(self.done, chunk, &mut self.scratch).map_err(|bad| self.refuse(place, bad))?;
            }
            chunk.push(b'\n');
            self.done += 1;
            self.rows += 1;
        }
        Ok(())
    }

    fn refuse(&self, place: usize, bad: Bad) -> Error {
        let (path, name) = (self.path.display(), &self.columns[place]);
        Error::guard(format!("row {} of `{path}`, column `{name}`: {bad}", self.rows + 1))
    }

    /// The server's lines are the rows.
    pub(crate) fn explain(&self, server_line: u64, column: Option<&str>) -> Place {
        let place = Place { row: server_line, column: column.map(str::to_owned), ..Place::default() };
        let index = self.columns.iter().position(|name| Some(name.as_str()) == column);
        let value = index.and_then(|index| {
            let mut batches = Batches::open(&self.path, self.format).ok()?;
            let (batch, row) = batches.row(&self.path, server_line.checked_sub(1)?)?;
            let column = Column::new(batch.column(index).as_ref(), self.forms[index]);
            let mut text = vec![];
            column.shown(row, &mut text).then(|| String::from_utf8_lossy(&text).into_owned())
        });
        match value {
            Some(value) => place.with_value(&value),
            None => place,
        }
    }
}
