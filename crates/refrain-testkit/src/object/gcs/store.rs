//! What the server keeps.

use crate::object::access::sha256;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) buckets: BTreeMap<String, Contents>,
    generation: u64,
}

#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) objects: BTreeMap<String, Object>,
    /// By id.
    pub(super) uploads: BTreeMap<String, Upload>,
}

#[derive(Clone, Debug)]
pub(super) struct Object {
    /// Never that of another object that was under the key before.
    pub(super) generation: u64,
    pub(super) bytes: Arc<Vec<u8>>,
    pub(super) etag: String,
    pub(super) modified: SystemTime,
    /// What the writer said of it: content type, metadata and the like.
    pub(super) attributes: Vec<(String, String)>,
}

#[derive(Debug)]
pub(super) struct Upload {
    pub(super) key: String,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) parts: BTreeMap<u32, Vec<u8>>,
}

impl Store {
    /// A number that is larger than all before, as that of an object. With Google it is the time in microseconds.
    pub(super) fn next(&mut self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        self.generation = u64::try_from(now).unwrap_or(0).max(self.generation + 1);
        self.generation
    }

    pub(super) fn object(&mut self, bytes: Vec<u8>, attributes: Vec<(String, String)>) -> Object {
        let etag = etag(&bytes);
        Object { generation: self.next(), bytes: Arc::new(bytes), etag, modified: SystemTime::now(), attributes }
    }
}

/// Made of the content alone, as the stores' own are.
pub(super) fn etag(bytes: &[u8]) -> String {
    format!("\"{}\"", &sha256(bytes)[..32])
}

/// One page of a listing.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) keys: Vec<String>,
    pub(super) prefixes: Vec<String>,
    /// The last entry, if there are more.
    pub(super) last: Option<String>,
}

impl Contents {
    /// The entries after `after` that begin with `prefix`; keys that go on after a `delimiter` are one entry together.
    pub(super) fn list(&self, prefix: &str, delimiter: &str, after: &str, most: usize) -> Page {
        let mut page = Page::default();
        let mut last = String::new();
        for key in self.objects.keys().filter(|key| key.starts_with(prefix)) {
            let rest = &key[prefix.len()..];
            let end = if delimiter.is_empty() { None } else { rest.find(delimiter) };
            let entry = end.map_or(key.as_str(), |end| &key[..prefix.len() + end + delimiter.len()]);
            if entry <= after || page.prefixes.last().is_some_and(|prefix| prefix == entry) {
                continue;
            }
            if page.keys.len() + page.prefixes.len() == most {
                page.last = Some(last);
                return page;
            }
            let entries = if end.is_some() { &mut page.prefixes } else { &mut page.keys };
            entries.push(entry.to_owned());
            entry.clone_into(&mut last);
        }
        page
    }
}
