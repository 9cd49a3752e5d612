//! Printing: stdout is data, stderr is everything else. A broken pipe is no error.

use refrain::core::Outcome;
use refrain::core::Window;
use refrain::{Conclusion, Error, Report};
use std::io::{self, Write};

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

/// Prints a line of data. False when nobody reads any more.
pub(crate) fn data(line: &str) -> bool {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_ok()
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

fn success(report: &Report) -> String {
    let key =
        if report.partition.is_empty() { report.task.clone() } else { format!("{} {}", report.task, report.partition) };
    let outputs: Vec<_> = report
        .outputs
        .iter()
        .map(|output| {
            if output.sink == "directory" {
                format!("{} ({} files, {})", output.location, output.files, size(output.bytes))
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

/// A size for people, in units of 1024 bytes.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut whole = bytes;
    let mut unit = 0;
    while whole >= 1024 * 1024 && unit + 1 < UNITS.len() {
        whole /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", whole / 1024, whole % 1024 * 10 / 1024, UNITS[unit])
}
