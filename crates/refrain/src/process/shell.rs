//! Which shell runs a command string, and whether it notices a failure inside a pipe.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A shell and the words before the command string.
pub(super) struct Shell {
    pub(super) program: PathBuf,
    pub(super) arguments: &'static [&'static str],
    /// The command has a pipe and this shell hides failures in all but its last part.
    pub(super) hides_failures: bool,
}

const PIPEFAIL: &[&str] = &["-o", "pipefail", "-c"];

/// Chooses `bash`, then a `sh` that knows `pipefail`, then any `sh`; `None` when there is no shell at all.
pub(super) fn choose(command: &str, path: &OsStr) -> Option<Shell> {
    if let Some(program) = find_program("bash", path) {
        return Some(Shell { program, arguments: PIPEFAIL, hides_failures: false });
    }
    let program = find_program("sh", path).or_else(|| Some(PathBuf::from("/bin/sh")).filter(|sh| sh.exists()))?;
    // The question costs a process, so it is asked only when the answer matters.
    if !has_pipe(command) {
        return Some(Shell { program, arguments: &["-c"], hides_failures: false });
    }
    if knows_pipefail(&program) {
        return Some(Shell { program, arguments: PIPEFAIL, hides_failures: false });
    }
    Some(Shell { program, arguments: &["-c"], hides_failures: true })
}

/// The search path that the command will see.
pub(super) fn search_path(environment: &[(OsString, OsString)]) -> OsString {
    let given = environment.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    given.or_else(|| env::var_os("PATH")).unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"))
}

/// The first executable file of this name on a search path.
pub fn find_program(name: impl AsRef<Path>, path: &OsStr) -> Option<PathBuf> {
    env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(&name))
        .find(|file| file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0))
}

/// Whether a command string joins programs by a pipe. In doubt yes: the answer only decides about a warning or a look.
pub fn has_pipe(command: &str) -> bool {
    let mut quote = None;
    let mut previous = ' ';
    let mut characters = command.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None | Some('"'), '\\') => drop(characters.next()),
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            // A command within double quotes may have pipes of its own.
            (Some('"'), '`' | '(') if character == '`' || previous == '$' => quote = None,
            (None, '|') if characters.peek() == Some(&'|') => drop(characters.next()),
            // `>|` is a redirection.
            (None, '|') if previous != '>' => return true,
            _ => {}
        }
        previous = character;
    }
    false
}

fn knows_pipefail(shell: &Path) -> bool {
    let probe = Command::new(shell)
        .args(PIPEFAIL)
        .arg(":")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    probe.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::has_pipe;

    #[test]
    fn a_pipe_is_told_from_or_quotes_and_redirection() {
        for command in ["a | b", "a|b", "a |& b", "x=\"$(a | b)\"", "a || b | c", "echo \"`a|b`\"", "'x' | y"] {
            assert!(has_pipe(command), "{command}");
        }
        for command in ["a || b", "a && b", "grep 'a|b' f", "grep \"a|b\" f", "echo a\\|b", "a >| b", ""] {
            assert!(!has_pipe(command), "{command}");
        }
    }
}
