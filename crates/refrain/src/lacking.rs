//! What is told of an input that is not there, the most frequent failure of a task that runs every day.

use crate::boundary::Boundary;
use crate::peek::partition_flag;
use crate::places;
use crate::plan::{Plan, PlannedInput, PlannedSource};
use crate::task::InputSource;
use refrain_core::{Error, ErrorKind, Input, Partition, Template};

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
        let (PlannedSource::Path { .. }, Some(InputSource::Path { location, .. })) =
            (&input.source, spec.map(|spec| &spec.source))
        else {
            return error;
        };
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
