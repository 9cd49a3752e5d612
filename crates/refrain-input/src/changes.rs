//! What differs between two looks at an input.

use crate::listing::{Entry, Listing, Node};
use std::cmp::Ordering;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// So many files are named.
const NAMED: usize = 3;

/// Names of what differs, by path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes(Vec<(PathBuf, &'static str)>);

impl Changes {
    /// Compares contents, kinds and names.
    pub(crate) fn between(before: &Listing, after: &Listing) -> Self {
        compare(before, after, same_content)
    }

    /// The same, and a file that was written to differs even if it was given the same content again: whoever read it in
    /// between may have read something else. Another file of the same content and name does not.
    pub(crate) fn while_reading(before: &Listing, after: &Listing) -> Self {
        compare(before, after, |one, other| same_content(one, other) && !written(one, other))
    }

    /// Of a copy that nobody but this program may touch: whatever was done to it differs, even if it was undone and its
    /// times were set back, since nobody can set a ctime.
    pub(crate) fn while_held(before: &Listing, after: &Listing) -> Self {
        let Self(mut changes) = compare(before, after, |one, other| same_content(one, other) && !touched(one, other));
        for (path, how) in &mut changes {
            let node = |listing: &Listing| listing.entries.iter().find(|entry| entry.path == *path).cloned();
            if let (Some(one), Some(other)) = (node(before), node(after))
                && same_content(&one.node, &other.node)
            {
                *how = "was touched, and has the same content now";
            }
        }
        Self(changes)
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// As part of a sentence; `whole` is how an input of one file is called.
    pub(crate) fn describe(&self, whole: &Path) -> String {
        let mut text = String::new();
        for (index, (path, how)) in self.0.iter().take(NAMED).enumerate() {
            let path = if path.as_os_str().is_empty() { whole } else { path };
            let comma = if index == 0 { "" } else { ", " };
            // Writing to a text cannot fail.
            let _infallible = write!(text, "{comma}`{}` {how}", path.display());
        }
        match self.0.len().saturating_sub(NAMED) {
            0 => {}
            more => text.push_str(&format!(", and {more} more")),
        }
        text
    }
}

fn compare(before: &Listing, after: &Listing, same: impl Fn(&Node, &Node) -> bool) -> Changes {
    let mut changes = Vec::new();
    if before.is_file != after.is_file {
        return Changes(vec![(PathBuf::new(), "changed")]);
    }
    let (mut old, mut new) = (before.entries.iter().peekable(), after.entries.iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return Changes(changes),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => one.path.cmp(&other.path),
        };
        let mut add = |entry: Option<&Entry>, how| changes.extend(entry.map(|entry| (entry.path.clone(), how)));
        match order {
            Ordering::Less => add(old.next(), "is gone"),
            Ordering::Greater => add(new.next(), "is new"),
            Ordering::Equal => {
                if let (Some(one), Some(other)) = (old.next(), new.next())
                    && !same(&one.node, &other.node)
                {
                    add(Some(one), "changed");
                }
            }
        }
    }
}

fn same_content(one: &Node, other: &Node) -> bool {
    match (one, other) {
        (Node::File { stat: one, digest: known, .. }, Node::File { stat: other, digest, .. }) => {
            one.executable == other.executable && known.is_some() && known == digest
        }
        (Node::Link(one), Node::Link(other)) => one == other,
        (Node::Directory, Node::Directory) => true,
        _ => false,
    }
}

fn written(one: &Node, other: &Node) -> bool {
    let (Node::File { stat: one, .. }, Node::File { stat: other, .. }) = (one, other) else { return false };
    (one.device, one.inode) == (other.device, other.inode) && one.written_ns != other.written_ns
}

fn touched(one: &Node, other: &Node) -> bool {
    matches!((one, other), (Node::File { stat: one, .. }, Node::File { stat: other, .. }) if one != other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::Stat;

    fn listing(entries: &[(&str, &str, i64)]) -> Listing {
        let node = |content: &str, written_ns| Node::File {
            place: None,
            stat: Stat { written_ns, ..Stat::default() },
            digest: Some(blake3::hash(content.as_bytes())),
        };
        let entries =
            entries.iter().map(|(path, content, time)| Entry { path: path.into(), node: node(content, *time) });
        Listing { is_file: false, root: PathBuf::new(), entries: entries.collect(), followed: Vec::new() }
    }

    #[test]
    fn the_first_names_and_the_number_of_the_others_are_told() {
        let before = listing(&[("a", "1", 0), ("b", "1", 0), ("d", "1", 0), ("e", "1", 0), ("f", "1", 0)]);
        let after = listing(&[("a", "1", 5), ("b", "2", 5), ("c", "1", 0), ("e", "2", 0)]);
        let changes = Changes::between(&before, &after);
        let whole = Path::new("in");
        assert_eq!(changes.describe(whole), "`b` changed, `c` is new, `d` is gone, and 2 more");
        let strict = Changes::while_reading(&before, &after).describe(whole);
        assert_eq!(strict, "`a` changed, `b` changed, `c` is new, and 3 more", "written to, with the same content");
        assert!(Changes::between(&before, &before).is_none());
        assert_eq!(
            Changes::between(&listing(&[("", "1", 0)]), &listing(&[("", "2", 0)])).describe(whole),
            "`in` changed"
        );
    }
}
