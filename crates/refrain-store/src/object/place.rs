//! The objects of one store: read, changed by what was read, walked over.
//!
//! Everything is decided by [`Bucket::swap`]: a record is read, changed by core's rules and written if it is still the one
//! that was read. Between the calls of an attempt the record stays in memory, and the write itself tells whether it is
//! still the one that stands.

use super::names;
use super::record::Record;
use crate::chance::{fresh_nonce, jittered};
use crate::clock::Stopwatch;
use crate::stored::Unreadable;
use refrain_core::{Error, ErrorKind, Key, Result, StoreIdentity, StoreTime, TaskName, Token};
use refrain_object::{Address, Bucket, Content, Object, Swapped, Version};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The store's clock outlives every host: the holders live on many.
const EPOCH: &str = "server";

/// For so long at least what passes is tried again.
const PATIENCE: Duration = Duration::from_secs(10);

/// For so long a store is tried that never answered, so that a wrong address is told soon.
const FIRST_PATIENCE: Duration = Duration::from_secs(3);

/// For so long a record is tried that others change meanwhile: each of them gets on with every change, and so will this one.
const CROWDED: Duration = Duration::from_mins(1);

/// The first pause between tries; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(20);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Records that are read at once.
const AT_ONCE: usize = 16;

/// Where the objects are, and what is known of them.
pub(super) struct Place {
    bucket: Bucket,
    address: Address,
    /// As it was last read.
    identity: Mutex<Option<StoreIdentity>>,
    /// The records of keys that are leased through this handle, as they were last written or read.
    held: Mutex<HashMap<Key, Seen>>,
    /// Above which the tokens of keys go on that have no object, by task.
    floors: Mutex<HashMap<TaskName, Token>>,
    longest_ttl_ms: AtomicU64,
    last_granted_ms: AtomicU64,
}

/// A key's record, as it was seen.
#[derive(Clone)]
struct Seen {
    version: Option<Version>,
    record: Option<Record>,
}

/// What becomes of a record after it was looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It stays as it is. The answer needs the record as it stands.
    Keep,
    /// It stays as it is, and the answer is right whether or not it still stands.
    Sure,
    /// It is to be what was made of it.
    Save,
}

/// Where the record to change is taken from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// It is read.
    Store,
    /// It is read, and kept afterwards.
    StoreToKeep,
    /// What is kept, if it is.
    Kept,
}

/// How a try to change a record ended.
enum Applied<T> {
    Kept(T),
    Sure(T),
    Saved(T, Seen),
    Moved(Seen),
}

/// A moment by the store's clock, which is known within bounds.
pub(super) struct Now {
    /// Not later than it is: by this the leases of others are judged.
    pub(super) earliest: StoreTime,
    /// So much later it may be: by so much a lease lasts longer, for nobody may take it for ended before its holder does.
    pub(super) doubt_ms: u64,
}

impl Place {
    pub(super) fn new(bucket: Bucket, address: Address) -> Self {
        Self {
            bucket,
            address,
            identity: Mutex::default(),
            held: Mutex::default(),
            floors: Mutex::default(),
            longest_ttl_ms: AtomicU64::new(0),
            last_granted_ms: AtomicU64::new(0),
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// The store is tried for as long as the longest lease lasts: losing it for less harms nothing.
    pub(super) fn leases_for(&self, ttl_ms: u64) {
        self.longest_ttl_ms.fetch_max(ttl_ms, Ordering::Relaxed);
    }

    /// How long what passes is tried again.
    pub(super) fn patience(&self) -> Duration {
        PATIENCE.max(Duration::from_millis(self.longest_ttl_ms.load(Ordering::Relaxed)))
    }

    /// This moment. Asks the store when it has not answered yet.
    pub(super) fn now(&self) -> Result<Now> {
        if self.bucket.moment().is_none() {
            self.tried(|| self.bucket.head(&self.name(names::STORE)).map_err(|error| self.told(error)))?;
        }
        let moment = self.bucket.moment().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, format!("the store of {} does not tell its clock", self.address))
                .hint("leases are measured by the Date header of its answers; a proxy between may drop it")
        })?;
        let ms = |at: jiff::Timestamp| u64::try_from(at.as_millisecond()).unwrap_or_default();
        let earliest = ms(moment.earliest);
        let doubt_ms = ms(moment.latest).saturating_sub(earliest);
        Ok(Now { earliest: StoreTime { epoch: EPOCH.to_owned(), ms: earliest }, doubt_ms })
    }

    /// When a lease is granted, for the order of attempts: rises with every question.
    pub(super) fn granted_ms(&self, now: &Now) -> u64 {
        let next = |last: u64| now.earliest.ms.max(last + 1);
        let last = self.last_granted_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        last.map_or(now.earliest.ms, next)
    }

    /// The identity as it was last read, or as it is.
    pub(super) fn identity(&self) -> Result<StoreIdentity> {
        let known = lock(&self.identity).clone();
        known.map_or_else(|| self.fresh_identity(), Ok)
    }

    pub(super) fn learn_identity(&self, identity: &StoreIdentity) {
        *lock(&self.identity) = Some(identity.clone());
    }

    /// Changes the record of a key by what stands there. `apply` may be called several times, the last one counts.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer for as long as it is waited for.
    pub(super) fn change<T>(
        &self,
        key: &Key,
        from: From,
        patience: Duration,
        mut apply: impl FnMut(&mut Option<Record>) -> Result<(Fate, T)>,
    ) -> Result<T> {
        let waiting = Stopwatch::start();
        // Who has less patience than usual has a lease that ends.
        let crowded = if patience < self.patience() { patience } else { patience.max(CROWDED) };
        let mut pause = PAUSE;
        let mut seen = (from == From::Kept).then(|| lock(&self.held).get(key).cloned()).flatten();
        let mut is_kept = seen.is_some();
        loop {
            let tried = seen.take().map_or_else(|| self.load(key), Ok).and_then(|seen| self.apply(&seen, &mut apply));
            match tried {
                // Somebody may have changed what is kept: it is looked at before anything is denied.
                Ok(Applied::Kept(_)) if is_kept => {
                    is_kept = false;
                    continue;
                }
                Ok(Applied::Kept(value) | Applied::Sure(value)) => return Ok(value),
                Ok(Applied::Saved(value, saved)) => {
                    self.keep(key, from, saved);
                    return Ok(value);
                }
                Ok(Applied::Moved(_)) if waiting.elapsed() >= crowded => return Err(self.crowded(key)),
                Ok(Applied::Moved(standing)) => seen = Some(standing),
                Err(error) if self.passes(&error, &waiting, patience) => {
                    tracing::info!(%key, %error, "the state store is asked again");
                }
                Err(error) => {
                    lock(&self.held).remove(key);
                    return Err(error);
                }
            }
            is_kept = false;
            thread::sleep(jittered(pause));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn apply<T>(
        &self,
        seen: &Seen,
        apply: &mut impl FnMut(&mut Option<Record>) -> Result<(Fate, T)>,
    ) -> Result<Applied<T>> {
        let mut record = seen.record.clone();
        let (fate, value) = apply(&mut record)?;
        Ok(match (fate, record) {
            (Fate::Sure, _) => Applied::Sure(value),
            (Fate::Save, Some(record)) => match self.save(seen, record)? {
                Ok(saved) => Applied::Saved(value, saved),
                Err(standing) => Applied::Moved(standing),
            },
            _ => Applied::Kept(value),
        })
    }

    /// The record of a key as it stands; nothing when it has none.
    pub(super) fn read(&self, key: &Key) -> Result<Option<Record>> {
        self.tried(|| self.load(key)).map(|seen| seen.record)
    }

    /// The records of these keys, in their order; of one that cannot be read, why.
    pub(super) fn read_many(&self, keys: &[Key]) -> Result<Vec<Result<Option<Record>>>> {
        at_once(keys, |key| match self.read(key) {
            Err(error) if is_of_one_object(&error) => Ok(Err(error)),
            found => found.map(Ok),
        })
    }

    /// All keys that have an object, of one task or of all, in order.
    pub(super) fn keys(&self, task: Option<&TaskName>) -> Result<Vec<Key>> {
        let prefix = self.name(&task.map_or_else(|| names::KEYS.to_owned(), names::keys_of));
        let listed = self.tried(|| {
            let (mut keys, mut digests) = (Vec::new(), Vec::new());
            self.bucket.list(&prefix, |entry| {
                match names::read(entry.key.strip_prefix(&self.address.key).unwrap_or_default()) {
                    names::Named::Key(key) => keys.push(key),
                    names::Named::Digest => digests.push(entry.key),
                    names::Named::Foreign => {}
                }
                Ok(())
            })?;
            Ok((keys, digests))
        });
        let (mut keys, digests) = listed.map_err(|error| self.told(error))?;
        let long = at_once(&digests, |name| self.tried(|| self.load_named(name)))?;
        keys.extend(long.into_iter().filter_map(|seen| seen.record).map(|record| record.key));
        keys.sort_unstable();
        Ok(keys)
    }

    /// Above which the tokens of a key without an object go on. What is folded here keeps its counter, so that only what
    /// was folded before the store began counts, and that does not change.
    pub(super) fn floor(&self, task: &TaskName) -> Result<Token> {
        if let Some(floor) = lock(&self.floors).get(task) {
            return Ok(*floor);
        }
        let floor = self.watermark(task)?.map(|watermark| watermark.token_floor).unwrap_or_default();
        lock(&self.floors).insert(task.clone(), floor);
        Ok(floor)
    }

    /// Reads an object of JSON.
    pub(super) fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<(Version, T)>> {
        let object = self.bucket.get(&self.name(name)).map_err(|error| self.told(error))?;
        object.map(|object| self.parsed(name, &object)).transpose()
    }

    pub(super) fn parsed<T: DeserializeOwned>(&self, name: &str, object: &Object) -> Result<(Version, T)> {
        match serde_json::from_slice(&object.content) {
            Ok(value) => Ok((object.version.clone(), value)),
            Err(error) => Err(self.unreadable(Unreadable::new(format!("`{name}`"), error))),
        }
    }

    /// Writes an object of JSON, which has a fresh nonce within, if it is still as it was read; what stands there otherwise.
    pub(super) fn swap_json(
        &self,
        name: &str,
        expected: Option<&Version>,
        value: &impl Serialize,
    ) -> Result<Result<Version, Option<Object>>> {
        let bytes =
            serde_json::to_vec(value).map_err(|error| self.unreadable(Unreadable::new(format!("`{name}`"), error)))?;
        let swapped = self.bucket.swap(&self.name(name), expected, &Content::unique(bytes));
        Ok(match swapped.map_err(|error| self.told(error))? {
            Swapped::Done(version) => Ok(version),
            Swapped::Moved(standing) => Err(standing),
        })
    }

    /// Writes the first record of a key; false when there is one.
    pub(super) fn create(&self, mut record: Record) -> Result<bool> {
        record.nonce = fresh_nonce();
        let saved = self.tried(|| self.save(&Seen { version: None, record: None }, record.clone()))?;
        Ok(saved.is_ok())
    }

    /// Repeats what may be repeated while the store does not answer.
    pub(super) fn tried<T>(&self, mut ask: impl FnMut() -> Result<T>) -> Result<T> {
        let (waiting, patience) = (Stopwatch::start(), self.patience());
        let mut pause = PAUSE;
        loop {
            match ask() {
                Err(error) if self.passes(&error, &waiting, patience) => {
                    tracing::info!(%error, "the state store is asked again");
                }
                answered => return answered,
            }
            thread::sleep(jittered(pause));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    pub(super) fn unreadable(&self, Unreadable { what, source }: Unreadable) -> Error {
        Error::corrupt(format!("{what} in the state store {} cannot be read", self.address)).because(source).hint(
            "heads and publications are safe in the sinks. Put an earlier version of the object or a backup in its place, \
             or delete the object of a key that has none, and run `refrain store restored`",
        )
    }

    /// The error for the caller.
    pub(super) fn told(&self, error: Error) -> Error {
        // Every change may be asked for again.
        let kind = if error.kind == ErrorKind::Unknown { ErrorKind::Unavailable } else { error.kind };
        error.kind(kind).within(format!("the state store {}", self.address))
    }

    pub(super) fn name(&self, name: &str) -> String {
        format!("{}{name}", self.address.key)
    }

    fn load(&self, key: &Key) -> Result<Seen> {
        let name = names::key(key);
        self.load_named(&self.name(&name))
    }

    fn load_named(&self, name: &str) -> Result<Seen> {
        let object = self.bucket.get(name).map_err(|error| self.told(error))?;
        self.seen(name, object)
    }

    fn seen(&self, name: &str, object: Option<Object>) -> Result<Seen> {
        let Some(object) = object else { return Ok(Seen { version: None, record: None }) };
        let shown = self.bucket.address(name).to_string();
        let record = Record::read(&shown, &object.content).map_err(|error| self.unreadable(error))?;
        Ok(Seen { version: Some(object.version), record: Some(record) })
    }

    /// Writes the record if what was seen still stands; else what stands.
    fn save(&self, seen: &Seen, mut record: Record) -> Result<Result<Seen, Seen>> {
        record.nonce = fresh_nonce();
        let name = self.name(&names::key(&record.key));
        let bytes = record.bytes().map_err(|error| self.unreadable(error))?;
        let swapped = self.bucket.swap(&name, seen.version.as_ref(), &Content::unique(bytes));
        Ok(match swapped.map_err(|error| self.told(error))? {
            Swapped::Done(version) => Ok(Seen { version: Some(version), record: Some(record) }),
            Swapped::Moved(standing) => Err(self.seen(&name, standing)?),
        })
    }

    /// Keeps the record of a key that is leased through this handle, until its lease ends.
    fn keep(&self, key: &Key, from: From, saved: Seen) {
        let mut held = lock(&self.held);
        let is_leased = saved.record.as_ref().is_some_and(|record| record.stored.record.lease.is_some());
        if is_leased && (from == From::StoreToKeep || held.contains_key(key)) {
            held.insert(key.clone(), saved);
        } else {
            held.remove(key);
        }
    }

    fn passes(&self, error: &Error, waiting: &Stopwatch, patience: Duration) -> bool {
        let patience = if self.bucket.moment().is_some() { patience } else { patience.min(FIRST_PATIENCE) };
        error.kind == ErrorKind::Unavailable && waiting.elapsed() < patience
    }

    fn crowded(&self, key: &Key) -> Error {
        Error::new(
            ErrorKind::Unavailable,
            format!("the record of `{key}` in the state store {} changes faster than it can be read", self.address),
        )
        .hint("repeat the call; fewer hosts that try the same key at once will help")
    }
}

/// Whether it is about the object itself, and not about the store: the others may be read all the same.
pub(super) fn is_of_one_object(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Invalid)
}

/// Does the same for many, several at once; the answers are in the order of the questions.
pub(super) fn at_once<T: Sync, U: Send>(all: &[T], one: impl Fn(&T) -> Result<U> + Sync) -> Result<Vec<U>> {
    let share = all.len().div_ceil(AT_ONCE).max(1);
    let one = &one;
    thread::scope(|scope| {
        let threads: Vec<_> = all
            .chunks(share)
            .map(|share| scope.spawn(move || share.iter().map(one).collect::<Result<Vec<_>>>()))
            .collect();
        let mut answers = Vec::with_capacity(all.len());
        for thread in threads {
            answers.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(answers)
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
