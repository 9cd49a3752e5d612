//! What a task's calendar or its list of values expects, beside what was attempted.

use super::{PartitionStatus, State, Survey};
use crate::task::Task;
use jiff::Timestamp;
use refrain_core::{Calendar, Grain, Interval, PartitionScheme, Result, Watermark};
use std::collections::BTreeMap;

/// From what is told which partitions there should be.
pub(super) struct Expected<'a> {
    pub(super) task: &'a Task,
    pub(super) survey: &'a Survey,
    pub(super) now: Timestamp,
    pub(super) watermark: Option<&'a Watermark>,
}

/// Adds what the range or the task's values expect and nobody attempted, and puts all in order of time.
pub(super) fn add_expected(
    wanted: &Expected<'_>,
    partitions: &mut Vec<PartitionStatus>,
    counts: &mut BTreeMap<State, u64>,
) -> Result<()> {
    let Expected { task, survey, .. } = wanted;
    let mut all: BTreeMap<String, PartitionStatus> =
        partitions.drain(..).map(|status| (status.partition.clone(), status)).collect();
    let expected = expected(wanted, &all)?;
    let absent: Vec<_> = expected.into_iter().filter(|(partition, _)| !all.contains_key(partition)).collect();
    for (_, state) in &absent {
        *counts.entry(*state).or_default() += 1;
    }
    // A gap of years that nobody asked for is counted, not listed.
    if survey.range.is_some() || survey.newest.is_none_or(|newest| absent.len() <= newest) {
        all.extend(absent.into_iter().map(|(partition, state)| (partition.clone(), never(task, partition, state))));
    }
    partitions.extend(all.into_values());
    if let Some(calendar) = task.partitions.calendar().filter(|calendar| has_offsets(calendar)) {
        partitions.sort_by_cached_key(|status| {
            let interval = calendar.interval_of_key(&status.partition).ok();
            (interval.map(|interval| interval.start), status.partition.clone())
        });
    }
    Ok(())
}

/// Whether a key lies within the range that was asked for.
pub(super) fn in_range(calendar: Option<&Calendar>, partition: &str, survey: &Survey) -> bool {
    let Some((from, to)) = &survey.range else { return true };
    match calendar.filter(|calendar| has_offsets(calendar)) {
        Some(calendar) => calendar
            .interval_of_key(partition)
            .is_ok_and(|interval| from.start <= interval.start && interval.start <= to.start),
        None => *from.key <= *partition && *partition <= *to.key,
    }
}

/// Keys with an offset are not in order of time where a clock is set back; all others are.
fn has_offsets(calendar: &Calendar) -> bool {
    calendar.grain() == Grain::Hourly && calendar.zone_name() != "UTC"
}

/// The keys that should be there, and what they are when nobody attempted them.
fn expected(wanted: &Expected<'_>, known: &BTreeMap<String, PartitionStatus>) -> Result<Vec<(String, State)>> {
    let Expected { task, survey, now, watermark } = wanted;
    match &task.partitions {
        PartitionScheme::Dates(calendar) => {
            let ends = match &survey.range {
                Some(ends) => Some(ends.clone()),
                None => known_ends(calendar, survey, known),
            };
            let Some((first, last)) = ends else { return Ok(Vec::new()) };
            let state = |interval: &Interval| match watermark {
                Some(watermark) if watermark.covers(interval) => State::Compacted,
                _ if calendar.is_open(interval, *now) => State::Open,
                _ => State::Missing,
            };
            Ok(calendar.range(&first, &last)?.map(|interval| (interval.key.clone(), state(&interval))).collect())
        }
        PartitionScheme::Values(values) => Ok(values.iter().map(|value| (value.clone(), State::Missing)).collect()),
        _ => Ok(Vec::new()),
    }
}

/// The first interval that was attempted, and the last: that, or the last that is closed.
fn known_ends(
    calendar: &Calendar,
    survey: &Survey,
    known: &BTreeMap<String, PartitionStatus>,
) -> Option<(Interval, Interval)> {
    let interval = |key: &String| calendar.interval_of_key(key).ok();
    let first = known.keys().find_map(interval)?;
    let last = known.keys().rev().find_map(interval)?;
    let closed = survey
        .until
        .and_then(|now| calendar.containing(now).and_then(|current| calendar.previous(&current)).ok())
        .filter(|closed| closed.start > last.start);
    Some((first, closed.unwrap_or(last)))
}

fn never(task: &Task, partition: String, state: State) -> PartitionStatus {
    PartitionStatus { task: task.name.to_string(), partition, state, generation: None, at: None, note: None }
}
