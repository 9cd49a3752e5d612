//! Standard input, output and error of the program and its command.

use crate::args;
use crate::scene::BIN;
use refrain_testkit::program::{Home, Output};
use std::process::{Command, Stdio};

#[test]
fn the_input_of_the_call_is_the_commands_own() {
    let home = Home::temp(BIN);
    home.refrain().stdin("one\ntwo\n").run(args("t", "out.csv", "cat > $REFRAIN_OUT")).success();
    assert_eq!(home.read("out.csv"), "one\ntwo\n");
}

#[test]
fn at_a_terminal_the_command_reads_what_is_typed() {
    let home = Home::temp(BIN);
    let task = "test -t 0 && read line && echo typed $line > $REFRAIN_OUT";
    let inner = format!("{BIN} run t --out out.csv -- sh -c '{task}'");
    let mut command = Command::new("script");
    command.args(["-qefc", &inner, "/dev/null"]).current_dir(home.path());
    let output = Output::of(&mut command, b"hello\n");
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(home.read("out.csv"), "typed hello\n");
}

#[test]
fn a_closed_pipe_at_stderr_or_stdout_changes_nothing() {
    let home = Home::temp(BIN);
    for (number, args) in [
        args("t0", "out0.csv", "echo 1 > $REFRAIN_OUT"),
        vec!["run", "t1", "--report", "-", "--out", "out1.csv", "--", "sh", "-c", "echo 1 > $REFRAIN_OUT"],
    ]
    .into_iter()
    .enumerate()
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = home.refrain().command(args);
        command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer);
        let status = command.status().unwrap();
        assert_eq!(status.code(), Some(0), "call {number}");
        assert_eq!(home.read(format!("out{number}.csv")), "1\n");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = home.refrain().command(["log"]);
    assert_eq!(command.stdin(Stdio::null()).stdout(writer).status().unwrap().code(), Some(0));
}

#[test]
fn standard_output_is_published_only_when_the_command_succeeds() {
    let home = Home::temp(BIN);
    let captured = |script: &'static str| home.run(["run", "t", "--stdout", "out.csv", "--", "sh", "-c", script]);
    let failed = captured("echo half; exit 7").expect_code(7);
    assert_eq!(failed.stdout, "");
    assert!(!home.exists("out.csv"));
    let done = captured("echo whole").success();
    assert_eq!(done.stdout, "", "what is captured is not printed");
    assert_eq!(home.read("out.csv"), "whole\n");
}
