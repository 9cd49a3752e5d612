//! What a publication was made from: one digest, and the list of everything that entered it.
//!
//! The digest is the same in every process and language, for it is taken over this encoding and nothing else
//! (integers big-endian, lengths and counts as 8 bytes, no normalisation of strings):
//!
//! | value | bytes |
//! | --- | --- |
//! | null | `00` |
//! | bool | `01`, then `00` or `01` |
//! | integer | `02`, then 8 bytes two's complement |
//! | text | `03`, length, UTF-8 |
//! | bytes | `04`, length, bytes |
//! | list | `05`, count, the items |
//! | map | `06`, count, then key as text and value, keys in ascending order of their bytes |
//!
//! digest = BLAKE3 of the text `refrain fingerprint 1` and the map from part to value, both encoded. There are no
//! floats: their text differs between languages, so a float is given as the text the user wrote.
//!
//! What differs from attempt to attempt (paths of staging, host, user, times, tokens) must not be added, or every
//! retry looks new; nor must secrets, since short values are stored readably: add a specification as it was declared,
//! before placeholders and `${ENV}` are filled in.

#[cfg(test)]
mod tests;

use crate::{Calendar, Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The encoding's name; it enters every digest, so that a later encoding cannot meet this one by accident.
const VERSION: &str = "refrain fingerprint 1";

/// Values whose readable form is longer are kept as a digest.
const LONGEST_READABLE: usize = 120;

/// A value that may enter a fingerprint. Integer 1 and text `1` are different values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Text, byte for byte: composed and decomposed letters differ.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Values in an order that matters.
    List(Vec<Value>),
    /// Values by name; the order they were added in does not matter.
    Map(BTreeMap<String, Value>),
}

impl Value {
    /// The unambiguous bytes that digests are taken over.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode_into(&mut bytes);
        bytes
    }

    /// The value of a JSON document. Refuses fractions and integers beyond 64 bits.
    pub fn from_json(json: &serde_json::Value) -> Result<Self> {
        Ok(match json {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(flag) => Self::Bool(*flag),
            serde_json::Value::String(text) => Self::Text(text.clone()),
            serde_json::Value::Number(number) => Self::Integer(number.as_i64().ok_or_else(|| {
                Error::invalid(format!("{number} cannot be a parameter: it is not a whole number of 64 bits"))
                    .hint(format!("give it as text: \"{number}\""))
            })?),
            serde_json::Value::Array(items) => Self::List(items.iter().map(Self::from_json).collect::<Result<_>>()?),
            serde_json::Value::Object(members) => Self::Map(
                (members.iter())
                    .map(|(name, member)| Ok((name.clone(), Self::from_json(member)?)))
                    .collect::<Result<_>>()?,
            ),
        })
    }

    fn encode_into(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Null => bytes.push(0),
            Self::Bool(flag) => bytes.extend([1, u8::from(*flag)]),
            Self::Integer(number) => {
                bytes.push(2);
                bytes.extend(number.to_be_bytes());
            }
            Self::Text(text) => encode_text(text, bytes),
            Self::Bytes(content) => {
                bytes.push(4);
                encode_size(content.len(), bytes);
                bytes.extend(content);
            }
            Self::List(items) => {
                bytes.push(5);
                encode_size(items.len(), bytes);
                for item in items {
                    item.encode_into(bytes);
                }
            }
            Self::Map(members) => {
                bytes.push(6);
                encode_size(members.len(), bytes);
                for (name, member) in members {
                    encode_text(name, bytes);
                    member.encode_into(bytes);
                }
            }
        }
    }

    /// The form kept in the list of parts: readable when short, else a digest. Different values differ here too.
    fn summary(&self) -> String {
        let readable = self.to_string();
        if readable.len() <= LONGEST_READABLE { readable } else { digest_of(&self.encode()) }
    }
}

impl fmt::Display for Value {
    /// JSON, with bytes as `hex:0a1b`, which no other value prints as.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(flag) => write!(f, "{flag}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{}", serde_json::Value::from(text.as_str())),
            Self::Bytes(content) => {
                f.write_str("hex:")?;
                content.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "" } else { "," })?;
                }
                f.write_str("]")
            }
            Self::Map(members) => {
                f.write_str("{")?;
                for (index, (name, member)) in members.iter().enumerate() {
                    let name = serde_json::Value::from(name.as_str());
                    write!(f, "{}{name}:{member}", if index == 0 { "" } else { "," })?;
                }
                f.write_str("}")
            }
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

/// Digest of everything that entered, and the list of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint {
    /// `blake3:<hex>`.
    pub digest: String,
    /// Part (`command`, `code:delays.py`, `param:REGION`) to its short canonical value or digest.
    pub parts: BTreeMap<String, String>,
}

impl Fingerprint {
    /// Begins an empty fingerprint.
    pub fn builder() -> FingerprintBuilder {
        FingerprintBuilder::default()
    }

    /// Stands where nobody knows what something was made from.
    pub fn unknown() -> Self {
        Self { digest: "unknown".to_owned(), parts: BTreeMap::new() }
    }

    /// Whether it says anything.
    pub fn is_known(&self) -> bool {
        !self.parts.is_empty()
    }
}

/// Collects what a publication is made from. The order of the calls does not matter; of two values for the same part
/// the later stands.
#[derive(Clone, Debug, Default)]
pub struct FingerprintBuilder {
    parts: BTreeMap<String, Value>,
}

impl FingerprintBuilder {
    /// The command as a list of words, run as it stands.
    #[must_use]
    pub fn command<S: AsRef<str>>(self, words: &[S]) -> Self {
        self.part("command", Value::List(words.iter().map(|word| word.as_ref().into()).collect()))
    }

    /// The command as one line for a shell. Never equal to a list of words.
    #[must_use]
    pub fn shell(self, line: &str) -> Self {
        self.part("command", line.into())
    }

    /// A declared code file, under the name it was declared by, and the digest of its content.
    #[must_use]
    pub fn code(self, name: &str, digest: &str) -> Self {
        self.part(format!("code:{name}"), digest.into())
    }

    /// A parameter.
    #[must_use]
    pub fn param(self, name: &str, value: impl Into<Value>) -> Self {
        self.part(format!("param:{name}"), value.into())
    }

    /// An input and the version that is pinned.
    #[must_use]
    pub fn input(self, name: &str, version: &str) -> Self {
        self.part(format!("input:{name}"), version.into())
    }

    /// An output and where it is published.
    #[must_use]
    pub fn output(self, name: &str, place: &str) -> Self {
        self.part(format!("output:{name}"), place.into())
    }

    /// The calendar that says which interval a key stands for: in another zone the same key is another interval.
    #[must_use]
    pub fn calendar(self, calendar: &Calendar) -> Self {
        self.part("calendar", Value::Text(calendar.to_string()))
    }

    /// What the command's clock shows, where it is not the host's time.
    #[must_use]
    pub fn clock(self, clock: &str) -> Self {
        self.part("clock", clock.into())
    }

    /// The fingerprint of everything added.
    pub fn build(self) -> Fingerprint {
        let parts = self.parts.iter().map(|(name, value)| (name.clone(), value.summary())).collect();
        let mut bytes = Value::from(VERSION).encode();
        Value::Map(self.parts).encode_into(&mut bytes);
        Fingerprint { digest: digest_of(&bytes), parts }
    }

    fn part(mut self, name: impl Into<String>, value: Value) -> Self {
        self.parts.insert(name.into(), value);
        self
    }
}

/// How a part differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// Only the new fingerprint has it.
    Added,
    /// Only the old fingerprint has it.
    Removed,
    /// Both have it with different values.
    Changed,
}

/// One part in which two fingerprints differ. Prints as in "code `delays.py` changed".
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Difference {
    /// The part, as in [`Fingerprint::parts`].
    pub part: String,
    /// How it differs.
    pub kind: DifferenceKind,
    /// The old short value, if there was one.
    pub old: Option<String>,
    /// The new short value, if there is one.
    pub new: Option<String>,
}

impl Difference {
    /// As printed, with both values: parameter `late_after` changed: "15" -> "30". Digests are cut short.
    pub fn with_values(&self) -> String {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => format!("{self}: {} -> {}", shortened(old), shortened(new)),
            (None, Some(value)) | (Some(value), None) => format!("{self}: {}", shortened(value)),
            (None, None) => self.to_string(),
        }
    }
}

/// A digest within a value as people compare it: by its beginning.
fn shortened(value: &str) -> String {
    const KEPT: usize = "blake3:".len() + 12;
    let bare = value.trim_matches('"');
    match bare.get(..KEPT).filter(|start| start.starts_with("blake3:")) {
        Some(start) => start.to_owned(),
        None => value.to_owned(),
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part.split_once(':') {
            Some(("param", name)) => write!(f, "parameter `{name}`")?,
            Some((what, name)) => write!(f, "{what} `{name}`")?,
            None => write!(f, "the {}", self.part)?,
        }
        f.write_str(match self.kind {
            DifferenceKind::Added => " is new",
            DifferenceKind::Removed => " is declared no more",
            DifferenceKind::Changed => " changed",
        })
    }
}

/// The parts in which two fingerprints differ, in order of their names; empty exactly when the digests are equal.
pub fn differences(old: &Fingerprint, new: &Fingerprint) -> Vec<Difference> {
    let mut names: Vec<&String> = old.parts.keys().chain(new.parts.keys()).collect();
    names.sort();
    names.dedup();
    let difference = |name: &String| {
        let (before, after) = (old.parts.get(name), new.parts.get(name));
        let kind = match (before, after) {
            (Some(before), Some(after)) if before == after => return None,
            (Some(_), Some(_)) => DifferenceKind::Changed,
            (Some(_), None) => DifferenceKind::Removed,
            _ => DifferenceKind::Added,
        };
        Some(Difference { part: name.clone(), kind, old: before.cloned(), new: after.cloned() })
    };
    names.into_iter().filter_map(difference).collect()
}

fn encode_text(text: &str, bytes: &mut Vec<u8>) {
    bytes.push(3);
    encode_size(text.len(), bytes);
    bytes.extend(text.as_bytes());
}

fn encode_size(size: usize, bytes: &mut Vec<u8>) {
    // Lossless: no supported machine has pointers of more than 64 bits.
    bytes.extend((size as u64).to_be_bytes());
}

fn digest_of(bytes: &[u8]) -> String {
    format!("blake3:{}", blake3::hash(bytes).to_hex())
}
