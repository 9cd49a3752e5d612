//! Watermarks: the bound under which a task's keys are forgotten (PROTOCOL 12).
//!
//! A fold is written down with the watermark before any key is forgotten: whoever folds next completes it first, so that
//! each key counts once, whoever dies when.

use super::place::{Fate, From, Place, at_once};
use super::{BucketStore, names};
use crate::chance::fresh_nonce;
use jiff::Timestamp;
use refrain_core::{AttemptId, Foldable, Key, Result, RunId, StoreId, TaskName, Token, Watermark};
use refrain_object::Version;
use serde::{Deserialize, Serialize};

/// The object of a task.
#[derive(Clone, Serialize, Deserialize)]
struct Stored {
    nonce: String,
    through: String,
    ends_at: Timestamp,
    token_floor: Token,
    folded: u64,
    /// The fold that is underway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fold: Option<Fold>,
}

/// Keys that are being forgotten.
#[derive(Clone, Serialize, Deserialize)]
struct Fold {
    id: String,
    keys: Vec<Folding>,
}

/// A key as it was seen by who wants to forget it.
#[derive(Clone, Serialize, Deserialize)]
struct Folding {
    partition: String,
    ends_at: Timestamp,
    run: Option<RunId>,
    last_attempt: Option<AttemptId>,
}

/// What became of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Folded {
    Now,
    Before,
    Not,
}

impl BucketStore {
    /// See [`StateStore::fold`](refrain_core::StateStore::fold).
    pub(super) fn fold_keys(&self, task: &TaskName, keys: &[Foldable]) -> Result<Vec<String>> {
        let store = self.place.identity()?.store_id;
        let mut left: Vec<&Foldable> = keys.iter().collect();
        let mut stay = Vec::new();
        loop {
            let standing = self.place.tried(|| self.complete(task, store, &mut |_, _| {}))?;
            let records = at_once(&left, |seen| self.place.read(&key_of(task, &seen.partition)))?;
            let (mut begun, mut tokens) = (Vec::new(), Vec::new());
            for (seen, record) in left.iter().zip(records) {
                match record.filter(|record| !record.is_empty()) {
                    None => {}
                    Some(record) if record.may_fold(seen, store) => {
                        begun.push(*seen);
                        tokens.push(record.stored.record.last_token);
                    }
                    Some(_) => stay.push(seen.partition.clone()),
                }
            }
            if begun.is_empty() {
                return Ok(stay);
            }
            if let Some(fold) = self.begin_fold(task, standing, &begun, &tokens)? {
                stay.extend(self.finish_fold(task, store, &fold)?);
                return Ok(stay);
            }
            // Another one began a fold meanwhile: it is completed first.
            left = begun;
        }
    }

    /// Completes a fold that was begun here; returns the partitions that changed meanwhile and stay.
    fn finish_fold(&self, task: &TaskName, store: StoreId, fold: &Fold) -> Result<Vec<String>> {
        let mut stays = None;
        self.place.tried(|| {
            self.complete(task, store, &mut |id, stay: Vec<String>| {
                if id == fold.id {
                    stays = Some(stay);
                }
            })
        })?;
        if let Some(stays) = stays {
            return Ok(stays);
        }
        // Another one has completed it.
        let records = at_once(&fold.keys, |seen| self.place.read(&key_of(task, &seen.partition)))?;
        let stays = records.into_iter().flatten().filter(|record| record.folded_by.as_ref() != Some(&fold.id));
        Ok(stays.filter(|record| !record.is_empty()).map(|record| record.key.partition).collect())
    }

    /// Raises the watermark over keys and writes down that they are being forgotten; nothing when it is not the one
    /// that was read any more.
    fn begin_fold(
        &self,
        task: &TaskName,
        standing: Option<(Version, Stored)>,
        keys: &[&Foldable],
        tokens: &[Token],
    ) -> Result<Option<Fold>> {
        let (version, former) = standing.map(|(version, stored)| (version, stored.watermark())).unzip();
        let folded = former.as_ref().map_or(0, |watermark: &Watermark| watermark.folded);
        let raised = keys
            .iter()
            .zip(tokens)
            .fold(former, |watermark, (seen, token)| Some(Watermark::raised(watermark, seen, *token)));
        let Some(raised) = raised else { return Ok(None) };
        let fold = Fold { id: fresh_nonce(), keys: keys.iter().map(|seen| Folding::of(seen)).collect() };
        let stored = Stored { fold: Some(fold.clone()), ..Stored::of(&Watermark { folded, ..raised }) };
        let begun = self.place.tried(|| self.place.swap_json(&names::task(task), version.as_ref(), &stored))?;
        Ok(begun.is_ok().then_some(fold))
    }

    /// Forgets the keys of a fold that is underway, if there is one, and tells which stay. Returns the watermark as it
    /// stands then.
    fn complete(
        &self,
        task: &TaskName,
        store: StoreId,
        stays: &mut dyn FnMut(&str, Vec<String>),
    ) -> Result<Option<(Version, Stored)>> {
        let name = names::task(task);
        loop {
            let Some((version, mut stored)) = self.place.read_json::<Stored>(&name)? else { return Ok(None) };
            let Some(fold) = stored.fold.take() else { return Ok(Some((version, stored))) };
            let folded = at_once(&fold.keys, |seen| self.forget(task, seen, &fold.id, store))?;
            let stay = fold.keys.iter().zip(&folded).filter(|(_, folded)| **folded == Folded::Not);
            stays(&fold.id, stay.map(|(seen, _)| seen.partition.clone()).collect());
            let now = folded.iter().filter(|folded| **folded == Folded::Now).count();
            stored.folded += u64::try_from(now).unwrap_or(u64::MAX);
            stored.nonce = fresh_nonce();
            if let Ok(version) = self.place.swap_json(&name, Some(&version), &stored)? {
                return Ok(Some((version, stored)));
            }
        }
    }

    fn forget(&self, task: &TaskName, seen: &Folding, fold: &str, store: StoreId) -> Result<Folded> {
        let key = key_of(task, &seen.partition);
        let seen = seen.foldable();
        self.place.change(&key, From::Store, self.place.patience(), |record| {
            let Some(record) = record else { return Ok((Fate::Keep, Folded::Before)) };
            Ok(if record.folded_by.as_deref() == Some(fold) {
                (Fate::Keep, Folded::Now)
            } else if record.is_empty() {
                (Fate::Keep, Folded::Before)
            } else if record.may_fold(&seen, store) {
                record.fold(fold);
                (Fate::Save, Folded::Now)
            } else {
                (Fate::Keep, Folded::Not)
            })
        })
    }
}

impl Place {
    /// The watermark of a task.
    pub(super) fn watermark(&self, task: &TaskName) -> Result<Option<Watermark>> {
        let stored = self.tried(|| self.read_json::<Stored>(&names::task(task)))?;
        Ok(stored.map(|(_, stored)| stored.watermark()))
    }

    /// Writes the first watermark of a task, or one that stood there before it was a store.
    pub(super) fn put_watermark(&self, task: &TaskName, watermark: &Watermark) -> Result<()> {
        let name = names::task(task);
        let version = self.read_json::<serde_json::Value>(&name)?.map(|(version, _)| version);
        match self.swap_json(&name, version.as_ref(), &Stored::of(watermark))? {
            Ok(_) => Ok(()),
            Err(_) => {
                Err(refrain_core::Error::invalid(format!("somebody else writes to the state store {}", self.address())))
            }
        }
    }
}

impl Stored {
    fn of(watermark: &Watermark) -> Self {
        let Watermark { through, ends_at, token_floor, folded } = watermark.clone();
        Self { nonce: fresh_nonce(), through, ends_at, token_floor, folded, fold: None }
    }

    fn watermark(self) -> Watermark {
        let Self { through, ends_at, token_floor, folded, .. } = self;
        Watermark { through, ends_at, token_floor, folded }
    }
}

impl Folding {
    fn of(seen: &Foldable) -> Self {
        let Foldable { partition, ends_at, run, last_attempt } = seen.clone();
        Self { partition, ends_at, run, last_attempt }
    }

    fn foldable(&self) -> Foldable {
        let Self { partition, ends_at, run, last_attempt } = self.clone();
        Foldable { partition, ends_at, run, last_attempt }
    }
}

fn key_of(task: &TaskName, partition: &str) -> Key {
    Key { task: task.clone(), partition: partition.to_owned() }
}
