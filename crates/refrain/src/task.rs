//! What a task is: declared inputs and outputs, and how it is run.

use crate::table::{SourceSpec, TableSpec};
use refrain_core::{
    Error, Keep, PartitionScheme, PinMode, Result, RetryPolicy, TaskName, Template, names_password, without_password,
};
use refrain_sink::Reader;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A named unit of work with declared inputs and outputs.
///
/// # What counts as a change
/// A publication bears a fingerprint of what it was made from. `on_change` and
/// [`Repeat::IfChanged`](crate::Repeat::IfChanged) compare it with that of the call: the command's text, the content of the files
/// in `code`, the parameters, the versions of the inputs, the calendar, `clock`, and the places of the outputs (of
/// tables also how they are published).
///
/// Of a task without a command, whose work the calling program does, nothing of that program enters by itself: another
/// release of it is no change. Name in `code` files that change with it (its sources, its executable), or add its version
/// to `params`.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its name.
    pub name: TaskName,
    /// What one repetition of it is for.
    pub partitions: PartitionScheme,
    /// What runs it; nothing for a task whose work is done by the calling program.
    pub command: Option<CommandLine>,
    /// Files whose content is part of what the output was made from; relative paths start at `base`.
    pub code: Vec<String>,
    /// The directory that relative paths start from.
    pub base: PathBuf,
    /// The directory that the command runs in.
    pub directory: PathBuf,
    /// What it reads.
    pub inputs: Vec<InputSpec>,
    /// What it publishes; the first is the anchor.
    pub outputs: Vec<OutputSpec>,
    /// Parameters, by name.
    pub params: BTreeMap<String, String>,
    /// What a repeated call does when something changed since the publication.
    pub on_change: OnChange,
    /// How long a lease lasts without renewal.
    pub lease_ttl: Duration,
    /// How many replaced versions are kept.
    pub keep: Keep,
    /// Limit of the command's time.
    pub timeout: Option<Duration>,
    /// Time between TERM and KILL.
    pub grace: Duration,
    /// Which failures are tried again, how often and after which pauses.
    pub retry: RetryPolicy,
    /// Whether the command keeps the caller's time zone and locale.
    pub inherit_locale: bool,
    /// What the command's clock shows.
    pub clock: CommandClock,
    /// What it needs of the environment and does not find there; what is declared with it is left out.
    pub unset: Option<Unset>,
}

/// A variable of the environment that is not set.
#[derive(Clone, Debug)]
pub struct Unset {
    /// Which variable, and which key of the file needs it.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandLine {
    /// For the shell.
    Shell(String),
    /// A program and its arguments, run as they stand.
    Argv(Vec<OsString>),
}

/// A declared input.
#[derive(Clone, Debug)]
pub struct InputSpec {
    /// Its name.
    pub name: String,
    /// Where its content comes from.
    pub source: InputSource,
}

/// Where the content of an input comes from.
#[derive(Clone, Debug)]
pub enum InputSource {
    /// A file, a directory, an object or a prefix.
    Path {
        /// Where it is.
        location: Template,
        /// How it is held still.
        mode: PinMode,
    },
    /// What a task of this home published.
    Publication(PublicationRef),
}

/// Names a publication: a task, one of its outputs, one of its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicationRef {
    /// The task that publishes it.
    pub task: TaskName,
    /// The output; nothing where the task has one.
    pub output: Option<String>,
    /// Which publication of the task, seen from the partition that reads it.
    pub which: Which,
}

/// Which publication of a task, seen from the partition that reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// That of the same interval or name; of the longer interval that holds it, of the shorter ones that make it up.
    #[default]
    Same,
    /// That of the interval before.
    Previous {
        /// The key of the first interval, which has nothing to read.
        start: Option<String>,
    },
    /// That of this partition.
    Named(Template),
    /// What the run is about to replace: the task's own publication of the same partition.
    Replaced,
}

impl fmt::Display for PublicationRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{ task = {:?}", self.task.as_str())?;
        if let Some(output) = &self.output {
            write!(f, ", output = {output:?}")?;
        }
        match &self.which {
            Which::Same => {}
            Which::Previous { start } => {
                f.write_str(", partition = \"previous\"")?;
                if let Some(start) = start {
                    write!(f, ", start = {start:?}")?;
                }
            }
            Which::Named(template) => write!(f, ", partition = {:?}", template.as_str())?,
            Which::Replaced => f.write_str(", version = \"previous\"")?,
        }
        f.write_str(" }")
    }
}

impl InputSpec {
    /// A file, a directory, an object or a prefix that each run keeps a copy of.
    ///
    /// # Errors
    /// `invalid`, without showing the text, when it names a password and is no URL.
    pub fn path(name: &str, location: &str) -> Result<Self> {
        Self::pinned(name, location, PinMode::default())
    }

    /// The same, held still in this way.
    ///
    /// # Errors
    /// As [`path`](Self::path).
    pub fn pinned(name: &str, location: &str, mode: PinMode) -> Result<Self> {
        refuse_password("input", name, location)?;
        let location = path_of("input", name, location)?.parse()?;
        Ok(Self { name: name.to_owned(), source: InputSource::Path { location, mode } })
    }
}

/// The path that a `file://` URL names; any other location as it is, unless it is none.
fn path_of<'l>(what: &str, name: &str, location: &'l str) -> Result<&'l str> {
    if location.is_empty() {
        return Err(Error::invalid(format!("the {what} `{name}` names no place: its text is empty"))
            .hint("write a path or a URL; a trailing `/` means a directory"));
    }
    let Some(path) = location.strip_prefix("file://") else { return Ok(location) };
    // A `%` between braces is that of a date; any other may be meant as an escape, or as itself.
    let is_escaped = path.split('}').filter_map(|part| part.split('{').next()).any(|text| text.contains('%'));
    if path.starts_with('/') && !is_escaped {
        return Ok(path);
    }
    let why = if is_escaped { "escapes (`%`) are not read" } else { "it names a host, or no absolute path" };
    Err(Error::invalid(format!("the {what} `{name}` is `{}`: {why}", without_password(location)))
        .hint("write the path as it is, without `file://`"))
}

/// A path is shown everywhere, and one that is a connection string would show its password.
fn refuse_password(what: &str, name: &str, location: &str) -> Result<()> {
    if !names_password(location) {
        return Ok(());
    }
    Err(Error::invalid(format!("the {what} `{name}` is no path: it is a connection string of names and values")).hint(
        "a table is an output with `to`: out.NAME = { to = \"postgresql://…\", table = \"…\" } in refrain.toml, or --out \
         'postgresql://…?table=…'",
    ))
}

/// A declared output.
#[derive(Clone, Debug)]
pub struct OutputSpec {
    /// Its name.
    pub name: String,
    /// Where it is published.
    pub location: Template,
    /// Whether the command's standard output is this output.
    pub stdout: bool,
    /// Whether an empty output may be published.
    pub allow_empty: bool,
    /// Fewest bytes.
    pub min_bytes: Option<u64>,
    /// Fewest files.
    pub min_files: Option<u64>,
    /// Fewest rows, for a sink that counts them.
    pub min_rows: Option<u64>,
    /// A shell command that must succeed; `REFRAIN_CHECK` is the staged output.
    pub check: Option<String>,
    /// For whom the versions of a prefix are prepared.
    pub readers: Vec<Reader>,
    /// The table that it is, if it is one.
    pub table: Option<Box<TableSpec>>,
}

impl OutputSpec {
    /// An output without guards.
    ///
    /// # Errors
    /// `invalid`, without showing the text, when it names a password and is no URL.
    pub fn new(name: &str, location: &str) -> Result<Self> {
        refuse_password("output", name, location)?;
        Ok(Self {
            name: name.to_owned(),
            location: path_of("output", name, location)?.parse()?,
            stdout: false,
            allow_empty: false,
            min_bytes: None,
            min_files: None,
            min_rows: None,
            check: None,
            readers: Vec::new(),
            table: None,
        })
    }

    /// A table of a task with these partitions.
    pub fn table(name: &str, table: TableSpec, scheme: &PartitionScheme) -> Result<Self> {
        let location = table.location(scheme)?;
        Ok(Self { location, table: Some(Box::new(table)), ..Self::new(name, "table")? })
    }
}

/// What a repeated call does when the command, the code, the parameters or the inputs are not those of the
/// publication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnChange {
    /// Says so and keeps the publication.
    #[default]
    Keep,
    /// Runs the task and replaces it.
    Replace,
    /// Fails.
    Refuse,
}

/// What a command's clock shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandClock {
    /// The time of the host.
    #[default]
    Wall,
    /// Each program of the command starts at the first instant of the interval. Only for partitions that are dates, and
    /// only where libfaketime is installed.
    Logical,
}

impl Task {
    /// How long a lease lasts when nothing else is said.
    pub const DEFAULT_LEASE_TTL: Duration = Duration::from_mins(1);

    /// A task without inputs, outputs and command, whose relative paths start at `base`.
    pub fn new(name: &str, partitions: PartitionScheme, base: impl Into<PathBuf>) -> Result<Self> {
        let base = base.into();
        Ok(Self {
            name: name.parse()?,
            partitions,
            command: None,
            code: Vec::new(),
            directory: base.clone(),
            base,
            inputs: Vec::new(),
            outputs: Vec::new(),
            params: BTreeMap::new(),
            on_change: OnChange::default(),
            lease_ttl: Self::DEFAULT_LEASE_TTL,
            keep: Keep::default(),
            timeout: None,
            grace: crate::process::DEFAULT_GRACE,
            retry: RetryPolicy::default(),
            inherit_locale: false,
            clock: CommandClock::default(),
            unset: None,
        })
    }

    /// Makes sure that every variable of the environment is set that the task needs.
    ///
    /// # Errors
    /// `invalid`, with the key that needs it.
    pub(crate) fn demand_variables(&self) -> Result<()> {
        let Some(Unset { message, hint }) = &self.unset else { return Ok(()) };
        let mut error = Error::invalid(message);
        error.hint.clone_from(hint);
        Err(error)
    }

    /// Makes sure that what the command prints can become an output.
    ///
    /// # Errors
    /// `invalid` when it would be a directory, or two outputs.
    pub(crate) fn demand_one_stdout(&self) -> Result<()> {
        let mut printed = self.outputs.iter().filter(|output| output.stdout);
        let Some(one) = printed.next() else { return Ok(()) };
        if let Some(other) = printed.next() {
            return Err(Error::invalid(format!(
                "the outputs `{}` and `{}` of `{}` would both be the command's standard output",
                one.name, other.name, self.name
            ))
            .hint("one output at most is; let the command write the other to its $REFRAIN_OUT_<NAME>"));
        }
        if one.table.is_none() && one.location.as_str().ends_with('/') {
            return Err(Error::invalid(format!(
                "the output `{}` of `{}` names a directory; the standard output is one file",
                one.name, self.name
            ))
            .hint("name the file in it"));
        }
        Ok(())
    }

    /// Whether each partition reads what the one before it published, so that a range must be run in order of time, one
    /// partition after the other.
    pub fn runs_in_order(&self) -> bool {
        self.inputs.iter().any(|input| match &input.source {
            InputSource::Path { .. } => false,
            InputSource::Publication(read) => read.task == self.name && matches!(read.which, Which::Previous { .. }),
        })
    }

    /// Whether SQL makes every output, so that no command is needed.
    pub fn is_all_sql(&self) -> bool {
        let sql = |output: &OutputSpec| {
            output.table.as_ref().is_some_and(|table| matches!(table.source, SourceSpec::Sql { .. }))
        };
        !self.outputs.is_empty() && self.outputs.iter().all(sql)
    }

    /// The same task with one more output: a trailing `/` makes it a directory.
    pub fn output(mut self, name: &str, location: &str) -> Result<Self> {
        self.outputs.push(OutputSpec::new(name, location)?);
        Ok(self)
    }

    /// The same task with one more input.
    pub fn input(mut self, name: &str, location: &str) -> Result<Self> {
        self.inputs.push(InputSpec::path(name, location)?);
        Ok(self)
    }
}
