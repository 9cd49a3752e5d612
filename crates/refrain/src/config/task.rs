//! `[task.NAME]`.

use super::expand::expand;
use super::section::{Section, describe};
use crate::task::{CommandClock, CommandLine, InputSpec, OnChange, OutputSpec, Task, Unset};
use refrain_core::{Calendar, Error, Grain, Keep, PartitionScheme, PinMode, Result, TaskName, nearest};
use refrain_sink::Reader;
use std::cell::Cell;
use std::path::Path;
use toml::Value;

type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads one task. Relative paths start at the home's directory. A variable that is not set is an error of whoever needs
/// the task, and not of the others.
pub(super) fn read(name: &str, mut section: Section, home: &Path, lookup: Lookup<'_>) -> Result<Task> {
    let partitions = partitions(&mut section)?;
    let mut task = Task::new(name, partitions, home)?;
    let unset = Cell::new(false);
    let lookup: Lookup<'_> = &|name| {
        let value = lookup(name);
        unset.set(unset.get() || value.is_none());
        value
    };
    task.command = command(&mut section)?;
    task.code = section.texts("code")?.unwrap_or_default();
    if let Some(cwd) = section.text("cwd")? {
        let cwd = expand(&section.name("cwd"), &cwd, lookup);
        if let Some(cwd) = if_set(cwd, &unset, &mut task)? {
            task.directory = home.join(cwd);
        }
    }
    if let Some(inputs) = section.named("in")? {
        for (input, value) in named(inputs) {
            let spec = read_input(&input, value, &task, lookup);
            let spec = if_set(spec, &unset, &mut task)?;
            task.inputs.extend(spec);
        }
    }
    if let Some(outputs) = section.named("out")? {
        for (output, value) in named(outputs) {
            let spec = read_output(&output, value, &task.partitions, lookup);
            let spec = if_set(spec, &unset, &mut task)?;
            task.outputs.extend(spec);
        }
    }
    if let Some(params) = section.named("param")? {
        for (param, value) in named(params) {
            let text = match value {
                Value::String(text) => text,
                Value::Integer(number) => number.to_string(),
                Value::Boolean(flag) => flag.to_string(),
                other => {
                    return Err(Error::invalid(format!(
                        "`{}` must be a text, a whole number or true or false, not {}",
                        param.path,
                        describe(&other)
                    )));
                }
            };
            task.params.insert(param.name, text);
        }
    }
    task.on_change = on_change(&mut section)?;
    if let Some(mut lease) = section.section("lease")? {
        if let Some(ttl) = lease.duration("ttl")? {
            task.lease_ttl = ttl;
        }
        lease.done()?;
    }
    if let Some(mut keep) = section.section("keep")? {
        task.keep = Keep {
            versions: keep.count("versions")?.unwrap_or(Keep::default().versions),
            grace: keep.duration("grace")?.unwrap_or(Keep::default().grace),
        };
        keep.done()?;
    }
    task.timeout = section.duration("timeout")?;
    if let Some(grace) = section.duration("grace")? {
        task.grace = grace;
    }
    task.inherit_locale = section.flag("inherit_locale")?.unwrap_or(false);
    task.clock = clock(&mut section, &task.partitions)?;
    task.retry = super::retry::read(&mut section)?;
    section.done()?;
    check(task)
}

/// What was read; nothing when it needs a variable that is not set, which the task remembers.
fn if_set<T>(read: Result<T>, unset: &Cell<bool>, task: &mut Task) -> Result<Option<T>> {
    match read {
        Err(Error { message, hint, .. }) if unset.take() => {
            task.unset.get_or_insert(Unset { message, hint });
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// What holds for a task whatever the partition.
fn check(task: Task) -> Result<Task> {
    if task.outputs.is_empty() && task.unset.is_none() {
        return Err(Error::invalid(format!("`task.{}` declares no output", task.name))
            .hint(format!("add a line such as `out.report = \"reports/{{date}}.csv\"` to [task.{}]", task.name)));
    }
    task.demand_one_stdout()?;
    for output in &task.outputs {
        demand_name(output).map_err(|error| error.within(format!("`task.{}`", task.name)))?;
        output
            .location
            .check(&task.partitions)
            .map_err(|error| if output.table.is_some() { super::table::one_for_all(error) } else { error })
            .map_err(|error| error.within(format!("`task.{}.out.{}`", task.name, output.name)))?;
    }
    Ok(task)
}

/// Names of outputs are made as those of tasks are.
fn demand_name(output: &OutputSpec) -> Result<()> {
    let name = &output.name;
    name.parse::<TaskName>().map(drop).map_err(|_| {
        Error::invalid(format!(
            "`{}` cannot name an output: it takes 1 to 128 letters, digits, `_`, `-` and `.`, and starts with a letter, a \
             digit or `_`",
            name.escape_debug()
        ))
    })
}

struct Entry {
    name: String,
    path: String,
}

fn named(section: Section) -> impl Iterator<Item = (Entry, Value)> {
    let prefix = section.name("");
    section.entries().map(move |(name, value)| {
        let path = format!("{prefix}{name}");
        (Entry { name, path }, value)
    })
}

fn partitions(section: &mut Section) -> Result<PartitionScheme> {
    let zone = section.text("timezone")?;
    let partition = section.take("partition");
    let dated = matches!(&partition, Some(Value::String(text)) if text != "none");
    if zone.is_some() && !dated {
        return Err(Error::invalid(format!("`{}` is for partitions that are dates", section.name("timezone")))
            .hint(format!("add `partition = \"daily\"`, or remove `{}`", section.name("timezone"))));
    }
    match partition {
        None => Ok(PartitionScheme::None),
        Some(Value::String(text)) if text == "none" => Ok(PartitionScheme::None),
        Some(Value::String(text)) => {
            let grain: Grain =
                text.parse().map_err(|error: Error| error.within(format!("`{}`", section.name("partition"))))?;
            Ok(PartitionScheme::Dates(Calendar::new(grain, zone.as_deref().unwrap_or("UTC"))?))
        }
        Some(Value::Table(table)) => {
            let mut values = Section::new(section.name("partition"), table);
            let names = values.texts("values")?;
            values.done()?;
            let names = names.ok_or_else(|| {
                Error::invalid(format!("`{}` must be `{{ values = [\"…\"] }}`", section.name("partition")))
            })?;
            PartitionScheme::values(names).map_err(|error| error.within(format!("`{}`", section.name("partition"))))
        }
        Some(other) => Err(section.wrong("partition", "a grain such as \"daily\", or { values = [..] }", &other)),
    }
}

fn command(section: &mut Section) -> Result<Option<CommandLine>> {
    match section.take("command") {
        None => Ok(None),
        Some(Value::String(line)) if !line.trim().is_empty() => Ok(Some(CommandLine::Shell(line))),
        Some(Value::Array(words)) if !words.is_empty() => words
            .into_iter()
            .enumerate()
            .map(|(index, word)| match word {
                Value::String(word) => Ok(word.into()),
                other => Err(section.wrong(&format!("command[{index}]"), "a text", &other)),
            })
            .collect::<Result<Vec<_>>>()
            .map(|words| Some(CommandLine::Argv(words))),
        Some(other) => Err(section.wrong("command", "a text or a list of texts", &other)),
    }
}

fn on_change(section: &mut Section) -> Result<OnChange> {
    match section.text("on_change")?.as_deref() {
        None | Some("keep") => Ok(OnChange::Keep),
        Some("replace") => Ok(OnChange::Replace),
        Some("refuse") => Ok(OnChange::Refuse),
        Some(other) => Err(Error::invalid(format!(
            "`{}` must be \"keep\", \"replace\" or \"refuse\", not \"{other}\"",
            section.name("on_change")
        ))),
    }
}

fn clock(section: &mut Section, partitions: &PartitionScheme) -> Result<CommandClock> {
    let name = section.name("clock");
    match section.text("clock")?.as_deref() {
        None | Some("wall") => Ok(CommandClock::Wall),
        Some("logical") if partitions.calendar().is_some() => Ok(CommandClock::Logical),
        Some("logical") => Err(Error::invalid(format!("`{name} = \"logical\"` is for partitions that are dates"))
            .hint(format!("add `partition = \"daily\"`, or remove `{name}`"))),
        Some(other) => Err(Error::invalid(format!("`{name}` must be \"wall\" or \"logical\", not \"{other}\""))),
    }
}

fn read_input(entry: &Entry, value: Value, reader: &Task, lookup: Lookup<'_>) -> Result<InputSpec> {
    let (location, mode) = match value {
        Value::String(text) => (text, PinMode::default()),
        Value::Table(table) if table.contains_key("task") => {
            let source = super::publication::read(Section::new(&entry.path, table), reader)?;
            return Ok(InputSpec { name: entry.name.clone(), source });
        }
        Value::Table(table) => {
            let mut section = Section::new(&entry.path, table);
            section.refuse_others(&["path", "pin", "task"])?;
            let path = section.text("path")?;
            let missing = missing(&section.name("path"));
            let mode = match section.text("pin")? {
                None => PinMode::default(),
                Some(name) => pin_mode(&section.name("pin"), &name)?,
            };
            section.done()?;
            (path.ok_or(missing)?, mode)
        }
        other => return Err(no_path(entry, &other)),
    };
    let location = expand(&entry.path, &location, lookup)?;
    InputSpec::pinned(&entry.name, &location, mode).map_err(|error| error.within(format!("`{}`", entry.path)))
}

fn pin_mode(key: &str, name: &str) -> Result<PinMode> {
    PinMode::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(|| {
        let names = PinMode::ALL.map(PinMode::name);
        let error = Error::invalid(format!("`{key}` must be one of \"{}\", not \"{name}\"", names.join("\", \"")));
        match nearest(name, names) {
            Some(known) => error.hint(format!("did you mean \"{known}\"?")),
            None => error,
        }
    })
}

fn read_output(entry: &Entry, value: Value, scheme: &PartitionScheme, lookup: Lookup<'_>) -> Result<OutputSpec> {
    let new = |text: &str| {
        let output = OutputSpec::new(&entry.name, &expand(&entry.path, text, lookup)?);
        output.map_err(|error| error.within(format!("`{}`", entry.path)))
    };
    match value {
        Value::String(text) => new(&text),
        Value::Table(table) => {
            let table_declared = super::table::OWN.iter().any(|key| table.contains_key(*key));
            let mut section = Section::new(&entry.path, table);
            let table = if table_declared { Some(super::table::read(&mut section, lookup)?) } else { None };
            let path = if table.is_some() { None } else { section.text("path")? };
            let missing = missing(&section.name("path"));
            let min_rows = section.number("min_rows")?;
            if min_rows.is_some() && table.is_none() {
                return Err(Error::invalid(format!("`{}` is for tables", section.name("min_rows"))).hint(
                    "for a file: min_bytes, or a check such as check = 'test $(wc -l < \"$REFRAIN_CHECK\") -gt 1'",
                ));
            }
            let min_bytes = section.number("min_bytes")?;
            let min_files = section.number("min_files")?;
            let check = section.text("check")?;
            let readers = readers(&mut section)?;
            let allow_empty = section.flag("allow_empty")?.unwrap_or(false);
            let stdout = section.flag("stdout")?.unwrap_or(false);
            section.done()?;
            let output = match table {
                Some(table) => OutputSpec::table(&entry.name, table, scheme)?,
                None => new(&path.ok_or(missing)?)?,
            };
            Ok(OutputSpec { stdout, allow_empty, min_bytes, min_files, min_rows, check, readers, ..output })
        }
        other => Err(no_path(entry, &other)),
    }
}

fn readers(section: &mut Section) -> Result<Vec<Reader>> {
    let names = section.texts("readers")?.unwrap_or_default();
    let known = |name: &String| Reader::ALL.into_iter().find(|reader| reader.name() == name);
    let read = |name: String| {
        known(&name).ok_or_else(|| {
            let names = Reader::ALL.map(Reader::name);
            let error = Error::invalid(format!(
                "`{}` takes \"{}\", not \"{name}\"",
                section.name("readers"),
                names.join("\" and \"")
            ));
            match nearest(&name, names) {
                Some(known) => error.hint(format!("did you mean \"{known}\"?")),
                None => error,
            }
        })
    };
    names.into_iter().map(read).collect()
}

fn no_path(entry: &Entry, found: &Value) -> Error {
    let error =
        Error::invalid(format!("`{}` must be a path, or {{ path = \"…\" }}, not {}", entry.path, describe(found)));
    match entry.name.as_str() {
        "min_bytes" | "min_files" | "allow_empty" | "stdout" => {
            error.hint(format!("give the output a name: out.NAME = {{ path = \"…\", {} = … }}", entry.name))
        }
        _ => error,
    }
}

fn missing(key: &str) -> Error {
    Error::invalid(format!("`{key}` is missing"))
}
