//! Attempts as a story: what happened, when, who did it, why it ended, what was published, what to do next.

use super::log::with_code;
use super::screen::{Screen, ago, lasted};
use crate::output;
use jiff::Timestamp;
use refrain::core::{AttemptRecord, Ending, Outcome};
use refrain::lookup::short_id;
use refrain::process::ProcessIdentity;
use refrain::{Boundary, Result};

/// Prints one paragraph per attempt, in the order given.
pub(super) fn story(boundary: &Boundary, attempts: &[AttemptRecord], now: Timestamp, screen: Screen) -> Result<()> {
    for (index, attempt) in attempts.iter().enumerate() {
        if index > 0 {
            output::data("");
        }
        for line in chapter(boundary, attempt, now, screen)? {
            if !output::data(&line) {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn chapter(boundary: &Boundary, attempt: &AttemptRecord, now: Timestamp, screen: Screen) -> Result<Vec<String>> {
    let retold = boundary.retell(attempt)?;
    let what = match &attempt.ending {
        Some(ending) => ended(attempt, ending),
        None if retold.running => "is running".to_owned(),
        None => "ended without a word".to_owned(),
    };
    let title = format!("{} {what}", attempt.key);
    let mut lines = vec![format!("{}, {}", bold(&title, screen), ago(attempt.started_at, now))];
    let mut tell = |text: String| lines.push(format!("    {text}"));
    let length = attempt.ending.as_ref().map(|ending| lasted(ending.at.duration_since(attempt.started_at)));
    let length = match length {
        Some(length) if retold.found_out => format!(", end found out {length} later"),
        Some(length) => format!(", took {length}"),
        None => String::new(),
    };
    tell(format!("{:.0}{length}{}", attempt.started_at, by(attempt)));
    tell(format!("attempt {}, token {}", attempt.attempt, attempt.token));
    if let Some(message) = attempt.ending.as_ref().and_then(|ending| ending.message.as_ref()) {
        tell(message.replace('\n', "\n    "));
    }
    let published = attempt.ending.as_ref().is_some_and(|ending| ending.outcome == Outcome::Published);
    if published && retold.places.is_empty() {
        tell("what it published is kept no longer".to_owned());
    }
    for place in &retold.places {
        let edited = if place.edited { " (changed by hand since)" } else { "" };
        tell(format!("published: {}{edited}", place.location));
    }
    if !published && boundary.output_of(&attempt.key.task, attempt.attempt)?.is_some() {
        tell(format!("what it printed: refrain log --output {}", short_id(attempt.attempt)));
    }
    if let Some(next) = &retold.next {
        tell(format!("next: {next}"));
    }
    Ok(lines)
}

fn ended(attempt: &AttemptRecord, ending: &Ending) -> String {
    match (ending.outcome, attempt.generation) {
        (Outcome::Published, Some(version)) => format!("published version {version}"),
        (Outcome::AlreadyPublished, Some(version)) => format!("found version {version} published"),
        _ => with_code(ending),
    }
}

/// Who, where: as the process named itself when it began.
fn by(attempt: &AttemptRecord) -> String {
    let Ok(process) = serde_json::from_str::<ProcessIdentity>(&attempt.process) else { return String::new() };
    format!(", by {process}")
}

fn bold(text: &str, screen: Screen) -> String {
    let style = anstyle::Style::new().bold();
    if screen.colors { format!("{style}{text}{style:#}") } else { text.to_owned() }
}
