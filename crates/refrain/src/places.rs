//! Where a task reads and publishes, as locations; what it publishes it cannot read as a path.

use crate::plan::{Plan, PlannedSource};
use crate::task::{OutputSpec, Task};
use refrain_core::{Error, ErrorKind, Partition, PinMode, Result, Template};
use refrain_input::{escape, meets};
use refrain_object::Address;
use std::path::Path;

/// An input's name is also that of a directory in the home.
///
/// # Errors
/// `invalid` for a name that cannot be one.
pub(crate) fn check_names(task: &Task) -> Result<()> {
    let fits = |name: &str| {
        (1..=128).contains(&name.len())
            && !name.starts_with('.')
            && !name.contains('/')
            && !name.contains(char::is_control)
    };
    match task.inputs.iter().find(|input| !fits(&input.name)) {
        None => Ok(()),
        Some(input) => Err(Error::invalid(format!(
            "`{}` cannot name an input: a name has 1 to 128 characters, none of them a `/`, and no dot in front",
            input.name.escape_debug()
        ))),
    }
}

/// The absolute location of an input for one partition. What is filled in stands for itself, whatever it holds.
///
/// # Errors
/// `invalid` when it cannot be filled in, is not UTF-8, or is a URL that names no objects; `unsupported` for another URL.
pub(crate) fn location(name: &str, template: &Template, task: &Task, partition: &Partition) -> Result<String> {
    let rendered = template.render_with(partition, &task.params, &escape)?;
    if Address::is_one(&rendered) {
        let url = object(template, task, partition);
        return url.map_err(|error| error.within(format!("input `{name}`")));
    }
    if let Some((scheme, _)) = rendered.split_once("://") {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("input `{name}`: this build reads files, directories and objects, not `{scheme}://`"),
        ));
    }
    absolute(&rendered, task).map_err(|error| error.within(format!("input `{name}`")))
}

/// The URL of an object or a prefix. No name in it is a pattern.
fn object(template: &Template, task: &Task, partition: &Partition) -> Result<String> {
    if template.as_str().contains(['*', '?', '[']) {
        return Err(Error::invalid(format!(
            "`{}` is a pattern, and objects are not read by patterns",
            template.as_str()
        ))
        .hint("name a prefix: a URL that ends with `/` means all objects below it"));
    }
    let url = template.render(partition, &task.params)?;
    Address::parse(&url)?;
    Ok(url)
}

/// How an input can be held still there.
///
/// # Errors
/// `invalid` for an object that is to share its blocks with a file.
pub(crate) fn check_mode(name: &str, location: &str, mode: PinMode) -> Result<()> {
    if Address::is_one(location) && matches!(mode, PinMode::Reflink | PinMode::Link) {
        return Err(Error::invalid(format!(
            "input `{name}`: `pin = \"{}\"` is for files, not for {location}",
            mode.name()
        ))
        .hint("leave `pin` out to read a copy, or write pin = \"verify\" to read the objects themselves"));
    }
    Ok(())
}

/// The outputs, and the locations where the task publishes them, for this partition and for others.
///
/// # Errors
/// `invalid` when one cannot be filled in.
pub(crate) fn published(plan: &Plan) -> Result<Vec<(&OutputSpec, String)>> {
    let mut all = Vec::new();
    for output in &plan.outputs {
        let (spec, task) = (&output.spec, &plan.task);
        let shapes = spec.location.shapes(&task.partitions, &plan.partition, &task.params, &escape)?;
        for shape in &shapes {
            if Address::is_one(shape) {
                all.push((spec, plain(shape)));
            } else if !shape.contains("://") {
                all.push((spec, absolute(shape, task)?));
            }
        }
    }
    Ok(all)
}

/// A task that reads its own output by its place would read something else with every repetition.
pub(crate) fn refuse_self_reads(plan: &Plan) -> Result<()> {
    let paths = plan.inputs.iter().filter_map(|input| match &input.source {
        PlannedSource::Path { location, .. } => Some((&input.name, location)),
        PlannedSource::Publication(_) => None,
    });
    for (input, location) in paths {
        let read = if Address::is_one(location) { escape(&plain(location)) } else { location.clone() };
        if let Some((output, _)) = published(plan)?.into_iter().find(|(_, place)| meets(&read, place)) {
            return Err(Error::invalid(format!(
                "input `{input}` of `{}` reads what the task itself publishes: `{location}` meets output `{}` ({})",
                plan.key, output.name, output.location
            ))
            .hint(format!("to read what was published before, declare it: in.{input} = {}", before(plan))));
        }
    }
    Ok(())
}

/// A URL with the one name that its scheme has among several.
fn plain(url: &str) -> String {
    let named = url.split_once("://").and_then(|(scheme, rest)| {
        let address = Address::parse(&format!("{scheme}://bucket/")).ok()?;
        Some(format!("{}://{rest}", address.scheme.name()))
    });
    named.unwrap_or_else(|| url.to_owned())
}

/// How a task declares what it published before.
fn before(plan: &Plan) -> String {
    match &plan.partition.interval {
        Some(interval) => format!("{{ task = \"self\", partition = \"previous\", start = \"{}\" }}", interval.key),
        None => "{ task = \"self\", version = \"previous\" }".to_owned(),
    }
}

/// A location of a task that starts at the root.
///
/// # Errors
/// `invalid` when the task's own place is not UTF-8.
pub(crate) fn absolute(location: &str, task: &Task) -> Result<String> {
    if Path::new(location).is_absolute() {
        return Ok(location.to_owned());
    }
    let base = task.base.to_str().ok_or_else(|| {
        Error::invalid(format!("the path `{}` is not valid UTF-8", task.base.join(location).display()))
    })?;
    Ok(format!("{}/{location}", escape(base).trim_end_matches('/')))
}
