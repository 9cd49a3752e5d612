//! Starting the servers' programs: as a user whom PostgreSQL accepts, untouched by the environment of whoever runs the
//! tests, and ended with the test process.

use crate::tool::tool;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// The user and group that the servers run as when root runs the tests; Debian's package makes them.
const SERVER_USER: &str = "postgres";

/// A command that sees none of the caller's environment but `PATH`, started in the root directory.
pub(super) fn isolated(program: impl AsRef<OsStr>) -> Command {
    let mut command = tool(&program.as_ref().to_string_lossy());
    for (name, _) in std::env::vars_os() {
        if name != "PATH" && name != "LC_ALL" {
            command.env_remove(name);
        }
    }
    command.current_dir("/");
    command
}

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
///
/// The kernel looks at the thread that started a child and not at its process, and a test's thread ends with the test:
/// all servers are started by a thread that lives as long as the process.
pub(super) fn spawn_server(program: &Path, signal: &str, prepare: impl FnOnce(&mut Command)) -> Child {
    let mut command = isolated("setpriv");
    command.args(["--pdeathsig", signal]);
    if is_root() {
        command.args(["--reuid", SERVER_USER, "--regid", SERVER_USER, "--clear-groups"]);
    }
    command.arg(program).stdin(Stdio::null());
    prepare(&mut command);
    let (reply, answer) = channel();
    starter().send((command, reply)).expect("the thread that starts servers lives as long as the process");
    let started = answer.recv().expect("an answer of the thread that starts servers");
    started.unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()))
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

type Request = (Command, Sender<io::Result<Child>>);

fn starter() -> Sender<Request> {
    static STARTER: OnceLock<Sender<Request>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (sender, requests) = channel::<Request>();
        let work = move || {
            for (mut command, reply) in requests {
                reply.send(command.spawn()).expect("whoever starts a server waits for it");
            }
        };
        std::thread::Builder::new().name("servers".to_owned()).spawn(work).expect("start a thread");
        sender
    });
    starter.clone()
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
