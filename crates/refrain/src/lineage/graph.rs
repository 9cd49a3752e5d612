//! Whether the tasks of a configuration can read each other as they say.

use super::reads::check_schemes;
use crate::task::{InputSource, PublicationRef, Task, Which};
use refrain_core::{Error, Result, TaskName, nearest};

/// Makes sure that every task that is read has the output that is read and partitions that fit, and that no task waits for
/// itself. One that is not declared, or whose variables are not set, is an error of the task that reads it, for
/// [`check_reader`]: what was published can be looked at all the same.
///
/// # Errors
/// `invalid`, with the key of the input.
pub(crate) fn check(tasks: &[Task]) -> Result<()> {
    for reader in tasks {
        let is_known = |task: &Task| task.unset.is_none();
        check_inputs(reader, tasks, |read| tasks.iter().any(|task| task.name == read.task && is_known(task)))?;
    }
    for task in tasks {
        refuse_cycle(task, tasks)?;
    }
    Ok(())
}

/// Makes sure that every task that is read is declared.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_reader(reader: &Task, tasks: &[Task]) -> Result<()> {
    check_inputs(reader, tasks, |_| true)
}

fn check_inputs(reader: &Task, tasks: &[Task], which: impl Fn(&PublicationRef) -> bool) -> Result<()> {
    for (input, reference) in publications(reader).filter(|(_, reference)| which(reference)) {
        check_one(reference, reader, tasks)
            .map_err(|error| error.within(format!("`task.{}.in.{input}`", reader.name)))?;
    }
    Ok(())
}

/// The inputs of a task that are publications, by name.
pub(crate) fn publications(task: &Task) -> impl Iterator<Item = (&str, &PublicationRef)> {
    task.inputs.iter().filter_map(|input| match &input.source {
        InputSource::Path { .. } => None,
        InputSource::Publication(reference) => Some((input.name.as_str(), reference)),
    })
}

/// The output that an input reads.
///
/// # Errors
/// `invalid` when the task has none of that name, or several and none is named.
pub(crate) fn output_of(reference: &PublicationRef, producer: &Task) -> Result<String> {
    let names = || producer.outputs.iter().map(|output| output.name.as_str());
    let list = || names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match (&reference.output, producer.outputs.as_slice()) {
        (None, [only]) => Ok(only.name.clone()),
        (None, _) => Err(Error::invalid(format!("`{}` has several outputs: {}", producer.name, list()))
            .hint(format!("say which: output = \"{}\"", names().next().unwrap_or_default()))),
        (Some(wanted), _) if names().any(|name| name == wanted) => Ok(wanted.clone()),
        (Some(wanted), _) => {
            let error = Error::invalid(format!("`{}` has no output `{wanted}`", producer.name));
            Err(match nearest(wanted, names()) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint(format!("its outputs: {}", list())),
            })
        }
    }
}

fn check_one(reference: &PublicationRef, reader: &Task, tasks: &[Task]) -> Result<()> {
    let Some(producer) = tasks.iter().find(|task| task.name == reference.task) else {
        let names = || tasks.iter().map(|task| task.name.as_str());
        let error = Error::invalid(format!("there is no task `{}`", reference.task));
        return Err(match nearest(reference.task.as_str(), names()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint(format!("known tasks: {}", names().collect::<Vec<_>>().join(", "))),
        });
    };
    producer.demand_variables()?;
    let output = output_of(reference, producer)?;
    if producer.outputs.iter().any(|spec| spec.name == output && spec.table.is_some()) {
        return Err(Error::invalid(format!(
            "output `{output}` of `{}` is a table, of which no version can be held still",
            producer.name
        ))
        .hint("read it by a query: an output with `sql` sees one moment of its database; or read the file that it was made from"));
    }
    check_schemes(reference, reader, producer)
}

/// Looks for a way back to `start` on which no step leads to an earlier partition.
fn refuse_cycle(start: &Task, tasks: &[Task]) -> Result<()> {
    let mut ways: Vec<Vec<&TaskName>> = vec![vec![&start.name]];
    let mut seen: Vec<&TaskName> = Vec::new();
    while let Some(way) = ways.pop() {
        let Some(task) = way.last().and_then(|last| tasks.iter().find(|task| task.name == **last)) else { continue };
        for (_, reference) in publications(task) {
            if matches!(reference.which, Which::Previous { .. } | Which::Replaced) {
                continue;
            }
            let mut longer = way.clone();
            longer.push(&reference.task);
            if reference.task == start.name {
                let names: Vec<_> = longer.iter().map(|name| format!("`{name}`")).collect();
                return Err(Error::invalid(format!("tasks read each other in a circle: {}", names.join(" reads ")))
                    .hint("one of them must read an earlier partition: partition = \"previous\""));
            }
            if !seen.contains(&&reference.task) {
                seen.push(&reference.task);
                ways.push(longer);
            }
        }
    }
    Ok(())
}
