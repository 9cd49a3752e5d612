//! Which system calls a command makes, and what it does when one of them fails or kills it.
//!
//! Source of the output's format and of the injection expressions: strace(1).

mod parse;

use crate::program::Output;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// One finished system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The process that made the call; the thread's leader when a thread did.
    pub pid: u32,
    /// The thread that made the call; equal to `pid` in a process of one thread.
    pub thread: u32,
    /// The base name of the program that the process was executing.
    pub program: String,
    /// The call's name.
    pub name: String,
    /// The arguments as strace prints them: descriptors with their paths (`3</tmp/f>`), strings quoted.
    pub args: String,
    /// What the call returned as strace prints it, e.g. `0` or `-1 ENOENT (No such file or directory)`; `?` when the
    /// process died inside.
    pub result: String,
}

impl Call {
    /// Whether the call succeeded.
    pub fn succeeded(&self) -> bool {
        !self.result.starts_with('-') && !self.result.starts_with('?')
    }
}

/// What a traced command did.
#[derive(Debug)]
pub struct Trace {
    /// The calls of all processes, in the order in which they were finished.
    pub calls: Vec<Call>,
    /// The process that the command itself became.
    pub first: u32,
    /// How the command ended and what it printed.
    pub output: Output,
}

impl Trace {
    /// The calls of the command's first process, all its threads included and its children not.
    pub fn of_first(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.pid == self.first)
    }

    /// How often the first process made each call of `names`; a call that was never made counts 0.
    pub fn count(&self, names: &[&str]) -> BTreeMap<String, u64> {
        let mut counts: BTreeMap<String, u64> = names.iter().map(|name| ((*name).to_owned(), 0)).collect();
        for call in self.of_first() {
            if let Some(count) = counts.get_mut(&call.name) {
                *count += 1;
            }
        }
        counts
    }
}

/// Runs `command` and records every call of `syscalls` that it and its descendants make.
///
/// Of `command` the program, arguments, directory and environment count; its standard input is empty.
pub fn trace(command: &Command, syscalls: &[&str]) -> Trace {
    let file = tempfile::NamedTempFile::new().expect("make a file for the trace");
    let mut filter = syscalls.to_vec();
    // Needed to tell threads from processes and to know each process's program.
    filter.extend(["execve", "clone", "clone3", "fork", "vfork"]);
    let mut strace = strace(command);
    strace.args(["-f", "-y", "-s", "4096", "-e", "signal=none"]).arg(format!("-etrace={}", filter.join(",")));
    let output = finish(strace, command, file.path());
    let text = String::from_utf8_lossy(&std::fs::read(file.path()).expect("read the trace")).into_owned();
    let (first, mut calls) = parse::parse(&text);
    calls.retain(|call| syscalls.contains(&call.name.as_str()));
    Trace { calls, first, output }
}

/// Runs `command` and counts the calls that its first process (threads included, children not) makes.
pub fn count_syscalls(command: &Command, names: &[&str]) -> BTreeMap<String, u64> {
    trace(command, names).count(names)
}

/// Runs `command` with an injection into the calls of its first process's main thread, e.g.
/// `rename,renameat,renameat2:signal=SIGKILL:when=3` (dies before the third rename) or `fsync:error=EIO:when=1`.
///
/// With a plain `signal=`, the signal arrives before the call is carried out.
pub fn inject(command: &Command, expression: &str) -> Output {
    inject_with(command, expression, &[] as &[&str])
}

/// As [`inject`], into the calls of every thread and descendant; `when=` counts in each thread by itself.
pub fn inject_everywhere(command: &Command, expression: &str) -> Output {
    inject_with(command, expression, &["-f"])
}

/// As [`inject`], only into calls on `path`; renames count by either of their paths.
pub fn inject_on_path(command: &Command, expression: &str, path: &Path) -> Output {
    inject_with(command, expression, &[OsStr::new("-P"), path.as_os_str()])
}

fn inject_with<A: AsRef<OsStr>>(command: &Command, expression: &str, options: &[A]) -> Output {
    let file = tempfile::NamedTempFile::new().expect("make a file for the trace");
    let calls = expression.split(':').next().unwrap_or_default();
    let mut strace = strace(command);
    strace.args(options).arg(format!("-etrace={calls}")).arg(format!("-einject={expression}"));
    finish(strace, command, file.path())
}

/// A strace that will run in `command`'s directory and environment.
fn strace(command: &Command) -> Command {
    let mut strace = Command::new("strace");
    if let Some(directory) = command.get_current_dir() {
        strace.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    strace
}

fn finish(mut strace: Command, command: &Command, file: &Path) -> Output {
    strace.arg("-o").arg(file).arg("--").arg(command.get_program()).args(command.get_args());
    let output = Output::of(&mut strace, &[]);
    assert!(!output.stderr.starts_with("strace: "), "strace did not run the command: {}", output.stderr);
    output
}
