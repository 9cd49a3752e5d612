//! Homes of the corpus, and verdicts.

use refrain_testkit::program::{Home, Output, Refrain};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The program under test.
pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_refrain");
/// The day that everything is checked for.
pub(crate) const DAY: &str = "2013-01-01";

/// A copy of a part of the corpus, a home of its own, and a directory for the scratch copies of its checks.
pub(crate) struct Scene {
    pub(crate) home: Home,
    pub(crate) scratch: TempDir,
}

impl Scene {
    pub(crate) fn of(part: &str) -> Self {
        let home = Home::temp(BIN);
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check/corpus").join(part);
        copy(&corpus, home.path());
        Self { home, scratch: tempfile::tempdir().expect("a directory for scratch copies") }
    }

    /// A home with one task.
    pub(crate) fn with(toml: &str) -> Self {
        let scene = Self { home: Home::temp(BIN), scratch: tempfile::tempdir().expect("a directory") };
        scene.home.config(toml);
        scene
    }

    /// The program, whose surroundings do not depend on who runs the test.
    pub(crate) fn refrain(&self) -> Refrain {
        let fixed =
            [("TMPDIR", self.scratch.path().to_str().expect("UTF-8")), ("LC_ALL", "C"), ("LANG", "C"), ("TZ", "UTC")];
        fixed.iter().fold(self.home.refrain(), |refrain, (name, value)| refrain.env(name, value))
    }

    pub(crate) fn arguments(task: &str, flags: &[&str]) -> Vec<String> {
        let mut arguments = vec!["check".to_owned(), task.to_owned()];
        if task != "whole" {
            arguments.extend(["--date", DAY].map(str::to_owned));
        }
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        arguments
    }

    /// Checks with `--json`; the scratch copy must be gone afterwards and the home as it was.
    #[track_caller]
    pub(crate) fn check(&self, task: &str, flags: &[&str]) -> Checked {
        let before = digest(self.home.path());
        let output = self.refrain().run(Self::arguments(task, &[flags, &["--json"]].concat()));
        let verdict =
            serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("no verdict: {error}\n{output}"));
        assert_eq!(digest(self.home.path()), before, "the real home was touched\n{output}");
        let left: Vec<_> = fs::read_dir(self.scratch.path()).expect("the directory").flatten().collect();
        assert!(left.is_empty(), "the scratch copy stays: {left:?}\n{output}");
        Checked { output, verdict }
    }
}

impl Scene {
    /// Checks as an ordinary user, who is given the scratch directory and nothing else; `groups` is his own group and those
    /// that he is in besides.
    #[track_caller]
    pub(crate) fn check_as(&self, user: u32, groups: &[u32], task: &str, flags: &[&str]) -> Checked {
        owned(self.scratch.path(), user, groups[0], "755");
        // Where the program was built an ordinary user may not enter.
        let program = self.scratch.path().join("refrain");
        if fs::hard_link(BIN, &program).is_err() {
            fs::copy(BIN, &program).expect("a copy of the program");
        }
        let before = digest(self.home.path());
        let others: Vec<_> = groups.iter().skip(1).map(u32::to_string).collect();
        let others =
            if others.is_empty() { "--clear-groups".to_owned() } else { format!("--groups={}", others.join(",")) };
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={}", groups[0]), others]).arg(&program);
        command.args(Self::arguments(task, &[flags, &["--json", "--isolation", "shield"]].concat()));
        command.current_dir(self.home.path()).env("TMPDIR", self.scratch.path()).env("HOME", "/nonexistent");
        let output = Output::of(&mut command, b"");
        let verdict =
            serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("no verdict: {error}\n{output}"));
        assert_eq!(digest(self.home.path()), before, "the real home was touched\n{output}");
        fs::remove_file(&program).expect("the program");
        let left: Vec<_> = fs::read_dir(self.scratch.path()).expect("the directory").flatten().collect();
        assert!(left.is_empty(), "the scratch copy stays: {left:?}\n{output}");
        Checked { output, verdict }
    }
}

/// Gives a directory and all in it to somebody; its directories get this mode.
#[track_caller]
pub(crate) fn owned(directory: &Path, user: u32, group: u32, mode: &str) {
    let script = format!("chown -R {user}:{group} . && find . -type d -exec chmod {mode} {{}} +");
    let done = Command::new("sh").args(["-c", &script]).current_dir(directory).status().expect("start sh");
    assert!(done.success(), "chown (root?)");
}

/// What a check said.
pub(crate) struct Checked {
    pub(crate) output: Output,
    pub(crate) verdict: Value,
}

impl Checked {
    #[track_caller]
    pub(crate) fn ends(self, code: i32, result: &str) -> Self {
        assert_eq!(self.output.code, Some(code), "{}", self.output);
        assert_eq!(self.verdict["result"], result, "{}", self.output);
        assert_eq!(self.verdict["schema"], 1);
        self
    }

    #[track_caller]
    pub(crate) fn repeatable(self) -> Self {
        let checked = self.ends(0, "repeatable");
        assert_eq!(checked.verdict["findings"], Value::Array(vec![]), "{}", checked.output);
        checked
    }

    pub(crate) fn kinds(&self) -> Vec<&str> {
        self.findings().iter().map(|finding| finding["kind"].as_str().expect("a kind")).collect()
    }

    pub(crate) fn findings(&self) -> &[Value] {
        self.verdict["findings"].as_array().expect("a list of findings")
    }

    /// Fails the test unless exactly these kinds were found, and each of the words stands in a finding.
    #[track_caller]
    pub(crate) fn finds(self, kinds: &[&str], words: &[&str]) -> Self {
        let checked = self.ends(1, "not_repeatable");
        assert_eq!(checked.kinds(), kinds, "{}", checked.output);
        let text = checked.verdict["findings"].to_string();
        for word in words {
            assert!(text.contains(word), "expected `{word}`\n{}", checked.output);
        }
        for finding in checked.findings() {
            let said = |field: &str| finding[field].as_str().is_some_and(|text| !text.is_empty());
            assert!(said("what"), "what was seen: {finding}");
        }
        checked
    }

    pub(crate) fn shielded(&self) -> bool {
        self.verdict["watched"]["shielded"] == true
    }
}

/// Everything below a directory: names, contents, links, modes, and when each was last written.
pub(crate) fn digest(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut digest = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(path) = pending.pop() {
        let found = fs::symlink_metadata(&path).expect("look at a file");
        let content = if found.is_dir() {
            pending.extend(fs::read_dir(&path).expect("list").map(|entry| entry.expect("an entry").path()));
            String::new()
        } else if found.is_symlink() {
            fs::read_link(&path).expect("a link").display().to_string()
        } else {
            String::from_utf8_lossy(&fs::read(&path).expect("read")).into_owned()
        };
        let stamp =
            [found.mode().into(), found.ino(), found.mtime().cast_unsigned(), found.mtime_nsec().cast_unsigned()];
        digest.insert(path, format!("{stamp:?} {content}"));
    }
    digest
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").arg(from.join(".")).arg(to).status().expect("start cp");
    assert!(copied.success(), "cp");
}
