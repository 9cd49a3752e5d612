//! Printing: stdout is data, stderr is everything else. A broken pipe is no error, a full disk is one.

use refrain::core::{Outcome, Window, counted};
use refrain::{Conclusion, Error, Report};
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// Why data could not be printed, the first time.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loudness {
    /// Errors only.
    Errors,
    /// Errors and notes.
    Notes,
    /// One line when all is well, too.
    Normal,
}

impl Loudness {
    pub(crate) fn of(quiet: u8) -> Self {
        match quiet {
            0 => Self::Normal,
            1 => Self::Notes,
            _ => Self::Errors,
        }
    }
}

/// Prints a line of data. False when nobody reads any more, or it cannot be written; [`failed`] tells the latter.
pub(crate) fn data(line: &str) -> bool {
    let mut stdout = io::stdout().lock();
    written(writeln!(stdout, "{line}").and_then(|()| stdout.flush()))
}

/// Keeps in mind why data could not be written.
pub(crate) fn written(result: io::Result<()>) -> bool {
    let Err(error) = result else { return true };
    if error.kind() != ErrorKind::BrokenPipe {
        // Only the first reason is told.
        drop(FAILURE.set(error));
    }
    false
}

/// Whether nobody reads any more.
pub(crate) fn is_broken_pipe(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

/// Why the data that was printed is not complete. A reader that went away has what it wanted.
pub(crate) fn failed() -> Option<Error> {
    FAILURE.get().map(|error| {
        let cause = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
        Error::io("cannot write to standard output", cause)
    })
}

/// Prints a line for people.
pub(crate) fn say(line: &str) {
    // Nobody can be told that stderr is closed.
    drop(writeln!(io::stderr().lock(), "{line}"));
}

/// Prints an error: what, the causes, the sentence, and a hint.
pub(crate) fn failure(error: &Error, window: Window) {
    let mut text = format!("error: {}", error.message);
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!("\ncaused by: {cause}"));
        source = cause.source();
    }
    if let Some(hint) = &error.hint {
        text.push_str(&format!("\nhint: {hint}"));
    }
    say(&format!("{text}\n{}", window.sentence()));
}

/// Fails with the last of these reasons why keys cannot be read, if there is any; the others are printed.
pub(crate) fn all_readable(mut unreadable: Vec<Error>) -> refrain::Result<()> {
    let Some(last) = unreadable.pop() else { return Ok(()) };
    for error in unreadable {
        say(&format!("error: {}", error.message));
    }
    Err(last)
}

/// Prints the end of a run.
pub(crate) fn conclusion(conclusion: &Conclusion, loudness: Loudness) {
    if loudness >= Loudness::Notes {
        for note in &conclusion.notes {
            say(&format!("note: {note}"));
        }
    }
    match &conclusion.error {
        Some(error) => failure(error, conclusion.report.window),
        None if loudness == Loudness::Normal => say(&success(&conclusion.report)),
        None => {}
    }
}

/// The end of a run in one line: what was done, or what failed with its sentence.
pub(crate) fn one_line(conclusion: &Conclusion) -> String {
    let report = &conclusion.report;
    let Some(error) = &report.error else { return success(report) };
    let word = if report.outcome == Outcome::Held { "held" } else { "failed" };
    let hint = error.hint.as_ref().map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
    let key = format!("{} {}", report.task, report.partition);
    let key = key.trim_end();
    // The line names the key in front.
    let message = error.message.replacen(&format!(" of `{key}`"), "", 1);
    let line = format!("{word}: {key}: {message}{hint}. {}", report.window.sentence());
    line.replace('\n', " ")
}

fn success(report: &Report) -> String {
    let key =
        if report.partition.is_empty() { report.task.clone() } else { format!("{} {}", report.task, report.partition) };
    let outputs: Vec<_> = report
        .outputs
        .iter()
        .map(|output| {
            if let Some(rows) = output.rows {
                format!("{} ({})", output.location, counted(rows, "row"))
            } else if ["directory", "prefix"].contains(&output.sink.as_str()) {
                format!("{} ({}, {})", output.location, files(output.files), size(output.bytes))
            } else {
                format!("{} ({})", output.location, size(output.bytes))
            }
        })
        .collect();
    let version = report.generation.map(|generation| format!("version {generation}")).unwrap_or_default();
    if report.outcome == Outcome::AlreadyPublished {
        let attempt = report.attempt.map(|attempt| format!(" by attempt {attempt}")).unwrap_or_default();
        let at = report.published_at.map(|at| format!(" at {at:.0}")).unwrap_or_default();
        return format!("already published: {key}: {version}{attempt}{at}: {}", outputs.join(", "));
    }
    format!("published: {key}: {version}: {}", outputs.join(", "))
}

/// A number of files for people.
pub(crate) fn files(count: u64) -> String {
    counted(count, "file")
}

/// A size for people, in units of 1024 bytes, rounded to the nearest tenth.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let tenths = |unit: u128| (u128::from(bytes) * 10 + unit / 2) / unit;
    let mut unit = 1024;
    let mut names = UNITS.iter();
    let mut name = names.next().copied().unwrap_or_default();
    // What rounds to 1024 of a unit is one of the next.
    while tenths(unit) >= 10_240
        && let Some(larger) = names.next()
    {
        unit *= 1024;
        name = larger;
    }
    format!("{}.{} {name}", tenths(unit) / 10, tenths(unit) % 10)
}

/// A command line that a shell reads as these words.
pub(crate) fn shell_line<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    let quoted = |word: &str| {
        if !word.is_empty() && word.chars().all(plain) {
            word.to_owned()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.into_iter().map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{files, shell_line, size};

    #[test]
    fn sizes_are_rounded_to_the_nearest_tenth() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1075, "1.0 KiB"),
            (1076, "1.1 KiB"),
            (1_048_524, "1023.9 KiB"),
            (1_048_525, "1.0 MiB"),
            (1_572_864, "1.5 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
        assert_eq!((files(1), files(2)), ("1 file".to_owned(), "2 files".to_owned()));
    }

    #[test]
    fn a_shell_line_can_be_pasted() {
        assert_eq!(shell_line(["refrain", "--home", "my home", "run"]), "refrain --home 'my home' run");
        assert_eq!(shell_line(["it's", "", "a=b"]), r"'it'\''s' '' a=b");
    }
}
