//! Where things are in a bucket. Everything but a single published object lies in Refrain's area, outside every tree that
//! readers list (docs/FORMATS.md).

use super::ObjectKind;
use refrain_core::{AttemptId, Error, Generation, Result, SlotAddress, counted};
use refrain_object::Address;

/// What is added to a slot's key at most: `manifest/`, `/v`, a generation, an attempt's id, `.json`.
const ADDED: usize = 96;

/// The longest key of an object, in bytes.
const LONGEST: usize = 1024;

/// A slot and the area of its bucket.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) kind: ObjectKind,
    /// What readers name.
    pub(super) target: Address,
    area: Address,
}

impl Place {
    /// The place of a slot whose bucket keeps its area there.
    ///
    /// # Errors
    /// `invalid` when the location cannot be published to.
    pub(super) fn new(kind: ObjectKind, target: Address, area: Address) -> Result<Self> {
        let place = Self { kind, target, area };
        place.check()?;
        Ok(place)
    }

    fn check(&self) -> Result<()> {
        let target = &self.target;
        if target.key.is_empty() {
            return Err(Error::invalid(format!("{target} is a whole bucket"))
                .hint("publish to a prefix within it, as in s3://lake/delays/dt={date}/"));
        }
        if self.area.contains(target) || target.contains(&self.area) {
            return Err(Error::invalid(format!(
                "{target} meets {}, where heads and versions of the bucket are kept",
                self.area
            ))
            .hint("publish elsewhere, or move that: area = \"…\" in [objects.\"s3://BUCKET\"]"));
        }
        let longest = self.area.key.len() + target.key.len() + ADDED;
        if longest > LONGEST {
            return Err(Error::invalid(format!(
                "the key of {target} is too long by {}",
                counted(longest - LONGEST, "byte")
            ))
            .hint("with what Refrain adds to it a key has at most 1024 bytes"));
        }
        Ok(())
    }

    pub(super) fn slot(&self) -> SlotAddress {
        SlotAddress { sink: self.kind.name().to_owned(), location: self.target.to_string() }
    }

    fn inner(&self) -> &str {
        self.target.key.trim_end_matches('/')
    }

    /// The record of the slot.
    pub(super) fn head(&self) -> String {
        format!("{}{}/head.{}.json", Self::slots(&self.area), self.inner(), self.kind.name())
    }

    /// Ends with `/`: the records of all slots of the bucket.
    fn slots(area: &Address) -> String {
        format!("{}slot/", area.key)
    }

    /// Ends with `/`: the manifests of all slots of the bucket.
    pub(super) fn manifests(area: &Address) -> String {
        format!("{}manifest/", area.key)
    }

    /// Ends with `/`: the objects of all attempts of all slots of the bucket.
    pub(super) fn data_of_all(area: &Address) -> String {
        format!("{}data/", area.key)
    }

    /// Ends with `/`: the attempt's own prefix. Nothing in it is ever written twice.
    pub(super) fn data(&self, generation: Generation, attempt: AttemptId) -> String {
        format!("{}{}/v{generation}-{attempt}/", Self::data_of_all(&self.area), self.inner())
    }

    /// The attempt whose own prefix it is.
    pub(super) fn attempt_of(prefix: &str) -> Option<AttemptId> {
        let name = prefix.trim_end_matches('/').rsplit('/').next()?;
        name.split_once('-')?.1.parse().ok()
    }

    /// Ends with `/`: where an attempt copies what it replaces and nobody published.
    pub(super) fn replaced(&self, generation: Generation, attempt: AttemptId) -> String {
        format!("{}{}/v{generation}-{attempt}-replaced/", Self::data_of_all(&self.area), self.inner())
    }

    /// The manifest of the objects below one of those prefixes.
    pub(super) fn manifest_of(&self, prefix: &str) -> String {
        let inner = prefix.trim_end_matches('/').strip_prefix(&Self::data_of_all(&self.area)).unwrap_or(prefix);
        format!("{}{inner}.{}.json", Self::manifests(&self.area), self.kind.name())
    }

    /// Ends with `/`: where the manifests of the slot are.
    pub(super) fn manifest_folder(&self) -> String {
        format!("{}{}/", Self::manifests(&self.area), self.inner())
    }

    /// Whether a key is that of a manifest of the slot, of an attempt at this generation.
    pub(super) fn is_manifest(&self, key: &str, generation: Generation) -> bool {
        let name = key.strip_prefix(&self.manifest_folder()).unwrap_or_default();
        let suffix = format!(".{}.json", self.kind.name());
        name.strip_prefix(&format!("v{generation}-"))
            .and_then(|rest| rest.strip_suffix(&suffix))
            .is_some_and(|attempt| attempt.parse::<AttemptId>().is_ok())
    }

    /// Ends with `/`: where the objects of a manifest are.
    pub(super) fn data_of_manifest(area: &Address, manifest: &str) -> String {
        let inner = manifest.strip_prefix(&Self::manifests(area)).unwrap_or(manifest);
        let inner = inner.strip_suffix(".json").unwrap_or(inner);
        let inner = inner.rsplit_once('.').map_or(inner, |(inner, _)| inner);
        format!("{}{inner}/", Self::data_of_all(area))
    }

    /// The last part of what readers name.
    pub(super) fn base_name(&self) -> &str {
        self.inner().rsplit('/').next().unwrap_or_default()
    }
}

/// The prefixes of an area that hold what belongs to outputs: nothing else may lie there.
pub fn folders(area: &Address) -> [Address; 3] {
    [Place::slots(area), Place::manifests(area), Place::data_of_all(area)].map(|folder| area.at(folder))
}

#[cfg(test)]
mod tests {
    use super::{ObjectKind, Place};
    use refrain_object::Address;

    fn place(target: &str, area: &str) -> refrain_core::Result<Place> {
        Place::new(ObjectKind::Prefix, Address::parse(target).unwrap(), Address::parse(area).unwrap())
    }

    #[test]
    fn a_slot_has_its_places_outside_what_readers_list() {
        let place = place("s3://lake/delays/dt=2013-01-01/", "s3://lake/_refrain/").unwrap();
        assert_eq!(place.head(), "_refrain/slot/delays/dt=2013-01-01/head.prefix.json");
        assert_eq!(place.base_name(), "dt=2013-01-01");
    }

    #[test]
    fn what_meets_the_area_is_refused() {
        for target in ["s3://lake/", "s3://lake/_refrain/x/", "s3://lake/_refrain/"] {
            assert!(place(target, "s3://lake/_refrain/").is_err(), "{target}");
        }
        assert!(place("s3://lake/team/", "s3://lake/team/area/").is_err());
        assert!(place(&format!("s3://lake/{}/", "k".repeat(990)), "s3://lake/_refrain/").is_err());
    }
}
