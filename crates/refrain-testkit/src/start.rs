//! Starting servers: untouched by the environment of whoever runs the tests, and ended with the test process.

use crate::tool::tool;
use std::ffi::OsStr;
use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// A command that sees none of the caller's environment but `PATH`, started in the root directory.
pub(crate) fn isolated(program: impl AsRef<OsStr>) -> Command {
    let mut command = tool(&program.as_ref().to_string_lossy());
    for (name, _) in std::env::vars_os() {
        if name != "PATH" && name != "LC_ALL" {
            command.env_remove(name);
        }
    }
    command.current_dir("/");
    command
}

/// An isolated command whose first argument is the program to become; the kernel sends it `signal` when the test process
/// ends in whatever way, if [`spawn`] starts it.
pub(crate) fn bound(signal: &str) -> Command {
    let mut command = isolated("setpriv");
    command.args(["--pdeathsig", signal]);
    command
}

/// Starts a server.
///
/// The kernel looks at the thread that started a child and not at its process, and a test's thread ends with the test:
/// all servers are started by a thread that lives as long as the process.
pub(crate) fn spawn(command: Command) -> Child {
    let text = format!("{command:?}");
    let (reply, answer) = channel();
    starter().send((command, reply)).expect("the thread that starts servers lives as long as the process");
    let started = answer.recv().expect("an answer of the thread that starts servers");
    started.unwrap_or_else(|error| panic!("cannot start {text}: {error}"))
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
