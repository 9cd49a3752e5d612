//! `refrain backfill --dry-run`: what a run of each date would do, one after the other.

use crate::args::BackfillArgs;
use crate::look::screen::Screen;
use crate::look::state::word;
use crate::look::{self, print_within};
use crate::output;
use refrain::core::{Difference, Interval, Key, Partition, counted};
use refrain::report::exit_code;
use refrain::survey::{State, Survey};
use refrain::why::{Why, Would};
use refrain::{Boundary, Result, Task};
use std::collections::{BTreeMap, BTreeSet};

/// A date, what is done with it, what it is, and the reason in short.
struct Row {
    date: String,
    would: &'static str,
    state: &'static str,
    reason: String,
}

/// Tells of every date, in the order in which they would be run.
///
/// What the dates before it publish is counted on: a date that reads the one before it can be run then.
pub(super) fn dry_run(boundary: &Boundary, task: &Task, args: &BackfillArgs, intervals: Vec<Interval>) -> Result<u8> {
    let from = intervals.iter().min_by_key(|interval| interval.start).cloned();
    let to = intervals.iter().max_by_key(|interval| interval.start).cloned();
    let surveyed = boundary.survey(&task.name, &Survey { from, to, ..Survey::default() })?;
    let states: BTreeMap<String, State> =
        surveyed.partitions.into_iter().map(|status| (status.partition, status.state)).collect();
    let screen = Screen::of_stdout();
    let mut before = BTreeSet::new();
    let mut rows = Vec::new();
    for interval in intervals {
        let state = states.get(&interval.key).copied().unwrap_or(State::Missing);
        let why = boundary.why_after(task, &Partition::of(interval), &before)?;
        let would = would(&why, args);
        if matches!(would, Would::Run | Would::Recover) {
            before.insert(Key { task: task.name.clone(), partition: why.partition.clone() });
        }
        let row = row(why, would, state);
        if screen.terminal {
            rows.push(row);
        } else if !output::data(&line(&row)) {
            break;
        }
    }
    if screen.terminal {
        table(task, &rows, screen.width);
    }
    Ok(exit_code::PUBLISHED)
}

fn row(why: Why, would: Would, state: State) -> Row {
    let state = match (why.would, state) {
        (Would::Wait, _) => "held",
        (_, State::Published) if why.changed => "changed",
        (_, state) => word(state),
    };
    Row { reason: reason(&why, would), date: why.partition, would: name(would), state }
}

fn name(would: Would) -> &'static str {
    match would {
        Would::Run => "run",
        Would::Nothing => "nothing",
        Would::Wait => "held",
        Would::Recover => "recover",
        Would::Refuse => "refuse",
    }
}

/// Why, in as few words as tell it; `refrain why` has the others.
fn reason(why: &Why, would: Would) -> String {
    let last = || why.because.last().cloned().unwrap_or_default();
    match would {
        Would::Wait => "another attempt runs it".to_owned(),
        Would::Recover if why.sealed_by.is_some() => "what an earlier attempt sealed is published".to_owned(),
        Would::Recover => "an earlier attempt is to be settled first".to_owned(),
        Would::Refuse if why.changes.is_empty() => why.refusal.clone().unwrap_or_else(last),
        Would::Run if why.after.is_some() => {
            format!("after {}", why.after.as_ref().map_or("", |key| key.partition.as_str()))
        }
        _ if !why.changes.is_empty() => why.changes.iter().map(Difference::to_string).collect::<Vec<_>>().join(", "),
        Would::Run | Would::Nothing | Would::Refuse => String::new(),
    }
}

/// A date as programs read it.
fn line(row: &Row) -> String {
    let state = if row.reason.is_empty() { row.state.to_owned() } else { format!("{}: {}", row.state, row.reason) };
    format!("{}\t{}\t{}", row.date, row.would, state.replace(['\t', '\n'], " "))
}

/// The dates as people read them, with the counts below.
fn table(task: &Task, rows: &[Row], width: usize) {
    let mut table = look::table(&["DATE", "WOULD", "IS", "WHY"]);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        table.add_row(vec![&row.date, row.would, row.state, &row.reason]);
        *counts.entry(row.would).or_default() += 1;
    }
    print_within(&table, width);
    let counts: Vec<_> = counts.into_iter().map(|(would, count)| format!("{count} {would}")).collect();
    output::data(&format!("{}: {}: {}", task.name, counted(rows.len(), "date"), counts.join(", ")));
}

/// What a run with these flags would do.
fn would(why: &Why, args: &BackfillArgs) -> Would {
    let changed = why.changed || why.after.is_some();
    let asked = args.each.repeat.rerun || (args.each.repeat.if_changed && changed);
    let helps = |flag: &str| why.next.as_ref().is_some_and(|next| next.contains(flag));
    match why.would {
        Would::Nothing if asked => Would::Run,
        // What is sealed is of the version that the next one replaces.
        Would::Recover if args.each.repeat.rerun && why.sealed_by.is_some() => Would::Run,
        Would::Refuse if why.changed && asked => Would::Run,
        Would::Refuse if args.each.repeat.rerun && helps("--rerun") || args.each.adopt && helps("--adopt") => {
            Would::Run
        }
        would => would,
    }
}
