//! `refrain status`

use super::{print, table};
use crate::args::StatusArgs;
use crate::backfill::range;
use crate::context::Context;
use crate::{json, output};
use refrain::core::TaskName;
use refrain::survey::{PartitionStatus, State, Survey, Surveyed};
use refrain::{Boundary, Result};

/// How many partitions of a task are shown when no range is given.
const NEWEST: usize = 31;

/// Shows the state of partitions.
pub(crate) fn status(context: &Context, args: &StatusArgs) -> Result<()> {
    let boundary = context.boundary()?;
    let names = match &args.task {
        Some(task) => vec![Context::known_task(&boundary, task)?],
        None => boundary.task_names()?,
    };
    let mut all = Vec::new();
    for name in names {
        let survey = survey(context, &boundary, &name, args)?;
        let surveyed = boundary.survey(&name, &survey)?;
        if args.json {
            all.extend(surveyed.partitions);
        } else {
            show(&name, &surveyed);
        }
    }
    if args.json {
        output::data(&json(&all)?);
    }
    Ok(())
}

fn survey(context: &Context, boundary: &Boundary, name: &TaskName, args: &StatusArgs) -> Result<Survey> {
    let newest = (!args.json && args.from.is_none()).then_some(NEWEST);
    let (Some(from), Some(to)) = (&args.from, &args.to) else {
        return Ok(Survey { range: None, newest });
    };
    let task = boundary.home().config.task(name.as_str())?;
    let intervals = range(context, task, from, to)?;
    let ends = intervals.first().cloned().zip(intervals.last().cloned());
    Ok(Survey { range: ends, newest })
}

fn show(name: &TaskName, surveyed: &Surveyed) {
    let counts: Vec<_> = surveyed.counts.iter().map(|(state, count)| format!("{count} {}", word(*state))).collect();
    let counts = if counts.is_empty() { "nothing yet".to_owned() } else { counts.join(", ") };
    output::data(&format!("{name}: {counts}"));
    if surveyed.partitions.is_empty() {
        return;
    }
    let shown = surveyed.partitions.len() as u64;
    let total: u64 = surveyed.counts.values().sum();
    let mut table = table(&["", "PARTITION", "STATE", "VERSION", "AT", "NOTE"]);
    for status in &surveyed.partitions {
        table.add_row(row(status));
    }
    print(&table);
    if shown < total {
        output::data(&format!("(the newest {shown} of {total}; --from and --to show others, --json shows all)"));
    }
}

fn row(status: &PartitionStatus) -> Vec<String> {
    let partition = if status.partition.is_empty() { "-".to_owned() } else { status.partition.clone() };
    vec![
        mark(status.state).to_owned(),
        partition,
        word(status.state).to_owned(),
        status.generation.map(|generation| generation.to_string()).unwrap_or_default(),
        status.at.map(|at| format!("{at:.0}")).unwrap_or_default(),
        status.note.clone().unwrap_or_default(),
    ]
}

fn word(state: State) -> &'static str {
    match state {
        State::Published => "published",
        State::Stale => "stale",
        State::Drifted => "changed by hand",
        State::Running => "running",
        State::Failed => "failed",
        State::Unsettled => "unsettled",
        State::Missing => "missing",
    }
}

/// One sign per state, so that a column can be read at a glance.
fn mark(state: State) -> &'static str {
    match state {
        State::Published => "+",
        State::Stale => "~",
        State::Drifted => "!",
        State::Running => ">",
        State::Failed => "x",
        State::Unsettled => "?",
        State::Missing => ".",
    }
}
