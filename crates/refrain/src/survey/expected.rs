//! What a task's calendar or its list of values expects, beside what was attempted.

use super::{PartitionStatus, Since, State, Survey};
use crate::task::Task;
use jiff::Timestamp;
use refrain_core::{Calendar, Grain, Interval, Partition, PartitionScheme, Result, Watermark};
use std::collections::BTreeMap;

/// From what is told which partitions there should be.
pub(super) struct Expected<'a> {
    pub(super) task: &'a Task,
    pub(super) survey: &'a Survey,
    pub(super) now: Timestamp,
    pub(super) watermark: Option<&'a Watermark>,
}

/// Adds what the range or the task's values expect and nobody attempted, and puts all in order of time. Returns the dates
/// after the last known one, if they were left out.
pub(super) fn add_expected(wanted: &Expected<'_>, partitions: &mut Vec<PartitionStatus>) -> Result<Option<Since>> {
    let Expected { task, survey, now, .. } = wanted;
    let mut all: BTreeMap<String, PartitionStatus> =
        partitions.drain(..).map(|status| (status.partition.clone(), status)).collect();
    let mut since = None;
    match &task.partitions {
        PartitionScheme::Dates(calendar) => {
            let known = known_ends(calendar, &all);
            if !survey.is_bounded()
                && let Some((_, last)) = &known
                && let Some(over) = last_over(calendar, *now).filter(|over| over.start > last.start)
            {
                since = Some(Since { known: last.key.clone(), over: over.key });
            }
            if let Some((first, last)) = ends(calendar, wanted, known) {
                for interval in calendar.range(&first, &last)? {
                    let state = state_of_absent(wanted, calendar, &interval);
                    all.entry(interval.key).or_insert_with_key(|key| never(task, key.clone(), state));
                }
            }
        }
        PartitionScheme::Values(values) => {
            for value in values {
                all.entry(value.clone()).or_insert_with_key(|key| never(task, key.clone(), State::Missing));
            }
        }
        PartitionScheme::None => {
            let key = Partition::whole().key;
            all.entry(key).or_insert_with_key(|key| never(task, key.clone(), State::Missing));
        }
        PartitionScheme::Free => {}
    }
    partitions.extend(all.into_values());
    if let Some(calendar) = task.partitions.calendar().filter(|calendar| has_offsets(calendar)) {
        partitions.sort_by_cached_key(|status| {
            let interval = calendar.interval_of_key(&status.partition).ok();
            (interval.map(|interval| interval.start), status.partition.clone())
        });
    }
    Ok(since)
}

/// Whether a key lies within the range that was asked for.
pub(super) fn in_range(calendar: Option<&Calendar>, partition: &str, survey: &Survey) -> bool {
    let Survey { from, to, .. } = survey;
    match calendar.filter(|calendar| has_offsets(calendar) && survey.is_bounded()) {
        Some(calendar) => calendar.interval_of_key(partition).is_ok_and(|interval| {
            from.as_ref().is_none_or(|from| from.start <= interval.start)
                && to.as_ref().is_none_or(|to| interval.start <= to.start)
        }),
        None => {
            from.as_ref().is_none_or(|from| *from.key <= *partition)
                && to.as_ref().is_none_or(|to| *partition <= *to.key)
        }
    }
}

/// Keys with an offset are not in order of time where a clock is set back; all others are.
fn has_offsets(calendar: &Calendar) -> bool {
    calendar.grain() == Grain::Hourly && calendar.zone_name() != "UTC"
}

/// The first and the last interval that should be there.
fn ends(
    calendar: &Calendar,
    wanted: &Expected<'_>,
    known: Option<(Interval, Interval)>,
) -> Option<(Interval, Interval)> {
    let later = |one: Interval, other: Interval| if one.start < other.start { other } else { one };
    match (wanted.survey.from.clone(), wanted.survey.to.clone()) {
        (Some(from), Some(to)) => Some((from, to)),
        (None, None) => known,
        (Some(from), None) => {
            let known = known.map(|(_, last)| last);
            let last = known.into_iter().chain(last_over(calendar, wanted.now)).fold(from.clone(), later);
            Some((from, last))
        }
        (None, Some(to)) => Some((known.map_or_else(|| to.clone(), |(first, _)| first), to)),
    }
}

/// The first interval of which something is known, and the last.
fn known_ends(calendar: &Calendar, known: &BTreeMap<String, PartitionStatus>) -> Option<(Interval, Interval)> {
    let interval = |key: &String| calendar.interval_of_key(key).ok();
    if has_offsets(calendar) {
        let all = || known.keys().filter_map(interval);
        return all().min_by_key(|one| one.start).zip(all().max_by_key(|one| one.start));
    }
    known.keys().find_map(interval).zip(known.keys().rev().find_map(interval))
}

/// The last interval that is over.
fn last_over(calendar: &Calendar, now: Timestamp) -> Option<Interval> {
    calendar.containing(now).and_then(|current| calendar.previous(&current)).ok()
}

/// What an interval is that nobody attempted.
fn state_of_absent(wanted: &Expected<'_>, calendar: &Calendar, interval: &Interval) -> State {
    match wanted.watermark {
        Some(watermark) if watermark.covers(interval) => State::Compacted,
        _ if calendar.is_open(interval, wanted.now) => State::Open,
        _ => State::Missing,
    }
}

fn never(task: &Task, partition: String, state: State) -> PartitionStatus {
    PartitionStatus { task: task.name.to_string(), partition, state, generation: None, at: None, note: None }
}
