//! `refrain log`

use super::screen::Screen;
use super::story::story;
use super::{print, table};
use crate::args::LogArgs;
use crate::context::Context;
use crate::output;
use refrain::core::{AttemptFilter, AttemptRecord, Ending, Generation, Key, Outcome, Window};
use refrain::process::signal_name;
use refrain::{Boundary, Result};

/// Shows attempts, newest first.
pub(crate) fn log(context: &Context, args: &LogArgs) -> Result<()> {
    if let Some(id) = &args.output {
        return super::printed::printed(context, id);
    }
    let boundary = context.boundary()?;
    let mut filter = AttemptFilter { limit: Some(args.limit), ..AttemptFilter::default() };
    if let Some(task) = &args.task {
        filter.task = Some(Context::known_task(&boundary, task)?);
        let asked = args.partition.date.is_some() || args.partition.partition.is_some();
        if asked {
            let key = context.key(&boundary, task, &args.partition)?;
            filter.partition = Some(key.partition);
        }
    } else if args.partition.date.is_some() || args.partition.partition.is_some() {
        return Err(
            super::invalid("a partition is one of a task: name the task, too").hint("refrain log TASK --date D")
        );
    }
    let attempts = boundary.store().attempts(&filter)?;
    if args.json {
        for attempt in &attempts {
            let line = super::attempt_json(attempt)?.to_string();
            if !output::data(&line) {
                break;
            }
        }
        return Ok(());
    }
    if attempts.is_empty() {
        let key = filter.task.zip(filter.partition).map(|(task, partition)| Key { task, partition });
        return none(&boundary, key.as_ref());
    }
    let screen = Screen::of_stdout();
    if args.story || screen.terminal && !args.list {
        return story(&boundary, &attempts, context.now(), screen);
    }
    let mut table =
        table(&["STARTED", "TASK", "PARTITION", "VERSION", "ATTEMPT", "TOKEN", "OUTCOME", "EXIT", "MESSAGE"]);
    for attempt in &attempts {
        table.add_row(row(attempt));
    }
    print(&table);
    Ok(())
}

/// Why there is nothing to list.
fn none(boundary: &Boundary, key: Option<&Key>) -> Result<()> {
    let compacted = key.map(|key| boundary.compacted(key)).transpose()?.flatten();
    let Some((key, compacted)) = key.zip(compacted) else {
        output::data("no attempts yet");
        return Ok(());
    };
    output::data(&format!("the attempts of `{key}` were compacted, as all of its task up to {}", compacted.through));
    match compacted.publication {
        None => output::data("nothing that it published stands"),
        Some(publication) => output::data(&format!(
            "what stands: version {}, sealed {:.0} by attempt {}: refrain path {} --date {}",
            publication.run.generation, publication.sealed_at, publication.attempt, key.task, key.partition
        )),
    };
    Ok(())
}

fn row(attempt: &AttemptRecord) -> Vec<String> {
    let ending = attempt.ending.as_ref();
    vec![
        format!("{:.0}", attempt.started_at),
        attempt.key.task.to_string(),
        if attempt.key.partition.is_empty() { "-".to_owned() } else { attempt.key.partition.clone() },
        version_of(attempt).map(|generation| generation.to_string()).unwrap_or_default(),
        attempt.attempt.to_string(),
        attempt.token.to_string(),
        ending.map_or_else(|| "not ended, or not known".to_owned(), outcome),
        ending.and_then(|ending| ending.exit_code).map(|code| code.to_string()).unwrap_or_default(),
        ending.and_then(|ending| ending.message.clone()).unwrap_or_default(),
    ]
}

/// The outcome for people.
pub(crate) fn outcome(ending: &Ending) -> String {
    if let Some(signal) = ending.stopped_by {
        return format!("ended by {} sent to refrain", signal_name(signal));
    }
    let word = match ending.outcome {
        Outcome::Published => "published",
        Outcome::AlreadyPublished => "already published",
        Outcome::Decided => "decided",
        Outcome::Superseded => "superseded",
        Outcome::TaskFailed => "task failed",
        Outcome::Held => "held",
        Outcome::Fenced => "fenced",
        Outcome::Unknown => "unknown",
        Outcome::Refused => "refused",
        Outcome::TimedOut => "timed out",
        Outcome::Recovered => "recovered",
        Outcome::Error if ending.exit_code.is_none() => "ended without a word",
        Outcome::Error => "error",
    };
    word.to_owned()
}

/// The same with the exit code, where one was given that says more.
pub(crate) fn with_code(ending: &Ending) -> String {
    match ending.exit_code {
        Some(code) if code != 0 => format!("{} (exit code {code})", outcome(ending)),
        _ => outcome(ending),
    }
}

/// The version that an attempt published, or found published. What a failed one was meant to be is none.
pub(crate) fn version_of(attempt: &AttemptRecord) -> Option<Generation> {
    let ending = attempt.ending.as_ref()?;
    let shown = ending.window == Window::Published && ending.outcome != Outcome::Recovered;
    attempt.generation.filter(|_| shown)
}
