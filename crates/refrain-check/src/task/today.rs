//! Whether an output holds the day, or the moment, in which it was made.

use super::trials::{Played, Trials};
use super::verdict::{Finding, Kind};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use refrain::core::Clock;
use refrain_compare::{Example, FileComparison};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// How far a shifted clock is ahead: another second, minute, hour, weekday, day, month and year.
pub(super) const SHIFT_SECONDS: i64 = 400 * 86_400 + 7 * 3600 + 23 * 60 + 17;
/// The same in words.
pub(super) const SHIFT: &str = "400 days, 7 hours, 23 minutes and 17 seconds";
/// How a day is written; `%` as in strftime(3).
const SPELLINGS: &[&str] = &["%Y-%m-%d", "%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%b %e %Y", "%e %b %Y"];
/// How much of a file is read, and of how many files: a date stands in the first rows, or is a part of few.
const MOST: u64 = 8 << 20;
const MOST_FILES: usize = 200;
pub(super) const CAUSE: &str = "the command asks the wall clock";
pub(super) const HINT: &str =
    "use $REFRAIN_DATE, the date the output is for, or leave the time out; a backfill runs on another day";

/// What to do about a task that reads what it published before.
pub(super) const OWN_HINT: &str =
    "compute the output from declared inputs alone; what the last partition published can be an input of this one";

/// Looks for today's date in what a run published.
pub(super) fn look(trials: &mut Trials<'_>, played: &Played) {
    let now = refrain::SystemClock.now();
    // The day of the partition, or one that the inputs hold, may stand in the output.
    let month = now.to_zoned_datetime(TimeZone::UTC).strftime("%Y-%m").to_string();
    let partition = trials.partition.key.clone();
    if partition.contains(&month) {
        return;
    }
    let days = spelled(now);
    let inputs: Vec<_> = trials.inputs.held.iter().flat_map(|held| files(&held.first)).collect();
    for output in &played.stage.outputs {
        let told = |finding: &Finding| finding.kind == Kind::WallClock && finding.output.as_ref() == Some(&output.name);
        if trials.findings.iter().any(told) {
            continue;
        }
        let found = files(&output.place).into_iter().find_map(|file| {
            let text = read(&file);
            let name = file.strip_prefix(&output.place).unwrap_or(&file).display().to_string();
            let day = days.iter().find(|day| contains(&text, day) || contains(name.as_bytes(), day))?.clone();
            Some((name, day))
        });
        let Some((file, day)) = found else { continue };
        if inputs.iter().any(|input| contains(&read(input), &day)) {
            continue;
        }
        let what = format!("it holds {day}, the day on which the command ran, and the partition is `{partition}`");
        let mut finding = Finding::new(Kind::WallClock, "twice", what).of(&output.name).because(CAUSE).hint(HINT);
        finding.file = Some(file).filter(|name| !name.is_empty());
        trials.findings.push(finding);
    }
}

/// What is known of two runs whose clocks were [`SHIFT`] apart: that a difference is the difference of the clocks.
pub(super) fn attribute(finding: &mut Finding, file: &FileComparison) {
    let now = refrain::SystemClock.now();
    let ahead = now.saturating_add(shift()).unwrap_or(now);
    let (days, later) = (spelled(now), spelled(ahead));
    let clocks = |example: &Example| {
        let (Some(left), Some(right)) = (&example.left, &example.right) else { return false };
        let holds = |text: &str, days: &BTreeSet<String>| days.iter().any(|day| contains(text.as_bytes(), day));
        holds(left, &days) && holds(right, &later) || are_apart(left, right)
    };
    let mut examples = file.findings.iter().flat_map(|found| &found.examples).peekable();
    if examples.peek().is_some() && examples.all(clocks) {
        finding.kind = Kind::WallClock;
        CAUSE.clone_into(&mut finding.cause);
        HINT.clone_into(&mut finding.hint);
    }
}

/// Whether two numbers are seconds, or fractions of them, as far apart as the clocks.
fn are_apart(left: &str, right: &str) -> bool {
    let (Ok(left), Ok(right)) = (left.trim().parse::<f64>(), right.trim().parse::<f64>()) else { return false };
    [1.0, 1e3, 1e6, 1e9].iter().any(|unit| {
        let seconds = (right - left) / unit;
        (seconds - shift().as_secs_f64()).abs() < 3600.0
    })
}

fn shift() -> SignedDuration {
    SignedDuration::from_secs(SHIFT_SECONDS)
}

fn spelled(at: Timestamp) -> BTreeSet<String> {
    let days = [TimeZone::UTC, TimeZone::system()].map(|zone| at.to_zoned_datetime(zone));
    days.iter().flat_map(|day| SPELLINGS.iter().map(|spelling| day.strftime(spelling).to_string())).collect()
}

pub(super) fn files(root: &Path) -> Vec<PathBuf> {
    let entries = WalkDir::new(root).sort_by_file_name().into_iter().flatten();
    entries.filter(|entry| entry.file_type().is_file()).map(walkdir::DirEntry::into_path).take(MOST_FILES).collect()
}

fn read(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What cannot be read is found by the comparison.
    drop(File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut bytes)));
    bytes
}

/// Whether the text stands there with no digit beside it.
fn contains(bytes: &[u8], text: &str) -> bool {
    let digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    bytes.windows(text.len()).enumerate().any(|(at, window)| {
        window == text.as_bytes()
            && !digit(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !digit(bytes.get(at + text.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::{are_apart, contains};

    #[test]
    fn a_day_is_told_from_a_longer_number() {
        assert!(contains(b"made 20261130.", "20261130"));
        assert!(contains(b"2026-11-30T01:02", "2026-11-30"));
        assert!(!contains(b"id 1202611301", "20261130"));
        assert!(!contains(b"", "20261130"));
    }

    #[test]
    fn seconds_of_two_clocks_are_told_from_other_numbers() {
        assert!(are_apart("1796003031", "1830589630"));
        assert!(are_apart("1796003031123", "1830589630456"));
        assert!(!are_apart("1796003031", "1796003033"));
        assert!(!are_apart("5", "6"));
    }
}
