//! Hosts: a network, a name, processes and a boot of their own, on one kernel.

use refrain_testkit::freeze::wait_for_some;
use refrain_testkit::program::{Output, Running};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A host. Its processes end with it.
pub(crate) struct Host {
    keeper: Child,
    /// The first process of the host, as seen from here.
    first: u32,
    _boot: TempDir,
}

/// Gives the host its name and its boot's identity, and stays.
const BEGIN: &str =
    "hostname \"$1\" && mount --bind \"$2\" /proc/sys/kernel/random/boot_id && : > \"$3\" && exec sleep infinity";

/// Starts a command where it shall run: another mount namespace begins at its root.
const ENTER: &str = "cd \"$1\" && shift && exec \"$@\"";

impl Host {
    /// Starts a host of this name. Nothing leads from its network to another; the server's socket is a file.
    pub(crate) fn start(name: &str) -> Self {
        let boot = tempfile::tempdir().unwrap();
        let [id, ready] = ["boot_id", "ready"].map(|file| boot.path().join(file));
        fs::write(&id, format!("{name}-boot\n")).unwrap();
        let keeper = Command::new("unshare")
            .args(["--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["sh", "-c", BEGIN, "sh", name])
            .args([&id, &ready])
            .stdin(Stdio::null())
            .spawn()
            .expect("start a host");
        refrain_testkit::freeze::wait_for_path(&ready);
        let first = wait_for_some("the host's first process", || children(keeper.id()).first().copied());
        Self { keeper, first, _boot: boot }
    }

    /// The command, to be run on this host.
    pub(crate) fn command(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.args(["--target", &self.first.to_string(), "--net", "--uts", "--mount", "--pid", "--"]);
        inside.args(["sh", "-c", ENTER, "sh"]).arg(command.get_current_dir().unwrap_or_else(|| Path::new("/")));
        inside.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }

    pub(crate) fn run(&self, command: &Command) -> Output {
        Output::of(&mut self.command(command), b"")
    }

    pub(crate) fn spawn(&self, command: &Command) -> Running {
        Running::start(&mut self.command(command), b"")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // One that has ended by itself need not be killed.
        drop(self.keeper.kill());
        drop(self.keeper.wait());
    }
}

/// The children of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
