//! Removes what nobody needs: staging of attempts that are fenced or outdone, pinned inputs of runs that are over,
//! versions beyond the task's `keep`. Never by age or by name alone (PROTOCOL 7).

use crate::boundary::Boundary;
use refrain_core::{
    Generation, Head, Input, Keep, Key, Result, RunId, SlotAddress, Staged, StagingId, Staleness, StoreIdentity,
    staleness,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// How many attempts of a key the log keeps, and how many rows one transaction removes.
const ATTEMPTS_KEPT: u32 = 100;
const BATCH: u32 = 1000;

/// What was removed, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Staging of attempts that can never be published.
    pub staging: Vec<String>,
    /// Pinned inputs of runs that are over.
    pub pins: Vec<String>,
    /// Replaced versions beyond the task's `keep`.
    pub versions: Vec<String>,
    /// Entries of the log beyond the newest of each key.
    pub attempts: u64,
    /// What was found and left alone, with the reason.
    pub kept: Vec<String>,
}

impl Boundary {
    /// Collects; with `dry_run` it only says what it would.
    ///
    /// # Crash safety
    /// Every reason to remove something is stable: once true it stays true. Dying inside leaves the rest for the next
    /// call.
    pub fn collect(&self, dry_run: bool) -> Result<Collected> {
        let mut collected = Collected::default();
        self.collect_staging(dry_run, &mut collected)?;
        self.collect_pins(dry_run, &mut collected)?;
        self.collect_versions(dry_run, &mut collected)?;
        if !dry_run {
            collected.attempts = self.store.compact_attempts(ATTEMPTS_KEPT, BATCH)?;
        }
        Ok(collected)
    }

    fn collect_staging(&self, dry_run: bool, collected: &mut Collected) -> Result<()> {
        let store = self.store.identity()?;
        for sink in self.sinks.all() {
            for staged in sink.staged()? {
                let Some((_, id)) = &staged.owner else {
                    collected
                        .kept
                        .push(format!("{}: bears no readable name; remove it by hand if you know it", staged.place));
                    continue;
                };
                if !self.is_stale(&staged, id, &store)? {
                    collected.kept.push(format!("{}: attempt {} may still need it", staged.place, id.holder.attempt));
                    continue;
                }
                if !dry_run {
                    sink.discard(&staged)?;
                }
                collected.staging.push(staged.place.clone());
            }
        }
        Ok(())
    }

    fn is_stale(&self, staged: &Staged, id: &StagingId, store: &StoreIdentity) -> Result<bool> {
        let mut heads: BTreeMap<SlotAddress, Option<Head>> = BTreeMap::new();
        for slot in &id.slots {
            heads.insert(slot.clone(), self.sinks.of(slot)?.read(slot)?);
        }
        let stale = staleness(id, &heads, store);
        tracing::debug!(rule = "7", place = %staged.place, ?stale, "staging");
        Ok(stale != Staleness::Needed)
    }

    /// Pins are needed by the current run of a key while it is not published.
    fn collect_pins(&self, dry_run: bool, collected: &mut Collected) -> Result<()> {
        let directory = self.home.state().join("pins");
        let Ok(entries) = fs::read_dir(&directory) else { return Ok(()) };
        let found: BTreeSet<RunId> =
            entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        if found.is_empty() {
            return Ok(());
        }
        let mut needed: BTreeSet<RunId> = BTreeSet::new();
        self.store.for_each_key(None, &mut |summary| {
            if let Some(run) = summary.run.filter(|run| found.contains(run))
                && !self.is_published(&summary.key, run)?
            {
                needed.insert(run);
            }
            Ok(())
        })?;
        for run in found.difference(&needed) {
            if !dry_run {
                self.inputs.release(*run)?;
            }
            collected.pins.push(directory.join(run.to_string()).display().to_string());
        }
        Ok(())
    }

    fn is_published(&self, key: &Key, run: RunId) -> Result<bool> {
        let Some(current) = self.store.key(key)?.and_then(|state| state.run).filter(|current| current.run_id == run)
        else {
            return Ok(true);
        };
        let Some(anchor) = current.anchor() else { return Ok(true) };
        let head = self.sinks.of(anchor)?.read(anchor)?;
        Ok(head.is_some_and(|head| head.publication.is_some() && head.generation() >= current.generation))
    }

    fn collect_versions(&self, dry_run: bool, collected: &mut Collected) -> Result<()> {
        let now = self.now();
        self.store.for_each_key(None, &mut |summary| {
            if summary.generation.is_none_or(|generation| generation <= Generation::new(1)) {
                return Ok(());
            }
            let Some(run) = self.store.key(&summary.key)?.and_then(|state| state.run) else { return Ok(()) };
            let keep = self.keep_of(&summary.key);
            for slot in run.slots() {
                for version in self.sinks.of(slot)?.trim(slot, &keep, now, dry_run)? {
                    collected.versions.extend(version.locations);
                }
            }
            Ok(())
        })
    }

    fn keep_of(&self, key: &Key) -> Keep {
        self.home.config.tasks.iter().find(|task| task.name == key.task).map_or_else(Keep::default, |task| task.keep)
    }
}
