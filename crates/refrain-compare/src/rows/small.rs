//! Pairing a moderate number of unmatched rows in memory, by what they share.

use super::join::RowSet;
use super::{RowHasher, Stop, Table, Want};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::ControlFlow;

/// More unmatched rows than this are paired by `join`.
pub(super) const MOST_ROWS: u64 = 20_000;

/// More bytes than this as well.
const MOST_BYTES: usize = 48 << 20;

/// A share of values in common that makes a column a part of the key.
const KEY_OVERLAP: f64 = 0.5;

/// A row with the values of the columns that both sides have.
pub(super) struct Row {
    pub(super) number: u64,
    pub(super) hashes: Vec<u64>,
    pub(super) texts: Vec<Option<Vec<u8>>>,
}

/// The rows of `wanted`, or nothing when they are too large.
pub(super) fn fetch(table: &dyn Table, columns: &[usize], wanted: &RowSet) -> Result<Option<Vec<Row>>, Stop> {
    let (mut rows, mut bytes, mut number) = (vec![], 0, 0);
    table.scan(Want::Values, &mut |batch| {
        for row in 0..batch.rows {
            if wanted.contains(number) {
                let texts: Vec<_> =
                    columns.iter().map(|column| batch.text(row, *column).map(Cow::into_owned)).collect();
                bytes += texts.iter().map(|text| text.as_ref().map_or(0, Vec::len) + 48).sum::<usize>();
                let cells = batch.row(row);
                rows.push(Row { number, hashes: columns.iter().map(|column| cells[*column]).collect(), texts });
            }
            number += 1;
        }
        let is_done = bytes > MOST_BYTES || rows.len() as u64 == wanted.len();
        Ok(if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok((bytes <= MOST_BYTES).then_some(rows))
}

/// Which rows belong together, as indices, and which are left.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    pub(super) pairs: Vec<(usize, usize)>,
    pub(super) left: Vec<usize>,
    pub(super) right: Vec<usize>,
}

impl Pairing {
    /// Pairs what is left by key, equal keys in their order, where `fits` agrees.
    fn pair_by<K: std::hash::Hash + Eq>(
        &mut self,
        key_left: impl Fn(usize) -> K,
        key_right: impl Fn(usize) -> K,
        fits: impl Fn(usize, usize) -> bool,
    ) {
        let mut places: HashMap<K, Vec<usize>> = HashMap::new();
        for &index in self.right.iter().rev() {
            places.entry(key_right(index)).or_default().push(index);
        }
        let mut taken = std::collections::HashSet::new();
        let pairs = &mut self.pairs;
        self.left.retain(|&index| {
            let Some(waiting) = places.get_mut(&key_left(index)) else { return true };
            let Some(&other) = waiting.last().filter(|other| fits(index, **other)) else { return true };
            waiting.pop();
            taken.insert(other);
            pairs.push((index, other));
            false
        });
        self.right.retain(|index| !taken.contains(index));
    }
}

/// Pairs rows; `is_systematic` says that most rows of the tables are among them, so that one shared column is enough.
pub(super) fn pair(left: &[Row], right: &[Row], is_systematic: bool) -> Pairing {
    let mut pairing = Pairing { pairs: vec![], left: (0..left.len()).collect(), right: (0..right.len()).collect() };
    let width = left.first().map_or(0, |row| row.hashes.len());
    if width <= 1 {
        pairing.pair_by(|index| skeleton(&left[index]), |index| skeleton(&right[index]), |_, _| true);
        pairing.pair_by(|index| left[index].number, |index| right[index].number, |_, _| true);
        return pairing;
    }
    let mut key: Vec<(usize, f64)> =
        overlaps(left, right, width).into_iter().enumerate().filter(|(_, overlap)| *overlap >= KEY_OVERLAP).collect();
    key.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut may_be_weak = is_systematic;
    while !key.is_empty() && !pairing.left.is_empty() && !pairing.right.is_empty() {
        let columns: Vec<usize> = key.iter().map(|(column, _)| *column).collect();
        let hash = |row: &Row| RowHasher::default().hash(&row.hashes, &columns);
        let agree = |a: usize, b: usize| {
            let same = left[a].hashes.iter().zip(&right[b].hashes).filter(|(a, b)| a == b).count();
            may_be_weak || same * 2 >= width
        };
        pairing.pair_by(|index| hash(&left[index]), |index| hash(&right[index]), agree);
        may_be_weak = false;
        key.pop();
    }
    if is_systematic && pairing.pairs.is_empty() {
        pairing.pair_by(|index| left[index].number, |index| right[index].number, |_, _| true);
    }
    pairing
}

/// The share of values, column by column, that both sides have.
fn overlaps(left: &[Row], right: &[Row], width: usize) -> Vec<f64> {
    let fewer = left.len().min(right.len());
    let overlap = |column: usize| {
        let mut counts: HashMap<u64, usize> = HashMap::new();
        for row in left {
            *counts.entry(row.hashes[column]).or_default() += 1;
        }
        let mut shared = 0;
        for row in right {
            if let Some(count) = counts.get_mut(&row.hashes[column]).filter(|count| **count > 0) {
                *count -= 1;
                shared += 1;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
        let share = f64::from(shared) / fewer.max(1) as f64;
        share
    };
    (0..width).map(overlap).collect()
}

/// The line without its words that have a digit: what remains of a line of a log when its times and numbers change.
fn skeleton(row: &Row) -> Vec<u8> {
    let Some(text) = row.texts.first().and_then(Option::as_ref) else { return vec![] };
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'-' | b'_' | b'/');
    let mut skeleton = vec![];
    let mut rest = text.as_slice();
    while let Some(first) = rest.first() {
        let length = rest.iter().take_while(|byte| is_word(byte) == is_word(first)).count();
        let (word, after) = rest.split_at(length);
        if is_word(first) && word.iter().any(u8::is_ascii_digit) {
            skeleton.push(b'#');
        } else {
            skeleton.extend_from_slice(word);
        }
        rest = after;
    }
    skeleton
}
