//! `refrain show`

use super::log::{version_of, with_code};
use crate::args::ShowArgs;
use crate::context::Context;
use crate::{json, output};
use refrain::core::{AttemptFilter, AttemptRecord, PinnedInput};
use refrain::lookup::{Found, InputsOf, PublishedPath};
use refrain::process::ProcessIdentity;
use refrain::{Boundary, Result};
use serde_json::{Value, json};

/// So many places of a version are named.
const NAMED: usize = 3;

/// Shows one run, attempt or published path.
pub(crate) fn show(context: &Context, args: &ShowArgs) -> Result<()> {
    let boundary = match context.boundary() {
        Ok(boundary) => boundary,
        Err(error) => return provenance(context, args).ok_or(error),
    };
    let found = match boundary.find(&args.what, &context.directory) {
        Ok(found) => found,
        Err(error) => return provenance(context, args).ok_or(error),
    };
    match found {
        Found::Attempts(attempts) if args.json => {
            let all = attempts.iter().map(|record| attempt_value(&boundary, record)).collect::<Result<Vec<_>>>()?;
            output::data(&json(&all)?);
        }
        Found::Attempts(attempts) => {
            for (index, record) in attempts.iter().enumerate() {
                if index > 0 {
                    output::data("");
                }
                attempt(record, &boundary.inputs_of(record)?);
            }
        }
        Found::Published(path) if args.json => drop(output::data(&json(&value(&path))?)),
        Found::Published(path) => published(&boundary, &path)?,
    }
    Ok(())
}

/// Outside of its home a published path still says where it came from, if the filesystem has attributes.
fn provenance(context: &Context, args: &ShowArgs) -> Option<()> {
    let path = context.directory.join(&args.what);
    let text = refrain::lookup::provenance(&path)?;
    if args.json {
        output::data(&text);
        return Some(());
    }
    let fields: serde_json::Map<String, Value> = serde_json::from_str(&text).ok()?;
    output::data(&format!(
        "{}: published by refrain (the path's own record; no home that knows it was asked)",
        path.display()
    ));
    for (name, value) in fields {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        output::data(&format!("  {name:<12} {text}"));
    }
    Some(())
}

fn line(name: &str, value: &str) {
    output::data(&format!("  {name:<12} {value}"));
}

/// What an attempt's run reads, as far as it is known.
fn inputs_of(read: &InputsOf) {
    match read {
        InputsOf::Pinned(pins) => inputs(pins),
        InputsOf::Versions(versions) => {
            for (name, version) in versions {
                line("input", &format!("{name}: {version}"));
            }
        }
        InputsOf::Unknown => line("inputs", "not known any more: the key has a later run"),
    }
}

/// What was read: of a task's publications each with the run that made it.
fn inputs(pins: &[PinnedInput]) {
    for pin in pins {
        line("input", &format!("{}: {} {}", pin.name, pin.location, pin.version));
        let publications = pin.lineage.iter().flat_map(|lineage| &lineage.publications);
        if publications.clone().count() > 1 {
            publications.for_each(|publication| line("", &publication.to_string()));
        }
    }
}

fn attempt_value(boundary: &Boundary, record: &AttemptRecord) -> Result<Value> {
    let mut value = super::attempt_json(record)?;
    if let Some(fields) = value.as_object_mut() {
        let inputs = match boundary.inputs_of(record)? {
            InputsOf::Pinned(pins) => json!(pins),
            InputsOf::Versions(versions) => {
                versions.into_iter().map(|(name, version)| json!({ "name": name, "version": version })).collect()
            }
            InputsOf::Unknown => Value::Null,
        };
        fields.insert("inputs".to_owned(), inputs);
    }
    Ok(value)
}

fn attempt(record: &AttemptRecord, read: &InputsOf) {
    output::data(&format!("attempt {}", record.attempt));
    line("key", &record.key.to_string());
    if let Some(run) = record.run {
        line("run", &run.to_string());
    }
    if let Some(generation) = version_of(record) {
        line("version", &generation.to_string());
    }
    inputs_of(read);
    line("token", &record.token.to_string());
    line("started", &format!("{:.3}", record.started_at));
    if let Ok(process) = serde_json::from_str::<ProcessIdentity>(&record.process) {
        line("by", &process.to_string());
    }
    match &record.ending {
        None => line("outcome", "not ended, or not known (refrain recover settles it)"),
        Some(ending) => {
            line("ended", &format!("{:.3}", ending.at));
            line("outcome", &with_code(ending));
            line("window", ending.window.sentence());
            if let Some(message) = &ending.message {
                line("message", message);
            }
        }
    }
}

fn published(boundary: &Boundary, path: &PublishedPath) -> Result<()> {
    let publication = &path.publication;
    match &path.part {
        Some(part) => output::data(&format!("{part}: part of {}, published by refrain", path.location)),
        None => output::data(&format!("{}: published by refrain", path.location)),
    };
    line("key", &path.key.to_string());
    line("version", &publication.run.generation.to_string());
    if let Some(version) = publication.restored() {
        line("restores", &format!("{version} (a rollback)"));
    }
    line("run", &publication.run.run_id.to_string());
    line("attempt", &publication.attempt.to_string());
    let filter =
        AttemptFilter { id_part: Some(publication.attempt.to_string()), limit: Some(1), ..AttemptFilter::default() };
    // A store that was lost and made anew does not remember who it was.
    if let Some(record) = boundary.store().attempts(&filter)?.first() {
        line("started", &format!("{:.3}", record.started_at));
        if let Ok(process) = serde_json::from_str::<ProcessIdentity>(&record.process) {
            line("by", &process.to_string());
        }
    }
    line("sealed", &format!("{:.3}", publication.sealed_at));
    for output in &publication.run.outputs {
        if let Some(data) = publication.data_for(&output.slot) {
            let (size, files) = (output::size(data.bytes), output::files(data.files));
            line("output", &format!("{}: {size} in {files}, {}", output.name, data.digest));
        }
    }
    inputs(&publication.run.inputs);
    line("made from", &publication.fingerprint.digest); // "unknown" where nobody knows
    for (part, value) in &publication.fingerprint.parts {
        line("", &format!("{part}: {value}"));
    }
    line(
        "now",
        &path.drift.as_ref().map_or_else(|| "what was published".to_owned(), |what| format!("changed by hand: {what}")),
    );
    for version in path.versions.iter().filter(|version| !version.current) {
        let edited = if version.edited { " (changed by hand after it was published)" } else { "" };
        line("kept", &format!("version {}{edited}: {}", version.generation, places(&version.locations)));
    }
    Ok(())
}

/// Of a prefix with many objects the first are named.
fn places(locations: &[String]) -> String {
    let named = locations.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match locations.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn value(path: &PublishedPath) -> Value {
    json!({
        "location": path.location,
        "part": path.part,
        "task": path.key.task,
        "partition": path.key.partition,
        "publication": path.publication,
        "drift": path.drift,
        "versions": path.versions,
    })
}
