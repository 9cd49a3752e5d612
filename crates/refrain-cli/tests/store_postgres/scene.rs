//! A database, a volume that several homes publish to, and the homes.

use crate::hosts::Host;
use refrain_testkit::postgres::{Database, Server, Version};
use refrain_testkit::program::{Home, Output, Running};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// What the hosts share: a database, and a directory whose heads lie beside the data.
pub(crate) struct Shared {
    pub(crate) database: Database,
    directory: TempDir,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self::of(Server::shared(Version::V15).database())
    }

    pub(crate) fn of(database: Database) -> Self {
        Self { database, directory: tempfile::Builder::new().prefix("refrain-shared-").tempdir_in("/dev/shm").unwrap() }
    }

    /// The store, by the server's socket: that is a file, which every network can reach.
    pub(crate) fn url(&self) -> String {
        let server = self.database.server();
        let socket = server.socket_directory().display().to_string().replace('/', "%2F");
        format!("postgresql://postgres@/{}?host={socket}&port={}", self.database.name(), server.port())
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    pub(crate) fn read(&self, relative: &str) -> String {
        fs::read_to_string(self.path(relative)).unwrap_or_else(|error| panic!("cannot read {relative}: {error}"))
    }

    /// How often a command of the homes ran.
    pub(crate) fn executions(&self) -> usize {
        fs::read_to_string(self.path("executions")).unwrap_or_default().lines().count()
    }

    /// A home whose task `day` notes that it runs, does `work`, and publishes a file for its date to the volume.
    pub(crate) fn home(&self, url: &str, ttl: &str, work: &str) -> Home {
        let home = Home::temp(env!("CARGO_BIN_EXE_refrain"));
        self.configure(&home, &format!("store = \"{url}\""), ttl, work);
        home
    }

    pub(crate) fn configure(&self, home: &Home, store: &str, ttl: &str, work: &str) {
        let volume = self.directory.path().display();
        home.config(&format!(
            "{store}\nstaging = [\"{volume}/staging\"]\n[task.day]\npartition = \"daily\"\ncommand = '''\necho \
             $REFRAIN_DATE $REFRAIN_TOKEN >> {volume}/executions\n{work}\necho $REFRAIN_DATE > $REFRAIN_OUT\n'''\n\
             out.file = \"{volume}/out/{{date}}.txt\"\nlease = {{ ttl = \"{ttl}\" }}\n"
        ));
    }

    /// The one value that this SQL selects.
    pub(crate) fn sql(&self, sql: &str) -> String {
        self.database.psql(sql)
    }

    /// Nothing is left of what has ended: no lease, no session, no lock.
    #[track_caller]
    pub(crate) fn has_no_leftover(&self) {
        assert_eq!(self.sql("SELECT count(*) FROM refrain.key WHERE leased"), "0", "a lease was left");
        refrain_testkit::freeze::wait_for("the sessions have ended", || self.sql(&sessions(self)) == "0");
    }
}

/// How many sessions the store has open.
pub(crate) fn sessions(shared: &Shared) -> String {
    format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND application_name LIKE 'refrain store%'",
        shared.database.name()
    )
}

/// Runs a command of a home on a host.
pub(crate) fn run_on(host: &Host, home: &Home, arguments: &[&str]) -> Output {
    host.run(&home.refrain().command(arguments))
}

/// Starts a command of a home on a host.
pub(crate) fn spawn_on(host: &Host, home: &Home, arguments: &[&str]) -> Running {
    host.spawn(&home.refrain().command(arguments))
}
