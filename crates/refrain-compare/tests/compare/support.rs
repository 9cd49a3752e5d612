//! Two outputs in a directory of their own, and what is said about them.

use refrain_compare::{Cause, Comparison, Finding, FindingKind, Options, Verdict, compare};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory with a `left` and a `right` output.
pub(crate) struct Outputs {
    directory: TempDir,
}

impl Outputs {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for side in ["left", "right"] {
            fs::create_dir(directory.path().join(side)).unwrap();
        }
        Self { directory }
    }

    /// The same name on both sides.
    pub(crate) fn pair(name: &str, left: impl AsRef<[u8]>, right: impl AsRef<[u8]>) -> Self {
        let outputs = Self::new();
        fs::write(outputs.left(name), left).unwrap();
        fs::write(outputs.right(name), right).unwrap();
        outputs
    }

    pub(crate) fn left(&self, name: &str) -> PathBuf {
        self.directory.path().join("left").join(name)
    }

    pub(crate) fn right(&self, name: &str) -> PathBuf {
        self.directory.path().join("right").join(name)
    }

    pub(crate) fn compare_with(&self, options: &Options) -> Comparison {
        compare(&self.left(""), &self.right(""), options).unwrap()
    }

    pub(crate) fn compare(&self) -> Comparison {
        self.compare_with(&Options::default())
    }
}

pub(crate) fn compare_bytes(name: &str, left: impl AsRef<[u8]>, right: impl AsRef<[u8]>) -> Comparison {
    Outputs::pair(name, left, right).compare()
}

/// The kinds and texts of all findings.
pub(crate) fn told(comparison: &Comparison) -> Vec<(FindingKind, &str)> {
    comparison.findings().map(|(_, finding)| (finding.kind, finding.text.as_str())).collect()
}

pub(crate) fn causes(comparison: &Comparison) -> Vec<(Option<&str>, Option<Cause>)> {
    comparison.findings().map(|(_, finding)| (finding.column.as_deref(), finding.cause)).collect()
}

/// The only finding.
#[track_caller]
pub(crate) fn only(comparison: &Comparison) -> &Finding {
    let findings: Vec<_> = comparison.findings().collect();
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings[0].1
}

#[track_caller]
pub(crate) fn assert_told(comparison: &Comparison, verdict: Verdict, expected: &[(FindingKind, &str)]) {
    assert_eq!(told(comparison), expected);
    assert_eq!(comparison.verdict, verdict);
}

/// 842 flights of one day.
pub(crate) fn flights() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/flights/data/2013-01-01.csv");
    fs::read_to_string(path).unwrap()
}

/// The lines of a CSV text without its header, changed and put together again.
pub(crate) fn with_rows(csv: &str, change: impl FnOnce(&mut Vec<String>)) -> String {
    let mut lines = csv.lines().map(str::to_owned);
    let header = lines.next().unwrap();
    let mut rows: Vec<String> = lines.collect();
    change(&mut rows);
    rows.iter().fold(header + "\n", |text, row| text + row + "\n")
}

/// A column is added to a CSV text.
pub(crate) fn with_column(csv: &str, name: &str, value: impl Fn(usize) -> String) -> String {
    let rows = csv.lines().enumerate().map(|(number, line)| {
        let value = if number == 0 { name.to_owned() } else { value(number - 1) };
        format!("{line},{value}\n")
    });
    rows.collect()
}

/// The same order in every run, and no order that means anything.
pub(crate) fn shuffle<T>(items: &mut [T]) {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for index in (1..items.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(index, usize::try_from(state >> 33).unwrap() % (index + 1));
    }
}
