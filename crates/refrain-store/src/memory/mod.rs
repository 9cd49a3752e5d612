//! A state store in memory: the behaviour of the embedded one without its file, for tests.

use crate::StoreClock;
use refrain_core::{
    Acquired, AttemptFilter, AttemptId, AttemptRecord, Clock, Ending, Foldable, Holder, Key, KeyRecord, KeyState,
    KeySummary, LeaseRequest, NotHolder, OpenRun, Result, RunProposal, RunRecord, Shown, StateStore, StoreIdentity,
    StoreTime, TaskName, Token, Want, Watermark,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A state store in memory. Clones are handles to the same store.
#[derive(Clone)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    store_clock: Arc<dyn StoreClock>,
    state: Arc<Mutex<State>>,
}

struct State {
    identity: StoreIdentity,
    keys: BTreeMap<Key, KeyRecord>,
    /// In the order of their leases.
    attempts: Vec<AttemptRecord>,
    watermarks: BTreeMap<TaskName, Watermark>,
}

impl MemoryStore {
    /// An empty store of this identity.
    pub fn new(identity: StoreIdentity, clock: Arc<dyn Clock>, store_clock: Arc<dyn StoreClock>) -> Self {
        let state = State { identity, keys: BTreeMap::new(), attempts: Vec::new(), watermarks: BTreeMap::new() };
        Self { clock, store_clock, state: Arc::new(Mutex::new(state)) }
    }

    /// Declares that the store was restored from a backup (8.1): `fresh` replaces its identity, and all leases
    /// are void.
    pub fn mark_restored(&self, fresh: refrain_core::StoreId) -> StoreIdentity {
        let mut state = self.state();
        let old = state.identity.store_id;
        state.identity.ancestors.insert(old);
        state.identity.store_id = fresh;
        state.keys.values_mut().for_each(|record| record.lease = None);
        state.identity.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Changes the record of a key for its holder; nothing when the caller does not hold the lease.
    fn change<T>(
        &mut self,
        key: &Key,
        holder: &Holder,
        change: impl FnOnce(&mut KeyRecord) -> Result<T, NotHolder>,
    ) -> Option<T> {
        if self.identity.store_id != holder.store_id {
            return None; // equal tokens of two stores mean nothing (1.5)
        }
        change(self.keys.get_mut(key)?).ok()
    }

    fn attempt(&mut self, attempt: AttemptId) -> Option<&mut AttemptRecord> {
        self.attempts.iter_mut().rev().find(|record| record.attempt == attempt)
    }

    fn last_attempt(&self, key: &Key) -> Option<AttemptRecord> {
        self.attempts.iter().rev().find(|record| record.key == *key).cloned()
    }

    /// The record of a key that the store does not know. It may have been folded: its tokens go on (3.1).
    fn fresh(&self, key: &Key) -> KeyRecord {
        let floor = self.watermarks.get(&key.task).map(|watermark| watermark.token_floor);
        KeyRecord { last_token: floor.unwrap_or_default(), ..KeyRecord::default() }
    }

    /// Takes what a head shows of a key; false when the store knows better.
    fn learn(&mut self, shown: &Shown) -> bool {
        let key = &shown.attempt.key;
        let mut record = self.keys.get(key).cloned().unwrap_or_else(|| self.fresh(key));
        if !record.learn(&shown.run) {
            return false;
        }
        self.keys.insert(key.clone(), record);
        if self.attempt(shown.attempt.attempt).is_none() {
            self.attempts.push(AttemptRecord { ending: None, ..shown.attempt.clone() });
        }
        if let Some(known) = self.attempt(shown.attempt.attempt) {
            known.run = Some(shown.run.run_id);
            known.generation = Some(shown.run.generation);
        }
        if let Some(ending) = &shown.attempt.ending {
            self.settle(shown.attempt.attempt, ending);
        }
        true
    }

    /// Forgets a key; false when it stays.
    fn fold(&mut self, key: &Key, seen: &Foldable) -> bool {
        let Some(record) = self.keys.get(key) else { return true };
        let last_attempt = self.last_attempt(key).map(|attempt| attempt.attempt);
        let as_seen = record.run.as_ref().map(|run| run.run_id) == seen.run && last_attempt == seen.last_attempt;
        let settled = self.attempts.iter().filter(|attempt| attempt.key == *key).all(is_settled);
        if !as_seen || record.lease.is_some() || !settled {
            return false;
        }
        let raised = Watermark::raised(self.watermarks.remove(&key.task), seen, record.last_token);
        self.watermarks.insert(key.task.clone(), raised);
        self.attempts.retain(|attempt| attempt.key != *key);
        self.keys.remove(key);
        true
    }

    fn settle(&mut self, attempt: AttemptId, ending: &Ending) {
        if let Some(record) = self.attempt(attempt)
            && !is_settled(record)
        {
            record.ending = Some(ending.clone());
        }
    }
}

impl StateStore for MemoryStore {
    fn identity(&self) -> Result<StoreIdentity> {
        Ok(self.state().identity.clone())
    }

    fn acquire(&self, key: &Key, request: &LeaseRequest) -> Result<Acquired> {
        let now = self.now()?;
        let started_at = self.clock.now();
        let mut state = self.state();
        let mut record = state.keys.get(key).cloned().unwrap_or_else(|| state.fresh(key));
        let granted = match record.acquire(&now, request) {
            Err(lease) => return Ok(Acquired::Held(lease)),
            Ok(granted) => granted,
        };
        state.keys.insert(key.clone(), record);
        if let Some(known) = state.attempt(request.attempt) {
            known.token = granted.token;
        } else {
            state.attempts.push(AttemptRecord {
                attempt: request.attempt,
                key: key.clone(),
                token: granted.token,
                run: None,
                generation: None,
                process: request.process.clone(),
                started_at,
                ending: None,
            });
        }
        Ok(Acquired::Granted(granted))
    }

    fn renew(&self, key: &Key, holder: &Holder, ttl_ms: u64) -> Result<bool> {
        let now = self.now()?;
        Ok(self.state().change(key, holder, |record| record.renew(&now, holder, ttl_ms)).is_some())
    }

    fn raise(&self, key: &Key, holder: &Holder, floor: Token) -> Result<Option<Token>> {
        let mut state = self.state();
        let token = state.change(key, holder, |record| record.raise(holder, floor));
        if let (Some(token), Some(record)) = (token, state.attempt(holder.attempt)) {
            record.token = token;
        }
        Ok(token)
    }

    fn open_run(
        &self,
        key: &Key,
        holder: &Holder,
        want: Want,
        seen: Option<&RunRecord>,
        proposal: Option<&RunProposal>,
    ) -> Result<Option<OpenRun>> {
        let mut state = self.state();
        let answer = state.change(key, holder, |record| record.open_run(holder, want, seen, proposal));
        if let (Some(OpenRun::Run(run)), Some(record)) = (&answer, state.attempt(holder.attempt)) {
            record.run = Some(run.run_id);
            record.generation = Some(run.generation);
        }
        Ok(answer)
    }

    fn finish(&self, key: &Key, holder: &Holder, ending: &Ending) -> Result<()> {
        let mut state = self.state();
        state.change(key, holder, |record| record.release(holder));
        state.settle(holder.attempt, ending);
        Ok(())
    }

    fn settle_attempt(&self, _key: &Key, attempt: AttemptId, ending: &Ending) -> Result<()> {
        self.state().settle(attempt, ending);
        Ok(())
    }

    fn key(&self, key: &Key) -> Result<Option<KeyState>> {
        let state = self.state();
        Ok(state.keys.get(key).map(|record| KeyState {
            key: key.clone(),
            lease: record.lease.clone(),
            run: record.run.clone(),
            last_attempt: state.last_attempt(key),
        }))
    }

    fn for_each_key(&self, task: Option<&TaskName>, each: &mut dyn FnMut(KeySummary) -> Result<()>) -> Result<()> {
        let summaries: Vec<_> = {
            let state = self.state();
            let wanted = |key: &Key| task.is_none_or(|task| key.task == *task);
            let summary = |(key, record): (&Key, &KeyRecord)| KeySummary {
                key: key.clone(),
                lease: record.lease.clone(),
                generation: record.run.as_ref().map(|run| run.generation),
                run: record.run.as_ref().map(|run| run.run_id),
                last_attempt: state.last_attempt(key),
                is_unreadable: false,
            };
            state.keys.iter().filter(|(key, _)| wanted(key)).map(summary).collect()
        };
        summaries.into_iter().try_for_each(each)
    }

    fn attempts(&self, filter: &AttemptFilter) -> Result<Vec<AttemptRecord>> {
        let limit = filter.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        Ok(self.state().attempts.iter().rev().filter(|record| passes(record, filter)).take(limit).cloned().collect())
    }

    fn compact_attempts(&self, keep_per_key: u32, _batch: u32) -> Result<u64> {
        let mut state = self.state();
        let before = state.attempts.len();
        let mut newer: BTreeMap<Key, u32> = BTreeMap::new();
        let mut kept: Vec<_> = std::mem::take(&mut state.attempts)
            .into_iter()
            .rev()
            .filter(|record| {
                let newer = newer.entry(record.key.clone()).or_default();
                *newer += 1;
                *newer <= keep_per_key.max(1) || !is_settled(record)
            })
            .collect();
        kept.reverse();
        state.attempts = kept;
        Ok(u64::try_from(before - state.attempts.len()).unwrap_or(u64::MAX))
    }

    fn learn(&self, shown: &[Shown]) -> Result<u64> {
        let mut state = self.state();
        Ok(shown.iter().map(|shown| u64::from(state.learn(shown))).sum())
    }

    fn fold(&self, task: &TaskName, keys: &[Foldable]) -> Result<Vec<String>> {
        let mut state = self.state();
        let mut stay = Vec::new();
        for seen in keys {
            let key = Key { task: task.clone(), partition: seen.partition.clone() };
            if !state.fold(&key, seen) {
                stay.push(key.partition);
            }
        }
        Ok(stay)
    }

    fn watermark(&self, task: &TaskName) -> Result<Option<Watermark>> {
        Ok(self.state().watermarks.get(task).cloned())
    }

    fn reclaim(&self) -> Result<()> {
        Ok(())
    }

    fn now(&self) -> Result<StoreTime> {
        self.store_clock.now()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("store_clock", &self.store_clock).finish_non_exhaustive()
    }
}

fn is_settled(record: &AttemptRecord) -> bool {
    record.ending.as_ref().is_some_and(Ending::is_settled)
}

fn passes(record: &AttemptRecord, filter: &AttemptFilter) -> bool {
    let named = |part: &String| {
        let part = part.to_ascii_lowercase();
        record.attempt.to_string().contains(&part) || record.run.is_some_and(|run| run.to_string().contains(&part))
    };
    filter.task.as_ref().is_none_or(|task| record.key.task == *task)
        && filter.partition.as_ref().is_none_or(|partition| record.key.partition == *partition)
        && filter.id_part.as_ref().is_none_or(named)
        && !(filter.unfinished && is_settled(record))
}
