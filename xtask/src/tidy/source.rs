//! Which lines of a Rust file are code of the program, and which are comments or tests.

use super::File;
use std::path::{Component, Path};

/// Directories and crates whose code is no part of the program.
const DEVELOPMENT: &[&str] = &["xtask", "crates/refrain-testkit"];

/// The file's lines of code, numbered from 1, without comment lines.
pub(super) fn code(file: &File) -> impl Iterator<Item = (usize, &str)> {
    file.text.lines().enumerate().map(|(index, line)| (index + 1, line)).filter(|(_, line)| !is_comment(line))
}

/// The lines of code that end up in the program: no tests, no comments.
pub(super) fn production(file: &File) -> Vec<(usize, &str)> {
    if !file.is_rust() || is_test_file(&file.path) {
        return vec![];
    }
    let end = start_of_inline_tests(&file.text).unwrap_or(usize::MAX);
    code(file).filter(|(number, _)| *number < end).collect()
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

fn is_test_file(path: &Path) -> bool {
    DEVELOPMENT.iter().any(|prefix| path.starts_with(prefix))
        || path.file_name().is_some_and(|name| name == "tests.rs" || name == "build.rs")
        || path
            .components()
            .any(|part| matches!(part, Component::Normal(name) if name == "tests" || name == "examples"))
}

/// The line of the `#[cfg(test)]` that opens the inline test module, which is the last item of a file.
fn start_of_inline_tests(text: &str) -> Option<usize> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let starts = |index: usize| {
        let item = lines[index + 1..].iter().find(|line| !line.starts_with("#["));
        lines[index] == "#[cfg(test)]" && item.is_some_and(|item| item.starts_with("mod ") && item.ends_with('{'))
    };
    (0..lines.len()).find(|&index| starts(index)).map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::{File, production};
    use std::path::PathBuf;

    fn numbers(path: &str, text: &str) -> Vec<usize> {
        let file = File { path: PathBuf::from(path), text: text.to_owned() };
        production(&file).into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn tests_and_comments_are_no_production_code() {
        let text =
            "one();\n// two\nthree();\n#[cfg(test)]\nfn helper() {}\n#[cfg(test)]\nmod tests {\n    seven();\n}\n";
        assert_eq!(numbers("crates/a/src/lib.rs", text), [1, 3, 4, 5]);
        assert_eq!(numbers("crates/a/src/lib.rs", "#[cfg(test)]\nmod tests;\nthree();\n"), [1, 2, 3]);
        for path in ["crates/a/tests/b.rs", "crates/a/src/b/tests.rs", "xtask/src/main.rs", "crates/a/README.md"] {
            assert!(numbers(path, text).is_empty(), "{path}");
        }
    }
}
