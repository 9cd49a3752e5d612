//! Where a file that the caller names may be written: not over what is published, read or kept.

use crate::boundary::Boundary;
use crate::config::FILE_NAME;
use crate::places;
use crate::plan::Plan;
use crate::report::Report;
use crate::table::SourceSpec;
use crate::task::{InputSource, Task};
use refrain_core::{Error, Partition, Result, Template};
use refrain_input::{escape, meets};
use refrain_object::Address;
use refrain_sink::{state_above, written_place};
use std::path::{Component, Path, PathBuf};

/// Whether a report may be written to a file where no home can tell what is published and read: nothing but an earlier report is
/// replaced.
pub fn may_replace(file: &Path) -> bool {
    let Some(place) = written_place(file) else { return true };
    !place.is_file() || (demand_no_state(file, &place).is_ok() && Report::stands_at(&place))
}

impl Boundary {
    /// Refuses a report where this home publishes, where its tasks read, and where its configuration and any home's state are:
    /// it would replace that, and no attempt would know. Where an earlier report stands, only what is published is looked up.
    ///
    /// # Errors
    /// `refused` naming what is there.
    pub fn demand_apart(&self, file: &Path) -> Result<()> {
        // What cannot be written to replaces nothing.
        let Some(place) = written_place(file) else { return Ok(()) };
        demand_no_state(file, &place)?;
        if self.sinks.is_own(&place) {
            return Err(taken(file, "lies inside Refrain's own state"));
        }
        if let Some(owner) = self.sinks.publisher_of(&place)? {
            return Err(taken(file, &format!("is where `{owner}` publishes")));
        }
        if Report::stands_at(&place) {
            return Ok(());
        }
        let stands = place.exists();
        self.home.config.tasks.iter().try_for_each(|task| {
            // Patterns are alike for all dates.
            let now = task.partitions.calendar().and_then(|calendar| calendar.containing(self.now()).ok());
            demand_apart_from(task, &now.map_or_else(Partition::whole, Partition::of), file, &place, stands)
        })
    }

    /// The same for what one call names itself.
    ///
    /// # Errors
    /// `refused` naming what is there.
    pub fn demand_apart_from(&self, task: &Task, partition: &Partition, file: &Path) -> Result<()> {
        let Some(place) = written_place(file) else { return Ok(()) };
        // What is wrong with the task is told by its attempt.
        let outputs = Plan::new(task, partition, &self.sinks).map(|plan| plan.outputs).unwrap_or_default();
        if let Some(output) = outputs.iter().find(|output| self.sinks.publishes_at(&output.slot, &place)) {
            return Err(taken(file, &format!("is where the call itself publishes output `{}`", output.spec.name)));
        }
        if Report::stands_at(&place) {
            return Ok(());
        }
        demand_apart_from(task, partition, file, &place, place.exists())
    }
}

fn demand_no_state(file: &Path, place: &Path) -> Result<()> {
    if state_above(place).is_some() {
        return Err(taken(file, "lies inside Refrain's own state"));
    }
    if place.file_name().is_some_and(|name| name == FILE_NAME) {
        return Err(taken(file, "is the configuration of a home"));
    }
    Ok(())
}

/// The places of a declaration, and what else it reads: of what a place holds that does not exist yet, only outputs count.
fn demand_apart_from(task: &Task, partition: &Partition, file: &Path, place: &Path, stands: bool) -> Result<()> {
    let refuse = |role: &str| Err(taken(file, &format!("is where task `{}` has its {role}", task.name)));
    for output in task.outputs.iter().filter(|output| output.table.is_none()) {
        if (stands || may_reach(&output.location, task, [file, place]))
            && reaches(&output.location, task, partition, &escape, place)
        {
            return refuse(&format!("output `{}`", output.name));
        }
    }
    if !stands {
        return Ok(());
    }
    for input in &task.inputs {
        if let InputSource::Path { location, .. } = &input.source
            && reaches(location, task, partition, &str::to_owned, place)
        {
            return refuse(&format!("input `{}`", input.name));
        }
    }
    let sql = task.outputs.iter().filter_map(|output| match &output.table.as_ref()?.source {
        SourceSpec::Sql { file } => Some(file),
        SourceSpec::File { .. } | SourceSpec::Direct => None,
    });
    let code = |code: &&String| task.base.join(code).canonicalize().is_ok_and(|code| place.starts_with(code));
    match task.code.iter().chain(sql).find(code) {
        Some(code) => refuse(&format!("code file `{code}`")),
        None => Ok(()),
    }
}

/// Whether the place is, or lies in, what the location is for some partition.
fn reaches(
    location: &Template,
    task: &Task,
    partition: &Partition,
    quote: &dyn Fn(&str) -> String,
    place: &Path,
) -> bool {
    // What cannot be filled in is no place.
    let shapes = location.shapes(&task.partitions, partition, &task.params, quote).unwrap_or_default();
    let local = shapes.iter().filter(|shape| !Address::is_one(shape) && !shape.contains("://"));
    local
        .filter_map(|shape| places::absolute(shape, task).ok())
        .any(|shape| meets(&escape(&place.to_string_lossy()), &format!("{}/", shape.trim_end_matches('/'))))
}

/// A cheap look whether [`reaches`] has to be asked: whether one of the spellings lies below the fixed part of the location.
fn may_reach(location: &Template, task: &Task, spellings: [&Path; 2]) -> bool {
    let fixed = location.as_str().split(['{', '*', '?', '[']).next().unwrap_or_default();
    let above: PathBuf = task.base.join(fixed.rsplit_once('/').map_or("", |(above, _)| above));
    above.components().any(|part| part == Component::ParentDir) || spellings.iter().any(|path| path.starts_with(&above))
}

fn taken(file: &Path, why: &str) -> Error {
    Error::refused(format!("`{}` {why}: nothing else may be written there", file.display())).hint("name another file")
}
