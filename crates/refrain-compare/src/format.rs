//! The formats: how each is read as a table, and what it has beside its rows.

pub(crate) mod bytes;
pub(crate) mod csv;
pub(crate) mod encoding;
pub(crate) mod json;
pub(crate) mod json_lines;
pub(crate) mod lines;
pub(crate) mod parquet;
pub(crate) mod render;
pub(crate) mod sniff;
pub(crate) mod sqlite;

use crate::rows::{Batch, Cells, NULL_HASH, Want, hash_value};

/// Rows in one batch, at most.
const BATCH_ROWS: usize = 2048;

/// Bytes of values in one batch before it is handed on.
const BATCH_BYTES: usize = 1 << 20;

/// A row of more bytes than this is not read as a row.
pub(crate) const ROW_BYTES: usize = 64 << 20;

/// Bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |text, byte| text + &format!("{byte:02x}"))
}

/// Collects rows of texts into batches.
struct Collector {
    want: Want,
    columns: usize,
    rows: usize,
    hashes: Vec<u64>,
    data: Vec<u8>,
    ends: Vec<usize>,
    nulls: Vec<bool>,
    bytes: usize,
}

impl Collector {
    fn new(want: Want, columns: usize) -> Self {
        let (hashes, data, ends, nulls) = (vec![], vec![], vec![], vec![]);
        Self { want, columns, rows: 0, hashes, data, ends, nulls, bytes: 0 }
    }

    #[inline]
    fn cell(&mut self, text: &[u8]) {
        self.hashed_cell(hash_value(text), Some(text));
    }

    #[inline]
    fn hashed_cell(&mut self, hash: u64, text: Option<&[u8]>) {
        self.hashes.push(if text.is_some() { hash } else { NULL_HASH });
        if self.want == Want::Values {
            self.data.extend_from_slice(text.unwrap_or_default());
            self.ends.push(self.data.len());
            self.nulls.push(text.is_none());
        }
        self.bytes += text.map_or(0, <[u8]>::len);
    }

    /// Ends the row; true when the batch should be handed on.
    fn end_row(&mut self) -> bool {
        self.rows += 1;
        self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    fn take(&mut self) -> Batch {
        let full = std::mem::replace(self, Self::new(self.want, self.columns));
        let cells = match full.want {
            Want::Hashes => Cells::Absent,
            Want::Values => Cells::Flat { data: full.data, ends: full.ends, nulls: full.nulls },
        };
        Batch { rows: full.rows, columns: full.columns, hashes: full.hashes, cells }
    }
}
