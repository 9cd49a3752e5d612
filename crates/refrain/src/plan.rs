//! One repetition of a task, with everything filled in: its key, its slots, its inputs, what it is made from.

use crate::environment::variable_part;
use crate::places;
use crate::sinks::Sinks;
use crate::task::{CommandClock, CommandLine, InputSource, InputSpec, OutputSpec, PublicationRef, Task, Which};
use refrain_core::{Error, Fingerprint, Key, OutputSlot, Partition, PinMode, Result, SlotAddress};
use refrain_input::digest_path;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A task for one partition.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) key: Key,
    pub(crate) task: Task,
    pub(crate) partition: Partition,
    pub(crate) outputs: Vec<PlannedOutput>,
    pub(crate) inputs: Vec<PlannedInput>,
}

#[derive(Clone, Debug)]
pub(crate) struct PlannedOutput {
    pub(crate) spec: OutputSpec,
    pub(crate) slot: SlotAddress,
    /// How it is published there, where the sink knows several ways.
    pub(crate) manner: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct PlannedInput {
    pub(crate) name: String,
    pub(crate) source: PlannedSource,
}

/// Where the content of an input comes from, for one partition.
#[derive(Clone, Debug)]
pub(crate) enum PlannedSource {
    /// An absolute path, or the URL of an object or a prefix.
    Path { location: String, mode: PinMode },
    /// What a task published.
    Publication(PublicationRef),
}

impl Plan {
    /// Fills in the partition and the parameters.
    ///
    /// # Errors
    /// `invalid` when a location cannot be filled in or used, or two outputs meet.
    pub(crate) fn new(task: &Task, partition: &Partition, sinks: &Sinks) -> Result<Self> {
        task.demand_variables()?;
        if task.lease_ttl.is_zero() {
            return Err(Error::invalid(format!(
                "the lease of `{}` has a ttl of nothing, so it could hold nobody off",
                task.name
            ))
            .hint("write `--ttl 60s`, or `lease = { ttl = \"60s\" }` in the task"));
        }
        let key = Key { task: task.name.clone(), partition: partition.key.clone() };
        let outputs = task
            .outputs
            .iter()
            .map(|spec| {
                let named = |error: Error| error.within(format!("output `{}`", spec.name));
                if let Some(table) = &spec.table {
                    let manner = table.manner(task, partition).map_err(named)?;
                    let slot = sinks.table(table, &manner, &key).map_err(named)?;
                    let manner = Some(manner.write()?);
                    return Ok(PlannedOutput { spec: spec.clone(), slot, manner });
                }
                let location = spec.location.render(partition, &task.params)?;
                let slot = sinks.address(&location, &task.base).map_err(named)?;
                let manner = Sinks::prefix_manner(&slot, &spec.readers).map_err(named)?;
                Ok(PlannedOutput { spec: spec.clone(), slot, manner })
            })
            .collect::<Result<Vec<_>>>()?;
        refuse_overlap(&outputs, sinks)?;
        refuse_one_variable("output", task.outputs.iter().map(|spec| spec.name.as_str()))?;
        places::check_names(task)?;
        refuse_one_variable("input", task.inputs.iter().map(|spec| spec.name.as_str()))?;
        refuse_one_variable("parameter", task.params.keys().map(String::as_str))?;
        let inputs = task
            .inputs
            .iter()
            .map(|spec| Ok(PlannedInput { name: spec.name.clone(), source: source_of(spec, task, partition)? }))
            .collect::<Result<Vec<_>>>()?;
        let plan = Self { key, task: task.clone(), partition: partition.clone(), outputs, inputs };
        places::refuse_self_reads(&plan)?;
        Ok(plan)
    }

    /// L(run), should this plan open a run.
    pub(crate) fn slots(&self) -> Vec<OutputSlot> {
        let slot = |output: &PlannedOutput| OutputSlot {
            name: output.spec.name.clone(),
            slot: output.slot.clone(),
            manner: output.manner.clone(),
        };
        self.outputs.iter().map(slot).collect()
    }

    /// Whether a task published what the input reads.
    pub(crate) fn reads_publication(&self, name: &str) -> bool {
        let publication = |input: &PlannedInput| matches!(input.source, PlannedSource::Publication(_));
        self.inputs.iter().any(|input| input.name == name && publication(input))
    }

    /// Whether the input is what the run itself replaces.
    pub(crate) fn reads_replaced(&self, name: &str) -> bool {
        let replaced = |source: &PlannedSource| match source {
            PlannedSource::Path { .. } => false,
            PlannedSource::Publication(reference) => reference.which == Which::Replaced,
        };
        self.inputs.iter().any(|input| input.name == name && replaced(&input.source))
    }

    /// What the output is made from, given the versions of the inputs, by name.
    ///
    /// # Errors
    /// `invalid` when a declared code file is missing.
    pub(crate) fn fingerprint<'a>(&self, inputs: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Fingerprint> {
        let mut builder = Fingerprint::builder();
        builder = match &self.task.command {
            Some(CommandLine::Shell(line)) => builder.shell(line),
            Some(CommandLine::Argv(words)) => {
                builder.command(&words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>())
            }
            None => builder,
        };
        for code in &self.task.code {
            let path: PathBuf = self.task.base.join(code);
            let digest = digest_path(&path).map_err(|error| {
                Error::invalid(format!("the code file `{code}` of task `{}` cannot be read", self.key.task))
                    .because(error)
            })?;
            builder = builder.code(code, &digest.digest);
        }
        for (name, value) in &self.task.params {
            builder = builder.param(name, value.as_str());
        }
        for (name, version) in inputs {
            // Every run has another version to replace, so that none may count as a change.
            builder = builder.input(name, if self.reads_replaced(name) { "what is replaced" } else { version });
        }
        if let Some(calendar) = self.task.partitions.calendar() {
            builder = builder.calendar(calendar);
        }
        if self.task.clock == CommandClock::Logical {
            builder = builder.clock("logical");
        }
        for output in &self.outputs {
            // The place, not its spelling: the same call from another directory is no change (LEDG-05).
            let place = output.slot.to_string();
            let place = output.manner.as_ref().map_or(place.clone(), |manner| format!("{place} {manner}"));
            builder = builder.output(&output.spec.name, &place);
        }
        Ok(builder.build())
    }
}

fn source_of(spec: &InputSpec, task: &Task, partition: &Partition) -> Result<PlannedSource> {
    match &spec.source {
        InputSource::Path { location, mode } => {
            let location = places::location(&spec.name, location, task, partition)?;
            places::check_mode(&spec.name, &location, *mode)?;
            Ok(PlannedSource::Path { location, mode: *mode })
        }
        InputSource::Publication(reference) => Ok(PlannedSource::Publication(reference.clone())),
    }
}

/// Two names that give the command one variable: one of the values would vanish.
fn refuse_one_variable<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for name in names {
        let variable = variable_part(name);
        if let Some(other) = seen.insert(variable.clone(), name) {
            return Err(Error::invalid(format!(
                "the {what}s `{other}` and `{name}` would both be `{variable}` in the command's environment"
            ))
            .hint("rename one of them"));
        }
    }
    Ok(())
}

fn refuse_overlap(outputs: &[PlannedOutput], sinks: &Sinks) -> Result<()> {
    for (index, one) in outputs.iter().enumerate() {
        for other in &outputs[index + 1..] {
            if one.spec.name == other.spec.name {
                return Err(Error::invalid(format!("two outputs are named `{}`", one.spec.name)));
            }
            if sinks.overlap(&one.slot, &other.slot) {
                return Err(Error::invalid(format!(
                    "the outputs `{}` ({}) and `{}` ({}) overlap: each must have a place of its own",
                    one.spec.name, one.slot.location, other.spec.name, other.slot.location
                )));
            }
        }
    }
    Ok(())
}
