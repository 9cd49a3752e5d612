//! Starts a Refrain program whose end is somebody else's question: in a proof it may be killed at any moment.

use crate::environment::of_an_outer_task;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often a rehearsal is looked at while its end is awaited: often enough that a kill falls where it should.
const GLANCE: Duration = Duration::from_millis(1);

/// What to start, and where what it prints goes.
#[derive(Debug)]
pub struct Script {
    /// The Refrain program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Set on top of this process's environment, from which every `REFRAIN_*` variable is taken away, and whatever a task that
    /// runs this process gave it.
    pub env: Vec<(OsString, OsString)>,
    /// The directory to start it in.
    pub cwd: PathBuf,
    /// Its standard output, and that of its command.
    pub stdout: File,
    /// Its standard error, and that of its command.
    pub stderr: File,
}

/// A running rehearsal; dropping it kills it.
#[derive(Debug)]
pub struct Rehearsal {
    child: Child,
    started: Instant,
}

impl Rehearsal {
    /// Starts the program without stdin, in a process group of its own: a signal from the terminal does not reach it.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn start(script: Script) -> io::Result<Self> {
        let mut command = Command::new(script.program);
        command.args(script.arguments).current_dir(script.cwd).process_group(0);
        let all = std::env::vars_os().map(|(name, _)| name);
        let ours = all.filter(|name| name.as_encoded_bytes().starts_with(b"REFRAIN_"));
        for name in ours.chain(of_an_outer_task(false)) {
            command.env_remove(name);
        }
        command.envs(script.env).stdin(Stdio::null()).stdout(script.stdout).stderr(script.stderr);
        let started = Instant::now();
        Ok(Self { child: command.spawn()?, started })
    }

    /// How long ago it was started.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits for its end until it is so old, or until `interrupted` says so; `None` when it still runs then.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn wait(&mut self, age: Option<Duration>, interrupted: &dyn Fn() -> bool) -> io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            let left = age.map_or(GLANCE, |age| age.saturating_sub(self.age()).min(GLANCE));
            if left.is_zero() || interrupted() {
                return Ok(None);
            }
            std::thread::sleep(left);
        }
    }

    /// Ends it as a power cut would (SIGKILL); its guard then ends its command. True when it had not ended by itself.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn kill(mut self) -> io::Result<bool> {
        if self.child.try_wait()?.is_some() {
            return Ok(false);
        }
        self.child.kill()?;
        let status = self.child.wait()?;
        Ok(std::os::unix::process::ExitStatusExt::signal(&status).is_some())
    }

    /// Asks it to end, as Ctrl-C would, and waits for that: it ends its command first.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn interrupt(mut self) -> io::Result<()> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
            && self.child.try_wait()?.is_none()
        {
            kill_process(pid, Signal::INT)?;
            self.child.wait()?;
        }
        Ok(())
    }
}

impl Drop for Rehearsal {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // It can only have ended a moment ago; either way nothing is left to be done.
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}
