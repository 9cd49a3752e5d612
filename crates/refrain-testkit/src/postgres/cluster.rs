//! Data directories: made once per version, copied for each server, and cleared away after processes that were killed.

use super::run_as::{as_server_user, give};
use super::version::Version;
use crate::freeze;
use crate::place::{Place, base, locked};
use crate::tool::{attempt, demand, tool};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What the tests change of the defaults. Nothing survives the machine, so nothing is flushed; memory and processes are
/// few, for many servers run at once; no shared memory but the kernel's interlock is left behind by a killed server.
const SETTINGS: &str = "
fsync = off
full_page_writes = off
synchronous_commit = on
shared_buffers = 32MB
huge_pages = off
dynamic_shared_memory_type = mmap
max_connections = 120
max_prepared_transactions = 10
wal_level = replica
min_wal_size = 32MB
max_wal_size = 1GB
recovery_init_sync_method = syncfs
jit = off
listen_addresses = '127.0.0.1'
logging_collector = off
log_destination = 'stderr'
log_line_prefix = '%m [%p] %q%u@%d %a: '
log_statement = 'all'
lc_messages = 'C'
timezone = 'UTC'
log_timezone = 'UTC'
";

/// Who may connect: everybody as whom they like. A server's own lines come before these.
const ACCESS: &str = "
local all all trust
host all all all trust
local replication all trust
host replication all all trust
";

/// The kind of servers, as their directories are named.
const SERVERS: &str = "postgres";

/// The directory of one server: its data, its socket and its log. It goes when the value is dropped.
#[derive(Debug)]
pub(super) struct Cluster {
    directory: Place,
}

impl Cluster {
    /// A directory without data.
    pub(super) fn empty() -> Self {
        let directory = Place::fresh(&base(SERVERS), |abandoned| {
            let data = abandoned.join("data");
            end_stopped(&data);
            forget(&data);
        });
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("open a server's directory");
        give(directory.path());
        Self { directory }
    }

    /// A directory with the data of a server that has never been started.
    pub(super) fn fresh(version: Version) -> Self {
        let template = template(version);
        let cluster = Self::empty();
        let mut copy = tool("cp");
        copy.args(["-a", "--reflink=auto"]).arg(template).arg(cluster.data());
        demand(copy);
        cluster.identify(version);
        cluster
    }

    /// A directory with the data of a server of the defaults, which loses nothing that it has acknowledged.
    pub(super) fn durable(version: Version) -> Self {
        let cluster = Self::empty();
        let mut initdb = as_server_user(&version.program("initdb"));
        initdb.arg("-D").arg(cluster.data()).args(["--username=postgres", "--auth=trust"]);
        initdb.args(["--encoding=UTF8", "--locale=C.UTF-8"]);
        demand(initdb);
        cluster
    }

    /// Gives the data an identity that no other copy of the template has.
    ///
    /// Source: `src/include/catalog/pg_control.h`: the system identifier comes first; `pg_resetwal` takes over the values
    /// of a control file whose checksum is wrong, and corrects the checksum and the log.
    fn identify(&self, version: Version) {
        let mut identifier = [0; 8];
        File::open("/dev/urandom")
            .and_then(|mut random| random.read_exact(&mut identifier))
            .expect("read /dev/urandom");
        // SQL shows it as a signed number.
        let identifier = u64::from_ne_bytes(identifier) >> 1;
        let control = File::options().write(true).open(self.data().join("global/pg_control"));
        let written = control.and_then(|control| control.write_all_at(&identifier.to_ne_bytes(), 0));
        written.expect("write the system identifier");
        let mut reset = as_server_user(&version.program("pg_resetwal"));
        reset.arg("--force").arg("-D").arg(self.data());
        demand(reset);
    }

    /// The directory of the socket.
    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path().join("log")
    }

    /// Sets `settings` after the common ones. A file that a setting `..._file` names by an absolute path is copied into
    /// the data directory, for the server's user may read neither it nor its directory.
    pub(super) fn configure(&self, settings: &[(&str, &str)]) {
        let mut text = String::new();
        for (name, value) in settings {
            let mut value = (*value).to_owned();
            if name.ends_with("_file") && value.starts_with('/') {
                let copy = self.data().join(format!("{name}.copy"));
                fs::copy(&value, &copy).unwrap_or_else(|error| panic!("cannot copy {value}: {error}"));
                fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).expect("close a server's file");
                give(&copy);
                value = copy.display().to_string();
            }
            text.push_str(&format!("{name} = '{}'\n", value.replace('\'', "''")));
        }
        let path = self.data().join("postgresql.conf");
        let common = fs::read_to_string(&path).expect("read a server's settings");
        fs::write(&path, common + &text).expect("write a server's settings");
    }

    /// Puts `lines` before the common ones of `pg_hba.conf`.
    pub(super) fn restrict(&self, lines: &[&str]) {
        fs::write(self.data().join("pg_hba.conf"), lines.join("\n") + ACCESS).expect("write a server's access rules");
    }

    /// Removes what a server that was killed has left, so that another can start in its place. It must be dead with all
    /// its processes.
    pub(super) fn clear(&self) {
        forget(&self.data());
    }
}

/// The data directory that those of all servers of a version are copies of; made by the first process that needs it.
fn template(version: Version) -> PathBuf {
    let base = base(SERVERS);
    let _lock = locked(&base);
    let template = base.join(format!("template-{version:?}"));
    let made = base.join(format!("template-{version:?}.made"));
    if made.exists() && template.exists() {
        return template;
    }
    // One that a killed process left half made.
    if template.exists() {
        fs::remove_dir_all(&template).expect("remove a template");
    }
    fs::create_dir(&template).expect("make a template's directory");
    give(&template);
    let mut initdb = as_server_user(&version.program("initdb"));
    initdb.arg("-D").arg(&template).args(["--username=postgres", "--auth=trust", "--no-sync", "--wal-segsize=1"]);
    initdb.args(["--encoding=UTF8", "--locale=C.UTF-8"]);
    demand(initdb);
    let settings = template.join("postgresql.conf");
    let defaults = fs::read_to_string(&settings).expect("read the settings of a template");
    fs::write(&settings, defaults + SETTINGS).expect("write the settings of a template");
    fs::write(template.join("pg_hba.conf"), ACCESS).expect("write the access rules of a template");
    fs::write(made, "").expect("note that a template is made");
    template
}

/// Kills a server that its test process left stopped, so that the signal to end could not reach it.
fn end_stopped(data: &Path) {
    let Some(pid) = first_line(&data.join("postmaster.pid")).and_then(|line| line.parse::<u32>().ok()) else { return };
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_this = String::from_utf8_lossy(&command).contains(&*data.to_string_lossy());
    if is_this && matches!(freeze::state(pid), Some('T' | 't')) {
        let mut kill = tool("kill");
        kill.args(["-KILL", &pid.to_string()]);
        // It may have been woken and have ended meanwhile.
        let _dead_either_way = attempt(kill);
    }
}

fn first_line(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()?.lines().next().map(str::to_owned)
}

/// Removes the lock file of a dead server and the segment of shared memory that it names, of which the kernel has but a
/// few thousand.
///
/// Source: `src/include/utils/pidfile.h`, `LOCK_FILE_LINE_SHMEM_KEY`: key and id on the seventh line.
fn forget(data: &Path) {
    let lock = data.join("postmaster.pid");
    let Ok(text) = fs::read_to_string(&lock) else { return };
    if let Some(segment) = text.lines().nth(6).and_then(|line| line.split_ascii_whitespace().nth(1)) {
        let mut remove = tool("ipcrm");
        remove.args(["-m", segment]);
        // Gone already when the server ended in order.
        let _removed_or_gone = attempt(remove);
    }
    let _removed_or_gone = fs::remove_file(&lock);
}
