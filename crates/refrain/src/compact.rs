//! Folds the history of old dates into one watermark a task (PROTOCOL 12): what the store knows of their runs and attempts
//! goes; what is published, its heads and its kept versions stay.

use crate::boundary::Boundary;
use crate::gc::Collected;
use crate::peek::everywhere;
use crate::plan::Plan;
use crate::task::Task;
use jiff::Timestamp;
use refrain_core::{
    AttemptFilter, AttemptId, Calendar, Ending, Error, Foldable, Generation, Grain, Interval, Key, KeyState,
    KeySummary, Result, RunRecord, SlotAddress, TaskName, Watermark,
};
use refrain_input::PINS;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Keys that one transaction folds: few enough that others wait for milliseconds.
const BATCH: usize = 1000;

/// How many keys a refusal names.
const NAMED: usize = 5;

/// What was folded, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The task.
    pub task: TaskName,
    /// How many keys.
    pub keys: u64,
    /// Old keys that keep their entry, with the reason.
    pub kept: Vec<(Key, String)>,
    /// The task's watermark, afterwards.
    pub watermark: Option<Watermark>,
}

/// What is found of the keys before the bound.
#[derive(Default)]
struct Found {
    foldable: Vec<Foldable>,
    kept: Vec<(Key, String)>,
    /// Keys that must be settled first.
    open: Vec<(Key, String)>,
    /// The slots of keys that can be folded, by partition.
    slots: BTreeMap<String, Vec<SlotAddress>>,
}

impl Boundary {
    /// Forgets the runs and attempts of all keys of a dated task whose interval ended before the one that `before` names
    /// began. A key that has anything left to do keeps its entry, or, if it is not settled, keeps all from being folded.
    ///
    /// # Errors
    /// `invalid` for a task without dates, or a date that is not over yet; `refused` while an attempt of an old key runs,
    /// its end is not known, or a decided run is not carried out.
    ///
    /// # Crash safety
    /// Every batch is a transaction that forgets its keys and raises the watermark over them. Dying between two leaves the
    /// rest for the next call; two calls at once fold every key once.
    pub fn compact(&self, task: &Task, before: &str, dry_run: bool) -> Result<Compacted> {
        let bound = bound(task, before, self.now())?;
        let mut found = self.foldable(task, bound, dry_run)?;
        if !found.open.is_empty() {
            return Err(unsettled(&task.name, &found.open));
        }
        let Found { foldable, kept, slots, .. } = &mut found;
        foldable.sort_by_key(|key| key.ends_at);
        let mut folded = foldable.len();
        if !dry_run {
            for batch in foldable.chunks(BATCH) {
                let stay = self.store.fold(&task.name, batch)?;
                folded -= stay.len();
                let gone = batch.iter().filter(|key| !stay.contains(&key.partition));
                self.forget_heads(task, gone.filter_map(|key| slots.remove_entry(&key.partition)))?;
                let key = |partition| Key { task: task.name.clone(), partition };
                kept.extend(stay.into_iter().map(|partition| (key(partition), "it changed meanwhile".to_owned())));
            }
            if folded > 0 {
                self.store.reclaim()?;
            }
        }
        Ok(Compacted {
            task: task.name.clone(),
            keys: u64::try_from(folded).unwrap_or(u64::MAX),
            kept: found.kept,
            watermark: self.store.watermark(&task.name)?,
        })
    }

    /// The watermark that covers a key of which the store knows no run: it may have been folded.
    pub(crate) fn folded(&self, plan: &Plan, state: Option<&KeyState>) -> Result<Option<Watermark>> {
        match &plan.partition.interval {
            Some(interval) if state.is_none_or(|state| state.run.is_none()) => {
                Ok(self.store.watermark(&plan.key.task)?.filter(|watermark| watermark.covers(interval)))
            }
            _ => Ok(None),
        }
    }

    fn foldable(&self, task: &Task, bound: Timestamp, dry_run: bool) -> Result<Found> {
        let Some(calendar) = task.partitions.calendar() else { return Ok(Found::default()) };
        let unfinished = AttemptFilter { task: Some(task.name.clone()), unfinished: true, ..AttemptFilter::default() };
        let unfinished: BTreeMap<Key, AttemptId> =
            self.store.attempts(&unfinished)?.into_iter().map(|record| (record.key, record.attempt)).collect();
        let pinned = self.pinned_keys(dry_run)?;
        let mut found = Found::default();
        self.store.for_each_key(Some(&task.name), &mut |summary| {
            let Ok(interval) = calendar.interval_of_key(&summary.key.partition) else {
                found.kept.push((summary.key, format!("it is no {} key", calendar.grain())));
                return Ok(());
            };
            if interval.end > bound {
                return Ok(());
            }
            if let Some(why) = is_open(&summary, unfinished.get(&summary.key)) {
                found.open.push((summary.key, why));
            } else if pinned.contains(&summary.key) {
                found.kept.push((summary.key, "its pinned inputs are still needed".to_owned()));
            } else {
                match self.what_stands(task, &summary) {
                    Ok(Standing::Whole(slots)) => {
                        found.slots.insert(summary.key.partition.clone(), slots);
                        found.foldable.push(foldable(summary, &interval));
                    }
                    Ok(Standing::InPart(why)) => found.open.push((summary.key, why)),
                    Ok(Standing::Unpublished(why)) => found.kept.push((summary.key, why)),
                    Err(error) => found.kept.push((summary.key, error.message)),
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// What the store has forgotten is forgotten where a head is all that is left of a key. Dying before it leaves heads that
    /// nobody asks for any more.
    fn forget_heads(&self, task: &Task, keys: impl Iterator<Item = (String, Vec<SlotAddress>)>) -> Result<()> {
        let mut by_sink: BTreeMap<String, Vec<(SlotAddress, String)>> = BTreeMap::new();
        for (partition, slots) in keys {
            for slot in slots {
                by_sink.entry(slot.sink.clone()).or_default().push((slot, partition.clone()));
            }
        }
        for keys in by_sink.values() {
            if let Some((slot, _)) = keys.first() {
                self.sinks.of(slot)?.forget(&task.name, keys)?;
            }
        }
        Ok(())
    }

    fn what_stands(&self, task: &Task, summary: &KeySummary) -> Result<Standing> {
        let unpublished = |why: &str| Ok(Standing::Unpublished(why.to_owned()));
        let Some(run) = self.store.key(&summary.key)?.and_then(|state| state.run) else {
            return unpublished("it was never published");
        };
        let Some(anchor) = run.anchor() else { return unpublished("it publishes nothing") };
        let head = self.sinks.of(anchor)?.read(anchor)?;
        let Some(publication) = head.as_ref().and_then(|head| head.publication_of(&summary.key)) else {
            return unpublished("nothing of it stands at its output");
        };
        if publication.run.generation < run.generation {
            return unpublished("its newest run is not published");
        }
        if !everywhere(self, &summary.key, publication)? {
            return Ok(Standing::InPart("it is decided, and an output is still to follow".to_owned()));
        }
        if run.generation > Generation::new(1) && self.has_surplus(task, &run)? {
            return unpublished("it has replaced versions that `refrain gc` is still to remove");
        }
        Ok(Standing::Whole(run.slots().cloned().collect()))
    }

    /// Whether more versions are kept than the task wants: once the key is forgotten nobody would come to remove them.
    fn has_surplus(&self, task: &Task, run: &RunRecord) -> Result<bool> {
        let wanted = usize::try_from(task.keep.versions).unwrap_or(usize::MAX);
        for slot in run.slots() {
            let versions = self.sinks.of(slot)?.versions(slot)?;
            if versions.iter().filter(|version| !version.current).count() > wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Keys with copies of inputs that cannot be collected yet: an attempt that is forgotten could not say whose they are.
    fn pinned_keys(&self, dry_run: bool) -> Result<BTreeSet<Key>> {
        let mut collected = Collected::default();
        self.collect_pins(dry_run, &mut collected);
        let directory = self.home.state().join(PINS);
        let Ok(entries) = fs::read_dir(&directory) else { return Ok(BTreeSet::new()) };
        let mut keys = BTreeSet::new();
        for owner in entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<AttemptId>().ok()) {
            if collected.pins.contains(&directory.join(owner.to_string()).display().to_string()) {
                continue;
            }
            let filter = AttemptFilter { id_part: Some(owner.to_string()), limit: Some(1), ..AttemptFilter::default() };
            keys.extend(self.store.attempts(&filter)?.into_iter().map(|record| record.key));
        }
        Ok(keys)
    }
}

/// What a key shows to readers.
enum Standing {
    /// Its newest run, at every one of these.
    Whole(Vec<SlotAddress>),
    /// Its newest run, at some outputs only.
    InPart(String),
    /// Not its newest run.
    Unpublished(String),
}

/// Why a key at or below the watermark is not run.
pub(crate) fn refuse(plan: &Plan, watermark: &Watermark) -> Error {
    Error::refused(format!(
        "`{}` lies at or below the watermark of its task, {}: what is known of such dates is compacted, and what is neither \
         known nor published is never applied again",
        plan.key, watermark.through
    ))
    .hint("if it is to be run all the same, repeat the `refrain run` with --rerun")
}

/// The moment before which intervals are folded: where the date begins that `before` names, in the task's own spelling or
/// as a day.
fn bound(task: &Task, before: &str, now: Timestamp) -> Result<Timestamp> {
    let Some(calendar) = task.partitions.calendar() else {
        return Err(Error::invalid(format!(
            "`{}` has {}: only what is in order of time can be told from a watermark",
            task.name, task.partitions
        ))
        .hint("leave the task away: then every dated task is compacted"));
    };
    let interval = calendar.given("--before", before, Some(now)).or_else(|error| {
        let days = Calendar::new(Grain::Daily, calendar.zone_name())?;
        days.canonical(before, Some(now)).map_err(|_| error)
    })?;
    if interval.start <= now {
        return Ok(interval.start);
    }
    let open = calendar.containing(now)?;
    Err(Error::invalid(format!("`--before {before}` lies in the future: only intervals that are over are compacted"))
        .hint(format!("give at most `--before {}`", open.key)))
}

/// Why a key must be settled first, if it must.
fn is_open(summary: &KeySummary, unfinished: Option<&AttemptId>) -> Option<String> {
    if let Some(lease) = &summary.lease {
        return Some(format!("attempt {} has its lease", lease.attempt));
    }
    let last = summary.last_attempt.as_ref();
    let unsettled = last.filter(|attempt| !attempt.ending.as_ref().is_some_and(Ending::is_settled));
    let unsettled = unfinished.or(unsettled.map(|attempt| &attempt.attempt));
    unsettled.map(|attempt| format!("the end of attempt {attempt} is not known"))
}

fn foldable(summary: KeySummary, interval: &Interval) -> Foldable {
    Foldable {
        partition: summary.key.partition,
        ends_at: interval.end,
        run: summary.run,
        last_attempt: summary.last_attempt.map(|attempt| attempt.attempt),
    }
}

fn unsettled(task: &TaskName, open: &[(Key, String)]) -> Error {
    let named: Vec<_> = open.iter().take(NAMED).map(|(key, why)| format!("`{key}`: {why}")).collect();
    let more = open.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    Error::refused(format!("not all dates of `{task}` before that are settled: {}{more}", named.join("; ")))
        .hint(format!("refrain recover {task} settles what can be settled; then repeat the command"))
}
