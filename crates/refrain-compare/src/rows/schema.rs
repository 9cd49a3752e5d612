//! Which columns of two tables belong together.

use super::summary::Summary;
use super::{Column, Table};
use crate::report::{Finding, FindingKind};
use std::collections::HashMap;

/// The columns of two tables, by their indices.
#[derive(Debug, Default)]
pub(super) struct Matched {
    pub(super) left: Vec<usize>,
    pub(super) right: Vec<usize>,
    only_left: Vec<usize>,
    only_right: Vec<usize>,
    renamed: Vec<(usize, usize)>,
}

impl Matched {
    /// Pairs columns by name, those of the same name in their order.
    pub(super) fn by_name(left: &[Column], right: &[Column]) -> Self {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, column) in right.iter().enumerate().rev() {
            places.entry(&column.name).or_default().push(index);
        }
        let mut matched = Self::default();
        for (index, column) in left.iter().enumerate() {
            if let Some(place) = places.get_mut(column.name.as_str()).and_then(Vec::pop) {
                matched.left.push(index);
                matched.right.push(place);
            } else {
                matched.only_left.push(index);
            }
        }
        matched.only_right = places.into_values().flatten().collect();
        matched.only_right.sort_unstable();
        matched
    }

    /// Pairs columns of different names with the same values; true when there are any.
    pub(super) fn pair_renamed(&mut self, left: &Summary, right: &Summary) -> bool {
        if left.rows != right.rows {
            return false;
        }
        let (mut remaining, mut found) = (std::mem::take(&mut self.only_right), false);
        self.only_left.retain(|&index| {
            let column = &left.columns[index];
            let same = remaining.iter().position(|other| {
                let other = &right.columns[*other];
                column.varies && other.varies && column.sum == other.sum
            });
            let Some(place) = same else { return true };
            let other = remaining.remove(place);
            self.renamed.push((index, other));
            self.left.push(index);
            self.right.push(other);
            found = true;
            false
        });
        self.only_right = remaining;
        found
    }

    /// What to say about the columns themselves.
    pub(super) fn findings(&self, left: &dyn Table, right: &dyn Table) -> Vec<Finding> {
        let (left, right) = (left.columns(), right.columns());
        let mut findings = vec![];
        for &(from, to) in &self.renamed {
            let (from, to) = (&left[from].name, &right[to].name);
            let text = format!("column `{from}` is called `{to}` on the right side");
            findings.push(Finding::new(FindingKind::ColumnRenamed, true, text).column(from));
        }
        for &index in &self.only_left {
            let name = &left[index].name;
            let text = format!("column `{name}` is only on the left side");
            findings.push(Finding::new(FindingKind::ColumnRemoved, true, text).column(name));
        }
        for &index in &self.only_right {
            let name = &right[index].name;
            let text = format!("column `{name}` is only on the right side");
            findings.push(Finding::new(FindingKind::ColumnAdded, true, text).column(name));
        }
        for (from, to) in self.left.iter().zip(&self.right).map(|(from, to)| (&left[*from], &right[*to])) {
            if from.kind != to.kind {
                let text = format!(
                    "column `{}` has type {} on the left side and {} on the right",
                    from.name, from.kind, to.kind
                );
                findings.push(Finding::new(FindingKind::ColumnType, true, text).column(&from.name));
            }
        }
        if !self.right.is_sorted() && self.renamed.is_empty() {
            let text = "the same columns in another order";
            let hint = "Name the columns when writing, in a fixed order.";
            findings.push(Finding::new(FindingKind::ColumnOrder, false, text).hint(hint));
        }
        findings
    }
}
