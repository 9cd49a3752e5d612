//! `refrain status`

use super::grid::Grid;
use super::screen::{Screen, ago, shortened, wrapped};
use super::state::{is_dull, is_trouble, mark, painted, with_mark, word};
use super::{print, table};
use crate::args::StatusArgs;
use crate::backfill::ends;
use crate::context::Context;
use crate::{json, output};
use comfy_table::{ContentArrangement, Table, presets};
use refrain::core::{Calendar, TaskName, counted};
use refrain::survey::{CompactedDates, PartitionStatus, Since, Survey, Surveyed, why_unfit};
use refrain::{Boundary, Result};

/// How many lines of a task are listed when no range is given.
const NEWEST: usize = 31;

/// How many rows of a calendar are shown when no range is given: a month of days, two and a half years of months.
const NEWEST_ROWS: usize = 31;

/// How many partitions are looked at closely when no range is given. Each costs a look at its sinks.
const LOOKED_AT: usize = 1000;

/// So many partitions of which nothing is known, and more, are one line of a list.
const GAP: usize = 3;

/// Words of a note are never made shorter than this.
const NARROWEST: usize = 12;

/// How many partitions that need a person are told below a calendar.
const TOLD: usize = 8;

/// Shows the state of partitions.
pub(crate) fn status(context: &Context, args: &StatusArgs) -> Result<()> {
    let boundary = context.boundary()?;
    if let Some(line) = refrain::store::left_behind(boundary.home(), boundary.store()) {
        output::say(&format!("note: {line}"));
    }
    let names = match &args.task {
        Some(task) => vec![Context::known_task(&boundary, task)?],
        None => boundary.task_names()?,
    };
    if names.is_empty() && !args.json {
        output::data(
            "no tasks with attempts yet, and none in refrain.toml; to begin: refrain run NAME --out SPEC -- COMMAND",
        );
        return Ok(());
    }
    let screen = Screen::of_stdout();
    let calendars = args.grid || screen.terminal && !args.list;
    let (mut all, mut unreadable) = (Vec::new(), Vec::new());
    for (index, name) in names.iter().enumerate() {
        if let Some(error) = why_unfit(boundary.home(), name) {
            output::say(&format!("note: `{name}` cannot be run as it is declared: {}", error.message));
        }
        let calendar = boundary.home().config.declared(name).and_then(|task| task.partitions.calendar());
        let survey = survey(context, &boundary, name, args)?;
        let mut surveyed = boundary.survey(name, &survey)?;
        unreadable.append(&mut surveyed.unreadable);
        if args.json {
            all.extend(surveyed.partitions);
            continue;
        }
        if calendars && index > 0 {
            output::data("");
        }
        let whole = survey.from.is_some() || survey.to.is_some();
        match calendar.filter(|_| calendars) {
            Some(calendar) => show_calendar(context, name, calendar, whole, &surveyed, screen),
            None => list(name, whole, &surveyed, screen),
        }
        beyond(name, &surveyed);
    }
    if args.json {
        output::data(&json(&all)?);
    }
    output::all_readable(unreadable)
}

fn survey(context: &Context, boundary: &Boundary, name: &TaskName, args: &StatusArgs) -> Result<Survey> {
    let closely = (!args.json).then_some(LOOKED_AT);
    let everything = Survey { closely, inputs: true, ..Survey::default() };
    if args.from.is_none() && args.to.is_none() {
        return Ok(everything);
    }
    let declared = boundary.home().config.declared(name);
    if args.task.is_none() && declared.is_none_or(|task| task.partitions.calendar().is_none()) {
        // A range is for the tasks that have dates.
        return Ok(everything);
    }
    // It is shown, too, where it cannot be run.
    let task = declared.map_or_else(|| boundary.home().config.task(name.as_str()), Ok)?;
    let (from, to) = match task.partitions.calendar().filter(|_| args.task.is_none()) {
        Some(calendar) => {
            let touched = |flag, text: &Option<String>| {
                let read = text.as_deref().map(|text| calendar.touched(flag, text, Some(context.now()))).transpose();
                read.map_err(|error| error.within(format!("`{flag}`")))
            };
            let (from, to) = (touched("--from", &args.from)?, touched("--to", &args.to)?);
            (from.map(|(first, _)| first), to.map(|(_, last)| last))
        }
        None => ends(context, task, args.from.as_deref(), args.to.as_deref())?,
    };
    Ok(Survey { from, to, closely: None, inputs: true })
}

/// A calendar, what its signs mean with how many there are of each, and what needs a person.
fn show_calendar(
    context: &Context,
    name: &TaskName,
    calendar: &Calendar,
    whole: bool,
    surveyed: &Surveyed,
    screen: Screen,
) {
    let most_rows = if whole { usize::MAX } else { NEWEST_ROWS };
    let statuses = &surveyed.partitions;
    let grid = Grid::new(calendar, statuses, most_rows, screen.width).filter(|grid| !grid.is_empty());
    let Some(grid) = grid else { return list(name, whole, surveyed, screen) };
    output::data(&format!("{name} ({calendar})"));
    let legend = legend(surveyed, screen);
    for line in grid.lines(screen.colors).into_iter().chain(legend) {
        if !output::data(&line) {
            return;
        }
    }
    if let Some((first, last)) = grid.left_out() {
        let line = format!("(old rows are told together; each day: refrain status {name} --from {first} --to {last})");
        for line in wrapped(&line, screen.width) {
            output::data(&line);
        }
    }
    trouble(context, statuses, screen);
}

/// What there is besides the partitions that are shown.
fn beyond(name: &TaskName, surveyed: &Surveyed) {
    if let Some(CompactedDates { dates, through }) = &surveyed.compacted {
        output::data(&format!("compacted: {} up to {through}; what they published stands", counted(*dates, "date")));
    }
    if surveyed.unread > 0 {
        output::data(&format!(
            "partitions with an input that was not compared, since too much would have to be read: {} (refrain why compares it)",
            surveyed.unread
        ));
    }
    if let Some(Since { known, over }) = &surveyed.since {
        output::data(&format!("nothing after {known}: refrain status {name} --to {over} shows what is missing since"));
    }
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
    let row = |status: &&PartitionStatus| {
        let when = status.at.map(|at| ago(at, context.now())).unwrap_or_default();
        let note = status.note.clone().unwrap_or_default();
        vec![mark(status.state).to_owned(), status.partition.clone(), word(status.state).to_owned(), when, note]
    };
    print_within(told, needy.iter().take(TOLD).map(row).collect(), screen);
    if needy.len() > TOLD {
        output::data(&format!("(and {} more)", needy.len() - TOLD));
    }
    if let Some(status) = needy.first() {
        output::data(&format!("why: refrain why {} --date {}", status.task, status.partition));
    }
}

fn list(name: &TaskName, whole: bool, surveyed: &Surveyed, screen: Screen) {
    let counts: Vec<_> = surveyed.counts.iter().map(|(state, count)| format!("{count} {}", word(*state))).collect();
    let counts = if counts.is_empty() { "nothing yet".to_owned() } else { counts.join(", ") };
    output::data(&format!("{name}: {counts}"));
    if surveyed.partitions.is_empty() {
        return;
    }
    let lines = if whole { surveyed.partitions.chunks(1).collect() } else { without_gaps(&surveyed.partitions) };
    let shown = if whole { &lines[..] } else { &lines[lines.len().saturating_sub(NEWEST)..] };
    let mut table = table(&["", "PARTITION", "STATE", "VERSION", "AT", "NOTE"]);
    let rows: Vec<_> = shown.iter().filter_map(|line| row(line)).collect();
    if screen.terminal {
        print_within(table, rows, screen);
    } else {
        table.add_rows(rows);
        print(&table);
    }
    let left_out: usize = lines[..lines.len() - shown.len()].iter().map(|line| line.len()).sum();
    if left_out > 0 {
        let (total, shown) = (surveyed.partitions.len(), surveyed.partitions.len() - left_out);
        output::data(&format!("(the newest {shown} of {total}; --from and --to show others, --json shows all)"));
    }
}

/// The partitions, each by itself; long stretches of which nothing is known together.
fn without_gaps(partitions: &[PartitionStatus]) -> Vec<&[PartitionStatus]> {
    partitions
        .chunk_by(|one, other| one.state == other.state && is_dull(one.state))
        .flat_map(|stretch| stretch.chunks(if stretch.len() > GAP { stretch.len() } else { 1 }))
        .collect()
}

/// Prints a table whose first column is a sign and whose last is a note: no wider than the screen, the signs in colour.
/// Notes are broken at blanks.
fn print_within(mut table: Table, mut rows: Vec<Vec<String>>, screen: Screen) {
    // The table's presets have a blank on both sides of a column.
    const BLANKS: usize = 2;
    let others = table.header().map_or(0, |header| header.cell_iter().count()).max(rows.first().map_or(0, Vec::len));
    let width_of = |column: usize| {
        let heading = table.header().and_then(|header| header.cell_iter().nth(column).map(comfy_table::Cell::content));
        rows.iter().filter_map(|row| row.get(column)).chain(&heading).map(|text| text.chars().count()).max()
    };
    let others: usize = (0..others.saturating_sub(1)).map(|column| width_of(column).unwrap_or(0) + BLANKS).sum();
    let for_notes = screen.width.saturating_sub(others + BLANKS).max(NARROWEST);
    for note in rows.iter_mut().filter_map(|row| row.last_mut()) {
        *note = shortened(note, for_notes);
    }
    table.add_rows(rows);
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

fn row(line: &[PartitionStatus]) -> Option<Vec<String>> {
    let (status, last) = line.first().zip(line.last())?;
    let partition = match (line.len(), status.partition.as_str()) {
        (1, "") => "-".to_owned(),
        (1, partition) => partition.to_owned(),
        (_, first) => format!("{first} to {}", last.partition),
    };
    let note = if line.len() == 1 { status.note.clone() } else { Some(format!("{} partitions", line.len())) };
    Some(vec![
        mark(status.state).to_owned(),
        partition,
        word(status.state).to_owned(),
        status.generation.map(|generation| generation.to_string()).unwrap_or_default(),
        status.at.map(|at| format!("{at:.0}")).unwrap_or_default(),
        note.unwrap_or_default(),
    ])
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
