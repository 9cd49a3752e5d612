//! Dates that are compacted: the watermark says how many there were, and their heads which.

use super::{PartitionStatus, State};
use crate::boundary::Boundary;
use crate::task::Task;
use refrain_core::{Calendar, Interval, Key, Partition, Publication, Result, Watermark};
use std::collections::BTreeSet;

/// How many dates below the watermark are looked at: each costs a look at a sink.
const LOOKED_AT: usize = 1000;

/// A key that the store forgot on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactedKey {
    /// The last date that its task has compacted.
    pub through: String,
    /// What it published and readers still see.
    pub publication: Option<Publication>,
}

/// What was compacted of a task.
pub(super) struct Folded<'a> {
    pub(super) task: &'a Task,
    pub(super) calendar: &'a Calendar,
    pub(super) watermark: &'a Watermark,
    /// The last date that is wanted.
    pub(super) to: Option<&'a Interval>,
}

impl Boundary {
    /// Tells of a key of which the store knows nothing and that lies at or below the watermark of its task.
    pub fn compacted(&self, key: &Key) -> Result<Option<CompactedKey>> {
        let Some((task, watermark)) = self.folded_task(key)? else { return Ok(None) };
        let partition = task.partitions.partition_of_key(&key.partition)?;
        let publication = self.published_now(key, Some((task, &partition)))?;
        Ok(Some(CompactedKey { through: watermark.through, publication }))
    }

    /// The task of a key that the store forgot on purpose.
    pub(crate) fn folded_task(&self, key: &Key) -> Result<Option<(&Task, Watermark)>> {
        let Some(task) = self.home.config.declared(&key.task) else { return Ok(None) };
        let Some(calendar) = task.partitions.calendar() else { return Ok(None) };
        let Some(watermark) = self.store.watermark(&key.task)? else { return Ok(None) };
        let covered = calendar.interval_of_key(&key.partition).is_ok_and(|interval| watermark.covers(&interval));
        Ok((covered && self.store.key(key)?.is_none()).then_some((task, watermark)))
    }

    /// The dates at or below the watermark that the store does not know and a head shows, found from the newest downwards
    /// until there are as many as were folded.
    pub(super) fn folded_partitions(&self, folded: &Folded<'_>, known: &[PartitionStatus]) -> Vec<PartitionStatus> {
        let Folded { task, calendar, watermark, to } = folded;
        let known: BTreeSet<&str> = known.iter().map(|status| status.partition.as_str()).collect();
        let Ok(mut interval) = calendar.interval_of_key(&watermark.through) else { return Vec::new() };
        if let Some(to) = to.filter(|to| to.start < interval.start) {
            interval = to.clone();
        }
        let mut found = Vec::new();
        for _ in 0..LOOKED_AT {
            if u64::try_from(found.len()).unwrap_or(u64::MAX) == watermark.folded {
                break;
            }
            if !known.contains(interval.key.as_str())
                && let Some(status) = self.folded_partition(task, &interval)
            {
                found.push(status);
            }
            // The calendar has a first day.
            let Ok(previous) = calendar.previous(&interval) else { break };
            interval = previous;
        }
        found
    }

    /// What a head shows of a date; one that cannot be read shows nothing here.
    fn folded_partition(&self, task: &Task, interval: &Interval) -> Option<PartitionStatus> {
        let key = Key { task: task.name.clone(), partition: interval.key.clone() };
        let partition = Partition::of(interval.clone());
        let publication = self.published_now(&key, Some((task, &partition))).ok().flatten()?;
        Some(PartitionStatus {
            task: task.name.to_string(),
            partition: key.partition,
            state: State::Compacted,
            generation: Some(publication.run.generation),
            at: Some(publication.sealed_at),
            note: None,
        })
    }
}
