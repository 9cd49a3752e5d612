//! One database of a server.

use super::server::Server;
use crate::program::Output;
use crate::start::isolated;
use std::sync::atomic::{AtomicU32, Ordering};

/// A database. It keeps its server alive.
#[derive(Clone, Debug)]
pub struct Database {
    server: Server,
    name: String,
}

impl Database {
    pub(super) fn create(server: &Server) -> Self {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", CREATED.fetch_add(1, Ordering::Relaxed) + 1);
        server.maintenance().psql(&format!("CREATE DATABASE {name}"));
        Self::existing(server, &name)
    }

    pub(super) fn existing(server: &Server, name: &str) -> Self {
        Self { server: server.clone(), name: name.to_owned() }
    }

    /// Its name, unique among the databases that the test process has made.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server it is a database of.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The URL for the superuser `postgres`, by TCP.
    pub fn url(&self) -> String {
        self.url_as("postgres")
    }

    /// The URL for the role `role`, by TCP.
    pub fn url_as(&self, role: &str) -> String {
        self.url_at(self.server.port(), role)
    }

    /// The URL for `role` by way of what listens at `port` on 127.0.0.1: a proxy or a pooler.
    pub fn url_at(&self, port: u16, role: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{port}/{}", self.name)
    }

    /// Runs `sql` with `psql` as the superuser, by the server's socket, and returns the rows: columns separated by `|`,
    /// no heading, no line end after the last. Statements run one by one, as typed: each is committed by itself unless
    /// `sql` says `BEGIN`. Fails the test with what psql said if one fails.
    #[track_caller]
    pub fn psql(&self, sql: &str) -> String {
        self.try_psql(sql).unwrap_or_else(|error| panic!("{sql}\nfailed: {error}"))
    }

    /// Like [`Self::psql`], for statements that may fail; the rows, or what psql said.
    pub fn try_psql(&self, sql: &str) -> Result<String, String> {
        let mut psql = isolated(self.server.version().program("psql"));
        psql.args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", &self.name]);
        psql.arg("-h").arg(self.server.socket_directory()).args(["-p", &self.server.port().to_string(), "-f", "-"]);
        psql.env("PGCLIENTENCODING", "UTF8").env("PGPASSFILE", "/dev/null");
        let output = Output::of(&mut psql, sql.as_bytes());
        if output.code == Some(0) {
            return Ok(output.stdout.strip_suffix('\n').unwrap_or(&output.stdout).to_owned());
        }
        Err(output.stderr)
    }
}
