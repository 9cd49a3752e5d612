//! Starting the servers' programs as a user whom PostgreSQL accepts.

use crate::start::{bound, isolated, spawn};
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The user and group that the servers run as when root runs the tests; Debian's package makes them.
const SERVER_USER: &str = "postgres";

/// A command that runs as the servers' user.
pub(super) fn as_server_user(program: &Path) -> Command {
    if !is_root() {
        return isolated(program);
    }
    let mut command = isolated("setpriv");
    command.args(["--reuid", SERVER_USER, "--regid", SERVER_USER, "--clear-groups"]).arg(program);
    command
}

/// Starts a server as the servers' user; the kernel sends it `signal` when the test process ends in whatever way.
pub(super) fn spawn_server(program: &Path, signal: &str, prepare: impl FnOnce(&mut Command)) -> Child {
    let mut command = bound(signal);
    if is_root() {
        command.args(["--reuid", SERVER_USER, "--regid", SERVER_USER, "--clear-groups"]);
    }
    command.arg(program).stdin(Stdio::null());
    prepare(&mut command);
    spawn(command)
}

/// Gives `path` to the servers' user.
pub(super) fn give(path: &Path) {
    if let Some((user, group)) = server_ids() {
        chown(path, Some(user), Some(group)).unwrap_or_else(|error| panic!("cannot chown {}: {error}", path.display()));
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// User and group id of the servers' user, if it is another than the tests' own.
fn server_ids() -> Option<(u32, u32)> {
    if !is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("read /etc/passwd");
    let entry = users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|entry| entry[0] == SERVER_USER);
    let Some(entry) = entry else { panic!("there is no user `{SERVER_USER}`; `cargo xtask test` installs PostgreSQL") };
    let id = |field: usize| entry.get(field).and_then(|id| id.parse().ok()).expect("a number in /etc/passwd");
    Some((id(2), id(3)))
}
