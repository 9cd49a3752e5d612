//! `cargo xtask tidy`: rules of this repository that no compiler checks.

mod faults;
mod rules;
mod source;

use crate::command::{Outcome, capture, command, root};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// One breach of a rule.
#[derive(Debug, PartialEq, Eq)]
struct Breach {
    path: PathBuf,
    /// Counted from 1; 0 when the whole file is meant.
    line: usize,
    message: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path.display(), self.message),
            line => write!(f, "{}:{line}: {}", self.path.display(), self.message),
        }
    }
}

/// A tracked text file.
struct File {
    /// Relative to the root.
    path: PathBuf,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "rs")
    }
}

/// Checks all tracked files and names every breach.
pub(crate) fn run() -> Outcome {
    let files = tracked_files()?;
    let mut breaches = vec![];
    for file in &files {
        breaches.extend(rules::check(file));
    }
    breaches.extend(faults::check(&files)?);
    if breaches.is_empty() {
        println!("tidy: {} files hold to the rules", files.len());
        return Ok(());
    }
    let lines: Vec<String> = breaches.iter().map(ToString::to_string).collect();
    Err(format!("{}\ntidy: {} breaches", lines.join("\n"), breaches.len()))
}

/// The text files that git tracks; in a copy of the tree without git, all files that are no build product.
fn tracked_files() -> Outcome<Vec<File>> {
    let paths = if root().join(".git").exists() { from_git()? } else { from_tree()? };
    let mut files = vec![];
    for path in paths {
        let full = root().join(&path);
        // A link has no text of its own, and a file that was deleted but not yet committed has none at all.
        let Ok(metadata) = fs::symlink_metadata(&full) else { continue };
        if !metadata.is_file() {
            continue;
        }
        let bytes = fs::read(&full).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(File { path, text });
        }
    }
    Ok(files)
}

fn from_git() -> Outcome<Vec<PathBuf>> {
    let mut list = command("git");
    // The tree may belong to another user than the one who tests it.
    list.args(["-c", "safe.directory=*", "ls-files", "-z"]);
    let output = String::from_utf8_lossy(&capture(list)?).into_owned();
    Ok(output.split('\0').filter(|path| !path.is_empty()).map(PathBuf::from).collect())
}

fn from_tree() -> Outcome<Vec<PathBuf>> {
    let mut found = vec![];
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        let entries = fs::read_dir(root().join(&directory))
            .map_err(|error| format!("cannot list {}: {error}", directory.display()))?;
        for entry in entries {
            let entry = entry.map_err(|error| format!("cannot list {}: {error}", directory.display()))?;
            let path = directory.join(entry.file_name());
            let is_product = directory == Path::new("") && entry.file_name().to_string_lossy().starts_with("target");
            if is_product {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
