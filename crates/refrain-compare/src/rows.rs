//! Tables, whatever they are stored in, and the comparison of two of them.
//!
//! A [`Table`] is read from its start as often as is needed and is never held in memory. The path of two tables:
//! `summary` reads each once and keeps sums of hashes, which tell equal tables, equal columns and another order;
//! where that does not settle it, `lockstep` pairs rows by position, `join` by hash, `small` by what they share; and
//! each pair of differing values goes to a [`crate::story::Story`], which says what they look like.

mod differ;
mod join;
mod lockstep;
mod order;
mod schema;
mod sketch;
mod small;
mod sort;
mod summary;
mod told;

pub(crate) use differ::{Tables, compare_tables};

use crate::error::Error;
use arrow_array::RecordBatch;
use std::borrow::Cow;
use std::ops::ControlFlow;

/// A column's name and, where the format has types, its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
}

/// Rows that were read together.
pub(crate) struct Batch {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// One hash a cell, row by row.
    pub(crate) hashes: Vec<u64>,
    pub(crate) cells: Cells,
}

/// The values of a batch.
pub(crate) enum Cells {
    /// The reader was not asked for them.
    Absent,
    /// Texts, row by row: where each ends in `data`, and whether it is there at all.
    Flat { data: Vec<u8>, ends: Vec<usize>, nulls: Vec<bool> },
    /// Arrow columns.
    Arrow(RecordBatch),
}

impl Batch {
    pub(crate) fn row(&self, row: usize) -> &[u64] {
        &self.hashes[row * self.columns..(row + 1) * self.columns]
    }

    /// The text of a value, `None` for a null.
    pub(crate) fn text(&self, row: usize, column: usize) -> Option<Cow<'_, [u8]>> {
        match &self.cells {
            Cells::Absent => None,
            Cells::Flat { data, ends, nulls } => {
                let cell = row * self.columns + column;
                if nulls.get(cell).copied().unwrap_or(false) {
                    return None;
                }
                let start = if cell == 0 { 0 } else { ends[cell - 1] };
                Some(Cow::Borrowed(&data[start..ends[cell]]))
            }
            Cells::Arrow(batch) => {
                crate::format::render::text(batch.column(column), row).map(|text| Cow::Owned(text.into_bytes()))
            }
        }
    }
}

/// Which side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Side {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
        }
    }
}

/// Why the rows of a table cannot be read.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The content is not what it seemed to be.
    Broken(String),
    /// The comparison as a whole has no result.
    Fatal(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

/// Whether the visitor of a scan wants the values or only their hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Hashes,
    Values,
}

/// Receives the batches of a scan; `Break` ends it.
pub(crate) type Visit<'a> = dyn FnMut(Batch) -> Result<ControlFlow<()>, Stop> + 'a;

/// Something with rows that can be read again and again.
pub(crate) trait Table: Sync {
    fn columns(&self) -> &[Column];

    /// Reads all rows from the first to the last.
    fn scan(&self, want: Want, visit: &mut Visit<'_>) -> Result<(), Stop>;
}

/// The hash of a value that is there.
pub(crate) fn hash_value(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// The hash of a value that is not there.
pub(crate) const NULL_HASH: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes rows of cells; the buffer is kept from row to row.
#[derive(Default)]
pub(crate) struct RowHasher {
    bytes: Vec<u8>,
}

impl RowHasher {
    /// The hash of the cells of `row` that `columns` names, in that order.
    pub(crate) fn hash(&mut self, row: &[u64], columns: &[usize]) -> u128 {
        self.bytes.clear();
        for &column in columns {
            self.bytes.extend_from_slice(&row[column].to_le_bytes());
        }
        xxhash_rust::xxh3::xxh3_128(&self.bytes)
    }
}

/// Does the same on both sides at the same time, one thread a side.
pub(crate) fn both<T: Send>(
    left: impl FnOnce() -> Result<T, Stop> + Send,
    right: impl FnOnce() -> Result<T, Stop> + Send,
) -> Result<(T, T), (Side, Stop)> {
    std::thread::scope(|scope| {
        let right = scope.spawn(right);
        let left = left().map_err(|stop| (Side::Left, stop));
        let right = match right.join() {
            Ok(result) => result.map_err(|stop| (Side::Right, stop)),
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok((left?, right?))
    })
}
