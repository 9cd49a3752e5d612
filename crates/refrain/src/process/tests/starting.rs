//! What runs, with which shell, and what is said when it does not.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::{attempt, run, shell, start_wrapper, witnessed};
use crate::process::{CommandSpec, Program, SpawnError, TaskExit, Warning, Why, channel, spawn, supervise};

fn argv(program: &str, cwd: &std::path::Path) -> CommandSpec {
    CommandSpec::new(Program::Argv(vec![program.into()]), cwd, attempt())
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    let cases = [
        ("exit 0", TaskExit::Code(0), 0),
        ("exit 117", TaskExit::Code(117), 117),
        ("kill -9 $$", TaskExit::Signal(9), 137),
    ];
    for (command, exit, code) in cases {
        let ended = run(shell(command));
        assert_eq!((ended.exit, ended.why, ended.exit.shell_code()), (exit, Why::Exited, code), "{command}");
        assert!(ended.leftovers.is_empty() && ended.survivors.is_empty(), "{ended:?}");
    }
}

#[test]
fn a_list_runs_as_it_stands() {
    let words = ["printf", "%s|", "a  b", "$HOME", "*"].map(OsString::from).to_vec();
    let (spec, mut output) = witnessed(CommandSpec::new(Program::Argv(words), "/", attempt()));
    assert_eq!(run(spec).exit, TaskExit::Code(0));
    assert_eq!(output.rest(), "a  b|$HOME|*|");
}

#[test]
fn environment_directory_and_marker_reach_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = shell("echo \"$PWD $REFRAIN_DATE $REFRAIN_ATTEMPT\"");
    spec.cwd = folder.path().canonicalize().unwrap();
    spec.env = vec![("REFRAIN_DATE".into(), "2025-03-24".into()), ("REFRAIN_ATTEMPT".into(), "somebody else's".into())];
    let expected = format!("{} 2025-03-24 {}\n", spec.cwd.display(), spec.attempt);
    let (spec, mut output) = witnessed(spec);
    assert_eq!(run(spec).exit, TaskExit::Code(0));
    assert_eq!(output.rest(), expected);
}

#[test]
fn proc_07_a_failure_inside_a_pipe_is_a_failure() {
    let spec = shell("false | cat");
    let running = spawn(spec).unwrap();
    assert_eq!(running.warnings(), []);
    let (_sender, events) = channel();
    assert_eq!(supervise(running, &events).unwrap().exit, TaskExit::Code(1));
}

#[test]
fn proc_07_a_shell_that_hides_failures_is_warned_about() {
    let tools = tempfile::tempdir().unwrap();
    for (name, target) in [("sh", "/bin/sh"), ("cat", "/bin/cat"), ("false", "/bin/false"), ("grep", "/bin/grep")] {
        symlink(fs::canonicalize(target).unwrap(), tools.path().join(name)).unwrap();
    }
    let mut probe = std::process::Command::new("/bin/sh");
    probe.args(["-o", "pipefail", "-c", ":"]).stderr(std::process::Stdio::null());
    let knows = probe.status().unwrap().success();
    for (command, has_pipe) in [("false | cat", true), ("false || echo 'a|b' >/dev/null", false)] {
        let mut spec = shell(command);
        spec.env = vec![("PATH".into(), tools.path().into())];
        let running = spawn(spec).unwrap();
        let warned = matches!(running.warnings(), [Warning::NoPipefail { .. }]);
        assert_eq!(warned, has_pipe && !knows, "{command}: {:?}", running.warnings());
        let (_sender, events) = channel();
        let exit = supervise(running, &events).unwrap().exit;
        assert_eq!(exit, TaskExit::Code(i32::from(has_pipe && knows)), "{command}");
    }
}

#[test]
fn a_missing_program_is_127_and_one_that_cannot_run_126() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    file("plain", "#!/bin/sh\n", 0o644);
    file("broken", "#!/no/such/interpreter\n", 0o755);
    let cases = [
        ("no-such-program-anywhere", 127, "`no-such-program-anywhere` was not found"),
        ("./missing", 127, "`./missing` was not found"),
        ("./plain", 126, "chmod +x"),
        ("./broken", 126, "interpreter"),
        ("/", 126, "must be a file"),
    ];
    for (program, code, text) in cases {
        let error = spawn(argv(program, folder.path())).unwrap_err();
        assert_eq!(error.exit_code(), code, "{program}: {error}");
        assert!(error.to_string().contains(text), "{program}: {error}");
    }
    let error = spawn(argv("true", &folder.path().join("nowhere"))).unwrap_err();
    assert!(matches!(error, SpawnError::WorkingDirectory { .. }), "{error}");
    assert_eq!(error.exit_code(), 125);
    for spec in [
        CommandSpec::new(Program::Argv(vec![]), "/", attempt()),
        CommandSpec::new(Program::Shell("true".into()), "/", "a\nb"),
    ] {
        assert_eq!(spawn(spec).unwrap_err().exit_code(), 125);
    }
}

#[test]
fn stdin_is_the_commands_own() {
    let (mut wrapper, mut output) =
        start_wrapper("read -r first; echo first=$first; read -r second; echo second=$second", &attempt());
    let mut stdin = wrapper.stdin.take().unwrap();
    stdin.write_all(b"one\n").unwrap();
    assert_eq!(output.line_with("first="), "one");
    stdin.write_all(b"two\n").unwrap();
    assert_eq!(output.line_with("second="), "two");
    assert!(wrapper.wait().unwrap().success());
}
