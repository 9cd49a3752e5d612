//! Whether an output holds the day on which it was made.

use super::trials::{Played, Trials};
use super::verdict::{Finding, Kind};
use jiff::ZonedDateTime;
use refrain::core::Clock;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// How a day is written; `%` as in strftime(3).
const SPELLINGS: &[&str] = &["%Y-%m-%d", "%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%b %e %Y", "%e %b %Y"];
/// How much of a file is read.
const MOST: u64 = 64 << 20;

/// Looks for today's date in what a run published.
pub(super) fn look(trials: &mut Trials<'_>, played: &Played) {
    let now = refrain::SystemClock.now();
    let days: Vec<ZonedDateTime> =
        [jiff::tz::TimeZone::UTC, jiff::tz::TimeZone::system()].map(|zone| now.to_zoned_datetime(zone)).into();
    let spelled: BTreeSet<String> =
        days.iter().flat_map(|day| SPELLINGS.iter().map(|spelling| day.strftime(spelling).to_string())).collect();
    // The day of the partition, or one that the inputs hold, may stand in the output.
    let partition = &trials.partition.key;
    if days.iter().any(|day| partition.contains(&day.strftime("%Y-%m").to_string())) {
        return;
    }
    let inputs: Vec<_> = trials.inputs.held.iter().flat_map(|held| files(&held.first)).collect();
    for output in &played.stage.outputs {
        let found = files(&output.place).into_iter().find_map(|file| {
            let text = read(&file);
            let name = file.strip_prefix(&output.place).unwrap_or(&file).display().to_string();
            let day = spelled.iter().find(|day| contains(&text, day) || contains(name.as_bytes(), day))?;
            Some((name, day.clone()))
        });
        let Some((file, day)) = found else { continue };
        if inputs.iter().any(|input| contains(&read(input), &day)) {
            continue;
        }
        let what = format!("it holds {day}, the day on which the command ran, and the partition is `{partition}`");
        let mut finding = Finding::new(Kind::WallClock, "twice", what)
            .of(&output.name)
            .because("the command asks the wall clock for the date")
            .hint("use $REFRAIN_DATE, which is the date the output is for; a backfill runs on another day");
        finding.file = Some(file).filter(|name| !name.is_empty());
        trials.findings.push(finding);
    }
}

fn files(root: &Path) -> Vec<PathBuf> {
    let entries = WalkDir::new(root).sort_by_file_name().into_iter().flatten();
    entries.filter(|entry| entry.file_type().is_file()).map(walkdir::DirEntry::into_path).collect()
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
    use super::contains;

    #[test]
    fn a_day_is_told_from_a_longer_number() {
        assert!(contains(b"made 20261130.", "20261130"));
        assert!(contains(b"2026-11-30T01:02", "2026-11-30"));
        assert!(!contains(b"id 1202611301", "20261130"));
        assert!(!contains(b"", "20261130"));
    }
}
