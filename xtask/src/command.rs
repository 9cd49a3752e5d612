//! Running other programs, from the repository's root.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a task returns: nothing, or the message that ends it.
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// Where Debian keeps the programs of the administrator; not in every user's `PATH`.
const ADMINISTRATOR_PATHS: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |path| root().join(path))
}

/// A command that starts at the root and finds the administrator's programs too.
pub(crate) fn command(program: impl Into<OsString>) -> Command {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(format!(":{ADMINISTRATOR_PATHS}"));
    let mut command = Command::new(program.into());
    command.current_dir(root()).env("PATH", path);
    command
}

/// A cargo command, by the same cargo that runs this task.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs `command` with its output shown, and fails unless it succeeds.
pub(crate) fn run(mut command: Command) -> Outcome {
    let status = command.status().map_err(|error| format!("cannot start `{}`: {error}", text(&command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed: {status}", text(&command))) }
}

/// Runs `command` and returns its standard output; fails, with its standard error, unless it succeeds.
pub(crate) fn capture(mut command: Command) -> Outcome<Vec<u8>> {
    command.stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("cannot start `{}`: {error}", text(&command)))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{}` failed: {}\n{}", text(&command), output.status, stderr.trim_end()))
}

/// Builds a program of the workspace with `cargo build`, what it prints shown, and returns where it lies.
///
/// Cargo is asked for the place, which depends on its configuration.
pub(crate) fn build(program: &str, arguments: &[&str]) -> Outcome<PathBuf> {
    build_target("--bin", program, arguments)
}

/// Builds the example `program` of a library and returns the path of its executable.
pub(crate) fn build_example(program: &str, arguments: &[&str]) -> Outcome<PathBuf> {
    build_target("--example", program, arguments)
}

fn build_target(kind: &str, program: &str, arguments: &[&str]) -> Outcome<PathBuf> {
    let mut build = cargo(&["build", "--message-format=json-render-diagnostics", kind, program]);
    build.args(arguments).stderr(Stdio::inherit());
    let messages = capture(build)?;
    let executables = String::from_utf8_lossy(&messages);
    let path = executables.lines().rev().find_map(|message| executable_of(message, program));
    path.ok_or_else(|| format!("cargo built `{program}` and did not say where"))
}

/// The executable that a message of cargo announces, if it is that of `program`.
fn executable_of(message: &str, program: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let is_it = message["reason"] == "compiler-artifact" && message["target"]["name"] == program;
    message["executable"].as_str().filter(|_| is_it).map(PathBuf::from)
}

/// Whether `command` can be started and succeeds; what it prints is dropped.
pub(crate) fn succeeds(mut command: Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Whether a program of this name can be found.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').chain(ADMINISTRATOR_PATHS.split(':')).any(|directory| Path::new(directory).join(program).is_file())
}

/// The command as a person would type it.
pub(crate) fn text(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::executable_of;
    use std::path::PathBuf;

    #[test]
    fn the_executable_is_read_from_the_message_of_its_program() {
        let message = r#"{"reason":"compiler-artifact","target":{"name":"refrain"},"executable":"/t/refrain"}"#;
        assert_eq!(executable_of(message, "refrain"), Some(PathBuf::from("/t/refrain")));
        assert_eq!(executable_of(message, "floor"), None);
        let library = r#"{"reason":"compiler-artifact","target":{"name":"refrain"},"executable":null}"#;
        assert_eq!(executable_of(library, "refrain"), None);
        assert_eq!(executable_of(r#"{"reason":"build-finished","success":true}"#, "refrain"), None);
    }
}
