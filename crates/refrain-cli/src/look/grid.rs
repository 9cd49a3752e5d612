//! A calendar of partitions: one row per day, month, year or decade, one cell per interval.

use super::screen::wrapped;
use super::state::{is_dull, most_urgent, needs_a_look, painted, word};
use refrain::core::{Calendar, Grain, Interval};
use refrain::survey::{PartitionStatus, State};
use std::collections::BTreeMap;

/// Blanks between a row's label and its cells.
const GAP: usize = 2;

/// What the rows and cells of a calendar are, chosen for a width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// A day, with its hours.
    Days,
    /// A week, with its days.
    Weeks,
    /// A month, with its days.
    Months,
    /// A quarter, with its weeks.
    Quarters,
    /// A year, with its weeks.
    YearsOfWeeks,
    /// A year, with its months.
    YearsOfMonths,
    /// Ten years.
    Decades,
}

impl Rows {
    /// Those of a grain, the widest first.
    fn of(grain: Grain) -> &'static [Self] {
        match grain {
            Grain::Hourly => &[Self::Days],
            Grain::Daily => &[Self::Months, Self::Weeks],
            Grain::Weekly => &[Self::YearsOfWeeks, Self::Quarters],
            Grain::Monthly => &[Self::YearsOfMonths],
            Grain::Yearly => &[Self::Decades],
        }
    }

    fn columns(self) -> usize {
        match self {
            Self::Days => 24,
            Self::Weeks => 7,
            Self::Months => 31,
            Self::Quarters => 14,
            Self::YearsOfWeeks => 53,
            Self::YearsOfMonths => 12,
            Self::Decades => 10,
        }
    }

    /// Where an interval stands: the label of its row, and its column.
    fn place(self, interval: &Interval) -> (String, usize) {
        let date = interval.start_civil.date();
        let index = |number: i8| usize::try_from(number).unwrap_or_default();
        match self {
            Self::Days => (date.to_string(), index(interval.start_civil.hour())),
            Self::Months => (format!("{:04}-{:02}", date.year(), date.month()), index(date.day() - 1)),
            Self::Weeks => {
                let week = date.iso_week_date();
                (format!("{:04}-W{:02}", week.year(), week.week()), index(week.weekday().to_monday_zero_offset()))
            }
            Self::Quarters => {
                let week = date.iso_week_date();
                // The 53rd week of a long year belongs to its last quarter.
                let first = ((week.week() - 1) / 13).min(3) * 13 + 1;
                (format!("{:04}-W{first:02}", week.year()), index(week.week() - first))
            }
            Self::YearsOfWeeks => {
                let week = date.iso_week_date();
                (format!("{:04}", week.year()), index(week.week() - 1))
            }
            Self::YearsOfMonths => (format!("{:04}", date.year()), index(date.month() - 1)),
            Self::Decades => {
                (format!("{:04}s", date.year() / 10 * 10), usize::try_from(date.year() % 10).unwrap_or_default())
            }
        }
    }

    /// What stands above a column, where something does.
    fn heading(self, column: usize) -> Option<String> {
        const WEEKDAYS: [&str; 7] = ["M", "T", "W", "T", "F", "S", "S"];
        let number = column + 1;
        match self {
            Self::Days => column.is_multiple_of(3).then(|| format!("{column:02}")),
            Self::Weeks => Some(WEEKDAYS[column].to_owned()),
            Self::Quarters => None,
            Self::Decades => Some(column.to_string()),
            Self::Months | Self::YearsOfWeeks => (number == 1 || number.is_multiple_of(5)).then(|| number.to_string()),
            Self::YearsOfMonths => (number % 3 == 1).then(|| number.to_string()),
        }
    }
}

/// So many rows of which nothing is known are told in one line.
const GAP_ROWS: usize = 3;

/// A calendar that fits.
#[derive(Debug)]
pub(super) struct Grid {
    rows: Rows,
    cell_width: usize,
    width: usize,
    /// In order of time.
    lines: Vec<Line>,
}

#[derive(Debug)]
enum Line {
    Row(Row),
    /// Rows that are told together: of which nothing is known, or which are old and as they should be.
    Folded(Vec<Row>),
}

#[derive(Debug)]
struct Row {
    label: String,
    cells: Vec<Vec<State>>,
    first: String,
    last: String,
}

impl Row {
    fn states(&self) -> impl Iterator<Item = State> {
        self.cells.iter().flatten().copied()
    }

    fn is_dull(&self) -> bool {
        self.states().all(is_dull)
    }

    fn needs_a_look(&self) -> bool {
        self.states().any(needs_a_look)
    }
}

impl Grid {
    /// A calendar within so many columns of the screen; nothing when not even the narrowest layout fits. Rows of which
    /// nothing is known are told together. Of the others the newest `most_rows` are shown, and every one that needs a look.
    pub(super) fn new(
        calendar: &Calendar,
        statuses: &[PartitionStatus],
        most_rows: usize,
        width: usize,
    ) -> Option<Self> {
        let fits = |rows: Rows, cell: usize| label_width(rows) + GAP + rows.columns() * cell < width + cell;
        let (rows, cell_width) = Rows::of(calendar.grain())
            .iter()
            .find_map(|rows| [2, 1].into_iter().find(|cell| fits(*rows, *cell)).map(|cell| (*rows, cell)))?;
        let mut all: Vec<Row> = Vec::new();
        for status in statuses {
            // A key of a grain that the task had before has no place here.
            let Ok(interval) = calendar.interval_of_key(&status.partition) else { continue };
            let (label, column) = rows.place(&interval);
            // A clock set back over midnight shows the day before once more, so that the last two rows can be meant.
            let recent = all.len().saturating_sub(2);
            let row = if let Some(row) = all[recent..].iter().position(|row| row.label == label) {
                recent + row
            } else {
                let first = status.partition.clone();
                all.push(Row { label, cells: vec![Vec::new(); rows.columns()], first, last: String::new() });
                all.len() - 1
            };
            all[row].cells[column].push(status.state);
            all[row].last.clone_from(&status.partition);
        }
        Some(Self { rows, cell_width, width, lines: folded(all, most_rows) })
    }

    /// Whether there is nothing to show.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The first and the last partition of the rows that are told together although something is known of them.
    pub(super) fn left_out(&self) -> Option<(&str, &str)> {
        let mut known = self.lines.iter().filter_map(|line| match line {
            Line::Folded(rows) if !rows.iter().all(Row::is_dull) => rows.first().zip(rows.last()),
            _ => None,
        });
        let (first, last) = known.next()?;
        Some((&first.first, &known.next_back().unwrap_or((first, last)).1.last))
    }

    /// The calendar, line by line.
    pub(super) fn lines(&self, colors: bool) -> Vec<String> {
        let mut lines = vec![self.heading()];
        lines.retain(|heading| !heading.is_empty());
        let width = label_width(self.rows) + GAP;
        for line in &self.lines {
            match line {
                Line::Row(row) => {
                    let cells: String = row.cells.iter().map(|states| self.cell(states, colors)).collect();
                    lines.push(format!("{:<width$}{cells}", row.label).trim_end().to_owned());
                }
                Line::Folded(rows) => lines.extend(wrapped(&together(rows), self.width)),
            }
        }
        lines
    }

    fn heading(&self) -> String {
        let mut line = " ".repeat(label_width(self.rows) + GAP);
        let start = line.len();
        for column in 0..self.rows.columns() {
            if let Some(text) = self.rows.heading(column) {
                let place = start + column * self.cell_width;
                if line.len() <= place {
                    line.push_str(&" ".repeat(place - line.len()));
                    line.push_str(&text);
                }
            }
        }
        line.trim_end().to_owned()
    }

    /// An hour that clocks show twice has two states: side by side where there is room, else the more urgent.
    fn cell(&self, states: &[State], colors: bool) -> String {
        let mut shown = states.to_vec();
        if shown.len() > self.cell_width {
            shown = most_urgent(states).into_iter().collect();
        }
        let blanks = " ".repeat(self.cell_width - shown.len());
        shown.into_iter().map(|state| painted(state, colors)).collect::<String>() + &blanks
    }
}

/// Long stretches of dull rows in one line each; then, while there are more lines than wanted, the oldest rows that need no
/// look.
fn folded(rows: Vec<Row>, most_rows: usize) -> Vec<Line> {
    let stretches = without_gaps(rows);
    let old = stretches.len().saturating_sub(most_rows);
    let mut lines = Vec::new();
    let mut quiet: Vec<Row> = Vec::new();
    for (index, line) in stretches.into_iter().enumerate() {
        match line {
            Line::Row(row) if index < old && !row.needs_a_look() => quiet.push(row),
            Line::Folded(rows) if index < old => quiet.extend(rows),
            line => {
                lines.extend(told(std::mem::take(&mut quiet), 2));
                lines.push(line);
            }
        }
    }
    lines.extend(told(quiet, 2));
    lines
}

/// The rows, with one line for each long stretch of dull ones.
fn without_gaps(rows: Vec<Row>) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut gap = Vec::new();
    for row in rows {
        if row.is_dull() {
            gap.push(row);
        } else {
            lines.extend(told(std::mem::take(&mut gap), GAP_ROWS));
            lines.push(Line::Row(row));
        }
    }
    lines.extend(told(gap, GAP_ROWS));
    lines
}

/// Rows that follow each other, in one line if there are at least so many.
fn told(rows: Vec<Row>, least: usize) -> Vec<Line> {
    match rows.len() {
        0 => Vec::new(),
        count if count >= least => vec![Line::Folded(rows)],
        _ => rows.into_iter().map(Line::Row).collect(),
    }
}

/// What there is in rows that are told together.
fn together(rows: &[Row]) -> String {
    let mut counts: BTreeMap<State, u64> = BTreeMap::new();
    for state in rows.iter().flat_map(Row::states) {
        *counts.entry(state).or_default() += 1;
    }
    let counts: Vec<_> = counts.into_iter().map(|(state, count)| format!("{count} {}", word(state))).collect();
    let label = |row: Option<&Row>| row.map(|row| row.label.clone()).unwrap_or_default();
    format!("{} to {}: {}", label(rows.first()), label(rows.last()), counts.join(", "))
}

/// The width of the row's labels.
fn label_width(rows: Rows) -> usize {
    match rows {
        Rows::Days => "2025-03-24".len(),
        Rows::Weeks | Rows::Quarters => "2025-W13".len(),
        Rows::Months => "2025-03".len(),
        Rows::YearsOfWeeks | Rows::YearsOfMonths => "2025".len(),
        Rows::Decades => "2020s".len(),
    }
}

#[cfg(test)]
mod tests {
    use super::Grid;
    use refrain::core::{Calendar, Grain};
    use refrain::survey::{PartitionStatus, State};

    fn statuses(calendar: &Calendar, from: &str, to: &str, odd: &[(&str, State)]) -> Vec<PartitionStatus> {
        let end = |key: &str| calendar.interval_of_key(key).unwrap();
        let status = |partition: String| PartitionStatus {
            state: odd.iter().find(|(key, _)| *key == partition).map_or(State::Published, |(_, state)| *state),
            task: "t".to_owned(),
            partition,
            generation: None,
            at: None,
            note: None,
        };
        calendar.range(&end(from), &end(to)).unwrap().map(|interval| status(interval.key)).collect()
    }

    fn grid(calendar: &Calendar, statuses: &[PartitionStatus], width: usize) -> String {
        let lines = Grid::new(calendar, statuses, 100, width).unwrap().lines(false);
        assert!(lines.iter().all(|line| line.len() <= width), "wider than {width}: {lines:#?}");
        format!("\n{}\n", lines.join("\n"))
    }

    #[test]
    fn days_are_months_in_rows_and_weeks_where_that_is_too_wide() {
        let daily = Calendar::utc(Grain::Daily);
        let odd = [("2025-03-02", State::Missing), ("2025-03-04", State::Failed)];
        let days = statuses(&daily, "2025-02-26", "2025-03-06", &odd);
        assert_eq!(
            grid(&daily, &days, 80),
            "
         1       5         10        15        20        25        30
2025-02                                                    + + +
2025-03  + . + x + +
"
        );
        assert_eq!(
            grid(&daily, &days, 40),
            "
         1   5    10   15   20   25   30
2025-02                           +++
2025-03  +.+x++
"
        );
        assert_eq!(
            grid(&daily, &days, 30),
            "
          M T W T F S S
2025-W09      + + + + .
2025-W10  + x + +
"
        );
        assert!(Grid::new(&daily, &days, 100, 16).is_none());
    }

    #[test]
    fn an_hour_that_happens_twice_has_two_signs_and_a_skipped_one_none() {
        let berlin = Calendar::new(Grain::Hourly, "Europe/Berlin").unwrap();
        let odd = [("2025-10-26T02+0100", State::Failed), ("2025-10-26T04+0100", State::Stale)];
        let hours = statuses(&berlin, "2025-10-26T00+0200", "2025-10-26T05+0100", &odd);
        let width_59 = "
            00    03    06    09    12    15    18    21
2025-10-26  + + +x+ ~ +
";
        assert_eq!(grid(&berlin, &hours, 59), width_59);
        assert!(grid(&berlin, &hours, 40).contains("2025-10-26  ++x+~+"), "the more urgent of the two");
        let hours = statuses(&berlin, "2025-03-30T00+0100", "2025-03-30T04+0200", &[]);
        assert!(grid(&berlin, &hours, 59).contains("2025-03-30  + +   + +"));
        let lord_howe = Calendar::new(Grain::Hourly, "Australia/Lord_Howe").unwrap();
        let hours = statuses(&lord_howe, "2025-04-06T00+1100", "2025-04-06T03+1030", &[]);
        assert!(grid(&lord_howe, &hours, 59).contains("2025-04-06  + +++ +"));
    }

    #[test]
    fn weeks_months_and_years_have_a_row_for_each_year_or_decade() {
        let weekly = Calendar::utc(Grain::Weekly);
        let weeks = statuses(&weekly, "2026-W52", "2027-W03", &[("2026-W53", State::Running)]);
        let wide = grid(&weekly, &weeks, 80);
        assert!(wide.contains(&format!("2026  {}+>\n2027  +++\n", " ".repeat(51))), "{wide}");
        assert_eq!(grid(&weekly, &weeks, 40), "\n2026-W40                          + >\n2027-W01  + + +\n");
        let monthly = Calendar::utc(Grain::Monthly);
        let months = statuses(&monthly, "2024-11", "2025-02", &[]);
        assert_eq!(
            grid(&monthly, &months, 80),
            "\n      1     4     7     10\n2024                      + +\n2025  + +\n"
        );
        let yearly = Calendar::utc(Grain::Yearly);
        let years = statuses(&yearly, "2018", "2021", &[]);
        assert_eq!(grid(&yearly, &years, 80), "\n       0 1 2 3 4 5 6 7 8 9\n2010s                  + +\n2020s  + +\n");
    }

    #[test]
    fn a_long_gap_is_told_in_one_line() {
        let daily = Calendar::utc(Grain::Daily);
        let mut days = statuses(&daily, "2024-01-01", "2025-03-02", &[]);
        for day in &mut days[2..] {
            day.state = State::Missing;
        }
        days.extend(statuses(&daily, "2025-03-03", "2025-03-03", &[]));
        assert_eq!(
            grid(&daily, &days, 80),
            "
         1       5         10        15        20        25        30
2024-01  + + . . . . . . . . . . . . . . . . . . . . . . . . . . . . .
2024-02 to 2025-02: 394 missing
2025-03  . . +
"
        );
        assert_eq!(
            Grid::new(&daily, &days, 100, 80).unwrap().left_out(),
            None,
            "nothing is known of what is not shown"
        );
        assert!(
            grid(&daily, &days, 30).contains("2024-W02 to 2025-W09: 420\n  missing\n"),
            "{}",
            grid(&daily, &days, 30)
        );
    }

    #[test]
    fn a_date_far_off_does_not_hide_what_failed_long_ago() {
        let daily = Calendar::utc(Grain::Daily);
        let mut days = statuses(&daily, "2013-01-01", "2013-01-02", &[("2013-01-01", State::Failed)]);
        let mut gap = statuses(&daily, "2013-01-03", "2029-12-31", &[]);
        for (index, day) in gap.iter_mut().enumerate() {
            day.state = if index < 5000 { State::Missing } else { State::Open };
        }
        days.extend(gap);
        days.extend(statuses(&daily, "2030-01-01", "2030-01-01", &[]));
        let text = grid(&daily, &days, 80);
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert!(lines[0].starts_with("2013-01  x + . ."), "{text}");
        assert_eq!(lines[1], "2013-02 to 2029-12: 4971 missing, 1207 not over yet");
        assert_eq!(lines[2..], ["2030-01  +"]);
        // However few rows are wanted.
        let few = Grid::new(&daily, &days, 1, 80).unwrap().lines(false).join("\n");
        assert!(few.contains("2013-01  x +") && few.contains("2030-01  +"), "{few}");
    }

    #[test]
    fn old_rows_that_need_no_look_are_told_together_and_colours_add_nothing() {
        let daily = Calendar::utc(Grain::Daily);
        let days = statuses(&daily, "2024-08-01", "2025-03-06", &[("2024-10-03", State::Failed)]);
        let grid = Grid::new(&daily, &days, 2, 80).unwrap();
        assert_eq!(grid.left_out(), Some(("2024-08-01", "2025-01-31")));
        let lines = grid.lines(false);
        assert_eq!(lines[1], "2024-08 to 2024-09: 61 published");
        assert!(lines[2].starts_with("2024-10  + + x +"), "{lines:#?}");
        assert_eq!(lines[3], "2024-11 to 2025-01: 92 published");
        assert!(lines[4].starts_with("2025-02") && lines[5].starts_with("2025-03") && lines.len() == 6, "{lines:#?}");
        let plain = anstream::adapter::strip_str(&grid.lines(true).join("\n")).to_string();
        assert_ne!(plain, grid.lines(true).join("\n"));
        assert_eq!(plain, lines.join("\n"));
    }
}
