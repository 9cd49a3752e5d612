//! Pairing rows by hash, whatever their order, in bounded memory.

use super::sort::{Record, Sorted, Sorter};
use super::{RowHasher, Side, Stop, Table, Want, both};
use crate::error::Error;
use std::ops::ControlFlow;
use std::path::Path;

/// Where and with how much memory to sort.
#[derive(Clone, Copy)]
pub(super) struct Room<'a> {
    pub(super) memory_bytes: usize,
    pub(super) directory: Option<&'a Path>,
}

/// The columns of one side: those that pair rows, and those to be compared within a pair.
pub(super) struct Keyed<'a> {
    pub(super) table: &'a dyn Table,
    pub(super) key: &'a [usize],
    pub(super) compared: &'a [usize],
}

/// The end of a join: told one by one, so that nothing has to be kept.
pub(super) enum Met {
    /// A row of each side with the same key; the hashes of the compared columns are in `extra`.
    Pair(Record, Record),
    /// A row without a counterpart.
    Alone(Side, Record),
}

/// Pairs the rows of both sides by key, equal keys in the order of their rows.
///
/// `wanted` says which rows take part.
pub(super) fn join(
    left: &Keyed<'_>,
    right: &Keyed<'_>,
    wanted: impl Fn(Side, u64) -> bool + Sync,
    room: Room<'_>,
    mut visit: impl FnMut(Met),
) -> Result<(), (Side, Stop)> {
    let sides = both(
        || sort(left, &|row| wanted(Side::Left, row), room),
        || sort(right, &|row| wanted(Side::Right, row), room),
    )?;
    merge(sides, &mut visit).map_err(|error| (Side::Left, Stop::Fatal(error)))
}

fn sort(side: &Keyed<'_>, wanted: &dyn Fn(u64) -> bool, room: Room<'_>) -> Result<Sorted, Stop> {
    let mut sorter = Sorter::new(side.compared.len(), room.memory_bytes / 2, room.directory);
    let mut hasher = RowHasher::default();
    let mut number = 0;
    side.table.scan(Want::Hashes, &mut |batch| {
        for row in 0..batch.rows {
            if wanted(number) {
                let cells = batch.row(row);
                let extra = side.compared.iter().map(|column| cells[*column]);
                sorter.push(hasher.hash(cells, side.key), number, extra)?;
            }
            number += 1;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(sorter.sorted()?)
}

fn merge((mut left, mut right): (Sorted, Sorted), visit: &mut impl FnMut(Met)) -> Result<(), Error> {
    let (mut from_left, mut from_right) = (left.next()?, right.next()?);
    loop {
        match (from_left.take(), from_right.take()) {
            (None, None) => return Ok(()),
            (Some(a), Some(b)) if a.key == b.key => {
                visit(Met::Pair(a, b));
                (from_left, from_right) = (left.next()?, right.next()?);
            }
            (Some(a), b) if b.as_ref().is_none_or(|b| a.key < b.key) => {
                visit(Met::Alone(Side::Left, a));
                (from_left, from_right) = (left.next()?, b);
            }
            (a, Some(b)) => {
                visit(Met::Alone(Side::Right, b));
                (from_left, from_right) = (a, right.next()?);
            }
            (Some(a), None) => visit(Met::Alone(Side::Left, a)),
        }
    }
}

/// A set of row numbers, a bit for each.
#[derive(Default)]
pub(super) struct RowSet {
    bits: Vec<u64>,
    len: u64,
}

impl RowSet {
    pub(super) fn insert(&mut self, row: u64) {
        let (word, bit) = place(row);
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        self.len += u64::from(self.bits[word] & bit == 0);
        self.bits[word] |= bit;
    }

    pub(super) fn contains(&self, row: u64) -> bool {
        let (word, bit) = place(row);
        self.bits.get(word).is_some_and(|bits| bits & bit != 0)
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }
}

fn place(row: u64) -> (usize, u64) {
    // A table with more rows than that does not fit an address space of one bit a row.
    (usize::try_from(row / 64).unwrap_or(usize::MAX), 1 << (row % 64))
}

/// The rows of each side that the other side does not have, counting duplicates.
pub(super) fn except(left: &Keyed<'_>, right: &Keyed<'_>, room: Room<'_>) -> Result<(RowSet, RowSet), (Side, Stop)> {
    let (mut only_left, mut only_right) = (RowSet::default(), RowSet::default());
    join(
        left,
        right,
        |_, _| true,
        room,
        |met| match met {
            Met::Pair(..) => {}
            Met::Alone(Side::Left, record) => only_left.insert(record.row),
            Met::Alone(Side::Right, record) => only_right.insert(record.row),
        },
    )?;
    Ok((only_left, only_right))
}
