//! The findings about the columns of paired rows, and about rows without a counterpart.

use super::{Batch, Side, Tables};
use crate::report::{Cause, Finding, FindingKind};
use crate::story::{Background, Story, cut};

/// What is known about one column of the paired rows.
pub(super) struct ColumnTale<'a> {
    pub(super) name: String,
    /// In how many pairs the values differ.
    pub(super) differing: u64,
    /// The story of as many pairs as were looked at.
    pub(super) story: Story<'a>,
    /// Whether both columns hold the same values, in whatever order.
    pub(super) is_permuted: bool,
}

impl<'a> ColumnTale<'a> {
    pub(super) fn new(name: &str, is_permuted: bool, background: Background<'a>) -> Self {
        Self { name: name.to_owned(), differing: 0, story: Story::new(background), is_permuted }
    }

    /// The finding, when there is a difference; `paired` is the number of pairs.
    pub(super) fn finding(&self, tables: &Tables<'_>, paired: u64, tolerance: Option<f64>) -> Option<Finding> {
        if self.differing == 0 {
            return None;
        }
        let told = self.story.tell(&self.name, (self.differing, paired));
        let subject = if tables.is_text { "the text".to_owned() } else { format!("column `{}`", self.name) };
        let mut text = format!("{subject} differs in {} of {paired} {}", self.differing, tables.rows);
        let mut finding = Finding::new(FindingKind::ColumnValues, true, String::new()).column(&self.name);
        if let Some(told) = told {
            text += &format!(": {}", told.phrase);
            finding.cause = told.cause;
            finding.hint = told.hint;
            finding.largest_relative_difference = told.largest;
        } else if self.is_permuted {
            text += ": the same values stand in other rows";
            finding.cause = Some(Cause::Permuted);
            "Order the rows by columns that tell them apart before numbering or joining them."
                .clone_into(&mut finding.hint);
        } else if let Some(example) = self.story.examples().first() {
            let side = |text: &Option<String>| text.clone().unwrap_or_default();
            text += &format!(": `{}` and `{}`, for instance", side(&example.left), side(&example.right));
        }
        if self.story.pairs() < self.differing {
            text += &format!(" ({} looked at)", self.story.pairs());
        } else if let (Some(tolerance), Some(largest)) = (tolerance, finding.largest_relative_difference) {
            finding.is_content = largest > tolerance;
        }
        finding.text = text;
        finding.examples = self.story.examples().to_vec();
        Some(finding.counts(self.differing, paired))
    }
}

/// Says how many rows one side has for itself, with the first of them.
pub(super) fn alone(side: Side, count: u64, total: u64, rows: &str, examples: Vec<String>) -> Finding {
    let kind = if side == Side::Left { FindingKind::RowsRemoved } else { FindingKind::RowsAdded };
    let mut text = format!("{count} of {total} {rows} only on the {} side", side.name());
    if let Some(first) = examples.first() {
        text += &format!(", first: {first}");
    }
    let finding = Finding::new(kind, true, text).counts(count, total);
    examples.into_iter().fold(finding, |finding, example| match side {
        Side::Left => finding.example(Some(example), None),
        Side::Right => finding.example(None, Some(example)),
    })
}

/// A row as it is shown: `a=1, b=2`.
pub(super) fn row_text(batch: &Batch, row: usize, names: &[String]) -> String {
    let cell = |column: usize| {
        let text = batch.text(row, column);
        text.map_or_else(
            || "NULL".to_owned(),
            |text| String::from_utf8_lossy(&text[..text.len().min(1024)]).into_owned(),
        )
    };
    if let [_] = names {
        return format!("`{}`", cut(&cell(0)));
    }
    let cells: Vec<String> = names.iter().enumerate().map(|(place, name)| format!("{name}={}", cell(place))).collect();
    cut(&cells.join(", "))
}
