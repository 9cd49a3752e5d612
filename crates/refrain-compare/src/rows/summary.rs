//! One reading of a table: counts and sums of hashes.

use super::{RowHasher, Stop, Table, Want};
use std::ops::ControlFlow;

/// What one reading leaves of a table.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) rows: u64,
    /// Sum of the rows' hashes over the columns that both sides have: equal for the same rows in any order.
    pub(super) sum: u128,
    pub(super) columns: Vec<ColumnSum>,
}

/// What one reading leaves of a column.
#[derive(Clone, Debug, Default)]
pub(super) struct ColumnSum {
    /// Sum of the cells' hashes: equal for the same values in any order.
    pub(super) sum: u128,
    /// A chain over the cells' hashes: equal for the same values in the same order only.
    pub(super) chain: u64,
    first: u64,
    /// Whether there is more than one value.
    pub(super) varies: bool,
}

impl ColumnSum {
    #[inline]
    fn add(&mut self, hash: u64, is_first: bool) {
        if is_first {
            self.first = hash;
        }
        self.sum = self.sum.wrapping_add(u128::from(hash));
        self.chain = (self.chain.rotate_left(23) ^ hash).wrapping_mul(0x9fb2_1c65_1e98_df25);
        self.varies |= hash != self.first;
    }
}

/// Reads `table` once; `shared` are the columns that the row's hash is made of.
pub(super) fn summarize(table: &dyn Table, shared: &[usize]) -> Result<Summary, Stop> {
    let width = table.columns().len();
    let mut summary = Summary { rows: 0, sum: 0, columns: vec![ColumnSum::default(); width] };
    let mut hasher = RowHasher::default();
    table.scan(Want::Hashes, &mut |batch| {
        for row in 0..batch.rows {
            let cells = batch.row(row);
            summary.sum = summary.sum.wrapping_add(hasher.hash(cells, shared));
            for (column, hash) in summary.columns.iter_mut().zip(cells) {
                column.add(*hash, summary.rows == 0);
            }
            summary.rows += 1;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(summary)
}
