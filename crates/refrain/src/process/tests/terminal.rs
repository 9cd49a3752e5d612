//! The command under a terminal. `script` (util-linux) makes one.

use std::io::Write;
use std::process::Command;

use super::{WRAPPED, WRAPPED_ATTEMPT, attempt, start_program};
use crate::process::procfs;

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

#[test]
fn ctrl_z_stops_the_whole_job_and_fg_continues_it() {
    let mut shell = Command::new("script");
    shell.args(["--quiet", "--return", "--command", "bash --norc -i", "/dev/null"]);
    // The quotes keep what the terminal echoes apart from what the command says.
    let attempt = attempt();
    shell.env(WRAPPED, "echo re''ady; read -r line; echo got=$line").env(WRAPPED_ATTEMPT, &attempt);
    let (mut script, mut output) = start_program(shell);
    let mut keys = script.stdin.take().unwrap();
    let program = std::env::current_exe().unwrap();
    let arguments = "--exact process::tests::wrapper --nocapture";
    keys.write_all(format!("{} {arguments}\n", program.display()).as_bytes()).unwrap();
    output.line_with("ready");
    keys.write_all(b"one\n").unwrap();
    output.line_with("got=one");
    output.line_with("ended ");

    keys.write_all(format!("{} {arguments}\n", program.display()).as_bytes()).unwrap();
    output.line_with("ready");
    // Until the command has the terminal Ctrl-Z would be ours alone; it has it when it is the foreground group.
    wait_until_in_front(&attempt);
    keys.write_all(b"\x1a").unwrap();
    output.line_with("Stopped");
    keys.write_all(b"echo still''here\n").unwrap();
    output.line_with("stillhere");
    keys.write_all(b"fg\n").unwrap();
    keys.write_all(b"two\n").unwrap();
    output.line_with("got=two");
    output.line_with("ended ");
    keys.write_all(b"exit\n").unwrap();
    script.wait().unwrap();
}

/// Waits until the wrapped command of this attempt is in the foreground of its terminal.
fn wait_until_in_front(attempt: &str) {
    let until = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while std::time::Instant::now() < until {
        let all = procfs::all().unwrap();
        // By its marker: how many shells lie between `script` and the command depends on the shell that `script` finds.
        let mut commands =
            all.iter().filter(|stat| procfs::attempt_of(stat.pid).as_deref() == Some(attempt.as_bytes()));
        if commands.any(|command| foreground_of(command.pid) == Some(command.group)) {
            return;
        }
        std::thread::yield_now();
    }
    panic!("the command never got the terminal");
}

fn foreground_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(5)?.parse().ok()
}
