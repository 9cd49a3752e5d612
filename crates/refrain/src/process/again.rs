//! Starts this very program again, for work of its own: each start has its own processes to answer for.

use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A running start of this program.
#[derive(Debug)]
pub struct Again {
    child: Child,
}

impl Again {
    /// Starts this program with these arguments, without stdin, in a process group of its own: a signal from the
    /// terminal reaches it only through us, once. Its stdout is collected, its stderr is ours.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn start<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> io::Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        Ok(Self { child })
    }

    /// Its process id, for [`pass_on`].
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end; returns how it ended and what it printed.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn wait(self) -> io::Result<(ExitStatus, Vec<u8>)> {
        let output = self.child.wait_with_output()?;
        Ok((output.status, output.stdout))
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
