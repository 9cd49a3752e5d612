//! One server process.

use super::cluster::Cluster;
use super::database::Database;
use super::run_as::{as_server_user, spawn_server};
use super::version::Version;
use crate::freeze::{self, wait_for};
use crate::port::free_port;
use crate::tool::demand;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// How often a server is started anew when its port was taken or its dead predecessor is still seen.
const MOST_STARTS: usize = 20;

/// A server that ends when the last of its handles (also those in its databases) is dropped, or when the test process
/// ends in whatever way. Everybody may connect to it as `postgres`, by TCP on 127.0.0.1 and by its socket.
#[derive(Clone, Debug)]
pub struct Server(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    version: Version,
    cluster: Cluster,
    port: u16,
    process: Mutex<Option<Child>>,
}

impl Server {
    /// A server of its own, for a test that kills it or changes what is common to its databases.
    pub fn start(version: Version) -> Self {
        Self::with(version, &[], &[])
    }

    /// A server with `settings` beyond the common ones and with `access` before the lines of `pg_hba.conf` that let
    /// everybody in.
    ///
    /// A file that a setting such as `ssl_key_file` names by an absolute path is copied to where the server's user can
    /// read it. [`Database::psql`] connects as `postgres` by the socket, which `access` should leave open.
    pub fn with(version: Version, settings: &[(&str, &str)], access: &[&str]) -> Self {
        let cluster = Cluster::fresh(version);
        cluster.configure(settings);
        cluster.restrict(access);
        Self::launch(version, cluster)
    }

    /// A server as it is installed, with `settings` beyond the defaults: it writes to its disk what it acknowledges. For
    /// measuring.
    pub fn durable(version: Version, settings: &[(&str, &str)]) -> Self {
        let cluster = Cluster::durable(version);
        cluster.configure(settings);
        cluster.restrict(&[]);
        Self::launch(version, cluster)
    }

    /// The server that the tests of this process share, which no test kills.
    pub fn shared(version: Version) -> &'static Self {
        static SHARED: [OnceLock<Server>; Version::ALL.len()] = [OnceLock::new(), OnceLock::new()];
        SHARED[version.index()].get_or_init(|| Self::start(version))
    }

    /// A standby that follows this server and answers queries, with `settings` of its own (e.g.
    /// `recovery_min_apply_delay`).
    pub fn standby(&self, settings: &[(&str, &str)]) -> Self {
        let cluster = Cluster::empty();
        let mut backup = as_server_user(&self.version().program("pg_basebackup"));
        backup.arg("--host").arg(self.socket_directory()).args(["--port", &self.port().to_string()]);
        backup.args(["--username=postgres", "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
        backup.arg("--pgdata").arg(cluster.data());
        demand(backup);
        cluster.configure(settings);
        Self::launch(self.version(), cluster)
    }

    /// The version it runs.
    pub fn version(&self) -> Version {
        self.0.version
    }

    /// The port on 127.0.0.1, which a restart keeps.
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// The directory of the socket, as `host` of a connection.
    pub fn socket_directory(&self) -> &Path {
        self.0.cluster.path()
    }

    /// The file of the server's messages, which holds every statement it was sent.
    pub fn log(&self) -> PathBuf {
        self.0.cluster.log()
    }

    /// The server's main process, which must run.
    pub fn pid(&self) -> u32 {
        self.process().as_ref().expect("the server runs").id()
    }

    /// A new, empty database.
    pub fn database(&self) -> Database {
        Database::create(self)
    }

    /// The database `postgres`, for what concerns the whole server.
    pub fn maintenance(&self) -> Database {
        Database::existing(self, "postgres")
    }

    /// Kills the server's main process and all its others (SIGKILL) and returns when they are gone.
    pub fn kill(&self) {
        let Some(mut process) = self.process().take() else { return };
        // Stopped first, for a server that sees one of its processes killed starts others.
        let members = freeze::stop_tree(process.id());
        for &member in &members {
            signal(member, Signal::KILL);
        }
        process.wait().expect("wait for a killed server");
        wait_for("all processes of a killed server are gone", || {
            !members.iter().any(|&member| freeze::is_alive(member))
        });
        self.0.cluster.clear();
    }

    /// Starts the server again on its port and its data; one that runs is shut down first, without waiting for its
    /// clients. Returns when it accepts connections.
    pub fn restart(&self) {
        let mut process = self.process();
        if let Some(mut running) = process.take() {
            signal(running.id(), Signal::INT);
            running.wait().expect("wait for a server that shuts down");
        }
        let started = (0..MOST_STARTS).find_map(|_| self.0.cluster.start(self.version(), self.port()).ok());
        *process = Some(started.unwrap_or_else(|| self.0.cluster.refused()));
    }

    fn launch(version: Version, cluster: Cluster) -> Self {
        let started = (0..MOST_STARTS).find_map(|_| {
            let port = free_port();
            cluster.start(version, port).ok().map(|process| (port, process))
        });
        let (port, process) = started.unwrap_or_else(|| cluster.refused());
        Self(Arc::new(Inner { version, cluster, port, process: Mutex::new(Some(process)) }))
    }

    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        // A test that failed while it held the lock has left nothing half done.
        self.0.process.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(mut process) = process.take() {
            signal(process.id(), Signal::QUIT);
            signal(process.id(), Signal::CONT);
            // Only a process that was waited for already cannot be waited for.
            let _ended = process.wait();
        }
        self.cluster.clear();
    }
}

/// The server could not be started, for a reason that may be gone at the next try.
struct TryAgain;

impl Cluster {
    /// Starts a server on the data and waits until it accepts connections.
    fn start(&self, version: Version, port: u16) -> Result<Child, TryAgain> {
        let log = File::options().create(true).append(true).open(self.log()).expect("open a server's log");
        let before = log.metadata().expect("measure a server's log").len();
        // SIGQUIT is the shutdown that waits for nothing and still takes the shared memory along.
        let mut process = spawn_server(&version.program("postgres"), "QUIT", |command| {
            command.arg("-D").arg(self.data()).args(["-p", &port.to_string()]).arg("-k").arg(self.path());
            command.stdout(log.try_clone().expect("share a server's log")).stderr(log);
        });
        let mut ended = None;
        wait_for("a server accepts connections", || {
            ended = process.try_wait().expect("look at a server");
            ended.is_some() || self.is_ready(process.id())
        });
        if ended.is_none() {
            return Ok(process);
        }
        let said = fs::read(self.log()).expect("read a server's log");
        let said = String::from_utf8_lossy(&said[usize::try_from(before).unwrap_or(0)..]).into_owned();
        let is_passing =
            ["pre-existing shared memory block", "Address already in use"].iter().any(|text| said.contains(text));
        assert!(is_passing, "{version} did not start:\n{said}");
        Err(TryAgain)
    }

    /// Whether the lock file says that the server `pid` accepts connections.
    ///
    /// Source: `src/include/utils/pidfile.h`, `LOCK_FILE_LINE_PM_STATUS`: the state on the eighth line.
    fn is_ready(&self, pid: u32) -> bool {
        let Ok(text) = fs::read_to_string(self.data().join("postmaster.pid")) else { return false };
        let mut lines = text.lines();
        lines.next() == Some(&*pid.to_string()) && lines.nth(6).is_some_and(|state| state.trim_end() == "ready")
    }

    /// Fails the test with what the server said.
    fn refused(&self) -> ! {
        panic!("a server could not be started:\n{}", fs::read_to_string(self.log()).unwrap_or_default())
    }
}

/// Sends `signal` to a process that may have ended.
fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    let _sent_or_gone = kill_process(pid, signal);
}
