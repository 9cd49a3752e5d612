//! Starts this very program again, as a helper that takes orders and answers them, one line each.
//!
//! The pipe with the orders is what ties a helper to this process: when we die, however it happens, the pipe ends, and a
//! helper that finds it ended while it works knows that nobody waits for its answer.

use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// A running start of this program.
#[derive(Debug)]
pub struct Again {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Again {
    /// Starts this program with these arguments, in a process group of its own: a signal from the terminal reaches it
    /// only through us, once. Its stdin and stdout are the pipes of its orders and answers, its stderr is ours.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn start<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(orders), Some(answers)) => Ok(Self { child, orders, answers: BufReader::new(answers) }),
            _ => Err(io::Error::other("a started program has no pipes")),
        }
    }

    /// Its process id, for [`pass_on`].
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives it an order: one line.
    ///
    /// # Errors
    /// When it has ended.
    pub fn order(&mut self, line: &str) -> io::Result<()> {
        self.orders.write_all(format!("{line}\n").as_bytes())
    }

    /// Waits for the next line of its answer; nothing when it has ended.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn answer(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        Ok((self.answers.read_line(&mut line)? > 0).then_some(line))
    }

    /// Gives no more orders, and waits for its end.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn end(mut self) -> io::Result<ExitStatus> {
        drop(self.orders);
        self.child.wait()
    }
}

/// Passes a signal on to a start of this program that has not been waited for.
pub fn pass_on(pid: u32, signal: i32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal))
        && let Err(error) = kill_process(pid, signal)
    {
        tracing::debug!(%error, ?pid, "it ended a moment ago");
    }
}
