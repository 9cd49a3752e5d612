//! The pooler PgBouncer in transaction mode.

use super::database::Database;
use super::run_as::{give, spawn_server};
use crate::freeze::wait_for;
use crate::port::free_port;
use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Child;
use tempfile::TempDir;

/// How often it is started anew when its port was taken meanwhile.
const MOST_STARTS: usize = 20;

/// A pooler in front of a database. It ends when it is dropped, or when the test process ends in whatever way.
#[derive(Debug)]
pub struct PgBouncer {
    database: Database,
    port: u16,
    process: Child,
    _directory: TempDir,
}

impl PgBouncer {
    /// Starts it in transaction mode: the transactions of one client may run on any of the pool's connections.
    pub fn start(database: &Database) -> Self {
        Self::with(database, &[])
    }

    /// Starts it with `settings` of its own, e.g. `default_pool_size`.
    pub fn with(database: &Database, settings: &[(&str, &str)]) -> Self {
        let directory =
            tempfile::Builder::new().prefix("refrain-pgbouncer-").tempdir_in("/tmp").expect("make a directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("open the pooler's directory");
        give(directory.path());
        let users =
            database.psql(r#"SELECT '"' || pg_catalog.replace(rolname, '"', '""') || '" ""' FROM pg_catalog.pg_roles"#);
        write(&directory.path().join("users"), &(users + "\n"));
        for _ in 0..MOST_STARTS {
            let port = free_port();
            if let Some(process) =
                start(directory.path(), &configuration(database, directory.path(), port, settings), port)
            {
                return Self { database: database.clone(), port, process, _directory: directory };
            }
        }
        panic!("PgBouncer found no port of its own")
    }

    /// The URL of the database by way of the pooler, for `postgres`.
    pub fn url(&self) -> String {
        self.url_as("postgres")
    }

    /// The URL of the database by way of the pooler, for a role that existed when the pooler was started.
    pub fn url_as(&self, role: &str) -> String {
        self.database.url_at(self.port, role)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // One that has ended by itself need not be killed.
        let _killed_or_gone = self.process.kill();
        let _ended = self.process.wait();
    }
}

fn configuration(database: &Database, directory: &Path, port: u16, settings: &[(&str, &str)]) -> String {
    let server = database.server();
    let own: Vec<_> = settings.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
    format!(
        "[databases]\n{name} = host={socket} port={server_port}\n\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = \
         {port}\nunix_socket_dir =\npool_mode = transaction\nauth_type = trust\nauth_file = {directory}/users\nlogfile \
         = {directory}/log\n{own}",
        own = own.concat(),
        name = database.name(),
        socket = server.socket_directory().display(),
        server_port = server.port(),
        directory = directory.display(),
    )
}

/// Starts the pooler and waits until it listens; `None` if another process has taken its port.
fn start(directory: &Path, configuration: &str, port: u16) -> Option<Child> {
    let path = directory.join("pgbouncer.ini");
    write(&path, configuration);
    let program = Path::new("/usr/sbin/pgbouncer");
    assert!(program.is_file(), "{} is missing; `cargo xtask test` installs it", program.display());
    let output = directory.join("output");
    let mut process = spawn_server(program, "KILL", |command| {
        let output = File::create(&output).expect("make the file of the pooler's messages");
        command.arg("-q").arg(&path).stdout(output.try_clone().expect("share a file")).stderr(output);
    });
    let mut ended = None;
    wait_for("PgBouncer listens", || {
        ended = process.try_wait().expect("look at PgBouncer");
        ended.is_some() || TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    if ended.is_none() {
        return Some(process);
    }
    let said = fs::read_to_string(directory.join("log")).unwrap_or_default()
        + &fs::read_to_string(&output).unwrap_or_default();
    assert!(said.contains("Address already in use"), "PgBouncer did not start:\n{said}");
    None
}

/// Writes a file that the pooler reads, whatever the umask of whoever runs the tests.
fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    give(path);
}
