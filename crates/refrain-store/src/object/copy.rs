//! Takes over what a home knows, so that many hosts can go on with it.

use super::identity::Begun;
use super::place::at_once;
use super::record::Record;
use super::{BATCH, BucketOptions, BucketStore, names};
use crate::chance::fresh_store_id;
use crate::sqlite::History;
use crate::{Copied, SqliteStore};
use refrain_core::{AttemptRecord, Error, Key, Lease, Result, StateStore, StoreId, StoreIdentity};
use refrain_object::{Address, Settings, Version};
use std::collections::BTreeSet;

/// What helps when there is a history already.
const IN_USE: &str = "copy to another, empty prefix; a home without a history of its own joins this store as it is. If nothing \
                      was published through it, settle what is open first: refrain recover";

impl BucketStore {
    /// Copies everything that the embedded store knows into this place: keys with their tokens, runs, newest attempts,
    /// watermarks. The embedded store is left as it is; whoever goes on with it is refused at the heads that the new one
    /// has claimed (8.2). `is_dead` says whether a lease's holder is known to have ended.
    ///
    /// # Errors
    /// `Held`: an attempt is at work. `Invalid`: something was published through the store at this place, or another copies
    /// to it.
    ///
    /// # Crash safety
    /// Nobody can use the store before the last write, which names it. Dying before that, the copy is repeated from its
    /// beginning. Nobody can begin an attempt with the embedded store meanwhile.
    pub fn take_over(
        address: &Address,
        settings: &Settings,
        from: &SqliteStore,
        is_dead: &dyn Fn(&Lease) -> bool,
        options: BucketOptions,
    ) -> Result<Copied> {
        let store = Self::with(address, settings, options)?;
        store.prove()?;
        let now = from.now()?;
        from.history(|history| {
            history.refuse_at_work(&now, is_dead)?;
            let (version, begun) = store.claim(&history.identity()?)?;
            let identity = begun.identity.clone();
            let (keys, attempts) = store.copy_keys(history, identity.store_id)?;
            for (task, watermark) in history.watermarks()? {
                store.place.put_watermark(&task, &watermark)?;
            }
            store.replace(Some(&version), &begun.finished())?;
            history.mark_moved(identity.store_id, &address.to_string())?;
            Ok(Copied { identity, keys, attempts })
        })
    }

    /// Begins the store that takes over, unfinished. One through which nothing was published gives way, and so does a copy
    /// that has not ended, with what it had written.
    fn claim(&self, old: &StoreIdentity) -> Result<(Version, Begun)> {
        let replaces: BTreeSet<_> = old.ancestors.iter().copied().chain([old.store_id]).collect();
        let standing = self.place.tried(|| self.place.begun())?;
        let version = standing.as_ref().map(|(version, _)| version.clone());
        let known = self.place.keys(None)?;
        let (abandoned, gave_way) = match &standing {
            None => (None, BTreeSet::new()),
            Some((_, begun)) if begun.is_unfinished => (Some(begun.identity.store_id), begun.gave_way.clone()),
            Some((_, Begun { identity, .. })) => {
                (None, identity.ancestors.iter().copied().chain([identity.store_id]).collect())
            }
        };
        let identity =
            StoreIdentity { store_id: fresh_store_id(), ancestors: replaces.union(&gave_way).copied().collect() };
        if abandoned.is_none() {
            for keys in known.chunks(BATCH) {
                at_once(keys, |key| self.judged(key, None))?;
            }
        }
        let mut begun = self.begin(identity, true);
        begun.gave_way = gave_way;
        let version = self.replace(version.as_ref(), &begun)?;
        if let Err(error) = self.clear(&known, abandoned) {
            // Somebody who had the store open has begun an attempt since: it goes on.
            if let Some((_, former)) = standing.filter(|_| abandoned.is_none()) {
                self.replace(Some(&version), &former.again())?;
            }
            return Err(error);
        }
        Ok((version, begun))
    }

    /// Takes away what a copy wrote that nobody went on with, whose store never was one, and keys of which nothing was
    /// published. Their counters are not missed: whatever is claimed through a store that this one replaces gives way.
    fn clear(&self, keys: &[Key], abandoned: Option<StoreId>) -> Result<()> {
        at_once(keys, |key| {
            if self.judged(key, abandoned)? {
                self.place.bucket().delete(&format!("{}{}", self.address().key, names::key(key)))?;
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Whether the key has a record, which may go.
    fn judged(&self, key: &Key, abandoned: Option<StoreId>) -> Result<bool> {
        match self.place.read(key)? {
            None => Ok(false),
            Some(record) if abandoned == Some(record.store) || record.is_unpublished() => Ok(true),
            Some(_) => Err(self.in_use()),
        }
    }

    fn replace(&self, version: Option<&Version>, begun: &Begun) -> Result<Version> {
        self.place.tried(|| match self.place.swap_json(names::STORE, version, begun)? {
            Ok(version) => Ok(version),
            Err(Some(standing)) => match self.place.parsed::<Begun>(names::STORE, &standing)? {
                (version, stands) if stands.nonce == begun.nonce => Ok(version),
                _ => Err(self.disturbed()),
            },
            Err(None) => Err(self.disturbed()),
        })
    }

    /// Leases are void: their holders have ended.
    fn copy_keys(&self, history: &History<'_>, store: StoreId) -> Result<(u64, u64)> {
        let (mut keys, mut attempts) = (0, 0);
        let mut batch: Vec<Record> = Vec::new();
        let mut send = |batch: &mut Vec<Record>| {
            let written = at_once(batch, |record| self.place.create(record.clone()))?;
            if written.contains(&false) {
                return Err(self.disturbed());
            }
            keys += batch.len();
            attempts += batch.iter().map(|record| record.attempts.len()).sum::<usize>();
            batch.clear();
            Ok(())
        };
        history.each_key(|key, stored| {
            let known: Vec<AttemptRecord> = history.attempts_of(&key)?;
            batch.push(Record::copied(&key, store, stored, known));
            if batch.len() >= BATCH { send(&mut batch) } else { Ok(()) }
        })?;
        send(&mut batch)?;
        Ok((u64::try_from(keys).unwrap_or(u64::MAX), u64::try_from(attempts).unwrap_or(u64::MAX)))
    }

    fn in_use(&self) -> Error {
        Error::invalid(format!(
            "the state store {} knows keys already that were published, or may have been; two histories cannot be made one",
            self.address()
        ))
        .hint(IN_USE)
    }

    fn disturbed(&self) -> Error {
        Error::invalid(format!("somebody else writes to the state store {} meanwhile", self.address()))
            .hint("one copies at a time; repeat the call when the other one has ended")
    }
}
