//! `refrain.toml`: tasks, store, staging directories of other filesystems.
//!
//! The file names commands, so it is read only from where the user said, never from where data lies.

mod expand;
mod objects;
mod publication;
mod retry;
mod section;
mod table;
mod task;

use crate::task::{InputSource, Task};
use expand::expand;
pub use objects::Objects;
use refrain_core::{Error, Result, TaskName, nearest};
pub use refrain_object::{Address, Settings};
use section::{Section, describe};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};
pub use table::table_from_url;
use toml::Table;

/// The name of the file.
pub const FILE_NAME: &str = "refrain.toml";

/// What `refrain init` writes: a file whose every line is a comment.
pub const TEMPLATE: &str = include_str!("config/template.toml");

/// The file's content, checked.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The state store, as the file names it.
    pub store: Option<String>,
    /// Staging directories of filesystems other than the home's.
    pub staging: Vec<PathBuf>,
    /// How buckets are reached.
    pub objects: Objects,
    /// The tasks, in the file's order.
    pub tasks: Vec<Task>,
    /// Digests of the tasks as they are written, before anything is filled in.
    pub(crate) written: BTreeMap<TaskName, String>,
    /// The full names of the keys that the file has.
    stated: BTreeSet<String>,
}

impl Config {
    /// Reads the file of a home; a missing file is an empty configuration.
    ///
    /// # Errors
    /// `invalid` with the place and the nearest known key; `internal` when the file cannot be read.
    pub fn load(home: &Path) -> Result<Self> {
        let path = home.join(FILE_NAME);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == NotFound => return Ok(Self::default()),
            Err(error) => return Err(Error::io(format!("cannot read `{}`", path.display()), error)),
        };
        let text =
            str::from_utf8(&bytes).map_err(|error| not_text(&bytes, &error).within(format!("`{}`", path.display())))?;
        // The environment is read only for the names that the file asks for.
        #[allow(clippy::disallowed_methods, reason = "the one place that fills in ${NAME}")]
        let lookup = |name: &str| std::env::var(name).ok();
        Self::parse(text, home, &lookup).map_err(|error| error.within(format!("`{}`", path.display())))
    }

    /// Reads a configuration whose relative paths start at `home`. An empty variable counts as one that is not set.
    pub fn parse(text: &str, home: &Path, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let table: Table = text.parse().map_err(|error| malformed(text, &error))?;
        let lookup: &dyn Fn(&str) -> Option<String> = &|name| lookup(name).filter(|value| !value.is_empty());
        let mut stated = BTreeSet::new();
        note_keys("", &table, &mut stated);
        let mut root = Section::new("", table);
        let store = root.text("store")?.map(|text| expand("store", &text, lookup)).transpose()?;
        let staging = root
            .texts("staging")?
            .unwrap_or_default()
            .iter()
            .map(|text| Ok(home.join(expand("staging", text, lookup)?)))
            .collect::<Result<Vec<_>>>()?;
        let objects = Objects::read(root.section("objects")?, lookup)?;
        let mut tasks = Vec::new();
        let mut written = BTreeMap::new();
        if let Some(section) = root.section("task")? {
            for (name, value) in section.entries() {
                let toml::Value::Table(table) = value else {
                    return Err(Error::invalid(format!("`task.{name}` must be a table, not {}", describe(&value)))
                        .hint(format!("begin a task with a line [task.{name}]")));
                };
                let digest = blake3::hash(table.to_string().as_bytes()).to_hex().to_string();
                let task = task::read(&name, Section::new(format!("task.{name}"), table), home, lookup)?;
                written.insert(task.name.clone(), digest);
                tasks.push(task);
            }
        }
        root.done()?;
        crate::lineage::check(&tasks)?;
        let config = Self { store, staging, objects, tasks, written, stated };
        // Where a variable is not set, not all that is used is known.
        if config.tasks.iter().all(|task| task.unset.is_none()) {
            config.objects.refuse_misspelled(&config.buckets())?;
        }
        Ok(config)
    }

    /// The buckets that outputs, inputs and the store name.
    pub fn buckets(&self) -> Vec<Address> {
        let outputs = self.tasks.iter().flat_map(|task| &task.outputs).map(|output| output.location.as_str());
        let inputs = self.tasks.iter().flat_map(|task| &task.inputs).filter_map(|input| match &input.source {
            InputSource::Path { location, .. } => Some(location.as_str()),
            InputSource::Publication(_) => None,
        });
        let all: BTreeSet<_> =
            outputs.chain(inputs).chain(self.store.as_deref()).filter_map(Address::bucket_of).collect();
        all.into_iter().collect()
    }

    /// Whether the file has the key of this full name, such as `task.NAME.keep.versions`.
    pub fn states(&self, key: &str) -> bool {
        self.stated.contains(key)
    }

    /// The declared task of this name, if there is one.
    pub fn declared(&self, name: &TaskName) -> Option<&Task> {
        self.tasks.iter().find(|task| task.name == *name)
    }

    /// The task of this name, which can be run.
    ///
    /// # Errors
    /// `invalid` with the nearest known name, of the task or of one that it reads, or with the variable of the
    /// environment that one of them needs.
    pub fn task(&self, name: &str) -> Result<&Task> {
        if let Some(task) = self.tasks.iter().find(|task| task.name.as_str() == name) {
            let fit = task.demand_variables().and_then(|()| crate::lineage::check_reader(task, &self.tasks));
            return fit.map(|()| task).map_err(|error| error.within(format!("`{FILE_NAME}`")));
        }
        let names = || self.tasks.iter().map(|task| task.name.as_str());
        let error = Error::invalid(format!("there is no task `{name}` in {FILE_NAME}"));
        Err(match nearest(name, names()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None if self.tasks.is_empty() => error.hint(format!(
                "add [task.{name}] to {FILE_NAME}, or give outputs and a command: \
                 refrain run {name} --out FILE -- COMMAND"
            )),
            None => error.hint(format!("known tasks: {}", names().collect::<Vec<_>>().join(", "))),
        })
    }
}

/// Notes the full names of the keys of a table, and of those in it.
fn note_keys(path: &str, table: &Table, stated: &mut BTreeSet<String>) {
    for (key, value) in table {
        let name = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        if let toml::Value::Table(inner) = value {
            note_keys(&name, inner, stated);
        }
        stated.insert(name);
    }
}

/// Whether a location of the command line is the URL of a database, in which a table is published.
pub fn is_database_url(location: &str) -> bool {
    refrain_postgres::Link::is_one(location)
}

/// Where the file is not UTF-8.
fn not_text(bytes: &[u8], error: &std::str::Utf8Error) -> Error {
    let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
    let line = before.split(|byte| *byte == b'\n').count();
    Error::invalid(format!("line {line}: the file is not valid UTF-8")).hint("save it as UTF-8")
}

/// Where the file is malformed. The line itself is not quoted: it may carry a secret.
fn malformed(text: &str, error: &toml::de::Error) -> Error {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Error::invalid(format!("line {line}, column {column}: {}", error.message()))
}

#[cfg(test)]
mod tests {
    use super::{Config, TEMPLATE};
    use std::path::Path;

    #[test]
    fn the_lines_of_the_template_are_a_configuration_once_they_are_no_comments() {
        let mut lines = TEMPLATE.lines();
        assert!(lines.clone().all(|line| line.starts_with('#')), "{TEMPLATE}");
        let keys = lines.by_ref().filter(|line| !line.starts_with("##"));
        let uncommented = keys.map(|line| line.trim_start_matches('#').trim_start()).collect::<Vec<_>>().join("\n");
        let lookup = |name: &str| (name == "WAREHOUSE").then(|| "postgresql://db.example.com/warehouse".to_owned());
        let config = Config::parse(&uncommented, Path::new("/home"), &lookup).unwrap();
        let names: Vec<_> = config.tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(names, ["daily_delays", "carriers", "hubs"]);
        assert_eq!((config.tasks[0].inputs.len(), config.tasks[0].outputs.len()), (5, 5));
        for key in ["to", "clock", "retry", "retry_on", "pin", "code", "cwd", "inherit_locale", "on_change", "timeout"]
        {
            assert!(uncommented.contains(&format!("{key} = ")), "`{key}` is shown nowhere");
        }
    }
}
