//! The rules for single files.

use super::source::{code, production};
use super::{Breach, File};

/// More lines than this and a file holds more than one idea.
const MOST_LINES: usize = 800;

/// Something that only one module may touch.
struct Confined {
    what: &'static str,
    /// Any of these in a line of production code is a use.
    marks: &'static [&'static str],
    /// The files and directories where it may be used.
    allowed: &'static [&'static str],
}

const CLOCK: &[&str] = &["crates/refrain-core/src/clock.rs", "crates/refrain/src/clock.rs"];

const CONFINED: &[Confined] = &[
    Confined {
        what: "a rename that may not be durable belongs into the durable-rename module",
        marks: &["fs::rename", "renameat", "fs::hard_link"],
        // Inputs are moved and linked within the state directory alone, where nothing is durable.
        allowed: &["crates/refrain-sink/src/local/durable.rs", "crates/refrain-input/src/place.rs"],
    },
    Confined {
        what: "the time belongs into the clock module; take a `Clock`",
        marks: &["SystemTime::now", "Timestamp::now", "Zoned::now"],
        allowed: CLOCK,
    },
    Confined {
        what: "elapsed time belongs into the clock module, or beside the processes, kernel locks and servers that are waited for",
        marks: &["Instant::now"],
        allowed: &[
            CLOCK[0],
            CLOCK[1],
            "crates/refrain/src/process",
            "crates/refrain-sink/src/local/lock.rs",
            "crates/refrain-postgres/src/connect.rs",
            "crates/refrain-object/src/swap.rs",
        ],
    },
    Confined {
        what: "child processes belong into the process module",
        marks: &["Command::new"],
        allowed: &["crates/refrain/src/process", "crates/refrain-check"],
    },
    Confined {
        what: "randomness belongs into the modules that make identities",
        marks: &["Uuid::new_v4", "Uuid::now_v7"],
        allowed: &[
            "crates/refrain/src/ids.rs",
            "crates/refrain-store/src/chance.rs",
            "crates/refrain-object/src/canary.rs",
        ],
    },
    Confined {
        what: "an id derived from a name belongs into the module that documents how, for others derive it too",
        marks: &["Uuid::new_v5", "Uuid::new_v3"],
        allowed: &["crates/refrain/src/row_id.rs"],
    },
];

/// Marks of unfinished work, split so that this file does not hold them.
const UNFINISHED_WORDS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const UNFINISHED_CODE: &[&str] = &[concat!("todo", "!("), concat!("unimple", "mented!("), concat!("#[ig", "nore")];

/// All breaches of one file.
pub(super) fn check(file: &File) -> Vec<Breach> {
    let mut breaches = vec![];
    let mut add = |line: usize, message: String| breaches.push(Breach { path: file.path.clone(), line, message });

    for (index, line) in file.text.lines().enumerate() {
        for word in UNFINISHED_WORDS.iter().filter(|word| has_word(line, word)) {
            add(index + 1, format!("`{word}` marks unfinished work: finish it, or describe the limit"));
        }
    }
    if !file.is_rust() {
        return breaches;
    }
    let lines = file.text.lines().count();
    if lines > MOST_LINES {
        add(0, format!("{lines} lines; the limit is {MOST_LINES}: split it by ideas"));
    }
    for (number, line) in code(file) {
        for mark in UNFINISHED_CODE.iter().filter(|mark| line.contains(**mark)) {
            add(number, format!("`{mark}`: nothing is left out and no test is left off"));
        }
    }
    for rule in CONFINED.iter().filter(|rule| !rule.allowed.iter().any(|allowed| file.path.starts_with(allowed))) {
        for (number, line) in production(file) {
            if let Some(mark) = rule.marks.iter().find(|mark| line.contains(**mark)) {
                add(number, format!("`{mark}`: {}", rule.what));
            }
        }
    }
    breaches
}

/// Whether `word` stands in `line` with no letter, digit or underscore beside it.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |neighbour: Option<char>| neighbour.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(start, _)| {
        !is_part(line[..start].chars().next_back()) && !is_part(line[start + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::{File, MOST_LINES, UNFINISHED_CODE, UNFINISHED_WORDS, check};
    use std::path::PathBuf;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let file = File { path: PathBuf::from(path), text: text.to_owned() };
        check(&file).into_iter().map(|breach| breach.line).collect()
    }

    #[test]
    fn unfinished_work_is_found_and_a_template_is_not_mistaken_for_it() {
        for word in UNFINISHED_WORDS {
            assert_eq!(lines("README.md", &format!("fine\n({word}: later)\n")), [2]);
        }
        assert!(lines("a.sh", &format!("mktemp {0}{0}\n", UNFINISHED_WORDS[2])).is_empty());
        for mark in UNFINISHED_CODE {
            assert_eq!(lines("crates/a/src/b.rs", &format!("fn f() {{}}\n  {mark}\n")), [2]);
            assert!(lines("crates/a/src/b.rs", &format!("// {mark}\n")).is_empty());
        }
    }

    #[test]
    fn a_confined_call_is_allowed_in_its_module_only() {
        let text = "use std::fs;\nfs::rename(a, b);\n#[cfg(test)]\nmod tests {\n    fs::rename(a, b);\n}\n";
        assert_eq!(lines("crates/refrain-sink/src/file/commit.rs", text), [2]);
        assert!(lines("crates/refrain-sink/src/local/durable.rs", text).is_empty());
        assert_eq!(lines("crates/refrain-sink/src/local/durable.rs", "Instant::now();\n"), [1]);
        assert!(lines("crates/refrain/src/process/spawn.rs", "Command::new(a);\n").is_empty());
        assert!(lines("crates/refrain-cli/tests/kill.rs", "Command::new(a); Uuid::new_v4();\n").is_empty());
    }

    #[test]
    fn a_long_file_is_refused() {
        let line = "f();\n";
        assert!(lines("crates/a/src/b.rs", &line.repeat(MOST_LINES)).is_empty());
        assert_eq!(lines("crates/a/src/b.rs", &line.repeat(MOST_LINES + 1)), [0]);
    }
}
