//! Who this store is and what it replaces (PROTOCOL 1.3, 8.1): `store.json`, whose first writing begins the store.

use super::names;
use super::place::{Fate, From, Place, at_once, is_of_one_object};
use super::{BATCH, BucketOptions, BucketStore};
use crate::chance::{fresh_nonce, fresh_store_id};
use jiff::Timestamp;
use refrain_core::{Error, ErrorKind, Result, StoreId, StoreIdentity, counted};
use refrain_object::{Address, Settings, Version};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The format of the objects that this program writes.
const FORMAT: u32 = 1;

/// The object itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Begun {
    format: u32,
    pub(super) nonce: String,
    #[serde(flatten)]
    pub(super) identity: StoreIdentity,
    created_at: Timestamp,
    /// A history is being copied into the store, which is none before that has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_unfinished: bool,
    /// The store that gave way to an unfinished copy, and what that one replaced: a copy that is repeated replaces them, too.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) gave_way: BTreeSet<StoreId>,
}

impl BucketStore {
    /// The store at this address; nothing when none was ever begun there.
    ///
    /// # Errors
    /// `Unsupported`: a newer format. `Unavailable`: the object store cannot be reached. `Invalid`: there is no such
    /// bucket, access is denied, or a copy into it has not ended.
    pub fn find(address: &Address, settings: &Settings, options: BucketOptions) -> Result<Option<Self>> {
        let store = Self::with(address, settings, options)?;
        let Some((_, begun)) = store.place.tried(|| store.place.begun())? else { return Ok(None) };
        if begun.is_unfinished {
            return Err(Error::invalid(format!("a history is being copied to the state store {address}"))
                .hint("if nobody does it any more, repeat the call: refrain store copy"));
        }
        store.place.learn_identity(&begun.identity);
        Ok(Some(store))
    }

    /// Begins a store that replaces the stores in `replaces` (8.1), if the object store is fit for it.
    ///
    /// # Errors
    /// `Invalid`: there is a store already, or a right is missing, which is named. `Unsupported`: the object store
    /// ignores conditions (OBJ-04). `Corrupt`: there are keys of a store whose identity is gone, and which this one does not
    /// replace.
    ///
    /// # Crash safety
    /// One write. Of many who call it at once, one begins it.
    pub fn create(
        address: &Address,
        settings: &Settings,
        replaces: BTreeSet<StoreId>,
        options: BucketOptions,
    ) -> Result<Self> {
        let store = Self::with(address, settings, options)?;
        store.prove()?;
        store.refuse_orphans(&replaces)?;
        let identity = StoreIdentity { store_id: fresh_store_id(), ancestors: replaces };
        let begun = store.begin(identity, false);
        store.place.tried(|| match store.place.swap_json(names::STORE, None, &begun)? {
            Ok(_) => Ok(()),
            // An earlier try may have begun it, whose answer was lost.
            Err(Some(standing)) => match store.place.parsed::<Begun>(names::STORE, &standing)?.1 {
                stands if stands.identity.store_id == begun.identity.store_id => Ok(()),
                _ => Err(Error::invalid(format!("there is a state store at {} already", store.address()))
                    .hint("go on with it")),
            },
            Err(None) => Err(Error::new(ErrorKind::Unavailable, "it was taken away while it was made")),
        })?;
        store.place.learn_identity(&begun.identity);
        Ok(store)
    }

    /// Refuses keys without a store: `store.json` was deleted beside them, and whoever began a store in silence would have
    /// their history under an identity that replaces nothing. One request, unless there are such; nothing is decided by it
    /// but what is told.
    fn refuse_orphans(&self, replaces: &BTreeSet<StoreId>) -> Result<()> {
        let below = self.place.name(names::KEYS);
        let any = self.place.tried(|| self.place.bucket().any_below(&below)).map_err(|error| self.place.told(error))?;
        // Somebody else may have begun it just now, and works with it.
        if any.is_none() || self.place.tried(|| self.place.begun())?.is_some() {
            return Ok(());
        }
        let (keys, mut stores) = (self.place.keys(None)?, BTreeSet::new());
        for keys in keys.chunks(BATCH) {
            stores.extend(self.place.read_many(keys)?.into_iter().flatten().flatten().map(|record| record.store));
        }
        if keys.is_empty() || !replaces.is_empty() && stores.is_subset(replaces) {
            return Ok(());
        }
        let identity = self.place.bucket().address(&self.place.name(names::STORE));
        let all = replaces.iter().chain(stores.difference(replaces));
        let command = all.fold("refrain store init".to_owned(), |line, store| format!("{line} --replaces {store}"));
        Err(Error::corrupt(format!(
            "the state store {} has lost its identity: there are objects of {}, and `{identity}` is gone",
            self.address(),
            counted(keys.len(), "key")
        ))
        .hint(format!(
            "put an earlier version of that object back and run `refrain store restored`; or go on with what the keys \
             know: {command}"
        )))
    }

    /// Declares that the bucket was put back to an earlier state (8.1): the store gets a fresh identity that replaces its
    /// old one, and with it all leases are void.
    ///
    /// # Crash safety
    /// One write decides. The leases that are void by it are taken out of their records after that, so that who had the
    /// store open sees it with the next write; dying meanwhile harms nothing, nor does a record that cannot be read.
    /// Repeating it gives one more identity.
    pub fn mark_restored(&self) -> Result<StoreIdentity> {
        let fresh = fresh_store_id();
        let identity = self.place.tried(|| {
            loop {
                let (version, mut begun) = self.place.begun()?.ok_or_else(|| self.place.absent())?;
                if begun.identity.store_id == fresh {
                    return Ok(begun.identity);
                }
                begun.identity.ancestors.insert(begun.identity.store_id);
                begun.identity.store_id = fresh;
                begun.nonce = fresh_nonce();
                if self.place.swap_json(names::STORE, Some(&version), &begun)?.is_ok() {
                    return Ok(begun.identity);
                }
            }
        })?;
        self.place.learn_identity(&identity);
        let keys = self.place.keys(None)?;
        at_once(&keys, |key| {
            let entered = self.place.change(key, From::Store, self.place.patience(), |record| {
                let Some(record) = record.as_mut().filter(|record| record.store != fresh) else {
                    return Ok((Fate::Keep, ()));
                };
                record.enter(fresh);
                Ok((Fate::Save, ()))
            });
            match entered {
                Err(error) if is_of_one_object(&error) => {
                    tracing::info!(%key, %error, "its lease is void without its record saying so");
                    Ok(())
                }
                entered => entered,
            }
        })?;
        Ok(identity)
    }

    /// What is written to begin a store.
    pub(super) fn begin(&self, identity: StoreIdentity, is_unfinished: bool) -> Begun {
        let created_at = self.options.clock.now();
        let gave_way = BTreeSet::new();
        Begun { format: FORMAT, nonce: fresh_nonce(), identity, created_at, is_unfinished, gave_way }
    }

    /// Sees to it that the object store keeps what a state rests on.
    pub(super) fn prove(&self) -> Result<()> {
        let proved = self.place.tried(|| self.place.bucket().prove(&self.address().key));
        proved.map_err(|error| self.place.told(error))
    }
}

impl Begun {
    /// What is written when nothing is left to copy.
    pub(super) fn finished(self) -> Self {
        Self { is_unfinished: false, gave_way: BTreeSet::new(), ..self.again() }
    }

    /// The same, to be written once more.
    pub(super) fn again(self) -> Self {
        Self { nonce: fresh_nonce(), ..self }
    }
}

impl Place {
    /// `store.json`, if there is one.
    pub(super) fn begun(&self) -> Result<Option<(Version, Begun)>> {
        /// Read first: the rest of a later format may be another.
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let Some((version, json)) = self.read_json::<serde_json::Value>(names::STORE)? else { return Ok(None) };
        let unreadable = |error| self.unreadable(crate::stored::Unreadable::new(format!("`{}`", names::STORE), error));
        let Format { format } = Format::deserialize(&json).map_err(unreadable)?;
        if format > FORMAT {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("the state store {} has format {format}, and this program knows {FORMAT}", self.address()),
            )
            .hint("use the version of refrain that wrote it, or a later one"));
        }
        Ok(Some((version, serde_json::from_value(json).map_err(unreadable)?)))
    }

    /// The identity as it stands: another host may have declared the store restored.
    pub(super) fn fresh_identity(&self) -> Result<StoreIdentity> {
        let (_, begun) = self.tried(|| self.begun())?.ok_or_else(|| self.absent())?;
        self.learn_identity(&begun.identity);
        Ok(begun.identity)
    }

    pub(super) fn absent(&self) -> Error {
        Error::invalid(format!("there is no state store at {}", self.address())).hint("make one: refrain init")
    }
}
