//! The terminal that data is printed to, if it is one.

use anstream::{AutoStream, ColorChoice};
use jiff::{SignedDuration, Timestamp};
use refrain::core::counted;
use std::io::{self, IsTerminal};

/// The width that is taken where none can be asked for.
const USUAL_WIDTH: usize = 80;

/// What standard output is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// Whether a person looks at it as it is printed.
    pub(crate) terminal: bool,
    /// Whether colours may be used: on a terminal that knows them, unless `NO_COLOR` says no.
    pub(super) colors: bool,
    /// Its columns.
    pub(crate) width: usize,
}

impl Screen {
    pub(crate) fn of_stdout() -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let size = terminal_size::terminal_size_of(&stdout).filter(|_| terminal);
        Self {
            terminal,
            // In a CI the library takes every terminal for a coloured one; a dumb one is asked for by name.
            colors: terminal && !dumb && AutoStream::choice(&stdout) != ColorChoice::Never,
            width: size.map(|(width, _)| usize::from(width.0)).filter(|width| *width > 0).unwrap_or(USUAL_WIDTH),
        }
    }
}

/// A text in lines of so many columns, broken at blanks only; all but the first are indented.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if !line.trim_start().is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(format!("  {word}"));
            continue;
        }
        if !line.trim_start().is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

/// A text whose words are no longer than so many columns: what is longer, as a path may be, keeps its beginning and, which
/// tells more, its end.
pub(super) fn shortened(text: &str, width: usize) -> String {
    let short = |word: &str| {
        let letters: Vec<char> = word.chars().collect();
        if letters.len() <= width || width < 5 {
            return word.to_owned();
        }
        let start = (width - 3) / 3;
        let end = letters.len() - (width - 3 - start);
        format!("{}...{}", letters[..start].iter().collect::<String>(), letters[end..].iter().collect::<String>())
    };
    text.split(' ').map(short).collect::<Vec<_>>().join(" ")
}

/// How long ago something was, in the one unit that says it best.
pub(super) fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs();
    let told = told_in_one_unit(seconds.unsigned_abs());
    match seconds {
        0..5 => "just now".to_owned(),
        ..0 => format!("in {told}"),
        _ => format!("{told} ago"),
    }
}

/// A length of time in the one unit that says it best.
pub(super) fn lasted(time: SignedDuration) -> String {
    let millis = time.as_millis().unsigned_abs();
    if millis < 10_000 {
        return format!("{}.{} s", millis / 1000, millis % 1000 / 100);
    }
    told_in_one_unit(u64::try_from(millis / 1000).unwrap_or(u64::MAX))
}

fn told_in_one_unit(seconds: u64) -> String {
    const UNITS: [(u64, u64, &str); 5] = [
        (2 * 365 * 86_400, 365 * 86_400, "years"),
        (60 * 86_400, 30 * 86_400, "months"),
        (2 * 86_400, 86_400, "days"),
        (2 * 3600, 3600, "hours"),
        (2 * 60, 60, "minutes"),
    ];
    let unit = UNITS.into_iter().find(|(from, _, _)| seconds >= *from);
    unit.map_or_else(|| counted(seconds, "second"), |(_, unit, name)| format!("{} {name}", seconds / unit))
}

#[cfg(test)]
mod tests {
    use super::{ago, lasted, shortened, wrapped};
    use jiff::{SignedDuration, Timestamp};

    #[test]
    fn texts_are_broken_at_blanks_and_long_words_shortened_in_the_middle() {
        assert_eq!(wrapped("one two three", 8), ["one two", "  three"]);
        assert_eq!(wrapped("unbreakable", 4), ["unbreakable"]);
        assert_eq!(shortened("see /home/me/data/2025.csv now", 14), "see /ho...2025.csv now");
        assert_eq!(shortened("short", 14), "short");
    }

    #[test]
    fn times_are_told_in_one_unit() {
        let now = Timestamp::constant(1_742_774_400, 0);
        for (seconds, text) in [
            (0, "just now"),
            (59, "59 seconds ago"),
            (119, "119 seconds ago"),
            (120, "2 minutes ago"),
            (7199, "119 minutes ago"),
            (7200, "2 hours ago"),
            (47 * 3600, "47 hours ago"),
            (48 * 3600, "2 days ago"),
            (61 * 86_400, "2 months ago"),
            (800 * 86_400, "2 years ago"),
            (-300, "in 5 minutes"),
        ] {
            assert_eq!(ago(now - SignedDuration::from_secs(seconds), now), text);
        }
        assert_eq!(lasted(SignedDuration::from_millis(1234)), "1.2 s");
        assert_eq!(lasted(SignedDuration::from_secs(75)), "75 seconds");
    }
}
