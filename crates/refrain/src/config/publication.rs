//! `in.NAME = { task = "…" }`: an input that a task published.

use super::section::Section;
use crate::task::{InputSource, PublicationRef, Task, Which};
use refrain_core::{Error, Result, TaskName};

/// The word for the task itself, and the one for what came before.
const SELF: &str = "self";
const PREVIOUS: &str = "previous";

/// Reads the table of an input that has the key `task`; `reader` is the task so far.
pub(super) fn read(mut section: Section, reader: &Task) -> Result<InputSource> {
    let name = section.text("task")?.unwrap_or_default();
    let task: TaskName = if name == SELF {
        reader.name.clone()
    } else {
        name.parse().map_err(|error: Error| error.within(format!("`{}`", section.name("task"))))?
    };
    if section.take("path").is_some() {
        return Err(Error::invalid(format!("`{}` stands beside `task`", section.name("path")))
            .hint("an input is a path, or what a task published: leave one of them away"));
    }
    if section.take("pin").is_some() {
        return Err(Error::invalid(format!(
            "`{}` is for paths: a publication is pinned as it is",
            section.name("pin")
        ))
        .hint(format!("leave `{}` away", section.name("pin"))));
    }
    let output = section.text("output")?;
    let which = which(&mut section, task == reader.name, reader)?;
    section.done()?;
    Ok(InputSource::Publication(PublicationRef { task, output, which }))
}

fn which(section: &mut Section, own: bool, reader: &Task) -> Result<Which> {
    let partition = section.text("partition")?;
    let start = section.text("start")?;
    let version = section.text("version")?;
    if start.is_some() && partition.as_deref() != Some(PREVIOUS) {
        return Err(Error::invalid(format!("`{}` is the first date of a chain", section.name("start")))
            .hint("it stands beside `partition = \"previous\"`"));
    }
    match (partition.as_deref(), version.as_deref()) {
        (None, None) if own => Err(Error::invalid(format!(
            "`{}` reads the very publication that it makes",
            section.name("task")
        ))
        .hint(
            "add `partition = \"previous\"` for the date before, or `version = \"previous\"` for what stands there now",
        )),
        (None, None) => Ok(Which::Same),
        (None, Some(PREVIOUS)) if own => Ok(Which::Replaced),
        (None, Some(PREVIOUS)) => Err(Error::invalid(format!(
            "`{}` is for the task itself: of another task the published version is read",
            section.name("version")
        ))
        .hint(format!("leave `{}` away", section.name("version")))),
        (_, Some(other)) => Err(Error::invalid(format!(
            "`{}` must be \"previous\", and without `partition`, not \"{other}\"",
            section.name("version")
        ))),
        (Some(PREVIOUS), None) => {
            let start = start.map(|text| start_key(section, &text, reader)).transpose()?;
            if own && start.is_none() {
                return Err(Error::invalid(format!(
                    "`{}` is missing: without a first date no date could ever be run",
                    section.name("start")
                ))
                .hint("add the first date, which has nothing to read: start = \"2013-01-01\""));
            }
            Ok(Which::Previous { start })
        }
        (Some(text), None) if own => Err(Error::invalid(format!(
            "`{}` = \"{text}\": of itself a task reads the previous partition only",
            section.name("partition")
        ))
        .hint("write partition = \"previous\"")),
        (Some(text), None) => {
            let template = text.parse().map_err(|error: Error| error.within(section.name("partition")))?;
            Ok(Which::Named(template))
        }
    }
}

fn start_key(section: &Section, text: &str, reader: &Task) -> Result<String> {
    let calendar = reader.partitions.calendar().ok_or_else(|| crate::lineage::no_order(reader))?;
    let interval = calendar.canonical(text, None);
    interval.map(|interval| interval.key).map_err(|error| error.within(format!("`{}`", section.name("start"))))
}
