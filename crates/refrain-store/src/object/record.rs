//! What one object holds of a key: the record that core's rules change, with the key's newest attempts.

use crate::stored::{self, Stored, Unreadable};
use jiff::Timestamp;
use refrain_core::{
    AttemptId, AttemptRecord, Ending, Foldable, Generation, Granted, Holder, Key, KeyState, KeySummary, Lease,
    LeaseRequest, OpenRun, RunId, RunProposal, RunRecord, Shown, StoreId, StoreTime, Token, Want,
};
use serde::{Deserialize, Serialize};

/// So many attempts of a key are remembered, and every one whose end is not settled: each change writes them all.
pub(super) const MOST_ATTEMPTS: usize = 50;

/// One key's object.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Record {
    /// Another with every write: a store may give equal contents equal versions (OBJ-05).
    pub(super) nonce: String,
    #[serde(flatten)]
    pub(super) key: Key,
    /// The store's identity when the lease was granted: a lease of a former one is void (8.1).
    pub(super) store: StoreId,
    /// The fold that last forgot the key's history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) folded_by: Option<String>,
    /// In the order of their leases.
    pub(super) attempts: Vec<Known>,
    #[serde(flatten)]
    pub(super) stored: Stored,
}

/// An attempt. The key is the record's.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Known {
    attempt: AttemptId,
    token: Token,
    /// By the store's clock, in milliseconds; rises within a key.
    granted_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<Generation>,
    process: String,
    started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ending: Option<Ending>,
}

/// When an attempt began.
#[derive(Clone, Copy)]
pub(super) struct Began {
    /// By the wall clock of its host.
    pub(super) started_at: Timestamp,
    /// By the store's clock, in milliseconds.
    pub(super) granted_ms: u64,
}

/// An attempt in a list of those of many keys.
pub(super) struct Listed {
    pub(super) granted_ms: u64,
    pub(super) record: AttemptRecord,
}

impl Record {
    /// The record of a key that nobody has leased. Its tokens go on above `floor`.
    pub(super) fn begin(key: &Key, store: StoreId, floor: Token) -> Self {
        let (nonce, folded_by, attempts) = (String::new(), None, Vec::new());
        let mut record = Self { nonce, key: key.clone(), store, folded_by, attempts, stored: Stored::default() };
        record.begin_above(floor);
        record
    }

    /// Its tokens go on above `floor`, too.
    pub(super) fn begin_above(&mut self, floor: Token) {
        self.stored.record.last_token = self.stored.record.last_token.max(floor);
    }

    /// The record with the history that another store had of it. Its lease is void.
    pub(super) fn copied(key: &Key, store: StoreId, mut stored: Stored, attempts: Vec<AttemptRecord>) -> Self {
        stored.record.lease = None;
        let mut record = Self { stored, ..Self::begin(key, store, Token::default()) };
        for attempt in attempts {
            let granted = u64::try_from(attempt.started_at.as_millisecond()).unwrap_or_default();
            record.remember(attempt, granted);
        }
        record.trim(MOST_ATTEMPTS);
        record
    }

    pub(super) fn read(name: &str, content: &[u8]) -> Result<Self, Unreadable> {
        serde_json::from_slice(content).map_err(|error| Unreadable::new(format!("`{name}`"), error))
    }

    pub(super) fn bytes(&self) -> Result<Vec<u8>, Unreadable> {
        serde_json::to_vec(self).map_err(|error| Unreadable::new(format!("the record of `{}`", self.key), error))
    }

    /// Whether its history was folded, or never was: only its counter is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.stored.record.run.is_none() && self.attempts.is_empty()
    }

    /// Whether it is certain that nothing was ever published of the key.
    pub(super) fn is_unpublished(&self) -> bool {
        let endings = self.attempts.iter().map(|known| known.ending.as_ref());
        self.folded_by.is_none() && stored::is_unpublished(self.stored.record.run.as_ref(), endings)
    }

    /// What the lease is to a store of this identity.
    pub(super) fn lease(&self, store: StoreId) -> Option<&Lease> {
        self.stored.record.lease.as_ref().filter(|_| self.store == store)
    }

    /// Makes the record this store's: a lease of a former identity is void.
    pub(super) fn enter(&mut self, store: StoreId) {
        if self.store != store {
            self.stored.record.lease = None;
            self.store = store;
        }
    }

    pub(super) fn acquire(&mut self, now: &StoreTime, request: &LeaseRequest, began: Began) -> Result<Granted, Lease> {
        let granted = self.stored.record.acquire(now, request)?;
        if let Some(known) = self.known(request.attempt) {
            known.token = granted.token;
        } else {
            let record = AttemptRecord {
                attempt: request.attempt,
                key: self.key.clone(),
                token: granted.token,
                run: None,
                generation: None,
                process: request.process.clone(),
                started_at: began.started_at,
                ending: None,
            };
            self.remember(record, began.granted_ms);
            self.trim(MOST_ATTEMPTS);
        }
        Ok(granted)
    }

    /// Whether the holder's lease may be this record's: equal tokens of two stores mean nothing (1.5).
    pub(super) fn is_of(&self, holder: &Holder) -> bool {
        self.store == holder.store_id
    }

    pub(super) fn raise(&mut self, holder: &Holder, floor: Token) -> Option<Token> {
        let token = self.stored.record.raise(holder, floor).ok()?;
        if let Some(known) = self.known(holder.attempt) {
            known.token = token;
        }
        Some(token)
    }

    pub(super) fn open_run(
        &mut self,
        holder: &Holder,
        want: Want,
        seen: Option<&RunRecord>,
        proposal: Option<&RunProposal>,
    ) -> Option<OpenRun> {
        let answer = self.stored.record.open_run(holder, want, seen, proposal).ok()?;
        if let OpenRun::Run(run) = &answer {
            self.works_for(holder.attempt, run);
        }
        Some(answer)
    }

    /// Records how an attempt ended, unless that is settled; false when nothing changed.
    pub(super) fn settle(&mut self, attempt: AttemptId, ending: &Ending) -> bool {
        match self.known(attempt) {
            Some(known) if !known.is_settled() && known.ending.as_ref() != Some(ending) => {
                known.ending = Some(ending.clone());
                true
            }
            _ => false,
        }
    }

    /// Takes what a head shows; false when the record knows better.
    pub(super) fn learn(&mut self, shown: &Shown, granted_ms: u64) -> bool {
        if !self.stored.record.learn(&shown.run) {
            return false;
        }
        let attempt = shown.attempt.attempt;
        if self.known(attempt).is_none() {
            self.remember(AttemptRecord { ending: None, ..shown.attempt.clone() }, granted_ms);
        }
        self.works_for(attempt, &shown.run);
        if let Some(ending) = &shown.attempt.ending {
            self.settle(attempt, ending);
        }
        self.trim(MOST_ATTEMPTS);
        true
    }

    /// Forgets all but the newest attempts; those that are not settled stay. Returns how many were forgotten.
    pub(super) fn trim(&mut self, keep: usize) -> usize {
        let before = self.attempts.len();
        let old = before.saturating_sub(keep.max(1));
        let mut at = 0;
        self.attempts.retain(|known| {
            at += 1;
            at > old || !known.is_settled()
        });
        before - self.attempts.len()
    }

    /// Whether the history may be forgotten: nothing changed since it was seen, and nothing is open.
    pub(super) fn may_fold(&self, seen: &Foldable, store: StoreId) -> bool {
        self.lease(store).is_none()
            && self.attempts.iter().all(Known::is_settled)
            && self.stored.record.run.as_ref().map(|run| run.run_id) == seen.run
            && self.attempts.last().map(|known| known.attempt) == seen.last_attempt
    }

    /// Forgets the history. The counter stays for ever.
    pub(super) fn fold(&mut self, fold: &str) {
        self.attempts.clear();
        self.stored.record.run = None;
        self.stored.record.lease = None;
        self.folded_by = Some(fold.to_owned());
    }

    pub(super) fn state(&self, store: StoreId) -> KeyState {
        KeyState {
            key: self.key.clone(),
            lease: self.lease(store).cloned(),
            run: self.stored.record.run.clone(),
            last_attempt: self.last_attempt(),
        }
    }

    pub(super) fn summary(&self, store: StoreId) -> KeySummary {
        let run = self.stored.record.run.as_ref();
        KeySummary {
            key: self.key.clone(),
            lease: self.lease(store).cloned(),
            generation: run.map(|run| run.generation),
            run: run.map(|run| run.run_id),
            last_attempt: self.last_attempt(),
            is_unreadable: false,
        }
    }

    /// All attempts, in the order of their leases.
    pub(super) fn listed(&self) -> impl DoubleEndedIterator<Item = Listed> {
        self.attempts.iter().map(|known| Listed { granted_ms: known.granted_ms, record: known.told(&self.key) })
    }

    fn last_attempt(&self) -> Option<AttemptRecord> {
        self.attempts.last().map(|known| known.told(&self.key))
    }

    fn known(&mut self, attempt: AttemptId) -> Option<&mut Known> {
        self.attempts.iter_mut().rev().find(|known| known.attempt == attempt)
    }

    fn works_for(&mut self, attempt: AttemptId, run: &RunRecord) {
        if let Some(known) = self.known(attempt) {
            known.run = Some(run.run_id);
            known.generation = Some(run.generation);
        }
    }

    fn remember(&mut self, record: AttemptRecord, granted_ms: u64) {
        let after_the_last = self.attempts.last().map_or(0, |last| last.granted_ms + 1);
        let AttemptRecord { attempt, key: _, token, run, generation, process, started_at, ending } = record;
        let granted_ms = granted_ms.max(after_the_last);
        self.attempts.push(Known { attempt, token, granted_ms, run, generation, process, started_at, ending });
    }
}

impl Known {
    fn is_settled(&self) -> bool {
        self.ending.as_ref().is_some_and(Ending::is_settled)
    }

    fn told(&self, key: &Key) -> AttemptRecord {
        AttemptRecord {
            attempt: self.attempt,
            key: key.clone(),
            token: self.token,
            run: self.run,
            generation: self.generation,
            process: self.process.clone(),
            started_at: self.started_at,
            ending: self.ending.clone(),
        }
    }
}
