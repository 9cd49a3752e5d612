//! Which object holds what.

use refrain_core::{Key, TaskName};

/// Who the store is.
pub(super) const STORE: &str = "store.json";

/// Which homes share it.
pub(super) const HOMES: &str = "homes.json";

/// What all names of keys' objects begin with.
pub(super) const KEYS: &str = "key/";

/// The longest part of a name that is a partition as it is written. A part of a key may be the name of a file, of which
/// file systems take 255 bytes.
const LONGEST: usize = 180;

/// So much of a longer partition is kept, for people.
const KEPT: usize = 100;

const SUFFIX: &str = ".json";

/// The object of a key.
pub(super) fn key(key: &Key) -> String {
    format!("{KEYS}{}/{}{SUFFIX}", key.task, partition(&key.partition))
}

/// What the names of the objects of one task's keys begin with.
pub(super) fn keys_of(task: &TaskName) -> String {
    format!("{KEYS}{task}/")
}

/// The object of a task's watermark.
pub(super) fn task(task: &TaskName) -> String {
    format!("task/{task}{SUFFIX}")
}

/// What the name of a key's object says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// The key.
    Key(Key),
    /// The partition is too long for a name: the object has it.
    Digest,
    /// It is none of ours.
    Foreign,
}

/// Reads the name of an object, without what the store's own address begins with.
pub(super) fn read(name: &str) -> Named {
    let parts =
        name.strip_prefix(KEYS).and_then(|rest| rest.strip_suffix(SUFFIX)).and_then(|rest| rest.split_once('/'));
    let Some((task, escaped)) = parts else { return Named::Foreign };
    let Ok(task) = task.parse::<TaskName>() else { return Named::Foreign };
    if escaped.contains("~~") {
        return Named::Digest;
    }
    unescape(escaped).map_or(Named::Foreign, |partition| Named::Key(Key { task, partition }))
}

/// Any text as a part of a name. Of the characters that no URL, signature or file system changes, `~` escapes: `%` is
/// decoded once too often here and there.
fn partition(text: &str) -> String {
    let escaped = escape(text);
    if escaped.len() <= LONGEST {
        return escaped;
    }
    let mut kept = text.len().min(KEPT);
    let begin = loop {
        let begin = escape(&text[..text.floor_char_boundary(kept)]);
        if begin.len() <= KEPT {
            break begin;
        }
        kept -= 1;
    };
    format!("{begin}~~{}", blake3::hash(text.as_bytes()).to_hex())
}

fn escape(text: &str) -> String {
    if text.is_empty() {
        return "~".to_owned();
    }
    let mut escaped = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        // A leading dot hides a file.
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || (byte == b'.' && at > 0);
        if plain {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("~{byte:02x}"));
        }
    }
    escaped
}

fn unescape(escaped: &str) -> Option<String> {
    if escaped == "~" {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'~' {
            let mut digit = || char::from(rest.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            bytes.push(digit()? * 16 + digit()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::{Named, key, read};
    use refrain_core::Key;
    use std::collections::BTreeSet;

    fn of(partition: &str) -> Key {
        Key { task: "daily".parse().unwrap(), partition: partition.to_owned() }
    }

    #[test]
    fn a_name_says_its_key_and_no_two_keys_have_one_name() {
        let long = "x".repeat(4000);
        let wide = "\u{fc}".repeat(300);
        let texts =
            ["", ".", "..", "~", "~~", "a/b", "a~2fb", "a b", "A", "a", "\n", "z\u{308}", "\u{17e}", "2013-01-01"];
        let mut names = BTreeSet::new();
        for text in texts.iter().copied().chain([long.as_str(), wide.as_str()]) {
            let name = key(&of(text));
            assert!(name.split('/').all(|part| part.len() <= 255 && !part.starts_with('.')), "{name}");
            let said = if text.len() > 200 { Named::Digest } else { Named::Key(of(text)) };
            assert_eq!(read(&name), said);
            assert!(names.insert(name));
        }
        assert_eq!(key(&of("2013-01-01")), "key/daily/2013-01-01.json");
        assert_eq!(key(&of("2013-01-01T05:00")), "key/daily/2013-01-01T05~3a00.json");
    }

    #[test]
    fn what_is_none_of_ours_is_told() {
        for name in
            ["store.json", "key/daily", "key/da ily/a.json", "key/daily/~f.json", "key/daily/~ff.json", "task/a.json"]
        {
            assert_eq!(read(name), Named::Foreign, "{name}");
        }
    }
}
