//! `cargo xtask generate`: the files that are written from the program's own definitions.

use crate::command::{Outcome, build, capture, command, root, target_directory};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The reference of the command line, and the directory of the man pages.
const REFERENCE: &str = "docs/CLI.md";
const MAN_PAGES: &str = "docs/man";

/// Writes the generated files.
pub(crate) fn write() -> Outcome {
    let generated = generate()?;
    for stale in committed()?.keys().filter(|path| !generated.contains_key(*path)) {
        fs::remove_file(root().join(stale)).map_err(|error| format!("cannot remove {}: {error}", stale.display()))?;
        println!("removed {}", stale.display());
    }
    for (path, content) in generated {
        let target = root().join(&path);
        if fs::read(&target).is_ok_and(|present| present == content) {
            continue;
        }
        let directory = target.parent().unwrap_or(&target);
        fs::create_dir_all(directory)
            .and_then(|()| fs::write(&target, content))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// Fails when a generated file is missing, differs, or should not be there.
pub(crate) fn check() -> Outcome {
    let differences = differences(&committed()?, &generate()?);
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!("generated files are out of date; run: cargo xtask generate\n  {}", differences.join("\n  ")))
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn differences(committed: &Files, generated: &Files) -> Vec<String> {
    let mut differences = vec![];
    for (path, content) in generated {
        match committed.get(path) {
            None => differences.push(format!("{} is missing", path.display())),
            Some(present) if present != content => differences.push(format!("{} differs", path.display())),
            Some(_) => {}
        }
    }
    let left = committed.keys().filter(|path| !generated.contains_key(*path));
    differences.extend(left.map(|path| format!("{} is no longer generated", path.display())));
    differences
}

/// Asks the program, as it is built from this tree, for every generated file.
fn generate() -> Outcome<Files> {
    let program = build("refrain", &["--quiet"])?;
    let mut reference = command(&program);
    reference.args(["docs", "markdown"]);
    let mut files = Files::from([(PathBuf::from(REFERENCE), capture(reference)?)]);

    let directory = target_directory().join("generated-man");
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(|error| format!("cannot empty {}: {error}", directory.display()))?;
    }
    fs::create_dir_all(&directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    let mut pages = command(&program);
    pages.args(["docs", "man"]).arg(&directory);
    capture(pages)?;
    files.extend(read_flat(&directory, Path::new(MAN_PAGES))?);
    Ok(files)
}

/// The generated files as they stand in the repository.
fn committed() -> Outcome<Files> {
    let mut files = read_flat(&root().join(MAN_PAGES), Path::new(MAN_PAGES))?;
    if let Ok(reference) = fs::read(root().join(REFERENCE)) {
        files.insert(PathBuf::from(REFERENCE), reference);
    }
    Ok(files)
}

/// The files of `directory`, named as if they lay in `prefix`; none when the directory is missing.
fn read_flat(directory: &Path, prefix: &Path) -> Outcome<Files> {
    let mut files = Files::new();
    let Ok(entries) = fs::read_dir(directory) else { return Ok(files) };
    for entry in entries {
        let entry = entry.map_err(|error| format!("cannot list {}: {error}", directory.display()))?;
        let content = fs::read(entry.path());
        let content = content.map_err(|error| format!("cannot read {}: {error}", entry.path().display()))?;
        files.insert(prefix.join(entry.file_name()), content);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::{Files, differences};
    use std::path::PathBuf;

    fn files(pairs: &[(&str, &str)]) -> Files {
        pairs.iter().map(|(path, content)| (PathBuf::from(path), content.as_bytes().to_vec())).collect()
    }

    #[test]
    fn missing_different_and_superfluous_files_are_named() {
        let committed = files(&[("same", "1"), ("old", "1"), ("gone", "1")]);
        let generated = files(&[("same", "1"), ("old", "2"), ("new", "1")]);
        assert_eq!(
            differences(&committed, &generated),
            ["new is missing", "old differs", "gone is no longer generated"]
        );
        assert!(differences(&generated, &generated).is_empty());
    }
}
