//! The state store of many hosts without a server of our own: small objects in a bucket with conditional writes.
//!
//! - `store.json`: the store's identity; its first writing begins the store.
//! - `key/TASK/PARTITION.json`: what is known of one key, with its newest attempts.
//! - `task/TASK.json`: up to where the keys of a task are folded.
//!
//! Every change is a read, a method of core's record and a write on the condition that what was read still stands. Leases
//! are measured by the clock in the object store's own answers. Objects are listed for whoever wants to see many keys;
//! nothing that is decided needs a listing. No object of a store is ever deleted: a key that is folded keeps its counter.
//!
//! # Lost answers
//!
//! Every write has a nonce within, by which it is known whether it was carried out (OBJ-01, OBJ-02). What passes is tried
//! again, in each method, for at least as long as the longest lease that was asked for lasts. Every method may be repeated
//! after it was done without our knowing: an attempt that asks again gets the token it has (3.1), a run that was opened is
//! found (3.4b), an end that is recorded stays.
//!
//! # Crash safety
//!
//! A process that dies inside leaves an object as it was or as it was to be. What an object store acknowledges, it keeps.

mod copy;
mod homes;
mod identity;
mod names;
mod place;
mod record;
mod watermarks;

use crate::clock::Stopwatch;
use place::{Fate, From, Place, at_once};
use record::{Began, Listed, Record};
use refrain_core::{
    Acquired, AttemptFilter, AttemptId, AttemptRecord, Clock, Ending, Foldable, Granted, Holder, Key, KeyState,
    KeySummary, LeaseRequest, OpenRun, Result, RunProposal, RunRecord, Shown, StateStore, StoreIdentity, StoreTime,
    TaskName, Token, Want, Watermark,
};
use refrain_object::{Address, Bucket, Settings};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The longest key that a store's address may have, in bytes: names of partitions come after it.
const LONGEST_ADDRESS: usize = 512;

/// Keys read at a time by a walk over all of them.
const BATCH: usize = 256;

/// An id that was not found is not looked for again before so much time has passed.
const JUST_NOW: Duration = Duration::from_secs(1);

/// How a bucket is worked with.
#[derive(Clone)]
pub struct BucketOptions {
    /// The wall clock, for what people read: when an attempt began.
    pub clock: Arc<dyn Clock>,
}

impl fmt::Debug for BucketOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketOptions").finish_non_exhaustive()
    }
}

/// A state store in a bucket. May be used from several threads.
pub struct BucketStore {
    place: Place,
    options: BucketOptions,
    keys: Mutex<Option<Keys>>,
}

/// The keys of attempts and runs by their ids, as they were read.
struct Keys {
    of: HashMap<String, Key>,
    read: Stopwatch,
}

impl BucketStore {
    /// Whether the text of a configuration names such a store.
    pub fn is_one(text: &str) -> bool {
        Address::is_one(text)
    }

    /// Where a store of this name is; a prefix, with or without its last `/`.
    ///
    /// # Errors
    /// `invalid` when it is no URL of an object store.
    pub fn address_of(text: &str) -> Result<Address> {
        let mut address = Address::parse(text)?;
        if !address.is_prefix() {
            address.key.push('/');
        }
        Ok(address)
    }

    /// Where the store is.
    pub fn address(&self) -> &Address {
        self.place.address()
    }

    /// Who it was when it was last asked: that needs no question. [`identity`](StateStore::identity) asks who it is now.
    pub fn opened_as(&self) -> Result<StoreIdentity> {
        self.place.identity()
    }

    fn with(address: &Address, settings: &Settings, options: BucketOptions) -> Result<Self> {
        if address.key.len() > LONGEST_ADDRESS {
            return Err(refrain_core::Error::invalid(format!(
                "the key of {address} has {} bytes, and that of a state store takes {LONGEST_ADDRESS}",
                address.key.len()
            )));
        }
        let bucket = Bucket::open(address, settings)?;
        Ok(Self { place: Place::new(bucket, address.clone()), options, keys: Mutex::default() })
    }

    /// Changes the record of a key for its holder; nothing when the caller does not hold the lease.
    fn change<T>(
        &self,
        key: &Key,
        holder: &Holder,
        patience: Duration,
        mut change: impl FnMut(&mut Record) -> Result<Option<(Fate, T)>>,
    ) -> Result<Option<T>> {
        if !self.is_ours(holder)? {
            return Ok(None);
        }
        self.place.change(key, From::Kept, patience, |record| {
            let changed = match record.as_mut().filter(|record| record.is_of(holder)) {
                Some(record) => change(record)?,
                None => None,
            };
            Ok(changed.map_or((Fate::Keep, None), |(fate, value)| (fate, Some(value))))
        })
    }

    /// Whether the holder's lease is of this store as it goes by now: equal tokens of two stores mean nothing (1.5).
    fn is_ours(&self, holder: &Holder) -> Result<bool> {
        let known = self.place.identity()?.store_id == holder.store_id;
        Ok(known || self.place.fresh_identity()?.store_id == holder.store_id)
    }

    /// The record of a key that is to be begun if there is none, as this store's.
    fn entered(&self, key: &Key, record: Option<Record>) -> Result<Record> {
        let mut identity = self.place.identity()?;
        Ok(match record {
            None => Record::begin(key, identity.store_id, self.place.floor(&key.task)?),
            Some(mut record) => {
                if record.store != identity.store_id {
                    // Either is older: the record's, or the one that is known here.
                    identity = self.place.fresh_identity()?;
                }
                record.enter(identity.store_id);
                if record.is_empty() {
                    record.begin_above(self.place.floor(&key.task)?);
                }
                record
            }
        })
    }

    /// The identity that the leases of a record are judged by: as it is known, unless the record knows another.
    fn store_of(&self, record: &Record) -> Result<refrain_core::StoreId> {
        let known = self.place.identity()?.store_id;
        Ok(if record.store == known { known } else { self.place.fresh_identity()?.store_id })
    }

    /// The key of an attempt or of a run, by the whole id. All keys are read for the first question, and again for an id
    /// that was not among theirs, unless that was just now.
    fn key_of(&self, id: &str) -> Result<Option<Key>> {
        let known = |keys: &Option<Keys>| keys.as_ref().and_then(|keys| keys.of.get(id).cloned());
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = known(&keys) {
            return Ok(Some(key));
        }
        if keys.as_ref().is_none_or(|keys| keys.read.elapsed() > JUST_NOW) {
            let (mut of, mut unreadable) = (HashMap::new(), None);
            self.each_found(None, &mut |_, found| {
                match found {
                    Err(error) => unreadable = Some(error),
                    Ok(record) => {
                        for AttemptRecord { attempt, run, key, .. } in record.listed().map(|listed| listed.record) {
                            of.extend(run.map(|run| (run.to_string(), key.clone())));
                            of.insert(attempt.to_string(), key);
                        }
                    }
                }
                Ok(())
            })?;
            // It may be an id of the key that cannot be read.
            if let Some(error) = unreadable {
                return of.remove(id).map_or(Err(error), |key| Ok(Some(key)));
            }
            *keys = Some(Keys { of, read: Stopwatch::start() });
        }
        Ok(known(&keys))
    }

    /// Shows the records of the keys of one task or of all, in order; of one that cannot be read, why.
    fn each_found(
        &self,
        task: Option<&TaskName>,
        each: &mut dyn FnMut(&Key, Result<Record>) -> Result<()>,
    ) -> Result<()> {
        for keys in self.place.keys(task)?.chunks(BATCH) {
            for (key, found) in keys.iter().zip(self.place.read_many(keys)?) {
                match found.transpose() {
                    None => {}
                    Some(Ok(record)) if record.is_empty() => {}
                    Some(found) => each(key, found)?,
                }
            }
        }
        Ok(())
    }

    /// Shows the records of the keys of one task or of all, in order.
    fn each_record(&self, task: Option<&TaskName>, each: &mut dyn FnMut(Record) -> Result<()>) -> Result<()> {
        self.each_found(task, &mut |_, found| each(found?))
    }
}

impl StateStore for BucketStore {
    fn identity(&self) -> Result<StoreIdentity> {
        self.place.fresh_identity()
    }

    fn acquire(&self, key: &Key, request: &LeaseRequest) -> Result<Acquired> {
        self.place.leases_for(request.ttl_ms);
        let started_at = self.options.clock.now();
        let mut before: Option<Granted> = None;
        self.place.change(key, From::StoreToKeep, self.place.patience(), |record| {
            let mut entered = self.entered(key, record.take())?;
            let now = self.place.now()?;
            let request = LeaseRequest { ttl_ms: request.ttl_ms.saturating_add(now.doubt_ms), ..request.clone() };
            let began = Began { started_at, granted_ms: self.place.granted_ms(&now) };
            let mut granted = match entered.acquire(&now.earliest, &request, began) {
                Err(lease) => return Ok((Fate::Keep, Acquired::Held(lease))),
                Ok(granted) => granted,
            };
            // An earlier try may have been granted it, whose answer was lost with the holder that it displaced.
            if let Some(before) = before.take().filter(|before| before.token == granted.token) {
                granted.unclean = granted.unclean.take().or(before.unclean);
            }
            before = Some(granted.clone());
            *record = Some(entered);
            Ok((Fate::Save, Acquired::Granted(granted)))
        })
    }

    fn renew(&self, key: &Key, holder: &Holder, ttl_ms: u64) -> Result<bool> {
        self.place.leases_for(ttl_ms);
        // Whoever renews comes back by itself, three times per ttl.
        let patience = Duration::from_millis(ttl_ms / 3);
        let renewed = self.change(key, holder, patience, |record| {
            let now = self.place.now()?;
            let ttl_ms = ttl_ms.saturating_add(now.doubt_ms);
            Ok(record.stored.record.renew(&now.earliest, holder, ttl_ms).ok().map(|()| (Fate::Save, ())))
        })?;
        Ok(renewed.is_some())
    }

    fn raise(&self, key: &Key, holder: &Holder, floor: Token) -> Result<Option<Token>> {
        // The token that an earlier try gave to this holder, if its answer was lost.
        let mut given = None;
        self.change(key, holder, self.place.patience(), |record| {
            let lease = record.stored.record.lease.as_ref().filter(|lease| lease.attempt == holder.attempt);
            if let Some(token) = lease.map(|lease| lease.token).filter(|token| given == Some(*token)) {
                return Ok(Some((Fate::Keep, token)));
            }
            given = record.raise(holder, floor);
            Ok(given.map(|token| (Fate::Save, token)))
        })
    }

    fn open_run(
        &self,
        key: &Key,
        holder: &Holder,
        want: Want,
        seen: Option<&RunRecord>,
        proposal: Option<&RunProposal>,
    ) -> Result<Option<OpenRun>> {
        self.change(key, holder, self.place.patience(), |record| {
            let before = record.clone();
            let answer = record.open_run(holder, want, seen, proposal);
            let fate = if before.stored != record.stored || before.attempts != record.attempts {
                Fate::Save
            } else if matches!(answer, Some(OpenRun::Propose(_))) {
                // Whoever proposes then is told if the lease was lost.
                Fate::Sure
            } else {
                Fate::Keep
            };
            Ok(answer.map(|answer| (fate, answer)))
        })
    }

    fn finish(&self, key: &Key, holder: &Holder, ending: &Ending) -> Result<()> {
        let is_ours = self.is_ours(holder)?;
        self.place.change(key, From::Kept, self.place.patience(), |record| {
            let Some(record) = record else { return Ok((Fate::Keep, ())) };
            let released = is_ours && record.is_of(holder) && record.stored.record.release(holder).is_ok();
            let settled = record.settle(holder.attempt, ending);
            Ok((if released || settled { Fate::Save } else { Fate::Keep }, ()))
        })
    }

    fn settle_attempt(&self, key: &Key, attempt: AttemptId, ending: &Ending) -> Result<()> {
        self.place.change(key, From::Kept, self.place.patience(), |record| {
            let settled = record.as_mut().is_some_and(|record| record.settle(attempt, ending));
            Ok((if settled { Fate::Save } else { Fate::Keep }, ()))
        })
    }

    fn key(&self, key: &Key) -> Result<Option<KeyState>> {
        let record = self.place.read(key)?.filter(|record| !record.is_empty());
        record.map(|record| Ok(record.state(self.store_of(&record)?))).transpose()
    }

    fn for_each_key(&self, task: Option<&TaskName>, each: &mut dyn FnMut(KeySummary) -> Result<()>) -> Result<()> {
        self.each_found(task, &mut |key, found| match found {
            Ok(record) => each(record.summary(self.store_of(&record)?)),
            Err(error) => {
                tracing::info!(%key, %error, "its record cannot be read");
                each(KeySummary::unreadable(key.clone()))
            }
        })
    }

    fn attempts(&self, filter: &AttemptFilter) -> Result<Vec<AttemptRecord>> {
        let limit = filter.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let mut found: Vec<Listed> = Vec::new();
        let mut look = |record: Record| {
            found.extend(record.listed().rev().filter(|listed| passes(&listed.record, filter)).take(limit));
            // No more is kept than is asked for, but for what saves sorting with every key.
            if found.len() / 2 > limit.saturating_add(BATCH) {
                newest_first(&mut found, limit);
            }
            Ok(())
        };
        match (&filter.task, &filter.partition) {
            (Some(task), Some(partition)) => {
                let key = Key { task: task.clone(), partition: partition.clone() };
                self.place.read(&key)?.map_or(Ok(()), &mut look)?;
            }
            _ => {
                if let Some(id) = filter.id_part.as_deref().and_then(|part| part.parse::<AttemptId>().ok()) {
                    // Whoever cleans up asks for many attempts, one by one.
                    let record = self.key_of(&id.to_string())?.map(|key| self.place.read(&key)).transpose()?;
                    record.flatten().map_or(Ok(()), &mut look)?;
                } else {
                    self.each_record(filter.task.as_ref(), &mut look)?;
                }
            }
        }
        newest_first(&mut found, limit);
        Ok(found.into_iter().map(|listed| listed.record).collect())
    }

    fn compact_attempts(&self, keep_per_key: u32, _batch: u32) -> Result<u64> {
        let keep = usize::try_from(keep_per_key).unwrap_or(usize::MAX);
        let (mut crowded, mut unreadable) = (Vec::new(), None);
        self.each_found(None, &mut |_, found| {
            match found {
                Err(error) => unreadable = unreadable.take().or(Some(error)),
                Ok(mut record) => crowded.extend((record.trim(keep) > 0).then_some(record.key)),
            }
            Ok(())
        })?;
        let forgotten = at_once(&crowded, |key| {
            self.place.change(key, From::Kept, self.place.patience(), |record| {
                let forgotten = record.as_mut().map_or(0, |record| record.trim(keep));
                Ok((if forgotten > 0 { Fate::Save } else { Fate::Keep }, forgotten))
            })
        })?;
        let forgotten = forgotten.into_iter().filter_map(|count| u64::try_from(count).ok()).sum();
        // The others are shortened all the same.
        unreadable.map_or(Ok(forgotten), Err)
    }

    fn learn(&self, shown: &[Shown]) -> Result<u64> {
        let learned = at_once(shown, |shown| {
            let key = &shown.attempt.key;
            self.place.change(key, From::Store, self.place.patience(), |record| {
                let mut entered = self.entered(key, record.take())?;
                let learned = entered.learn(shown, self.place.granted_ms(&self.place.now()?));
                *record = Some(entered);
                Ok((if learned { Fate::Save } else { Fate::Keep }, learned))
            })
        })?;
        Ok(learned.into_iter().map(u64::from).sum())
    }

    fn fold(&self, task: &TaskName, keys: &[Foldable]) -> Result<Vec<String>> {
        self.fold_keys(task, keys)
    }

    fn watermark(&self, task: &TaskName) -> Result<Option<Watermark>> {
        self.place.watermark(task)
    }

    /// An object store has no room to give back.
    fn reclaim(&self) -> Result<()> {
        Ok(())
    }

    fn now(&self) -> Result<StoreTime> {
        Ok(self.place.now()?.earliest)
    }
}

impl fmt::Debug for BucketStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketStore").field("address", self.address()).finish_non_exhaustive()
    }
}

/// By the store's clock. Within its seconds ids tell the order: they begin with the moment at which they were made.
fn newest_first(found: &mut Vec<Listed>, limit: usize) {
    found.sort_by_key(|listed| Reverse((listed.granted_ms, listed.record.attempt)));
    found.truncate(limit);
}

fn passes(record: &AttemptRecord, filter: &AttemptFilter) -> bool {
    let named = |part: &String| {
        let part = part.to_ascii_lowercase();
        record.attempt.to_string().contains(&part) || record.run.is_some_and(|run| run.to_string().contains(&part))
    };
    filter.task.as_ref().is_none_or(|task| record.key.task == *task)
        && filter.partition.as_ref().is_none_or(|partition| record.key.partition == *partition)
        && filter.id_part.as_ref().is_none_or(named)
        && !(filter.unfinished && record.ending.as_ref().is_some_and(Ending::is_settled))
}
