//! Tables and states in PostgreSQL, beside `psql` and `pgbench` at the same server.

pub(super) mod load;
pub(super) mod merge;
pub(super) mod publish;
pub(super) mod store;
pub(super) mod swap;

use super::directory::step;
use super::space::{Space, program, write};
use crate::command::Outcome;
use refrain_testkit::postgres::{Database, Server, Version};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A server as it is installed, but that does nothing of its own accord while something is measured: each contender begins
/// after a checkpoint, and tables are vacuumed where that matters.
const SETTINGS: [(&str, &str); 3] = [("max_wal_size", "16GB"), ("checkpoint_timeout", "1h"), ("autovacuum", "off")];

/// A database of a durable server that ends with the value, and a home whose tasks publish there.
pub(super) struct Place<'s> {
    space: &'s Space,
    database: Database,
    home: PathBuf,
    /// Numbers the scripts of psql.
    report: PathBuf,
}

impl<'s> Place<'s> {
    /// Starts a server, runs `schema` in it, and makes a home of the name with `toml`, where `URL` is the database.
    pub(super) fn new(space: &'s Space, name: &str, schema: &str, toml: &str) -> Outcome<Self> {
        let server = Server::durable(Version::V15, &SETTINGS);
        Self::beside(space, server.database(), name, schema, toml)
    }

    /// The same in a database of a server that runs.
    pub(super) fn beside(space: &'s Space, database: Database, name: &str, schema: &str, toml: &str) -> Outcome<Self> {
        database.try_psql(schema)?;
        let home = space.home(name)?;
        write(&home.join("refrain.toml"), toml.replace("URL", &database.url()))?;
        let report = space.join(format!("{name}-report.json"));
        Ok(Self { space, database, home, report })
    }

    /// The directory in which the commands start.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// Runs statements that are not measured.
    pub(super) fn sql(&self, sql: &str) -> Outcome<String> {
        self.database.try_psql(sql).map_err(|error| format!("{sql}\n{error}"))
    }

    /// `refrain run` with these arguments and a report.
    pub(super) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.space.refrain(&self.home, ["run"]);
        command.args(args).arg("--report").arg(&self.report);
        without_defaults(command)
    }

    /// How long a step of the last `run` took.
    pub(super) fn step(&self, name: &str) -> Outcome<Duration> {
        let report = fs::read_to_string(&self.report);
        step(&report.map_err(|error| format!("cannot read {}: {error}", self.report.display()))?, name)
    }

    /// One `psql` that runs `script`, as a person would have it: the file is read, and the first error ends it.
    pub(super) fn psql(&self, script: &str) -> Outcome<Command> {
        let file = self.home.join("script.sql");
        write(&file, script)?;
        let mut command =
            program(Version::V15.programs().join("psql"), &self.home, ["-X", "-q", "-v", "ON_ERROR_STOP=1"]);
        command.arg("-f").arg(file).arg(self.database.url());
        Ok(without_defaults(command))
    }

    /// How long one `psql` takes for the script.
    pub(super) fn time_psql(&self, script: &str) -> Outcome<Duration> {
        self.space.time(self.psql(script)?)
    }

    /// Puts everything on the disk, here and at the server.
    pub(super) fn settle(&self) -> Outcome {
        self.sql("CHECKPOINT")?;
        self.space.settle()
    }
}

/// Takes the defaults of whoever measures away: `PGHOST` and its like.
fn without_defaults(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(&name);
        }
    }
    command
}
