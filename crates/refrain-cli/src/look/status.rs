//! `refrain status`

use super::grid::Grid;
use super::screen::{Screen, ago};
use super::state::{is_trouble, mark, painted, with_mark, word};
use super::{print, table};
use crate::args::StatusArgs;
use crate::backfill::range;
use crate::context::Context;
use crate::{json, output};
use comfy_table::{ContentArrangement, Table, presets};
use refrain::core::{Calendar, TaskName};
use refrain::survey::{PartitionStatus, Survey, Surveyed};
use refrain::{Boundary, Result};

/// How many partitions of a task are listed when no range is given.
const NEWEST: usize = 31;

/// How many rows of a calendar are shown when no range is given: a month of days, two and a half years of months.
const NEWEST_ROWS: usize = 31;

/// How many partitions of a calendar are looked at closely when no range is given. Each costs a look at its sinks.
const LOOKED_AT: usize = 1000;

/// How many partitions that need a person are told below a calendar.
const TOLD: usize = 8;

/// Shows the state of partitions.
pub(crate) fn status(context: &Context, args: &StatusArgs) -> Result<()> {
    let boundary = context.boundary()?;
    let names = match &args.task {
        Some(task) => vec![Context::known_task(&boundary, task)?],
        None => boundary.task_names()?,
    };
    let screen = Screen::of_stdout();
    let calendars = args.grid || screen.terminal && !args.list;
    let mut all = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let calendar = boundary.home().config.declared(name).and_then(|task| task.partitions.calendar());
        let calendar = calendar.filter(|_| calendars && !args.json);
        let survey = survey(context, &boundary, name, args, calendar.is_some())?;
        let surveyed = boundary.survey(name, &survey)?;
        if args.json {
            all.extend(surveyed.partitions);
            continue;
        }
        if calendars && index > 0 {
            output::data("");
        }
        match calendar {
            Some(calendar) => show_calendar(context, name, calendar, args, &surveyed, screen),
            None => list(name, &surveyed, screen),
        }
    }
    if args.json {
        output::data(&json(&all)?);
    }
    Ok(())
}

fn survey(
    context: &Context,
    boundary: &Boundary,
    name: &TaskName,
    args: &StatusArgs,
    calendar: bool,
) -> Result<Survey> {
    if let (Some(from), Some(to)) = (&args.from, &args.to) {
        let task = boundary.home().config.task(name.as_str())?;
        let intervals = range(context, task, from, to)?;
        let ends = intervals.first().cloned().zip(intervals.last().cloned());
        return Ok(Survey { range: ends, ..Survey::default() });
    }
    Ok(if calendar {
        Survey { closely: Some(LOOKED_AT), until: Some(context.now()), ..Survey::default() }
    } else {
        Survey { newest: (!args.json).then_some(NEWEST), ..Survey::default() }
    })
}

/// A calendar, what its signs mean with how many there are of each, and what needs a person.
fn show_calendar(
    context: &Context,
    name: &TaskName,
    calendar: &Calendar,
    args: &StatusArgs,
    surveyed: &Surveyed,
    screen: Screen,
) {
    let most_rows = if args.from.is_some() { usize::MAX } else { NEWEST_ROWS };
    let statuses = &surveyed.partitions;
    let grid = Grid::new(calendar, statuses, most_rows, screen.width).filter(|grid| grid.first().is_some());
    let Some(grid) = grid else { return list(name, surveyed, screen) };
    output::data(&format!("{name} ({calendar})"));
    let legend = legend(surveyed, screen);
    for line in grid.lines(screen.colors).into_iter().chain(legend) {
        if !output::data(&line) {
            return;
        }
    }
    if let (Some(first), Some(shown)) = (statuses.first(), grid.first())
        && first.partition != shown
    {
        output::data(&format!("(before {shown}: refrain status {name} --from {} --to {shown})", first.partition));
    }
    trouble(context, statuses, screen);
}

/// The signs that occur, in lines no wider than the screen.
fn legend(surveyed: &Surveyed, screen: Screen) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut width = 0;
    for (state, count) in &surveyed.counts {
        let text = format!(" {count} {}", word(*state));
        let wanted = mark(*state).len() + text.len() + if width == 0 { 0 } else { 3 };
        if width > 0 && width + wanted > screen.width {
            lines.push(String::new());
            width = 0;
        }
        let line = lines.last_mut().map(|line| {
            line.push_str(if width == 0 { "" } else { "   " });
            line.push_str(&painted(*state, screen.colors));
            line.push_str(&text);
        });
        width += line.map_or(0, |()| wanted);
    }
    lines
}

/// The newest partitions that need a person, with the reason.
fn trouble(context: &Context, statuses: &[PartitionStatus], screen: Screen) {
    let needy: Vec<_> = statuses.iter().rev().filter(|status| is_trouble(status.state)).collect();
    let mut told = Table::new();
    told.load_style(presets::NOTHING);
    for status in needy.iter().take(TOLD) {
        let when = status.at.map(|at| ago(at, context.now())).unwrap_or_default();
        let note = status.note.clone().unwrap_or_default();
        told.add_row([mark(status.state), &status.partition, word(status.state), &when, &note]);
    }
    print_within(told, screen);
    if needy.len() > TOLD {
        output::data(&format!("(and {} more)", needy.len() - TOLD));
    }
    if let Some(status) = needy.first() {
        output::data(&format!("why: refrain why {} --date {}", status.task, status.partition));
    }
}

fn list(name: &TaskName, surveyed: &Surveyed, screen: Screen) {
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
    if screen.terminal {
        print_within(table, screen);
    } else {
        print(&table);
    }
    if shown < total {
        output::data(&format!("(the newest {shown} of {total}; --from and --to show others, --json shows all)"));
    }
}

/// Prints a table whose first column is a sign: no wider than the screen, the signs in colour.
fn print_within(mut table: Table, screen: Screen) {
    let width = u16::try_from(screen.width).unwrap_or(u16::MAX);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    for line in table.lines() {
        if !output::data(&colored(line.trim_end(), screen)) {
            return;
        }
    }
}

/// A line of the list with its sign in colour. The lines of a long note have no sign.
fn colored(line: &str, screen: Screen) -> String {
    match line.get(1..2).and_then(with_mark).filter(|_| screen.colors) {
        Some(state) => line.replacen(mark(state), &painted(state, true), 1),
        None => line.to_owned(),
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

#[cfg(test)]
mod tests {
    use super::{Screen, Surveyed, legend};
    use refrain::survey::State;

    #[test]
    fn the_legend_breaks_at_the_width_of_the_screen() {
        let surveyed = Surveyed {
            counts: [(State::Published, 31), (State::Failed, 2), (State::Missing, 1)].into(),
            ..Surveyed::default()
        };
        let lines = |width| legend(&surveyed, Screen { terminal: true, colors: false, width });
        assert_eq!(lines(80), ["+ 31 published   x 2 failed   . 1 missing"]);
        assert_eq!(lines(30), ["+ 31 published   x 2 failed", ". 1 missing"]);
        assert_eq!(lines(5).len(), 3);
    }
}
