//! What became of the dates of a backfill, and what is said of it at the end.

use super::queue::Stopped;
use super::worker::Ended;
use crate::output::{self, shell_line};
use refrain::Boundary;
use refrain::core::{Interval, Outcome, TaskName, Window};
use refrain::report::exit_code;

/// How many dates are named, of how many the output is shown, and how many lines of it.
const NAMED: usize = 31;
const SHOWN: usize = 5;
const LINES: usize = 5;

/// The dates that are not waited for any more.
#[derive(Debug, Default)]
pub(super) struct Tally {
    published: u64,
    already: u64,
    failed: Vec<(Interval, Ended)>,
    held: Vec<Interval>,
    /// The exit code of the first that failed.
    exit_code: Option<u8>,
}

impl Tally {
    pub(super) fn done(&mut self, outcome: Outcome) {
        if outcome == Outcome::AlreadyPublished {
            self.already += 1;
        } else {
            self.published += 1;
        }
    }

    pub(super) fn failed(&mut self, interval: Interval, ended: Ended) {
        self.exit_code.get_or_insert(ended.exit_code);
        self.failed.push((interval, ended));
    }

    pub(super) fn held(&mut self, interval: Interval) {
        self.held.push(interval);
    }

    /// How many dates there were so far.
    pub(super) fn settled(&self) -> u64 {
        self.published + self.already + (self.failed.len() + self.held.len()) as u64
    }

    /// The counts while it works.
    pub(super) fn counts(&self) -> String {
        format!("{} done, {} failed, {} held", self.published + self.already, self.failed.len(), self.held.len())
    }

    /// Everything is counted: dates that were held when no further one was begun are held.
    pub(super) fn complete(&mut self, held: Vec<Interval>) {
        self.held.extend(held);
        self.held.sort_by_key(|interval| interval.start);
        self.failed.sort_by_key(|(interval, _)| interval.start);
    }

    /// Whether every date of the range is published.
    pub(super) fn is_whole(&self, left: &[Interval]) -> bool {
        self.failed.is_empty() && self.held.is_empty() && left.is_empty()
    }

    /// The dates that are not published.
    pub(super) fn open(&self) -> impl Iterator<Item = &Interval> {
        self.failed.iter().map(|(interval, _)| interval).chain(&self.held)
    }

    /// The code of the first date that failed; else of the signal that ended it; else that dates are held.
    pub(super) fn exit_code(&self, stopped: Option<Stopped>) -> u8 {
        match (self.exit_code, stopped) {
            (Some(code), _) => code,
            (None, Some(Stopped::Signal(signal))) => u8::try_from(128 + signal).unwrap_or(exit_code::FAILED),
            (None, _) if self.held.is_empty() => exit_code::PUBLISHED,
            (None, _) => exit_code::HELD,
        }
    }

    /// The line with all counts.
    pub(super) fn summary(&self, task: &TaskName, left: usize, stopped: Option<Stopped>) -> String {
        let (published, already, failed) = (self.published, self.already, self.failed.len());
        let mut line = format!("backfill: {task}: {published} published, {already} already published, {failed} failed");
        if !self.held.is_empty() {
            line.push_str(&format!(", {} held", self.held.len()));
        }
        if left > 0 {
            line.push_str(&format!(", {left} not begun"));
        }
        let why = match stopped {
            Some(Stopped::Signal(signal)) => format!(" (stopped by signal {signal})"),
            Some(Stopped::Failures(most)) => format!(" (stopped: {most} failed, and --max-failures allows no more)"),
            Some(Stopped::Gap) if left > 0 => " (stopped: each date needs the one before it)".to_owned(),
            Some(Stopped::Gap) | None => String::new(),
        };
        line + &why
    }

    /// What is not published: the dates by the window of their end, with the last lines that their commands printed.
    pub(super) fn name_the_open(&self, boundary: &Boundary, task: &TaskName, home_flag: Option<&str>) {
        for window in [Window::Unknown, Window::Published, Window::NothingPublished] {
            let keys = self.failed.iter().filter(|(_, ended)| ended.window == window).map(|(interval, _)| interval);
            name("failed", keys, window);
        }
        name("held", self.held.iter(), Window::NothingPublished);
        for (interval, ended) in self.failed.iter().take(SHOWN) {
            let attempt = ended.attempt.as_deref().and_then(|attempt| attempt.parse().ok());
            let Some(attempt) = attempt else { continue };
            // It is a help, not an answer: an output that cannot be read is told by the command that shows it.
            let Ok(Some(text)) = boundary.output_of(task, attempt) else { continue };
            let attempt = attempt.to_string();
            let mut show = vec!["refrain"];
            show.extend(home_flag.iter().flat_map(|home| ["--home", home]));
            show.extend(["log", "--output", &attempt]);
            output::say(&format!("{}: the end of its output; all of it: {}", interval.key, shell_line(show)));
            for line in last_lines(&text) {
                output::say(&format!("  | {line}"));
            }
        }
    }
}

fn name<'a>(what: &str, intervals: impl Iterator<Item = &'a Interval>, window: Window) {
    let keys: Vec<&str> = intervals.map(|interval| interval.key.as_str()).collect();
    if keys.is_empty() {
        return;
    }
    let more = keys.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    output::say(&format!("{what}: {}{more}. {}", keys[..keys.len().min(NAMED)].join(", "), window.sentence()));
}

/// The last lines of an output, without what would move a terminal's cursor.
fn last_lines(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let shown = lines[lines.len().saturating_sub(LINES)..].iter();
    shown.map(|line| line.chars().filter(|c| !c.is_control() || *c == '\t').take(300).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::last_lines;

    #[test]
    fn the_last_lines_move_no_cursor() {
        let text = b"1\n2\n3\n\n4\n5\n\x1b[31mred\x1b[0m\r\n\xff\n";
        assert_eq!(last_lines(text), ["3", "4", "5", "[31mred[0m", "\u{fffd}"]);
        assert!(last_lines(b"").is_empty());
    }
}
