//! Commands that only look: stdout is data.

pub(crate) mod config;
mod grid;
pub(crate) mod log;
mod printed;
pub(crate) mod screen;
pub(crate) mod show;
pub(crate) mod state;
pub(crate) mod status;
mod story;

use crate::args::{FetchArgs, JsonArgs, PathArgs, SinksArgs, WhyArgs};
use crate::context::Context;
use crate::{json, output};
use comfy_table::{Table, presets};
use refrain::core::{AttemptRecord, Generation, SwapCost};
use refrain::why::Would;
use refrain::{Boundary, Error, ErrorKind, Result, Sinks, sink_sql};

/// `refrain why`
pub(crate) fn why(context: &Context, args: &WhyArgs) -> Result<()> {
    let boundary = context.boundary()?;
    let key = context.key(&boundary, &args.task, &args.partition)?;
    let declared = boundary.home().config.declared(&key.task);
    let why = match declared {
        Some(task) => boundary.why(task, &task.partitions.partition_of_key(&key.partition)?)?,
        None if boundary.store().key(&key)?.is_some() => boundary.why_key(&key)?,
        None => return Err(known_task(&boundary, &args.task)),
    };
    if args.json {
        output::data(&json(&why)?);
        return Ok(());
    }
    let would = match (why.would, why.sealed_by) {
        (Would::Run, _) => "run the command and publish",
        (Would::Nothing, _) => "do nothing: it is published",
        (Would::Wait, _) => "end with \"held\": it is being run",
        (Would::Recover, Some(_)) => "publish what an earlier attempt sealed, without the command",
        (Would::Recover, None) => "finish what an earlier attempt left open, then go on",
        (Would::Refuse, _) => "refuse",
    };
    let key = if why.partition.is_empty() { why.task.clone() } else { format!("{} {}", why.task, why.partition) };
    output::data(&format!("{key}: `run` would {would}"));
    for line in &why.because {
        output::data(&format!("  - {line}"));
    }
    if why.would == Would::Run || why.sealed_by.is_some() {
        for place in &why.outputs {
            output::data(&format!("  publishes: {place}"));
        }
    }
    if let Some(next) = &why.next {
        output::data(&format!("  next: {next}"));
    }
    Ok(())
}

/// Why there is no such task, with the nearest known name.
fn known_task(boundary: &Boundary, name: &str) -> Error {
    match boundary.home().config.task(name) {
        Ok(task) => Error::invalid(format!("`{}` has no such partition", task.name)),
        Err(error) => error,
    }
}

/// `refrain path`
pub(crate) fn path(context: &Context, args: &PathArgs) -> Result<()> {
    let boundary = context.boundary()?;
    let key = context.key(&boundary, &args.task, &args.partition)?;
    let version = args.version.map(Generation::new);
    let places = if let Some(task) = boundary.home().config.declared(&key.task) {
        let partition = context.partition(task, &args.partition)?;
        boundary.paths(task, &partition, args.output.as_deref(), version)?
    } else {
        Context::known_task(&boundary, &args.task)?;
        boundary.paths_of_key(&key, args.output.as_deref(), version)?
    };
    if let (Some(version), true) = (version, context.loudness >= output::Loudness::Notes)
        && places.found.iter().any(|place| place.edited)
    {
        output::say(&format!("note: version {version} was changed by hand after it was published"));
    }
    for place in places.found {
        output::data(&place.location);
    }
    places.lacking.map_or(Ok(()), Err)
}

/// `refrain fetch`
pub(crate) fn fetch(context: &Context, args: &FetchArgs) -> Result<()> {
    let boundary = context.boundary()?;
    let key = context.key(&boundary, &args.task, &args.partition)?;
    Context::known_task(&boundary, &args.task)?;
    let into = context.directory.join(&args.into);
    let version = args.version.map(Generation::new);
    let fetched = boundary.fetch(&key, args.output.as_deref(), version, &into)?;
    if context.loudness >= output::Loudness::Notes {
        let (version, location) = (fetched.version, fetched.location);
        output::say(&format!("version {version} of {location} is copied to {}", args.into.display()));
    }
    Ok(())
}

/// An attempt as JSON, its process as the object that it is.
fn attempt_json(record: &AttemptRecord) -> Result<serde_json::Value> {
    let mut value = serde_json::to_value(record)
        .map_err(|error| Error::new(ErrorKind::Internal, "an attempt cannot be written as JSON").because(error))?;
    if let Some(process) = value.get_mut("process")
        && let Ok(object) = serde_json::from_str(&record.process)
    {
        *process = object;
    }
    Ok(value)
}

/// `refrain sinks`
pub(crate) fn sinks(args: &SinksArgs) -> Result<()> {
    if let Some(role) = &args.sql {
        output::data(&sink_sql(role.as_deref()));
        return Ok(());
    }
    let sinks = Sinks::capabilities();
    if args.json.json {
        output::data(&json(&sinks)?);
        return Ok(());
    }
    let yes = |flag: bool| if flag { "yes" } else { "no" };
    let mut table = table(&["SINK", "ATOMIC", "CONDITIONAL", "CLAIMS", "LEDGER IN COMMIT", "SWAP COST", "ROLLBACK"]);
    for sink in sinks {
        table.add_row(vec![
            sink.sink,
            yes(sink.atomic),
            yes(sink.conditional),
            yes(sink.claims),
            yes(sink.ledger_in_commit),
            match sink.swap_cost {
                SwapCost::Constant => "constant",
                SwapCost::Rows => "rows",
            },
            yes(sink.rollback),
        ]);
    }
    print(&table);
    Ok(())
}

/// `refrain stores`
pub(crate) fn stores(args: &JsonArgs) -> Result<()> {
    if args.json {
        output::data(&json(&serde_json::json!([
            { "store": "sqlite", "hosts": "one", "server": false },
            { "store": "postgresql", "hosts": "many", "server": true },
            { "store": "s3", "hosts": "many", "server": false },
            { "store": "gs", "hosts": "many", "server": false },
            { "store": "az", "hosts": "many", "server": false },
        ]))?);
        return Ok(());
    }
    let mut table = table(&["STORE", "HOSTS", "NEEDS A SERVER"]);
    table.add_row(vec!["sqlite", "one", "no"]);
    table.add_row(vec!["postgresql", "many", "yes"]);
    for scheme in ["s3", "gs", "az"] {
        table.add_row(vec![scheme, "many", "no"]);
    }
    print(&table);
    Ok(())
}

/// A table without borders, as wide as its content.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.to_vec());
    table
}

fn print(table: &Table) {
    print_within(table, usize::MAX);
}

/// Prints a table whose lines end where the screen does.
pub(crate) fn print_within(table: &Table, width: usize) {
    for line in table.lines() {
        let line = line.trim_end();
        let fits = line.chars().count() <= width;
        let cut = || line.chars().take(width.saturating_sub(1)).chain(['…']).collect();
        if !output::data(&if fits { line.to_owned() } else { cut() }) {
            return;
        }
    }
}

/// Only for messages: why a flag does not fit.
fn invalid(message: impl Into<String>) -> Error {
    Error::invalid(message)
}
