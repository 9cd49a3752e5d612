//! Starts a command: shell or program, its own process group, its marker, its guard, the terminal.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, PipeWriter};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::ATTEMPT_VARIABLE;
use super::guard::Guard;
use super::leftovers::{Known, Tree};
use super::procfs;
use super::shell;
use super::terminal::Terminal;

/// Between the first signal and KILL, unless the task says otherwise.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A command string, for `bash -o pipefail -c`, or `sh -c` where there is no bash.
    Shell(String),
    /// A program and its arguments, run as they stand.
    Argv(Vec<OsString>),
}

/// Where the command's standard output goes.
#[derive(Debug)]
pub enum StdoutTarget {
    /// To Refrain's own.
    Inherit,
    /// Into this file: the staged output of `--stdout`.
    File(File),
    /// To Refrain's stderr, because its stdout carries the machine report.
    Stderr,
}

/// A command and everything it is run with.
#[derive(Debug)]
pub struct CommandSpec {
    /// What to run.
    pub program: Program,
    /// The directory to run it in; a relative program is looked up from there.
    pub cwd: PathBuf,
    /// What of this process's environment the command does not find.
    pub env_remove: Vec<OsString>,
    /// Set on top of this process's environment. [`ATTEMPT_VARIABLE`] is always set from `attempt`.
    pub env: Vec<(OsString, OsString)>,
    /// Where standard output goes; stdin and stderr are Refrain's own.
    pub stdout: StdoutTarget,
    /// Where stderr goes instead, and stdout unless that is a file; stdin is empty then.
    pub log: Option<PipeWriter>,
    /// The marker that all processes of the attempt carry: unique to the attempt, one line, no NUL.
    pub attempt: String,
    /// The time limit, counted from the start; stopped time counts.
    pub timeout: Option<Duration>,
    /// Between the first signal and KILL.
    pub grace: Duration,
    /// This program starts child processes only through this module (true of the `refrain` program, hardly of a library's user). Then an
    /// orphan that hides both marker and group (`env -i setsid ...`) is recognised as the command's, too.
    pub sole_parent: bool,
    /// Where the command writes its outputs: what it leaves behind and still writes there has the grace to end by itself.
    pub outputs: Vec<PathBuf>,
}

impl CommandSpec {
    /// A command with the defaults: inherited stdout, no time limit, [`DEFAULT_GRACE`], other children possible.
    pub fn new(program: Program, cwd: impl Into<PathBuf>, attempt: impl Into<String>) -> Self {
        Self {
            program,
            cwd: cwd.into(),
            env_remove: Vec::new(),
            env: Vec::new(),
            stdout: StdoutTarget::Inherit,
            log: None,
            attempt: attempt.into(),
            timeout: None,
            grace: DEFAULT_GRACE,
            sole_parent: false,
            outputs: Vec::new(),
        }
    }
}

/// Something the user should know although the command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The command has a pipe, and this shell reports only the failure of its last part.
    NoPipefail {
        /// The shell that runs the command.
        shell: PathBuf,
    },
    /// What the command leaves running cannot be seen, and is neither ended nor named.
    ForeignProc,
    /// Without the guard a `kill -9` of Refrain leaves the command running until the next run ends it.
    NoGuard {
        /// Why it did not start.
        reason: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPipefail { shell } => write!(
                formatter,
                "the command has a pipe, and `{}` hides a failure of any part but the last: install bash, or give the command as a list",
                shell.display()
            ),
            Self::ForeignProc => formatter.write_str(
                "`/proc` shows the processes of another pid namespace, so that what the command leaves running cannot be found: \
                 mount it anew in this one (`unshare --mount-proc`)",
            ),
            Self::NoGuard { reason } => {
                write!(
                    formatter,
                    "if refrain is killed by `kill -9` the command runs on, because its guard did not start: {reason}"
                )
            }
        }
    }
}

/// Why a command did not start. Nothing of it runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// There is no such program (exit code 127).
    #[error("command `{program}` was not found: check its spelling and PATH, or give its full path")]
    NotFound {
        /// The program as it was given.
        program: String,
    },
    /// There is such a file, but it cannot be run (exit code 126).
    #[error("command `{program}` cannot be executed: {advice}")]
    NotExecutable {
        /// The program as it was given.
        program: String,
        /// What to do about it.
        advice: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The directory to run in is missing or closed to us (exit code 125).
    #[error("the working directory `{path}` cannot be entered: create it or correct `cwd`")]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The specification itself is wrong (exit code 125).
    #[error("the command cannot be started: {0}")]
    Invalid(&'static str),
    /// The system refused to start any process: out of memory, processes or descriptors (exit code 125).
    #[error(
        "command `{program}` could not be started by the system: try again, or raise the limits on processes and open files"
    )]
    System {
        /// The program as it was given.
        program: String,
        /// What the system said.
        source: io::Error,
    },
}

impl SpawnError {
    /// The exit code that says so to a scheduler: 127 not found, 126 not executable, 125 everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            Self::WorkingDirectory { .. } | Self::Invalid(_) | Self::System { .. } => 125,
        }
    }
}

/// A command that runs. Hand it to [`super::supervise`]; dropping it kills the whole tree.
#[derive(Debug)]
pub struct Running {
    pub(super) child: Child,
    pub(super) group: Pid,
    pub(super) tree: Tree,
    pub(super) guard: Option<Guard>,
    pub(super) terminal: Option<Terminal>,
    pub(super) deadline: Option<Instant>,
    pub(super) grace: Duration,
    /// Once its exit status is taken the group's number may be reused, so nothing is signalled by it any more.
    pub(super) waited_for: bool,
    warnings: Vec<Warning>,
}

impl Running {
    /// The direct child's process id, which is also its process group's.
    pub fn pid(&self) -> i32 {
        self.group.as_raw_nonzero().get()
    }

    /// What the user should be told.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.waited_for {
            let _ = rustix::process::kill_process_group(self.group, Signal::KILL);
            drop(self.tree.end(Duration::ZERO));
        }
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
        if !self.waited_for {
            // Not waited for without end: a child that hangs in the kernel must not hang us.
            drop(self.child.try_wait());
        }
        if let Some(terminal) = &mut self.terminal {
            terminal.take_back(self.group);
        }
        let mut known = Known::lock();
        known.commands = known.commands.saturating_sub(1);
        known.processes.remove(&self.pid());
    }
}

/// Starts a command.
///
/// # Errors
///
/// [`SpawnError`] says which exit code is right; nothing runs then.
///
/// # Crash safety
///
/// If this process dies in here, whatever of the command was started is killed by the guard.
pub fn spawn(spec: CommandSpec) -> Result<Running, SpawnError> {
    if spec.attempt.is_empty() || spec.attempt.contains(|character: char| character.is_control()) {
        return Err(SpawnError::Invalid("its attempt marker must be one non-empty line"));
    }
    let path = shell::search_path(&spec.env);
    let mut warnings = Vec::new();
    if !procfs::is_ours() {
        warnings.push(Warning::ForeignProc);
    }
    let mut command = command_for(&spec.program, &path, &mut warnings)?;
    let program = command.get_program().to_owned();
    command.current_dir(&spec.cwd).process_group(0);
    for name in &spec.env_remove {
        command.env_remove(name);
    }
    command.envs(spec.env).env(ATTEMPT_VARIABLE, &spec.attempt);
    match (spec.stdout, &spec.log) {
        (StdoutTarget::File(file), _) => {
            command.stdout(file);
        }
        (_, Some(log)) => {
            command.stdout(copy_of(log, &program)?);
        }
        (StdoutTarget::Inherit, None) => {}
        (StdoutTarget::Stderr, None) => {
            command.stdout(copy_of(io::stderr(), &program)?);
        }
    }
    if let Some(log) = spec.log {
        command.stdin(Stdio::null()).stderr(log);
    }

    let orphans_come_here = rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_ok();
    let terminal = Terminal::for_command();
    let (mut guard, child) = {
        let mut known = Known::lock();
        let guard = Guard::start(&spec.attempt)
            .map_err(|error| warnings.push(Warning::NoGuard { reason: error.to_string() }))
            .ok();
        known.processes.extend(guard.as_ref().and_then(Guard::pid));
        match command.spawn() {
            Ok(child) => {
                known.commands += 1;
                known.processes.extend(i32::try_from(child.id()).ok());
                (guard, child)
            }
            Err(error) => {
                drop(known);
                if let Some(guard) = guard {
                    guard.dismiss();
                }
                return Err(refusal(&program, &spec.cwd, &path, error));
            }
        }
    };
    let deadline = spec.timeout.and_then(|limit| Instant::now().checked_add(limit));
    let group = Pid::from_child(&child);
    let group_number = group.as_raw_nonzero().get();
    if let Some(guard) = &mut guard {
        guard.watch(group_number);
    }
    let tree = Tree::of_command(&spec.attempt, group_number, spec.sole_parent, orphans_come_here);
    let tree = tree.writing_to(spec.outputs);
    let mut running =
        Running { child, group, tree, guard, terminal, deadline, grace: spec.grace, waited_for: false, warnings };
    if let Some(terminal) = &mut running.terminal {
        terminal.give(group);
    }
    Ok(running)
}

fn command_for(program: &Program, path: &OsStr, warnings: &mut Vec<Warning>) -> Result<Command, SpawnError> {
    match program {
        Program::Shell(text) => {
            let shell = shell::choose(text, path).ok_or_else(|| SpawnError::NotFound { program: "sh".to_owned() })?;
            if shell.hides_failures {
                warnings.push(Warning::NoPipefail { shell: shell.program.clone() });
            }
            let mut command = Command::new(shell.program);
            command.args(shell.arguments).arg(text);
            Ok(command)
        }
        Program::Argv(words) => {
            let (program, arguments) = words.split_first().ok_or(SpawnError::Invalid("it is empty"))?;
            let mut command = Command::new(program);
            command.args(arguments);
            Ok(command)
        }
    }
}

fn copy_of(stream: impl AsFd, program: &OsStr) -> Result<Stdio, SpawnError> {
    let copy = stream.as_fd().try_clone_to_owned();
    Ok(copy.map_err(|source| SpawnError::System { program: program.to_string_lossy().into_owned(), source })?.into())
}

/// Whether a directory can be entered.
fn enter(cwd: &Path) -> io::Result<()> {
    if !cwd.metadata()?.is_dir() {
        return Err(Errno::NOTDIR.into());
    }
    Ok(rustix::fs::access(cwd, rustix::fs::Access::EXEC_OK)?)
}

/// Finds out what an error of the system means: ENOENT alone may be the program, its interpreter or the working directory.
fn refusal(program: &OsStr, cwd: &Path, path: &OsStr, source: io::Error) -> SpawnError {
    if let Err(source) = enter(cwd) {
        return SpawnError::WorkingDirectory { path: cwd.to_owned(), source };
    }
    let name = program.to_string_lossy().into_owned();
    let is_path = program.as_encoded_bytes().contains(&b'/');
    let exists = if is_path { cwd.join(program).exists() } else { shell::find_program(program, path).is_some() };
    let not_executable = |advice, source| SpawnError::NotExecutable { program: name.clone(), advice, source };
    match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) if exists => {
            not_executable("the interpreter in its first line (`#!`) or its loader is missing", source)
        }
        Some(Errno::NOENT | Errno::NOTDIR) => SpawnError::NotFound { program: name },
        Some(Errno::ACCESS | Errno::PERM) => {
            not_executable("it needs execute permission (`chmod +x`) and must be a file", source)
        }
        Some(Errno::NOEXEC) => not_executable(
            "it is no program for this machine, or a script without a first line such as `#!/bin/sh`",
            source,
        ),
        Some(Errno::TOOBIG) => {
            not_executable("its arguments and environment are too large; pass them in a file", source)
        }
        Some(Errno::TXTBSY) => not_executable("the file is open for writing", source),
        _ => SpawnError::System { program: name, source },
    }
}
