//! Looks at many inputs one after the other, as a survey of many partitions does, without reading more than a bound.
//!
//! A file that did not move since its content was read is known by its stat (`seen`). Of contents that are not known only
//! so much is read; what was read is remembered together for each filesystem, and not with each directory, of which
//! there may be one for each partition.

use crate::listing::Listing;
use crate::local::{LocalInput, root_of};
use crate::location::Location;
use crate::seen::{Seen, trusted_device};
use refrain_core::Result;
use refrain_object::Address;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A file costs at least this of what may be read, in bytes.
const LEAST: u64 = 4096;

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlanceLimits {
    /// So many files, links and directories are listed before nothing more is.
    pub entries: usize,
    /// So much of contents that are not known is read, in bytes.
    pub bytes: u64,
}

/// What a glance at a location told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Glanced {
    /// Its version, as [`Input::version`](refrain_core::Input::version) tells it.
    Version(String),
    /// Its version would need more than the bound. The size of all files, in bytes, where it was listed.
    Unread(Option<u64>),
    /// It is not on this machine, and was not asked for.
    Elsewhere,
}

/// Looks, and remembers what it saw until [`Glance::end`].
#[derive(Debug)]
pub struct Glance<'i> {
    inputs: &'i LocalInput,
    left: GlanceLimits,
    /// What is remembered of each directory.
    seen: BTreeMap<PathBuf, Seen>,
    /// What glances remember of each filesystem; under nothing is what is remembered of none.
    read: BTreeMap<Option<u64>, Seen>,
    looked: BTreeMap<String, Glanced>,
}

impl<'i> Glance<'i> {
    pub(crate) fn new(inputs: &'i LocalInput, limits: GlanceLimits) -> Self {
        Self { inputs, left: limits, seen: BTreeMap::new(), read: BTreeMap::new(), looked: BTreeMap::new() }
    }

    /// What is at a location now.
    ///
    /// # Errors
    /// As those of [`Input::version`](refrain_core::Input::version).
    pub fn look(&mut self, location: &str) -> Result<Glanced> {
        if Address::is_one(location) {
            return Ok(Glanced::Elsewhere);
        }
        if let Some(looked) = self.looked.get(location) {
            return Ok(looked.clone());
        }
        if self.left.entries == 0 {
            return Ok(Glanced::Unread(None));
        }
        let listing = self.inputs.list(&Location::parse(location)?)?;
        self.left.entries = self.left.entries.saturating_sub(listing.entries.len().max(1));
        let looked = self.read(listing)?;
        self.looked.insert(location.to_owned(), looked.clone());
        Ok(looked)
    }

    fn read(&mut self, mut listing: Listing) -> Result<Glanced> {
        let (state, root) = (self.inputs.state(), root_of(&listing).to_owned());
        let seen = self.seen.entry(root.clone()).or_insert_with(|| Seen::of(state, &root));
        seen.recall(&mut listing);
        let device = trusted_device(&root);
        let read = self.read.entry(device).or_insert_with(|| match device {
            Some(device) => Seen::of_device(state, device),
            None => Seen::nothing(),
        });
        read.recall(&mut listing);
        let unknown = listing.files().filter(|(_, _, digest)| digest.is_none());
        let unknown: u64 = unknown.map(|(_, stat, _)| stat.bytes.max(LEAST)).sum();
        if unknown > self.left.bytes {
            return Ok(Glanced::Unread(Some(listing.bytes())));
        }
        self.left.bytes -= unknown;
        read.complete(&mut listing)?;
        let unread = || Glanced::Unread(Some(listing.bytes()));
        Ok(listing.version().map_or_else(unread, Glanced::Version))
    }

    /// Writes down what was read. A failure costs reading again.
    pub fn end(self) {
        self.read.into_values().for_each(Seen::save);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_core::{Input, NoProbe};
    use std::fs;
    use std::sync::Arc;

    const ALL: GlanceLimits = GlanceLimits { entries: 100, bytes: 1 << 20 };

    #[test]
    fn what_did_not_move_is_known_without_reading_and_what_a_glance_read_is_known_to_the_next() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().canonicalize().unwrap().join(name);
        for name in ["state", "a", "b"] {
            fs::create_dir(at(name)).unwrap();
        }
        for name in ["a/known", "a/new", "b/more"] {
            fs::write(at(name), name).unwrap();
        }
        let input = LocalInput::new(at("state"), Arc::new(NoProbe));
        let place = |name: &str| at(name).to_str().unwrap().to_owned();
        let version = |name: &str| Glanced::Version(input.version(&place(name)).unwrap());
        let known = version("a/known");
        let mut none = Glance::new(&input, GlanceLimits { bytes: 0, ..ALL });
        assert_eq!(none.look(&place("a/known")).unwrap(), known);
        assert_eq!(none.look(&place("a/new")).unwrap(), Glanced::Unread(Some(5)));
        assert_eq!(none.look("s3://bucket/a").unwrap(), Glanced::Elsewhere);
        none.end();
        let mut some = Glance::new(&input, GlanceLimits { bytes: 2 * LEAST, ..ALL });
        let (new, more) = (some.look(&place("a/new")).unwrap(), some.look(&place("b/")).unwrap());
        assert_eq!(some.look(&place("a")).unwrap(), Glanced::Unread(Some(12)), "it has no room for a file more");
        some.end();
        let mut again = Glance::new(&input, GlanceLimits { bytes: 0, ..ALL });
        assert_eq!(
            (again.look(&place("a/new")).unwrap(), again.look(&place("b/")).unwrap()),
            (new.clone(), more.clone())
        );
        assert_eq!((new, more), (version("a/new"), version("b/")));
        fs::write(at("a/new"), "x").unwrap();
        let mut last = Glance::new(&input, GlanceLimits { entries: 1, ..ALL });
        assert_eq!(last.look(&place("a/new")).unwrap(), version("a/new"));
        assert_eq!(last.look(&place("b/")).unwrap(), Glanced::Unread(None));
    }
}
