//! JSON: reading it without loss, and comparing two documents.

use super::ROW_BYTES;
use crate::error::Error;
use crate::options::Options;
use crate::report::{Finding, FindingKind};
use crate::rows::Stop;
use crate::story::{Story, cut};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Documents nested more deeply than this are not read as JSON.
const MOST_DEPTH: usize = 100;

/// Paths with differences that are told one by one.
const MOST_PATHS: usize = 200;

/// The entries of an object in their order, their values as they are written: a number keeps all its digits.
pub(super) struct Object<'a>(pub(super) Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut entries = vec![];
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Object(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// One level of a document.
enum Node<'a> {
    Object(Vec<(String, &'a RawValue)>),
    Array(Vec<&'a RawValue>),
    Text(String),
    /// A number, `true`, `false` or `null` as it is written.
    Other(&'a str),
}

fn node(raw: &RawValue) -> Result<Node<'_>, serde_json::Error> {
    let text = raw.get();
    Ok(match text.as_bytes().first() {
        Some(b'{') => Node::Object(serde_json::from_str::<Object<'_>>(text)?.0),
        Some(b'[') => Node::Array(serde_json::from_str(text)?),
        Some(b'"') => Node::Text(serde_json::from_str(text)?),
        _ => Node::Other(text),
    })
}

/// Appends the one spelling that all spellings of a value have in common.
pub(super) fn canonical(raw: &RawValue, depth: usize, out: &mut String) -> Result<(), String> {
    if depth > MOST_DEPTH {
        return Err(format!("nested more than {MOST_DEPTH} levels deep"));
    }
    match node(raw).map_err(|error| error.to_string())? {
        Node::Object(mut entries) => {
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            out.push('{');
            for (key, value) in entries {
                push_text(&key, out);
                out.push(':');
                canonical(value, depth + 1, out)?;
                out.push(',');
            }
            out.push('}');
        }
        Node::Array(elements) => {
            out.push('[');
            for element in elements {
                canonical(element, depth + 1, out)?;
                out.push(',');
            }
            out.push(']');
        }
        Node::Text(text) => push_text(&text, out),
        Node::Other(text) => out.push_str(text),
    }
    Ok(())
}

fn push_text(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// The text to show for a value, and to look into: a string without its quotes.
pub(super) fn shown(raw: &RawValue) -> String {
    match node(raw) {
        Ok(Node::Text(text)) => text,
        _ => raw.get().to_owned(),
    }
}

/// Reads a document; `Broken` when it is too large or no JSON.
fn read(path: &Path) -> Result<Box<RawValue>, Stop> {
    let mut bytes = vec![];
    let file = File::open(path).map_err(Error::read(path))?;
    file.take(ROW_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(Error::read(path))?;
    if bytes.len() > ROW_BYTES {
        return Err(Stop::Broken(format!("a document of more than {} MiB", ROW_BYTES >> 20)));
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    serde_json::from_slice(text).map_err(|error| Stop::Broken(error.to_string()))
}

/// Compares two documents of one value each; a failure is of the left side or, when true, of the right.
pub(crate) fn compare(left: &Path, right: &Path, options: &Options) -> Result<Vec<Finding>, (bool, Stop)> {
    let (from_left, from_right) =
        (read(left).map_err(|stop| (false, stop))?, read(right).map_err(|stop| (true, stop))?);
    let mut differences = Differences { options, paths: BTreeMap::new(), findings: vec![] };
    differences.walk("$", &from_left, &from_right, 0).map_err(|reason| (false, Stop::Broken(reason)))?;
    let mut findings = differences.findings;
    for (path, (differing, compared, story)) in differences.paths {
        if differing > 0 {
            findings.push(tell(&path, differing, compared, &story, options));
        }
    }
    findings.truncate(MOST_PATHS);
    if findings.is_empty() {
        let text = "the same JSON, written in another way (order of keys, spaces or escapes)";
        findings.push(
            Finding::new(FindingKind::JsonSpelling, false, text)
                .hint("Write with sorted keys and a fixed indentation."),
        );
    }
    Ok(findings)
}

fn tell(path: &str, differing: u64, compared: u64, story: &Story<'_>, options: &Options) -> Finding {
    let mut text = format!("`{path}` differs");
    if compared > 1 {
        text += &format!(" in {differing} of {compared} places");
    }
    let mut finding =
        Finding::new(FindingKind::JsonValue, true, String::new()).column(path).counts(differing, compared);
    let name = path.rsplit('.').next().unwrap_or(path);
    if let Some(told) = story.tell(name, (differing, compared)) {
        text += &format!(": {}", told.phrase);
        finding.cause = told.cause;
        finding.hint = told.hint;
        finding.largest_relative_difference = told.largest;
        if let (Some(tolerance), Some(largest)) = (options.tolerance, told.largest) {
            finding.is_content = largest > tolerance;
        }
    } else if let Some(example) = story.examples().first() {
        let side = |text: &Option<String>| text.clone().unwrap_or_default();
        text += &format!(": `{}` and `{}`, for instance", side(&example.left), side(&example.right));
    }
    finding.text = text;
    finding.examples = story.examples().to_vec();
    finding
}

struct Differences<'a> {
    options: &'a Options,
    /// For each path, with `[*]` for any element: how many values differ, of how many, and their story.
    paths: BTreeMap<String, (u64, u64, Story<'a>)>,
    findings: Vec<Finding>,
}

impl Differences<'_> {
    fn walk(&mut self, path: &str, left: &RawValue, right: &RawValue, depth: usize) -> Result<(), String> {
        if depth > MOST_DEPTH {
            return Err(format!("nested more than {MOST_DEPTH} levels deep"));
        }
        let read = |raw| node(raw).map_err(|error| error.to_string());
        match (read(left)?, read(right)?) {
            (Node::Object(left), Node::Object(right)) => self.objects(path, &left, &right, depth),
            (Node::Array(left), Node::Array(right)) => self.arrays(path, &left, &right, depth),
            (Node::Text(a), Node::Text(b)) => {
                self.scalar(path, &a, &b, a != b);
                Ok(())
            }
            _ => {
                self.scalar(path, left.get(), right.get(), left.get() != right.get());
                Ok(())
            }
        }
    }

    fn scalar(&mut self, path: &str, left: &str, right: &str, is_different: bool) {
        if self.paths.len() >= MOST_PATHS * 10 && !self.paths.contains_key(path) {
            return;
        }
        let background = self.options.background();
        let entry = self.paths.entry(path.to_owned()).or_insert_with(|| (0, 0, Story::new(background)));
        entry.1 += 1;
        if is_different {
            entry.0 += 1;
            entry.2.add(Some(left.as_bytes()), Some(right.as_bytes()));
        }
    }

    fn objects(
        &mut self,
        path: &str,
        left: &[(String, &RawValue)],
        right: &[(String, &RawValue)],
        depth: usize,
    ) -> Result<(), String> {
        let by_key: BTreeMap<&str, &RawValue> = right.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        let mut seen = std::collections::HashSet::new();
        for (key, value) in left {
            seen.insert(key.as_str());
            let inner = format!("{path}.{key}");
            match by_key.get(key.as_str()) {
                Some(other) => self.walk(&inner, value, other, depth + 1)?,
                None => self.alone(&inner, "left", value),
            }
        }
        for (key, value) in right.iter().filter(|(key, _)| !seen.contains(key.as_str())) {
            self.alone(&format!("{path}.{key}"), "right", value);
        }
        Ok(())
    }

    fn alone(&mut self, path: &str, side: &str, value: &RawValue) {
        if self.findings.len() < MOST_PATHS {
            let text = format!("`{path}` is only on the {side} side: {}", cut(value.get()));
            self.findings.push(Finding::new(FindingKind::JsonValue, true, text).column(path));
        }
    }

    fn arrays(&mut self, path: &str, left: &[&RawValue], right: &[&RawValue], depth: usize) -> Result<(), String> {
        let spell = |elements: &[&RawValue]| -> Result<Vec<String>, String> {
            let spell = |element: &&RawValue| {
                let mut text = String::new();
                canonical(element, depth, &mut text).map(|()| text)
            };
            elements.iter().map(spell).collect()
        };
        let (mut spelled_left, mut spelled_right) = (spell(left)?, spell(right)?);
        if spelled_left == spelled_right {
            return Ok(());
        }
        spelled_left.sort_unstable();
        spelled_right.sort_unstable();
        if spelled_left == spelled_right {
            let text = format!("`{path}` has the same elements in another order");
            self.findings.push(
                Finding::new(FindingKind::RowOrder, true, text)
                    .column(path)
                    .hint("Sort the elements before writing them."),
            );
            return Ok(());
        }
        if left.len() != right.len() {
            let text =
                format!("`{path}` has {} elements on the left side and {} on the right", left.len(), right.len());
            let kind = if left.len() > right.len() { FindingKind::RowsRemoved } else { FindingKind::RowsAdded };
            self.findings.push(Finding::new(kind, true, text).column(path));
            return Ok(());
        }
        let inner = format!("{path}[*]");
        left.iter().zip(right).try_for_each(|(left, right)| self.walk(&inner, left, right, depth + 1))
    }
}
