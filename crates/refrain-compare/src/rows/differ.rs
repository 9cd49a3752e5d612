//! From two tables to findings: which rows belong together, and what differs between them.

use super::join::{self, Keyed, Met, Room, RowSet};
use super::lockstep;
use super::order;
use super::schema::Matched;
use super::sketch;
use super::small;
use super::summary::{Summary, summarize};
use super::told::{self, ColumnTale};
use super::{Side, Stop, Table, Want, both};
use crate::options::Options;
use crate::report::Finding;
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Two tables that are to be compared.
pub(crate) struct Tables<'a> {
    pub(crate) left: &'a dyn Table,
    pub(crate) right: &'a dyn Table,
    /// How its rows are called: `rows` or `lines`.
    pub(crate) rows: &'static str,
    /// Lines of a text: their order is content, and there is one column without a name.
    pub(crate) is_text: bool,
}

/// Values of this many pairs are looked at where not all can be.
const SAMPLE: usize = 10_000;

/// A share of values in common that makes a column a part of the key.
const KEY_OVERLAP: f64 = 0.5;

/// Why two tables cannot be compared, and which of them it is about.
pub(crate) type Failed = (Side, Stop);

/// Compares two tables; no finding means that they have the same rows in the same order.
pub(crate) fn compare_tables(tables: &Tables<'_>, options: &Options) -> Result<Vec<Finding>, Failed> {
    let (left, right) = (tables.left, tables.right);
    let mut matched = Matched::by_name(left.columns(), right.columns());
    let mut sums = both(|| summarize(left, &matched.left), || summarize(right, &matched.right))?;
    if matched.pair_renamed(&sums.0, &sums.1) {
        sums = both(|| summarize(left, &matched.left), || summarize(right, &matched.right))?;
    }
    let mut findings = matched.findings(left, right);
    let differ = Differ { tables, options, matched, left: sums.0, right: sums.1 };
    if !differ.has_same_rows() {
        findings.extend(differ.differences()?);
    } else if !differ.has_same_order() {
        findings.push(differ.order_finding()?);
    }
    Ok(findings)
}

struct Differ<'a> {
    tables: &'a Tables<'a>,
    options: &'a Options,
    matched: Matched,
    left: Summary,
    right: Summary,
}

/// The places among the shared columns that have some property.
type Places = Vec<usize>;

impl<'a> Differ<'a> {
    fn has_same_rows(&self) -> bool {
        self.left.rows == self.right.rows && self.left.sum == self.right.sum
    }

    fn has_same_order(&self) -> bool {
        self.places(|left, right| left.chain == right.chain).len() == self.matched.left.len()
    }

    fn places(&self, holds: impl Fn(&super::summary::ColumnSum, &super::summary::ColumnSum) -> bool) -> Places {
        let pairs = self.matched.left.iter().zip(&self.matched.right);
        let columns = pairs.map(|(left, right)| (&self.left.columns[*left], &self.right.columns[*right]));
        columns.enumerate().filter(|(_, (left, right))| holds(left, right)).map(|(place, _)| place).collect()
    }

    fn order_finding(&self) -> Result<Finding, Failed> {
        let sides =
            ((self.tables.left, self.matched.left.as_slice()), (self.tables.right, self.matched.right.as_slice()));
        let scene =
            order::Scene { rows: self.tables.rows, is_content: self.tables.is_text, are_same: self.has_same_rows() };
        order::tell(sides.0, sides.1, scene)
    }

    fn differences(&self) -> Result<Vec<Finding>, Failed> {
        let same_rows = self.left.rows == self.right.rows;
        let in_order = self.places(|left, right| same_rows && left.varies && left.chain == right.chain);
        let in_any_order = self.places(|left, right| same_rows && left.varies && left.sum == right.sum);
        if !in_order.is_empty() && in_order == in_any_order {
            return self.by_position();
        }
        if !in_any_order.is_empty() {
            if let Some(mut findings) = self.by_key(&in_any_order)? {
                findings.push(self.order_finding()?);
                return Ok(findings);
            }
            if !in_order.is_empty() {
                return self.by_position();
            }
        }
        self.by_content()
    }

    fn tales(&self) -> Vec<ColumnTale<'_>> {
        let pairs = self.matched.left.iter().zip(&self.matched.right);
        pairs
            .map(|(&left, &right)| {
                let is_permuted = self.left.rows == self.right.rows
                    && self.left.columns[left].varies
                    && self.left.columns[left].sum == self.right.columns[right].sum;
                ColumnTale::new(&self.tables.left.columns()[left].name, is_permuted, self.options.background())
            })
            .collect()
    }

    fn told(&self, tales: &[ColumnTale<'_>], paired: u64) -> Vec<Finding> {
        tales.iter().filter_map(|tale| tale.finding(self.tables, paired, self.options.tolerance)).collect()
    }

    /// Every row belongs to the one in the same place.
    fn by_position(&self) -> Result<Vec<Finding>, Failed> {
        let mut tales = self.tales();
        lockstep::walk(self.tables.left, self.tables.right, |pair| {
            let (batch_left, row_left) = pair.left;
            let (batch_right, row_right) = pair.right;
            let (cells_left, cells_right) = (batch_left.row(row_left), batch_right.row(row_right));
            for ((tale, &left), &right) in tales.iter_mut().zip(&self.matched.left).zip(&self.matched.right) {
                if cells_left[left] != cells_right[right] {
                    tale.differing += 1;
                    if !tale.story.wants_next(tale.differing) {
                        continue;
                    }
                    let texts = (batch_left.text(row_left, left), batch_right.text(row_right, right));
                    tale.story.add(texts.0.as_deref(), texts.1.as_deref());
                }
            }
        })?;
        Ok(self.told(&tales, self.left.rows))
    }

    fn room(&self) -> Room<'a> {
        Room { memory_bytes: self.options.memory_bytes, directory: self.options.temporary.as_deref() }
    }

    fn pick(columns: &[usize], places: &[usize]) -> Vec<usize> {
        places.iter().map(|place| columns[*place]).collect()
    }

    /// Rows belong together when the columns of `key` agree; nothing when a row would be left over.
    fn by_key(&self, key: &[usize]) -> Result<Option<Vec<Finding>>, Failed> {
        let keyed = self.join_by(key, |_, _| true)?;
        if keyed.alone != [0, 0] {
            return Ok(None);
        }
        self.tell_keyed(&keyed, self.left.rows).map(Some)
    }

    fn join_by(&self, key: &[usize], wanted: impl Fn(Side, u64) -> bool + Sync) -> Result<KeyedRows, Failed> {
        let width = self.matched.left.len();
        let rest: Places = (0..width).filter(|place| !key.contains(place)).collect();
        let columns = [&self.matched.left, &self.matched.right];
        let [key_left, key_right] = columns.map(|columns| Self::pick(columns, key));
        let [rest_left, rest_right] = columns.map(|columns| Self::pick(columns, &rest));
        let mut found = KeyedRows { differing: vec![0; width], ..KeyedRows::default() };
        let left = Keyed { table: self.tables.left, key: &key_left, compared: &rest_left };
        let right = Keyed { table: self.tables.right, key: &key_right, compared: &rest_right };
        join::join(&left, &right, wanted, self.room(), |met| match met {
            Met::Pair(left, right) => {
                found.paired += 1;
                let mut is_different = false;
                for ((a, b), place) in left.extra.iter().zip(&right.extra).zip(&rest) {
                    found.differing[*place] += u64::from(a != b);
                    is_different |= a != b;
                }
                if is_different && found.sample.len() < SAMPLE {
                    found.sample.push((left.row, right.row));
                }
            }
            Met::Alone(side, record) => {
                let place = usize::from(side == Side::Right);
                found.alone[place] += 1;
                if found.examples[place].len() < self.options.examples {
                    found.examples[place].push(record.row);
                }
            }
        })?;
        Ok(found)
    }

    fn tell_keyed(&self, keyed: &KeyedRows, compared: u64) -> Result<Vec<Finding>, Failed> {
        let mut tales = self.tales();
        for (tale, differing) in tales.iter_mut().zip(&keyed.differing) {
            tale.differing = *differing;
        }
        let sets = [0, 1].map(|side| {
            let mut set = RowSet::default();
            keyed.sample.iter().for_each(|pair| set.insert(if side == 0 { pair.0 } else { pair.1 }));
            set
        });
        let (left, right) = both(
            || small::fetch(self.tables.left, &self.matched.left, &sets[0]),
            || small::fetch(self.tables.right, &self.matched.right, &sets[1]),
        )?;
        if let Some((left, right)) = left.zip(right) {
            let right: HashMap<u64, small::Row> = right.into_iter().map(|row| (row.number, row)).collect();
            let left: HashMap<u64, small::Row> = left.into_iter().map(|row| (row.number, row)).collect();
            for (from, to) in &keyed.sample {
                if let Some((from, to)) = left.get(from).zip(right.get(to)) {
                    add(&mut tales, from, to, false);
                }
            }
        }
        Ok(self.told(&tales, compared))
    }

    /// Rows are compared as wholes; those that are left are paired by what they share.
    fn by_content(&self) -> Result<Vec<Finding>, Failed> {
        let left = Keyed { table: self.tables.left, key: &self.matched.left, compared: &[] };
        let right = Keyed { table: self.tables.right, key: &self.matched.right, compared: &[] };
        let (only_left, only_right) = join::except(&left, &right, self.room())?;
        if only_left.len() + only_right.len() <= small::MOST_ROWS {
            let rows = both(
                || small::fetch(self.tables.left, &self.matched.left, &only_left),
                || small::fetch(self.tables.right, &self.matched.right, &only_right),
            )?;
            if let (Some(left), Some(right)) = rows {
                return self.by_what_they_share(&left, &right);
            }
        }
        self.by_overlap(&only_left, &only_right)
    }

    fn by_what_they_share(&self, left: &[small::Row], right: &[small::Row]) -> Result<Vec<Finding>, Failed> {
        let unmatched = (left.len() as u64).min(right.len() as u64);
        let is_systematic = unmatched > 0 && unmatched * 2 >= self.left.rows.min(self.right.rows);
        let pairing = small::pair(left, right, is_systematic);
        let mut tales = self.tales();
        for (from, to) in &pairing.pairs {
            add(&mut tales, &left[*from], &right[*to], true);
        }
        let alone = [pairing.left.len() as u64, pairing.right.len() as u64];
        let numbers = |rows: &[small::Row], indices: &[usize]| -> Vec<u64> {
            indices.iter().take(self.options.examples).map(|index| rows[*index].number).collect()
        };
        let examples = [numbers(left, &pairing.left), numbers(right, &pairing.right)];
        let mut findings = self.told(&tales, self.left.rows - alone[0]);
        findings.extend(self.tell_alone(alone, &examples)?);
        Ok(findings)
    }

    /// Too many rows to hold: the columns whose values mostly agree are the key.
    fn by_overlap(&self, only_left: &RowSet, only_right: &RowSet) -> Result<Vec<Finding>, Failed> {
        let (left, right) = (self.tables.left, self.tables.right);
        let overlaps =
            sketch::overlaps((left, &self.matched.left, only_left), (right, &self.matched.right, only_right))?;
        let key: Places = (0..overlaps.len()).filter(|place| overlaps[*place] >= KEY_OVERLAP).collect();
        if key.is_empty() && self.left.rows == self.right.rows {
            return self.by_position();
        }
        let keyed = self.join_by(&key_or_all(key, overlaps.len()), |side, row| match side {
            Side::Left => only_left.contains(row),
            Side::Right => only_right.contains(row),
        })?;
        let mut findings = self.tell_keyed(&keyed, self.left.rows - keyed.alone[0])?;
        findings.extend(self.tell_alone(keyed.alone, &keyed.examples)?);
        Ok(findings)
    }

    fn tell_alone(&self, alone: [u64; 2], examples: &[Vec<u64>; 2]) -> Result<Vec<Finding>, Failed> {
        let texts = both(|| row_texts(self.tables.left, &examples[0]), || row_texts(self.tables.right, &examples[1]))?;
        let sides =
            [(Side::Left, alone[0], self.left.rows, texts.0), (Side::Right, alone[1], self.right.rows, texts.1)];
        Ok(sides
            .into_iter()
            .filter(|(_, count, ..)| *count > 0)
            .map(|(side, count, total, texts)| told::alone(side, count, total, self.tables.rows, texts))
            .collect())
    }
}

/// What a join by key found.
#[derive(Default)]
struct KeyedRows {
    paired: u64,
    /// For each shared column, in how many pairs its values differ.
    differing: Vec<u64>,
    sample: Vec<(u64, u64)>,
    alone: [u64; 2],
    examples: [Vec<u64>; 2],
}

fn key_or_all(key: Places, width: usize) -> Places {
    if key.is_empty() { (0..width).collect() } else { key }
}

fn add(tales: &mut [ColumnTale<'_>], left: &small::Row, right: &small::Row, is_counted: bool) {
    for (place, tale) in tales.iter_mut().enumerate() {
        if left.hashes[place] != right.hashes[place] {
            tale.differing += u64::from(is_counted);
            tale.story.add(left.texts[place].as_deref(), right.texts[place].as_deref());
        }
    }
}

fn row_texts(table: &dyn Table, rows: &[u64]) -> Result<Vec<String>, Stop> {
    let names: Vec<String> = table.columns().iter().map(|column| column.name.clone()).collect();
    let (mut texts, mut start) = (vec![], 0);
    let Some(&last) = rows.iter().max() else { return Ok(texts) };
    table.scan(Want::Values, &mut |batch| {
        for row in 0..batch.rows {
            if rows.contains(&(start + row as u64)) {
                texts.push(told::row_text(&batch, row, &names));
            }
        }
        start += batch.rows as u64;
        Ok(if start > last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(texts)
}
