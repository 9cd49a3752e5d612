//! What there is at an address: one object, or all below a prefix, as the store tells without sending content.

use blake3::Hasher;
use refrain_core::{Error, ErrorKind, Result};
use refrain_object::{Address, Bucket, Version};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt::Write;

/// So many objects are named.
const NAMED: usize = 3;

/// Everything that an input of objects consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) address: Address,
    /// In the order of their names.
    pub(super) objects: Vec<Listed>,
}

/// One object of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listed {
    /// What follows the prefix in its key; empty for an input that is one object.
    pub(super) name: String,
    pub(super) bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) e_tag: Option<String>,
    /// The version id or generation, where the store told one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    /// When it was written, by the store's clock.
    pub(super) modified: String,
    /// Of the content that was fetched, as `blake3:<hex>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<String>,
}

impl Listed {
    pub(super) fn version(&self) -> Version {
        Version { e_tag: self.e_tag.clone(), version: self.version.clone() }
    }

    /// What changes with the content. Version ids are none: a listing tells none, and a bucket whose versions are switched
    /// on gives one to objects that nobody touched.
    fn tag(&self) -> &str {
        let e_tag = self.e_tag.as_deref().map(|tag| tag.trim_start_matches("W/").trim_matches('"'));
        e_tag.or(self.version.as_deref()).unwrap_or(&self.modified)
    }

    fn is_unchanged_since(&self, before: &Self) -> bool {
        self.bytes == before.bytes && self.tag() == before.tag()
    }

    /// The same, and nobody wrote the same content again: equal contents have equal tags with S3, and whoever read it
    /// in between may have read something else.
    fn is_unwritten_since(&self, before: &Self) -> bool {
        self.is_unchanged_since(before)
            && self.modified == before.modified
            && (self.version.is_none() || before.version.is_none() || self.version == before.version)
    }
}

impl Found {
    /// Asks the store: one request for an object, one for each thousand of a prefix.
    ///
    /// # Errors
    /// `invalid` when there is nothing; those of the store.
    pub(super) fn take(bucket: &Bucket, address: &Address) -> Result<Self> {
        let missing = |what: &str| Error::invalid(format!("the input `{address}` does not exist: {what}"));
        let mut objects = Vec::new();
        if address.is_prefix() {
            bucket.list(&address.key, |entry| {
                let name = entry.key.strip_prefix(&address.key).unwrap_or_default().to_owned();
                let (bytes, Version { e_tag, version }) = (entry.size, entry.version);
                let modified = entry.modified.to_string();
                objects.push(Listed { name, bytes, e_tag, version, modified, digest: None });
                Ok(())
            })?;
            drop_markers(&mut objects);
            if objects.is_empty() {
                return Err(missing("there is no object below it"));
            }
        } else {
            let object = bucket.head(&address.key)?.ok_or_else(|| missing("there is no such object"))?;
            let (bytes, Version { e_tag, version }) = (object.size, object.version);
            let (name, modified) = (String::new(), object.modified.to_string());
            objects.push(Listed { name, bytes, e_tag, version, modified, digest: None });
        }
        Ok(Self { address: address.clone(), objects })
    }

    /// In one line: equal exactly when the store says that nothing was written, added or removed.
    pub(super) fn version(&self) -> String {
        if let ([object], false) = (self.objects.as_slice(), self.address.is_prefix()) {
            return format!("object of {} bytes, etag {}", object.bytes, object.tag());
        }
        let mut hasher = Hasher::new();
        hasher.update(b"refrain listing 1\0");
        for object in &self.objects {
            for part in [&object.name, object.bytes.to_string().as_str(), object.tag()] {
                hasher.update(part.as_bytes()).update(&[0]);
            }
        }
        format!("{} objects, blake3:{}", self.objects.len(), hasher.finalize().to_hex())
    }

    /// Size of all objects, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.bytes).sum()
    }

    /// The name of the content for whoever reads it: the last part of the key.
    pub(super) fn base(&self) -> &str {
        let key = self.address.key.trim_end_matches('/');
        let last = key.rsplit('/').next().unwrap_or_default();
        if last.is_empty() { &self.address.bucket } else { last }
    }

    pub(super) fn key(&self, object: &Listed) -> String {
        format!("{}{}", self.address.key, object.name)
    }

    /// What differs in `now`, as part of a sentence; nothing if it is the same.
    pub(super) fn changes(&self, now: &Self) -> Option<String> {
        self.compare(now, Listed::is_unchanged_since)
    }

    /// The same, and what was written with the same content differs, too.
    pub(super) fn changes_while_reading(&self, now: &Self) -> Option<String> {
        self.compare(now, Listed::is_unwritten_since)
    }

    fn compare(&self, now: &Self, same: impl Fn(&Listed, &Listed) -> bool) -> Option<String> {
        let (mut old, mut new) = (self.objects.iter().peekable(), now.objects.iter().peekable());
        let mut text = String::new();
        let mut count = 0;
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(one), Some(other)) => one.name.cmp(&other.name),
            };
            let (object, how) = match order {
                Ordering::Less => (old.next(), "is gone"),
                Ordering::Greater => (new.next(), "is new"),
                Ordering::Equal => match (old.next(), new.next()) {
                    (Some(one), Some(other)) if !same(other, one) => (Some(one), "changed"),
                    _ => continue,
                },
            };
            count += 1;
            if let Some(object) = object.filter(|_| count <= NAMED) {
                let comma = if count == 1 { "" } else { ", " };
                let name = if object.name.is_empty() { self.base() } else { &object.name };
                // Writing to a text cannot fail.
                let _infallible = write!(text, "{comma}`{name}` {how}");
            }
        }
        match count {
            0 => None,
            few if few <= NAMED => Some(text),
            many => Some(format!("{text}, and {} more", many - NAMED)),
        }
    }

    /// Refuses what no directory can hold.
    ///
    /// # Errors
    /// `unsupported` when a name is that of an object and the beginning of another's.
    pub(super) fn refuse_no_tree(&self) -> Result<()> {
        let directories = directories(&self.objects);
        let both = self.objects.iter().find(|object| directories.contains(object.name.as_str()));
        both.map_or(Ok(()), |object| {
            Err(Error::new(
                ErrorKind::Unsupported,
                format!("`{}` is an object and there are others below it, as no directory can hold them", object.name),
            )
            .hint("use `pin = \"verify\"`, which copies nothing, or a longer prefix"))
        })
    }
}

/// What consoles and copying tools leave to show a directory: an object of no bytes whose key ended with `/`. Of one
/// that is all of its directory only the fetch finds that it cannot be read.
fn drop_markers(objects: &mut Vec<Listed>) {
    objects.retain(|object| !object.name.is_empty());
    let directories: BTreeSet<String> = directories(objects).into_iter().map(str::to_owned).collect();
    objects.retain(|object| object.bytes > 0 || !directories.contains(&object.name));
}

fn directories(objects: &[Listed]) -> BTreeSet<&str> {
    let above = |object| {
        let Listed { name, .. }: &Listed = object;
        name.match_indices('/').filter_map(|(at, _)| name.get(..at))
    };
    objects.iter().flat_map(above).collect()
}

#[cfg(test)]
mod tests {
    use super::{Found, Listed, drop_markers};
    use refrain_object::Address;

    fn object(name: &str, bytes: u64, e_tag: &str, modified: &str) -> Listed {
        let e_tag = Some(e_tag.to_owned());
        Listed { name: name.to_owned(), bytes, e_tag, version: None, modified: modified.to_owned(), digest: None }
    }

    fn found(objects: Vec<Listed>) -> Found {
        Found { address: Address::parse("s3://lake/raw/").unwrap(), objects }
    }

    #[test]
    fn obj_05_a_version_changes_with_the_content_and_with_nothing_else() {
        let one = found(vec![object("a", 1, "\"x\"", "1")]);
        let mut versions_on = found(vec![object("a", 1, "W/\"x\"", "2")]);
        versions_on.objects[0].version = Some("null".to_owned());
        assert_eq!(one.version(), versions_on.version());
        for other in [
            vec![object("a", 1, "y", "1")],
            vec![object("a", 2, "x", "1")],
            vec![object("b", 1, "x", "1")],
            vec![object("a", 1, "x", "1"), object("b", 0, "z", "1")],
        ] {
            assert_ne!(one.version(), found(other).version());
        }
    }

    #[test]
    fn what_was_written_again_with_the_same_content_shows_while_it_is_read() {
        let before = found(vec![object("a", 1, "x", "1"), object("b", 1, "x", "1"), object("c", 1, "x", "1")]);
        let after = found(vec![object("a", 1, "x", "2"), object("b", 1, "y", "1"), object("d", 1, "x", "1")]);
        assert_eq!(before.changes(&after).unwrap(), "`b` changed, `c` is gone, `d` is new");
        assert_eq!(before.changes_while_reading(&after).unwrap(), "`a` changed, `b` changed, `c` is gone, and 1 more");
        assert_eq!(before.changes_while_reading(&before), None);
    }

    #[test]
    fn markers_of_directories_are_no_objects_of_the_input() {
        let mut objects = vec![object("", 0, "x", "1"), object("a", 0, "x", "1"), object("a/b", 1, "x", "1")];
        drop_markers(&mut objects);
        assert_eq!(objects.iter().map(|object| object.name.as_str()).collect::<Vec<_>>(), ["a/b"]);
        let both = found(vec![object("a", 3, "x", "1"), object("a/b", 1, "x", "1")]);
        assert!(both.refuse_no_tree().unwrap_err().message.starts_with("`a` is an object"));
    }
}
