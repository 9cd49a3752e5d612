//! How much the values of two columns overlap, estimated from the smallest hashes of each.

use super::join::RowSet;
use super::{Side, Stop, Table, Want, both};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Hashes that are kept of each column: the estimate is right to about one part in sixteen.
const KEPT: usize = 256;

/// The share of values in common, column by column, among the rows of the two sets.
pub(super) fn overlaps(
    (left, columns_left, rows_left): (&dyn Table, &[usize], &RowSet),
    (right, columns_right, rows_right): (&dyn Table, &[usize], &RowSet),
) -> Result<Vec<f64>, (Side, Stop)> {
    let (left, right) =
        both(|| sketches(left, columns_left, rows_left), || sketches(right, columns_right, rows_right))?;
    Ok(left.iter().zip(&right).map(|(left, right)| overlap(left, right)).collect())
}

fn sketches(table: &dyn Table, columns: &[usize], wanted: &RowSet) -> Result<Vec<BTreeSet<u64>>, Stop> {
    let mut sketches = vec![BTreeSet::new(); columns.len()];
    let mut number = 0;
    table.scan(Want::Hashes, &mut |batch| {
        for row in 0..batch.rows {
            if wanted.contains(number) {
                let cells = batch.row(row);
                for (sketch, column) in sketches.iter_mut().zip(columns) {
                    keep(sketch, cells[*column]);
                }
            }
            number += 1;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(sketches)
}

fn keep(sketch: &mut BTreeSet<u64>, hash: u64) {
    if sketch.len() < KEPT {
        sketch.insert(hash);
    } else if sketch.last().is_some_and(|last| hash < *last) && sketch.insert(hash) {
        sketch.pop_last();
    }
}

/// The share of the smallest hashes of both that both have.
fn overlap(left: &BTreeSet<u64>, right: &BTreeSet<u64>) -> f64 {
    let mut smallest: Vec<&u64> = left.union(right).collect();
    smallest.truncate(KEPT);
    let shared = smallest.iter().filter(|hash| left.contains(**hash) && right.contains(**hash)).count();
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
    let share = shared as f64 / smallest.len().max(1) as f64;
    share
}
