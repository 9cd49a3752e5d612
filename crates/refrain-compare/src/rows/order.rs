//! By what the rows of each side are sorted, to say why their order differs.

use super::{Batch, Side, Stop, Table, Want, both};
use crate::report::{Cause, Finding, FindingKind};
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// Rows that are looked at: an order that holds for so many looks like a sort.
const MOST_ROWS: usize = 200_000;

/// The ways in which a column may be sorted.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each stands for itself: any may hold with any other")]
struct Sorted {
    by_bytes: bool,
    by_locale: bool,
    by_number: bool,
    varies: bool,
}

/// How the rows are called, and what is known of them.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) rows: &'a str,
    /// Whether their order is content.
    pub(super) is_content: bool,
    /// Whether nothing but their order differs.
    pub(super) are_same: bool,
}

/// Says that the same rows stand in another order, and what that looks like.
pub(super) fn tell(
    (left, columns_left): (&dyn Table, &[usize]),
    (right, columns_right): (&dyn Table, &[usize]),
    scene: Scene<'_>,
) -> Result<Finding, (Side, Stop)> {
    let (sorted_left, sorted_right) = both(|| survey(left, columns_left), || survey(right, columns_right))?;
    let name = |place: usize| left.columns()[columns_left[place]].name.as_str();
    let mut pairs = sorted_left.iter().zip(&sorted_right).enumerate();
    let text = match scene {
        Scene { are_same: true, rows, .. } => format!("same {rows} in another order"),
        Scene { rows, .. } => format!("the {rows} stand in another order"),
    };
    let found = pairs.find_map(|(place, (a, b))| cause(*a, *b).map(|cause| (place, cause)));
    let mut finding = Finding::new(FindingKind::RowOrder, scene.is_content, text);
    let hint = match found {
        Some((place, Cause::LocaleSort)) => {
            finding.cause = Some(Cause::LocaleSort);
            finding.text += &format!(": looks like a locale's sort of `{}`", name(place));
            "Sort under `LC_ALL=C`, or in the program with a fixed collation."
        }
        Some((place, _)) => {
            finding.cause = Some(Cause::NumberSort);
            finding.text += &format!(": `{}` is sorted as numbers on one side and as text on the other", name(place));
            "Sort by the number, or by the text, on both."
        }
        None => {
            let is_sorted = |sorted: &Sorted| sorted.varies && (sorted.by_bytes || sorted.by_number);
            let both = sorted_left.iter().zip(&sorted_right).position(|(a, b)| is_sorted(a) && is_sorted(b));
            if let Some(place) = both {
                finding.text += &format!(" among those of the same `{}`", name(place));
            }
            "Sort the rows by columns that tell them apart before writing them."
        }
    };
    Ok(finding.hint(hint))
}

fn cause(left: Sorted, right: Sorted) -> Option<Cause> {
    let differ = |first: fn(&Sorted) -> bool, second: fn(&Sorted) -> bool| {
        [(&left, &right), (&right, &left)].into_iter().any(|(a, b)| first(a) && !second(a) && second(b) && !first(b))
    };
    if !left.varies || !right.varies {
        None
    } else if differ(|sorted| sorted.by_number, |sorted| sorted.by_bytes) {
        Some(Cause::NumberSort)
    } else if differ(|sorted| sorted.by_locale, |sorted| sorted.by_bytes) {
        Some(Cause::LocaleSort)
    } else {
        None
    }
}

fn survey(table: &dyn Table, columns: &[usize]) -> Result<Vec<Sorted>, Stop> {
    let all = Sorted { by_bytes: true, by_locale: true, by_number: true, varies: false };
    let mut sorted = vec![all; columns.len()];
    let mut last: Vec<Option<String>> = vec![None; columns.len()];
    let mut rows = 0;
    table.scan(Want::Values, &mut |batch| {
        let open: Vec<usize> = (0..columns.len()).filter(|place| sorted[*place].is_open()).collect();
        for row in 0..batch.rows {
            for &place in &open {
                let text = text(&batch, row, columns[place]);
                if let Some(last) = &last[place] {
                    sorted[place].see(last, &text);
                }
                last[place] = Some(text);
            }
        }
        rows += batch.rows;
        let is_over = open.is_empty() || rows >= MOST_ROWS;
        Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(sorted)
}

fn text(batch: &Batch, row: usize, column: usize) -> String {
    batch.text(row, column).map_or_else(String::new, |text| String::from_utf8_lossy(&text).into_owned())
}

impl Sorted {
    fn is_open(self) -> bool {
        self.by_bytes || self.by_locale || self.by_number
    }

    fn see(&mut self, last: &str, next: &str) {
        if last == next {
            return;
        }
        self.varies = true;
        self.by_bytes &= last < next;
        self.by_locale = self.by_locale && as_locale(last, next) != Ordering::Greater;
        self.by_number =
            self.by_number && matches!((last.parse::<f64>(), next.parse::<f64>()), (Ok(a), Ok(b)) if a <= b);
    }
}

/// Roughly how the locales of languages in Latin script compare: letters and digits first, whatever their case.
fn as_locale(left: &str, right: &str) -> Ordering {
    let key =
        |text: &str| text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>();
    key(left).cmp(&key(right))
}
