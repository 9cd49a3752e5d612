//! The table of the results, and its place in the document.

use crate::command::{Outcome, root};
use std::fmt::Write;
use std::fs;
use std::time::Duration;

const DOCUMENT: &str = "docs/PERFORMANCE.md";
const BEGIN: &str = "<!-- cargo xtask bench: begin -->";
const END: &str = "<!-- cargo xtask bench: end -->";

/// What a row's number must reach.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// Nothing was promised; the number stands there for comparison.
    None,
}

/// One line of the table.
pub(super) struct Row {
    pub(super) what: String,
    pub(super) refrain: String,
    /// What it is compared with, and that one's number; empty when the number stands by itself.
    pub(super) baseline: String,
    /// What the target speaks of: the ratio, or the number itself.
    pub(super) value: f64,
    is_ratio: bool,
    pub(super) target: Target,
}

impl Row {
    /// A time beside another time; the ratio is the first divided by the second.
    pub(super) fn ratio(what: &str, refrain: Duration, (name, baseline): (&str, Duration), target: Target) -> Self {
        Self {
            what: what.to_owned(),
            refrain: milliseconds(refrain),
            baseline: format!("{name}: {}", milliseconds(baseline)),
            value: refrain.as_secs_f64() / baseline.as_secs_f64(),
            is_ratio: true,
            target,
        }
    }

    /// The other way round: how many times as fast as the baseline.
    pub(super) fn speed(what: &str, refrain: Duration, baseline: (&str, Duration), target: Target) -> Self {
        let row = Self::ratio(what, refrain, baseline, target);
        Self { value: 1.0 / row.value, ..row }
    }

    /// A number by itself.
    pub(super) fn number(what: &str, value: f64, unit: &str, target: Target) -> Self {
        let refrain = if value.fract() == 0.0 { format!("{value} {unit}") } else { format!("{value:.1} {unit}") };
        Self {
            what: what.to_owned(),
            refrain: refrain.trim_end().to_owned(),
            baseline: String::new(),
            value,
            is_ratio: false,
            target,
        }
    }

    /// The same number with another one of the same unit beside it, for comparison.
    pub(super) fn beside(mut self, name: &str, number: f64) -> Self {
        self.baseline = format!("{name}: {number}");
        self
    }

    /// Whether the target is reached.
    pub(super) fn holds(&self) -> bool {
        match self.target {
            Target::AtMost(most) => self.value <= most,
            Target::AtLeast(least) => self.value >= least,
            Target::None => true,
        }
    }

    fn line(&self) -> String {
        let ratio = if self.is_ratio { format!("{:.2}", self.value) } else { String::new() };
        let (target, holds) = match self.target {
            Target::AtMost(most) => (format!("at most {most}"), self.holds()),
            Target::AtLeast(least) => (format!("at least {least}"), self.holds()),
            Target::None => (String::new(), true),
        };
        let verdict = match (target.is_empty(), holds) {
            (true, _) => "",
            (false, true) => "yes",
            (false, false) => "**no**",
        };
        format!("| {} | {} | {} | {ratio} | {target} | {verdict} |", self.what, self.refrain, self.baseline)
    }
}

fn milliseconds(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    if ms < 100.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

/// The rows as a Markdown table.
pub(super) fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "| measure | Refrain | beside it | ratio | target | holds |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "{}", row.line());
    }
    text
}

/// Puts the rows between the document's two marks: a whole table, or single lines of it.
pub(super) fn write_document(rows: &[Row], machine: &str, whole: bool) -> Outcome {
    let path = root().join(DOCUMENT);
    let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {DOCUMENT}: {error}"))?;
    let missing = || format!("{DOCUMENT} lacks the lines `{BEGIN}` and `{END}`");
    let standing = between(&text).ok_or_else(missing)?;
    let lines = if whole { markdown(rows) } else { with_lines(standing, rows) };
    let table = format!("Measured with `cargo xtask bench` on {machine}.\n\n{lines}");
    let text = replace_between(&text, &table).ok_or_else(missing)?;
    fs::write(&path, text).map_err(|error| format!("cannot write {DOCUMENT}: {error}"))?;
    println!("wrote {DOCUMENT}");
    Ok(())
}

fn between(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(BEGIN)?;
    rest.split_once(END).map(|(inner, _)| inner)
}

/// The table that stands, with the lines of these rows in place of those that measure the same, or after all others.
fn with_lines(standing: &str, rows: &[Row]) -> String {
    let mut lines: Vec<String> = standing.lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect();
    for row in rows {
        let line = row.line();
        match lines.iter_mut().find(|standing| measures_the_same(standing, &line)) {
            Some(standing) => *standing = line,
            None => lines.push(line),
        }
    }
    lines.join("\n") + "\n"
}

/// Whether two lines have the same title, beside the same.
fn measures_the_same(one: &str, other: &str) -> bool {
    let named = |line: &str| {
        let cells: Vec<&str> = line.split(" | ").collect();
        let beside = cells.get(2).and_then(|beside| beside.rsplit_once(": ")).map(|(name, _)| name.to_owned());
        (cells.first().map(|title| (*title).to_owned()), beside)
    };
    named(one) == named(other)
}

fn replace_between(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, Row, Target, markdown, replace_between, with_lines};
    use std::time::Duration;

    #[test]
    fn a_row_says_whether_its_target_is_reached() {
        let [fast, slow] = [10, 25].map(Duration::from_millis);
        let rows = [
            Row::ratio("run", fast, ("floor", slow), Target::AtMost(2.0)),
            Row::ratio("run", slow, ("floor", fast), Target::AtMost(2.0)),
            Row::number("syncs", 6.0, "calls", Target::AtMost(6.0)).beside("floor", 3.0),
            Row::number("memory", 12.34, "MiB", Target::None),
            Row::speed("seal", fast, ("each", slow), Target::AtLeast(3.0)),
        ];
        assert_eq!(rows.iter().map(Row::holds).collect::<Vec<_>>(), [true, false, true, true, false]);
        let text = markdown(&rows);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines[0], "| run | 10.00 ms | floor: 25.00 ms | 0.40 | at most 2 | yes |");
        assert_eq!(lines[1], "| run | 25.00 ms | floor: 10.00 ms | 2.50 | at most 2 | **no** |");
        assert_eq!(lines[2], "| syncs | 6 calls | floor: 3 |  | at most 6 | yes |");
        assert_eq!(lines[3], "| memory | 12.3 MiB |  |  |  |  |");
        assert_eq!(lines[4], "| seal | 10.00 ms | each: 25.00 ms | 2.50 | at least 3 | **no** |");
    }

    #[test]
    fn a_group_replaces_its_own_lines() {
        let [fast, slow] = [10, 25].map(Duration::from_millis);
        let row = |name, time| Row::ratio("run", time, (name, slow), Target::None);
        let standing = format!("Measured.\n\n{}", markdown(&[row("floor", slow), row("Luigi", slow)]));
        let lines = with_lines(&standing, &[row("Luigi", fast), row("other", fast)]);
        let ratios: Vec<_> = lines.lines().skip(2).map(|line| line.split(" | ").nth(3).unwrap()).collect();
        assert_eq!(ratios, ["1.00", "0.40", "0.40"], "{lines}");
    }

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let text = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        assert_eq!(replace_between(&text, "new\n"), Some(format!("before\n{BEGIN}\nnew\n{END}\nafter\n")));
        assert_eq!(replace_between("no marks", "new\n"), None);
    }
}
