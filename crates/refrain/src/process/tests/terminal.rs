//! The command under a terminal. `script` (util-linux) makes one.

use std::io::Write;
use std::process::Command;

use super::{WRAPPED, WRAPPED_ATTEMPT, attempt, start_program};

fn under_terminal(command: &str, after: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let wrapper = format!("{} --exact process::tests::wrapper --nocapture --test-threads=1 {after}", program.display());
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &wrapper, "/dev/null"]);
    script.env(WRAPPED, command).env(WRAPPED_ATTEMPT, attempt());
    script
}

#[test]
fn a_command_can_read_the_terminal_and_refrain_gets_it_back() {
    let command = "echo ready; read -r line; echo got=$line";
    let (mut script, mut output) = start_program(under_terminal(command, "; read -r line; echo after=$line"));
    let mut keys = script.stdin.take().unwrap();
    output.line_with("ready");
    keys.write_all(b"one\n").unwrap();
    assert_eq!(output.line_with("got="), "one");
    assert!(output.line_with("ended ").contains("Code(0)"));
    keys.write_all(b"two\n").unwrap();
    assert_eq!(output.line_with("after="), "two");
    script.wait().unwrap();
}

#[test]
fn ctrl_c_reaches_the_command_and_not_refrain() {
    // The command never reads, so it has the terminal only if it was given at the start. Field 8 is the foreground group.
    let command =
        "until test $(cut -d' ' -f8 /proc/$$/stat) = $$; do :; done; echo in front; sleep 300; echo not reached";
    let (mut script, mut output) = start_program(under_terminal(command, ""));
    let mut keys = script.stdin.take().unwrap();
    output.line_with("in front");
    keys.write_all(b"\x03").unwrap();
    let ended = output.line_with("ended ");
    assert!(ended.contains("Signal(2)") && ended.contains("why: Exited"), "{ended}");
    script.wait().unwrap();
}

#[test]
fn in_a_pipeline_the_terminal_is_given_when_it_is_asked_for() {
    let command = "echo ready; read -r line; echo got=$line";
    let (mut script, mut output) = start_program(under_terminal(command, "| cat; read -r line; echo after=$line"));
    let mut keys = script.stdin.take().unwrap();
    output.line_with("ready");
    keys.write_all(b"one\n").unwrap();
    assert_eq!(output.line_with("got="), "one");
    output.line_with("ended ");
    keys.write_all(b"two\n").unwrap();
    assert_eq!(output.line_with("after="), "two");
    script.wait().unwrap();
}
