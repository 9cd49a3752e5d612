//! What is told of an input that is not there, the most frequent failure of a task that runs every day.

use crate::boundary::Boundary;
use crate::peek::partition_flag;
use crate::places;
use crate::plan::{Plan, PlannedInput, PlannedSource};
use crate::task::InputSource;
use refrain_core::{Error, ErrorKind, Input, Partition, TaskName, Template};
use refrain_object::Address;
use std::path::Path;

/// So many intervals before are looked at for one whose input is there.
const BACK: usize = 7;

impl Boundary {
    /// The same error with a hint, where it has none: who names the path, where the nearest one is, and what to do when it
    /// has arrived.
    pub(crate) fn lacking(&self, plan: &Plan, input: &PlannedInput, error: Error) -> Error {
        if error.kind != ErrorKind::Invalid || error.hint.is_some() {
            return error;
        }
        let spec = plan.task.inputs.iter().find(|spec| spec.name == input.name);
        let (PlannedSource::Path { location: place, .. }, Some(InputSource::Path { location, .. })) =
            (&input.source, spec.map(|spec| &spec.source))
        else {
            return error;
        };
        if let Some(producer) = self.publisher_of_prefix(place) {
            let how = match self.home.config.declared(&producer) {
                Some(_) => format!("read them by in.{} = {{ task = \"{producer}\" }}", input.name),
                None => "`refrain path` prints their URLs in the home that publishes them".to_owned(),
            };
            return error.hint(format!("task `{producer}` publishes to it, and its objects lie in versions: {how}"));
        }
        let task = &plan.key.task;
        let declared = self.home.config.declared(task);
        let is_declared = declared
            .is_some_and(|task| task.inputs.iter().any(|known| is_at(&known.name, &known.source, input, location)));
        let origin = if is_declared {
            format!("`in.{} = {:?}` of [task.{task}] in refrain.toml names it", input.name, location.as_str())
        } else {
            format!("`--in {}={location}` names it", input.name)
        };
        let nearest = self.nearest(plan, &input.name, location);
        let nearest = nearest.map(|key| format!("; the newest that is there before is of {key}")).unwrap_or_default();
        let again = if declared.is_some() {
            format!("refrain run {task}{}", partition_flag(plan))
        } else {
            "repeat the call".to_owned()
        };
        error.hint(format!("{origin}{nearest}; when it has arrived: {again}"))
    }

    /// Who publishes to a prefix below which nothing lies: what is published there is found by its head alone.
    fn publisher_of_prefix(&self, place: &str) -> Option<TaskName> {
        if !Address::is_one(place) || !place.ends_with('/') {
            return None;
        }
        let slot = self.sinks.address(place, Path::new("/")).ok()?;
        let head = self.sinks.of(&slot).ok()?.read(&slot).ok()??.as_seen();
        head.publication.is_some().then_some(head.owner.task)
    }

    /// The nearest interval before of which the input is there.
    fn nearest(&self, plan: &Plan, name: &str, location: &Template) -> Option<String> {
        let calendar = plan.task.partitions.calendar().filter(|_| location.depends_on_partition())?;
        let mut interval = plan.partition.interval.clone()?;
        for _ in 0..BACK {
            interval = calendar.previous(&interval).ok()?;
            let place = places::location(name, location, &plan.task, &Partition::of(interval.clone())).ok()?;
            if self.inputs.version(&place).is_ok() {
                return Some(interval.key);
            }
        }
        None
    }
}

fn is_at(name: &str, source: &InputSource, input: &PlannedInput, at: &Template) -> bool {
    name == input.name && matches!(source, InputSource::Path { location, .. } if location == at)
}
