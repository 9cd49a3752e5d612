//! Real processes, real signals. A pipe is each test's witness: it ends only when every process that holds it has ended.

mod ending;
mod guarding;
mod leaving;
mod starting;
mod terminal;

use std::fs::File;
use std::io::{PipeReader, Read};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use super::{CommandSpec, Ended, Program, StdoutTarget, channel, spawn, supervise};

/// When a test waits longer than this, what it waits for will not come.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

fn attempt() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn shell(command: &str) -> CommandSpec {
    CommandSpec::new(Program::Shell(command.to_owned()), "/", attempt())
}

/// Sends the command's stdout to the test.
fn witnessed(mut spec: CommandSpec) -> (CommandSpec, Witness) {
    let (reader, writer) = std::io::pipe().unwrap();
    spec.stdout = StdoutTarget::File(File::from(OwnedFd::from(writer)));
    (spec, Witness(reader))
}

/// Runs a command without any event from outside.
fn run(spec: CommandSpec) -> Ended {
    let (_sender, events) = channel();
    supervise(spawn(spec).unwrap(), &events).unwrap()
}

struct Witness(PipeReader);

impl Witness {
    fn line(&mut self) -> String {
        let mut line = Vec::new();
        loop {
            match self.byte() {
                Some(b'\n') => return String::from_utf8(line).unwrap(),
                Some(byte) => line.push(byte),
                None => panic!("ended after {:?}", String::from_utf8_lossy(&line)),
            }
        }
    }

    /// Skips to the line with this beginning (the test program's own output comes before) and returns the rest of it.
    fn line_with(&mut self, start: &str) -> String {
        loop {
            if let Some((_, rest)) = self.line().split_once(start) {
                return rest.trim_end().to_owned();
            }
        }
    }

    /// Everything up to the end of the last process that could write.
    fn rest(&mut self) -> String {
        let bytes: Vec<u8> = std::iter::from_fn(|| self.byte()).collect();
        String::from_utf8(bytes).unwrap()
    }

    fn byte(&mut self) -> Option<u8> {
        let ready = rustix::event::poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&PATIENCE)).unwrap();
        assert_eq!(ready, 1, "somebody still holds the pipe");
        let mut byte = [0];
        (self.0.read(&mut byte).unwrap() == 1).then_some(byte[0])
    }
}

/// The environment variable that turns this test program into a program which runs a command through this module.
const WRAPPED: &str = "REFRAIN_TEST_WRAPPED_COMMAND";
const WRAPPED_ATTEMPT: &str = "REFRAIN_TEST_WRAPPED_ATTEMPT";
const WRAPPED_GRACE_MS: u64 = 200;

/// Not a test: the program that the tests kill, feed and put under a terminal.
#[test]
fn wrapper() {
    let (Ok(command), Ok(attempt)) = (std::env::var(WRAPPED), std::env::var(WRAPPED_ATTEMPT)) else { return };
    let mut spec = CommandSpec::new(Program::Shell(command), "/", attempt);
    spec.sole_parent = true;
    spec.grace = Duration::from_millis(WRAPPED_GRACE_MS);
    println!("\nended {:?}", run(spec));
}

fn wrapper_command(command: &str, attempt: &str) -> Command {
    let mut wrapper = Command::new(std::env::current_exe().unwrap());
    wrapper.args(["--exact", "process::tests::wrapper", "--nocapture", "--test-threads=1"]);
    wrapper.env(WRAPPED, command).env(WRAPPED_ATTEMPT, attempt);
    wrapper
}

/// Starts the wrapper program with the test as witness of its stdout.
fn start_wrapper(command: &str, attempt: &str) -> (Child, Witness) {
    start_program(wrapper_command(command, attempt))
}

fn start_program(mut program: Command) -> (Child, Witness) {
    let (reader, writer) = std::io::pipe().unwrap();
    let child = program.stdin(Stdio::piped()).stdout(writer).spawn().unwrap();
    (child, Witness(reader))
}
