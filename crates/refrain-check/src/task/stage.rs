//! Scratch homes: each is a home of its own, with the task of the real one, whose outputs lead into the scratch directory.

use refrain::config::FILE_NAME;
use refrain::core::{Error, ErrorKind, Partition, Result};
use refrain::{Home, Task};
use std::fs;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// A home in the scratch directory.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) home: PathBuf,
    pub(super) outputs: Vec<StagedOutput>,
}

/// Where an output of a scratch home is published.
#[derive(Clone, Debug)]
pub(super) struct StagedOutput {
    pub(super) name: String,
    /// In the scratch directory.
    pub(super) place: PathBuf,
    /// Where the real task publishes it.
    pub(super) real: PathBuf,
}

/// How a task is changed for the scratch directory.
#[derive(Debug)]
pub(super) struct Change<'a> {
    pub(super) task: &'a Task,
    pub(super) partition: &'a Partition,
    /// Where the command runs.
    pub(super) cwd: PathBuf,
    pub(super) inputs: Vec<(&'a str, &'a Path)>,
    /// Another command than the task's own.
    pub(super) command: Option<Value>,
}

impl Stage {
    /// Makes a home at `home` with the task as `change` has it.
    ///
    /// # Errors
    /// `invalid` when the task cannot be moved, `internal` when the home cannot be made.
    pub(super) fn make(real: &Home, home: PathBuf, change: &Change<'_>) -> Result<Self> {
        let name = change.task.name.as_str();
        let path = real.directory.join(FILE_NAME);
        let text =
            fs::read_to_string(&path).map_err(|error| Error::io(format!("cannot read `{}`", path.display()), error))?;
        let mut root: Table =
            text.parse().map_err(|error: toml::de::Error| Error::invalid(error.message().to_owned()))?;
        let found = root.get_mut("task").and_then(|tasks| tasks.get_mut(name)).and_then(Value::as_table_mut);
        let mut task = std::mem::take(found.ok_or_else(|| Error::invalid(format!("there is no task `{name}`")))?);
        let outputs = redirect(&mut task, &home, change)?;
        task.insert("cwd".into(), written(&change.cwd, false)?.into());
        if let Some(command) = &change.command {
            task.insert("command".into(), command.clone());
        }
        let params = change.task.params.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        task.insert("param".into(), Value::Table(params.collect()));
        if let Some(Value::Array(files)) = task.get_mut("code") {
            for file in files {
                let path = real.directory.join(file.as_str().unwrap_or_default());
                *file = written(&path, false)?.into();
            }
        }
        // Only what is left of the file that a single task needs: no store and no staging of the real home.
        let tasks = Table::from_iter([(name.to_owned(), Value::Table(task))]);
        let table = Table::from_iter([("task".to_owned(), Value::Table(tasks))]);
        let failed = |error| Error::io(format!("cannot make the scratch home `{}`", home.display()), error);
        fs::create_dir_all(&home).map_err(failed)?;
        let text = toml::to_string(&table)
            .map_err(|error| Error::new(ErrorKind::Internal, "cannot write a refrain.toml").because(error))?;
        fs::write(home.join(FILE_NAME), text).map_err(failed)?;
        Home::make(&home)?;
        Ok(Self { home, outputs })
    }
}

/// Leads the outputs into the scratch home and the inputs to their copies.
fn redirect(task: &mut Table, home: &Path, change: &Change<'_>) -> Result<Vec<StagedOutput>> {
    let mut outputs = Vec::new();
    for spec in &change.task.outputs {
        // What would be loaded into a table is compared as the file that it is.
        let file = spec.table.as_ref().and_then(|table| table.file());
        let location = match file {
            Some(name) => name.to_owned(),
            None => spec.location.render(change.partition, &change.task.params)?,
        };
        let real = change.task.base.join(&location);
        let base = real.file_name().unwrap_or_default();
        let directory = home.join("outputs").join(&spec.name);
        let key = if change.partition.key.is_empty() { "all" } else { &change.partition.key };
        let place = directory.join(key).join(base);
        // The partition stands in the path, because two partitions must not share a place.
        let partition = if change.partition.key.is_empty() { "all" } else { "{partition}" };
        let slash = if location.ends_with('/') { "/" } else { "" };
        let path = format!("{}/{partition}/{}{slash}", written(&directory, true)?, written(Path::new(base), true)?);
        if file.is_some() {
            forget_table(task, &spec.name);
        }
        set(task, "out", &spec.name, &[("path", path.into())]);
        outputs.push(StagedOutput { name: spec.name.clone(), place, real });
    }
    for (name, place) in &change.inputs {
        // Every run of the check reads these very files; a copy of a copy would change nothing.
        let entry = [("path", written(place, true)?.into()), ("pin", "verify".into())];
        if let Some(inputs) = task.get_mut("in").and_then(Value::as_table_mut) {
            inputs.insert((*name).to_owned(), Value::Table(Table::new()));
        }
        set(task, "in", name, &entry);
    }
    Ok(outputs)
}

/// Leaves of an output that is a table what is asked of every output.
fn forget_table(task: &mut Table, name: &str) {
    let entry = task.get_mut("out").and_then(|outputs| outputs.get_mut(name)).and_then(Value::as_table_mut);
    if let Some(entry) = entry {
        entry.retain(|key, _| matches!(key, "min_bytes" | "min_files" | "allow_empty" | "check" | "stdout"));
    }
}

/// Sets keys of `task.<section>.<name>`, which may be written as a text alone.
fn set(task: &mut Table, section: &str, name: &str, keys: &[(&str, Value)]) {
    let Some(entry) = task.get_mut(section).and_then(|section| section.get_mut(name)) else { return };
    if !entry.is_table() {
        *entry = Value::Table(Table::new());
    }
    if let Some(table) = entry.as_table_mut() {
        table.extend(keys.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    }
}

/// A path as refrain.toml writes it: `$$` is a dollar sign, and in a template `{{` a brace.
fn written(path: &Path, template: bool) -> Result<String> {
    let text = path.to_str().ok_or_else(|| Error::invalid(format!("`{}` is not valid UTF-8", path.display())))?;
    let text = text.replace('$', "$$");
    Ok(if template { text.replace('{', "{{").replace('}', "}}") } else { text })
}
