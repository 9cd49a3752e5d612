//! Removes what nobody needs: staging of attempts that are fenced or outdone, pinned inputs of runs that are over,
//! versions beyond the task's `keep`. Never by age or by name alone (PROTOCOL 7).

use crate::boundary::Boundary;
use crate::report::in_one_line;
use crate::sealed::SealedRun;
use refrain_core::{
    AttemptFilter, AttemptId, Error, Generation, Head, Input, Keep, Key, Result, RunRecord, SlotAddress, Staged,
    StagingId, Staleness, StoreIdentity, staleness,
};
use refrain_input::{PINS, owner_of};
use refrain_object::Address;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;

/// How many attempts of a key the log keeps, and how many rows one transaction removes.
const ATTEMPTS_KEPT: u32 = 100;
const BATCH: u32 = 1000;

/// What was removed, or would be.
#[derive(Debug, Default)]
pub struct Collected {
    /// Staging of attempts that can never be published.
    pub staging: Vec<String>,
    /// Pinned inputs of runs that are over.
    pub pins: Vec<String>,
    /// Replaced versions beyond the task's `keep`.
    pub versions: Vec<String>,
    /// Outputs of commands beyond the newest of each task.
    pub outputs: Vec<String>,
    /// Entries of the log beyond the newest of each key.
    pub attempts: u64,
    /// What was found and left alone, with the reason.
    pub kept: Vec<String>,
    /// Why keys, and sinks, cannot be read: nothing of theirs was removed that needs to know what they hold.
    pub unreadable: Vec<Error>,
}

impl Collected {
    /// One thing that cannot be removed must not keep the others.
    fn keep(&mut self, place: &str, why: impl Display) {
        self.kept.push(format!("{place}: {why}"));
    }
}

impl Boundary {
    /// Collects; with `dry_run` it only says what it would.
    ///
    /// # Crash safety
    /// Every reason to remove something is stable: once true it stays true. Dying inside leaves the rest for the next
    /// call.
    pub fn collect(&self, dry_run: bool) -> Result<Collected> {
        let mut collected = Collected::default();
        // Versions come first: what was replaced and not kept aside yet lies among the staging.
        self.collect_versions(dry_run, &mut collected)?;
        self.collect_staging(dry_run, &mut collected)?;
        self.collect_pins(dry_run, &mut collected);
        collected.outputs = self.trim_outputs(dry_run, &mut |place, error| collected.keep(place, in_one_line(error)));
        if !dry_run {
            match self.store.compact_attempts(ATTEMPTS_KEPT, BATCH) {
                // It is told already.
                Err(error) if collected.unreadable.iter().any(|known| known.message == error.message) => {}
                attempts => collected.attempts = attempts?,
            }
        }
        Ok(collected)
    }

    fn collect_staging(&self, dry_run: bool, collected: &mut Collected) -> Result<()> {
        let store = self.store.identity()?;
        let mut sealed = BTreeMap::new();
        for volume in self.home.config.staging.iter().filter(|volume| !volume.exists()) {
            let place = volume.display().to_string();
            collected.keep(&place, "is not there: if its filesystem is not mounted, repeat the gc when it is");
        }
        for sink in self.sinks.all() {
            let all = match sink.staged() {
                Ok(all) => all,
                Err(error) => {
                    let what = format!("looking for what attempts left in the sink `{}`", sink.capabilities().sink);
                    collected.unreadable.push(error.within(what));
                    continue;
                }
            };
            for staged in all {
                let place = sink.location(&SlotAddress {
                    sink: sink.capabilities().sink.to_owned(),
                    location: staged.place.clone(),
                });
                let Some((_, id)) = &staged.owner else {
                    let why = if Address::is_one(&place) {
                        "no manifest names it; remove it by hand if you know it, and no attempt of another host writes there"
                    } else {
                        "bears no readable name; remove it by hand if you know it"
                    };
                    collected.keep(&place, why);
                    continue;
                };
                let removed = match self.needs(&staged, id, &store, &mut sealed) {
                    Ok(Some(why)) => {
                        collected.keep(&place, why);
                        continue;
                    }
                    Ok(None) if dry_run => Ok(()),
                    Ok(None) => sink.discard(&staged),
                    Err(error) => Err(error),
                };
                match removed {
                    Ok(()) => collected.staging.push(place),
                    Err(error) => collected.keep(&place, in_one_line(&error)),
                }
            }
        }
        Ok(())
    }

    /// Why staging must stay; nothing if it may go.
    fn needs(
        &self,
        staged: &Staged,
        id: &StagingId,
        store: &StoreIdentity,
        sealed: &mut BTreeMap<Key, Option<SealedRun>>,
    ) -> Result<Option<String>> {
        let mut heads: BTreeMap<SlotAddress, Option<Head>> = BTreeMap::new();
        for slot in &id.slots {
            heads.insert(slot.clone(), self.sinks.of(slot)?.read(slot)?);
        }
        let stale = staleness(id, &heads, store);
        tracing::debug!(rule = "7", place = %staged.place, ?stale, "staging");
        let owner = id.slots.first().and_then(|slot| heads.get(slot)?.as_ref()).map(|head| &head.owner);
        match (stale, owner) {
            (Staleness::Needed, _) => Ok(Some(format!("attempt {} may still need it", id.holder.attempt))),
            (Staleness::Fenced, Some(key)) => {
                if !sealed.contains_key(key) {
                    let newest = self.sealed_for(key)?.and_then(|(_, all)| all.into_iter().next());
                    sealed.insert(key.clone(), newest);
                }
                let newest = sealed.get(key).and_then(Option::as_ref);
                let kept = newest.filter(|newest| newest.needs(&staged.place, id));
                Ok(kept.map(|kept| {
                    format!("attempt {} sealed it for `{key}`, and a run may still publish it", kept.maker)
                }))
            }
            _ => Ok(None),
        }
    }

    /// Copies of inputs are needed while the attempt that made them works, and while an unpublished run reads them.
    pub(crate) fn collect_pins(&self, dry_run: bool, collected: &mut Collected) {
        let directory = self.home.state().join(PINS);
        // The directory is listed first: whoever made a copy that is in the list is known to the store by now.
        let owners: Vec<AttemptId> = fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        let mut released = BTreeSet::new();
        for owner in owners {
            let place = directory.join(owner.to_string()).display().to_string();
            let removed = match self.needs_pins(owner) {
                Ok(Some(why)) => {
                    collected.keep(&place, why);
                    continue;
                }
                Ok(None) if dry_run => Ok(()),
                Ok(None) => self.inputs.release(owner),
                Err(error) => Err(error),
            };
            match removed {
                Ok(()) => {
                    released.insert(owner);
                    collected.pins.push(place);
                }
                Err(error) => collected.keep(&place, in_one_line(&error)),
            }
        }
        match self.inputs.sweep(&released, dry_run) {
            Ok(views) => collected.pins.extend(views.iter().map(|view| view.display().to_string())),
            Err(error) => collected.keep("views of inputs", in_one_line(&error)),
        }
    }

    /// Why the copies of an attempt must stay; nothing if they may go.
    fn needs_pins(&self, owner: AttemptId) -> Result<Option<String>> {
        let filter = AttemptFilter { id_part: Some(owner.to_string()), limit: Some(1), ..AttemptFilter::default() };
        let Some(record) = self.store.attempts(&filter)?.into_iter().next() else {
            return Ok(Some("belongs to an attempt that this state store does not know".to_owned()));
        };
        if !record.ending.is_some_and(|ending| ending.is_settled()) {
            return Ok(Some(format!("attempt {owner} may still need it")));
        }
        // After the attempt's end: a run that it opened is in the store.
        let Some(run) = self.store.key(&record.key)?.and_then(|state| state.run) else { return Ok(None) };
        if !run.inputs.iter().any(|pin| owner_of(pin) == Some(owner)) || self.is_published(&run)? {
            return Ok(None);
        }
        Ok(Some(format!("version {} of `{}` reads it and is not published yet", run.generation, record.key)))
    }

    /// Whether the run or a later one is published.
    pub(crate) fn is_published(&self, run: &RunRecord) -> Result<bool> {
        let Some(anchor) = run.anchor() else { return Ok(true) };
        let head = self.sinks.of(anchor)?.read(anchor)?;
        Ok(head.is_some_and(|head| head.publication.is_some() && head.generation() >= run.generation))
    }

    fn collect_versions(&self, dry_run: bool, collected: &mut Collected) -> Result<()> {
        let now = self.now();
        self.store.for_each_key(None, &mut |summary| {
            collected.unreadable.extend(self.why_unreadable(&summary)?);
            if summary.generation.is_none_or(|generation| generation <= Generation::new(1)) {
                return Ok(());
            }
            let Some(run) = self.store.key(&summary.key)?.and_then(|state| state.run) else { return Ok(()) };
            if let Some(why) = self.needs_versions(&run) {
                collected.keep(&format!("versions of `{}`", summary.key), why);
                return Ok(());
            }
            let keep = self.keep_of(&summary.key);
            for slot in run.slots() {
                match self.sinks.of(slot).and_then(|sink| sink.trim(slot, &keep, now, dry_run)) {
                    Ok(trimmed) => collected.versions.extend(trimmed.into_iter().flat_map(|version| version.locations)),
                    Err(error) => collected.keep(&self.locate(slot), in_one_line(&error)),
                }
            }
            Ok(())
        })
    }

    /// Why no version may go; nothing if they may.
    fn needs_versions(&self, run: &RunRecord) -> Option<String> {
        let version = run.restores.as_ref()?.version;
        match self.is_published(run) {
            Ok(true) => None,
            Ok(false) => Some(format!("a rollback to version {version} is not finished")),
            Err(error) => Some(in_one_line(&error)),
        }
    }

    fn keep_of(&self, key: &Key) -> Keep {
        self.home.config.declared(&key.task).map_or_else(Keep::default, |task| task.keep)
    }
}
