//! Running the helper programs (`mount`, `mkfs`, `strace`, ...) that the tools are made of.

use std::ffi::OsString;
use std::process::{Command, Output};

/// Where Debian keeps the programs of the administrator; not in every user's `PATH`.
const ADMINISTRATOR_PATHS: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// A command for `program` that also finds the administrator's programs.
pub(crate) fn tool(program: &str) -> Command {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(OsString::from(format!(":{ADMINISTRATOR_PATHS}")));
    let mut command = Command::new("env");
    command.arg(program).env("PATH", path).env("LC_ALL", "C");
    command
}

/// Runs `command` to its end, whatever that is.
pub(crate) fn output(mut command: Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"))
}

/// Runs `command` and returns an error text unless it succeeded.
pub(crate) fn attempt(command: Command) -> Result<(), String> {
    let text = format!("{command:?}");
    let output = output(command);
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let hint = if output.status.code() == Some(127) { " (install it: `cargo xtask test` does)" } else { "" };
    Err(format!("{text} ended with {}{hint}: {}", output.status, stderr.trim()))
}

/// Runs `command`, which must succeed.
pub(crate) fn demand(command: Command) {
    attempt(command).unwrap_or_else(|error| panic!("{error}"));
}
