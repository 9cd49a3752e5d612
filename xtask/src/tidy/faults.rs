//! Every known fault of the field has a test that bears its id, or a decision that says why it does not apply.
//!
//! The ids and titles stand in `xtask/fault_ids.txt`. A test bears an id when its function's name holds it, as in
//! `fn fs_05_another_filesystem_is_refused`; a decision when a file of `docs/decisions` holds it as it stands.

use super::source::code;
use super::{Breach, File};
use crate::command::Outcome;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const LIST: &str = "xtask/fault_ids.txt";
const DECISIONS: &str = "docs/decisions";

pub(super) fn check(files: &[File]) -> Outcome<Vec<Breach>> {
    let list = files.iter().find(|file| file.path == Path::new(LIST));
    let list = list.ok_or_else(|| format!("{LIST} is not tracked"))?;
    let named_by_tests: BTreeSet<String> =
        files.iter().filter(|file| file.is_rust()).flat_map(test_names).flat_map(ids_in_name).collect();
    let decisions: Vec<&str> =
        files.iter().filter(|file| file.path.starts_with(DECISIONS)).map(|file| file.text.as_str()).collect();

    let mut breaches = vec![];
    for (index, line) in list.text.lines().enumerate() {
        let (id, title) = line.split_once(' ').unwrap_or((line, ""));
        if !named_by_tests.contains(id) && !decisions.iter().any(|text| mentions(text, id)) {
            let message = format!("{id} ({title}) is in no test's name and in no decision");
            breaches.push(Breach { path: PathBuf::from(LIST), line: index + 1, message });
        }
    }
    Ok(breaches)
}

/// The names of the functions that follow a `#[test]` (or an attribute of a test macro).
fn test_names(file: &File) -> Vec<&str> {
    let mut names = vec![];
    let mut is_test = false;
    for (_, line) in code(file) {
        let line = line.trim_start();
        if line.starts_with("#[test]") || line.starts_with("#[test_") {
            is_test = true;
        }
        if let Some((_, rest)) = line.split_once("fn ") {
            if is_test {
                names.extend(rest.split(['(', '<', ' ']).next());
            }
            is_test = false;
        }
    }
    names
}

/// The ids in a function's name: `lease_16_and_fs_01_x` holds `LEASE-16` and `FS-01`.
fn ids_in_name(name: &str) -> Vec<String> {
    let parts: Vec<&str> = name.split('_').collect();
    let is_number = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    let pairs = parts.windows(2).filter(|pair| is_number(pair[1]));
    pairs.map(|pair| format!("{}-{}", pair[0].to_ascii_uppercase(), pair[1])).collect()
}

/// Whether `id` stands in `text`, not as the start of a longer number.
fn mentions(text: &str, id: &str) -> bool {
    text.match_indices(id).any(|(start, _)| !text[start + id.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::{File, LIST, check, ids_in_name, mentions};
    use std::path::PathBuf;

    fn file(path: &str, text: &str) -> File {
        File { path: PathBuf::from(path), text: text.to_owned() }
    }

    #[test]
    fn a_fault_needs_a_test_or_a_decision() {
        let files = [
            file(LIST, "FS-01 one\nFS-02 two\nFS-04 four\nFS-05 five\n"),
            file("crates/a/tests/b.rs", "#[test]\n#[cfg(unix)]\nfn fs_01_synced() {}\nfn fs_04_helper() {}\n"),
            file("docs/decisions/0001-x.md", "FS-02 does not apply\n"),
            file("docs/OTHER.md", "FS-05\n"),
        ];
        let breaches: Vec<String> = check(&files).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(breaches.len(), 2, "{breaches:?}");
        assert!(breaches[0].starts_with("xtask/fault_ids.txt:3: FS-04 (four)"));
        assert!(breaches[1].starts_with("xtask/fault_ids.txt:4: FS-05 (five)"));
    }

    #[test]
    fn ids_are_read_whole() {
        assert_eq!(ids_in_name("lease_16_and_fs_01_hold"), ["LEASE-16", "FS-01"]);
        assert!(ids_in_name("fs_1_and_fs_001").is_empty());
        assert!(mentions("see FS-01.", "FS-01"));
        assert!(!mentions("see FS-011", "FS-01"));
    }
}
