//! The `refrain` program under test, and a home for it.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// How a command ended and what it printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The exit code, unless a signal ended the command.
    pub code: Option<i32>,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// Standard output; bytes that are no UTF-8 are replaced.
    pub stdout: String,
    /// Standard error, the same way.
    pub stderr: String,
    /// The command as it was started.
    pub command: String,
}

impl Output {
    /// Runs `command` with `stdin` as its input and waits for its end.
    pub fn of(command: &mut Command, stdin: &[u8]) -> Self {
        Running::start(command, stdin).wait()
    }

    /// Fails the test unless the exit code is `code`; returns the output for further looks.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert!(self.code == Some(code), "expected exit code {code}\n{self}");
        self
    }

    /// Fails the test unless the command succeeded.
    #[track_caller]
    pub fn success(self) -> Self {
        self.expect_code(0)
    }

    /// Fails the test unless `signal` ended the command.
    #[track_caller]
    pub fn expect_signal(self, signal: i32) -> Self {
        assert!(self.signal == Some(signal), "expected an end by signal {signal}\n{self}");
        self
    }

    /// Fails the test unless standard error contains `text`.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "expected `{text}` on standard error\n{self}");
        self
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "--- {}", self.command)?;
        match (self.code, self.signal) {
            (Some(code), _) => writeln!(f, "--- exit code {code}")?,
            (None, Some(signal)) => writeln!(f, "--- ended by signal {signal}")?,
            (None, None) => writeln!(f, "--- ended in an unknown way")?,
        }
        writeln!(f, "--- stdout\n{}--- stderr\n{}---", self.stdout, self.stderr)
    }
}

/// A command that runs; dropping it kills the process and reaps it.
///
/// What it prints goes to files, so a descendant that outlives it holds nobody up.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: File,
    stderr: File,
    command: String,
}

impl Running {
    /// Starts `command` with `stdin` as its input.
    pub fn start(command: &mut Command, stdin: &[u8]) -> Self {
        let text = format!("{command:?}");
        let [input, stdout, stderr] = [stdin, b"", b""].map(file_of);
        let end = |file: &File| Stdio::from(file.try_clone().expect("duplicate a descriptor"));
        command.stdin(if stdin.is_empty() { Stdio::null() } else { end(&input) });
        command.stdout(end(&stdout)).stderr(end(&stderr));
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {text}: {error}"));
        Self { child, stdout, stderr, command: text }
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("ask for the process's state").is_some()
    }

    /// What the process and its descendants have printed so far.
    pub fn stdout_so_far(&self) -> String {
        text_of(&self.stdout)
    }

    /// What the process and its descendants have printed to standard error so far.
    pub fn stderr_so_far(&self) -> String {
        text_of(&self.stderr)
    }

    /// Kills the process (SIGKILL), not its children, and waits for it.
    pub fn kill(mut self) -> Output {
        // It may have ended already, which the output then shows.
        drop(self.child.kill());
        self.wait()
    }

    /// Waits for the end of the process; descendants that it leaves behind are not waited for.
    pub fn wait(mut self) -> Output {
        let status = self.child.wait().expect("wait for the process");
        Output {
            code: status.code(),
            signal: status.signal(),
            stdout: self.stdout_so_far(),
            stderr: self.stderr_so_far(),
            command: std::mem::take(&mut self.command),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A file without a name that contains `bytes`, to be read from its start.
fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("make a file for a command's input or output");
    file.write_all(bytes).and_then(|()| file.rewind()).expect("write a command's input");
    file
}

/// The whole content, read without moving the offset that the command shares.
fn text_of(file: &File) -> String {
    let length = file.metadata().expect("measure a command's output").len();
    let mut bytes = vec![0; usize::try_from(length).expect("an output that fits the memory")];
    file.read_exact_at(&mut bytes, 0).expect("read a command's output");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The program with a directory and an environment to start it in.
#[derive(Clone, Debug)]
pub struct Refrain {
    bin: PathBuf,
    directory: PathBuf,
    environment: Vec<(String, String)>,
    stdin: Vec<u8>,
}

impl Refrain {
    /// The program at `bin` (a test gives `env!("CARGO_BIN_EXE_refrain")`), to be started in `directory`.
    pub fn new(bin: impl Into<PathBuf>, directory: impl Into<PathBuf>) -> Self {
        Self { bin: bin.into(), directory: directory.into(), environment: vec![], stdin: vec![] }
    }

    /// Starts it in another directory.
    #[must_use]
    pub fn cwd(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    /// Sets a variable of its environment, which holds none of the caller's `REFRAIN_*` variables.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<Path>) -> Self {
        self.environment.push((name.to_owned(), value.as_ref().display().to_string()));
        self
    }

    /// Gives it something to read from standard input, which is empty otherwise.
    #[must_use]
    pub fn stdin(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.stdin = bytes.as_ref().to_vec();
        self
    }

    /// The command, for whoever starts it in a way of their own (`strace::trace`).
    pub fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(&self.bin);
        command.args(args).current_dir(&self.directory);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("REFRAIN_") {
                command.env_remove(name);
            }
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs it to its end.
    pub fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        Output::of(&mut self.command(args), &self.stdin)
    }

    /// Starts it and lets it run.
    pub fn spawn<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Running {
        Running::start(&mut self.command(args), &self.stdin)
    }
}

/// A home made by `refrain init`.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    bin: PathBuf,
    _directory: Option<TempDir>,
}

impl Home {
    /// A home in a temporary directory, which goes when the value is dropped.
    pub fn temp(bin: impl Into<PathBuf>) -> Self {
        let directory = tempfile::Builder::new().prefix("refrain-home-").tempdir().expect("make a temporary directory");
        let path = directory.path().canonicalize().expect("resolve the temporary directory");
        Self { _directory: Some(directory), ..Self::at(bin, path) }
    }

    /// A home in `path` (e.g. on a mount), which is made if it is missing and is left alone at the end.
    pub fn at(bin: impl Into<PathBuf>, path: impl Into<PathBuf>) -> Self {
        let home = Self { path: path.into(), bin: bin.into(), _directory: None };
        fs::create_dir_all(&home.path).expect("make the home's directory");
        home.run(["init"]).success();
        home
    }

    /// The directory that holds `.refrain/`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path in the home.
    pub fn join(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.path.join(relative)
    }

    /// The program, to be started in the home.
    pub fn refrain(&self) -> Refrain {
        Refrain::new(&self.bin, &self.path)
    }

    /// Runs the program in the home.
    pub fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        self.refrain().run(args)
    }

    /// Starts the program in the home and lets it run.
    pub fn spawn<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Running {
        self.refrain().spawn(args)
    }

    /// Replaces `refrain.toml`.
    pub fn config(&self, toml: &str) {
        self.write("refrain.toml", toml);
    }

    /// Writes a file of the home and makes its directories.
    pub fn write(&self, relative: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path.join(relative);
        fs::create_dir_all(path.parent().expect("a file has a directory")).expect("make the file's directory");
        fs::write(&path, content).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        path
    }

    /// Reads a file of the home.
    #[track_caller]
    pub fn read(&self, relative: impl AsRef<Path>) -> String {
        let path = self.path.join(relative);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
    }

    /// Whether something (even a dangling link) is at a path of the home.
    pub fn exists(&self, relative: impl AsRef<Path>) -> bool {
        fs::symlink_metadata(self.path.join(relative)).is_ok()
    }
}
