//! Where the benchmarks work: a directory on the build's disk, and the programs under measurement.

use crate::command::{Outcome, build, capture, command, run, target_directory, text};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The working directory and the release builds.
pub(super) struct Space {
    directory: PathBuf,
    refrain: PathBuf,
    floor: PathBuf,
}

impl Space {
    /// Builds the programs and makes an empty directory.
    pub(super) fn new() -> Outcome<Self> {
        let refrain = build("refrain", &["--release"])?;
        let floor = build("floor", &["--release", "--package", "xtask", "--features", "floor"])?;
        let directory = target_directory().join("bench");
        remove(&directory)?;
        make(&directory)?;
        Ok(Self { directory, refrain, floor })
    }

    /// A path in the directory.
    pub(super) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.join(name)
    }

    /// A new, empty directory in the directory.
    pub(super) fn fresh(&self, name: &str) -> Outcome<PathBuf> {
        let path = self.join(name);
        remove(&path)?;
        make(&path)?;
        Ok(path)
    }

    /// A new home.
    pub(super) fn home(&self, name: &str) -> Outcome<PathBuf> {
        let home = self.fresh(name)?;
        self.time(self.refrain(&home, ["init"]))?;
        Ok(home)
    }

    /// The program under measurement, started in `directory`.
    pub(super) fn refrain<A: AsRef<OsStr>>(&self, directory: &Path, args: impl IntoIterator<Item = A>) -> Command {
        program(&self.refrain, directory, args)
    }

    /// The baseline program.
    pub(super) fn floor<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        program(&self.floor, &self.directory, args)
    }

    /// Runs `command`, which must succeed, and returns the time from its start to its end.
    pub(super) fn time(&self, mut command: Command) -> Outcome<Duration> {
        let log = self.join("last-command.log");
        let file = File::create(&log).map_err(|error| format!("cannot create {}: {error}", log.display()))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let start = Instant::now();
        let status = command.status().map_err(|error| format!("cannot start `{}`: {error}", text(&command)))?;
        let time = start.elapsed();
        if status.success() {
            return Ok(time);
        }
        let printed = fs::read_to_string(&log).unwrap_or_default();
        Err(format!("`{}` failed: {status}\n{}", text(&command), printed.trim_end()))
    }

    /// Writes everything out, so that a measure does not pay for what was done before it.
    pub(super) fn settle(&self) -> Outcome {
        let mut sync = command("sync");
        sync.arg("-f").arg(&self.directory);
        run(sync)
    }

    /// The machine in a few words: processor, cores, kernel and the filesystem that was measured on.
    pub(super) fn machine(&self) -> String {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model =
            processors.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown processor");
        let cores = processors.lines().filter(|line| line.starts_with("processor")).count();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let kernel: String = kernel.trim().split('-').next().unwrap_or_default().to_owned();
        let mut filesystem = command("findmnt");
        filesystem.args(["--noheadings", "--output", "FSTYPE", "--target"]).arg(&self.directory);
        let filesystem = capture(filesystem).map(|name| String::from_utf8_lossy(&name).trim().to_owned());
        let filesystem = filesystem.unwrap_or_else(|_| "unknown filesystem".to_owned());
        let model = model.trim_start_matches([' ', '\t', ':']);
        format!("{model} ({cores} cores), Linux {kernel}, {filesystem}, release build")
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.directory) {
            eprintln!("{error}");
        }
    }
}

/// A command for any program, in an environment without what cargo adds to it.
pub(super) fn program<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    directory: &Path,
    args: impl IntoIterator<Item = A>,
) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(directory);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO", "RUST", "REFRAIN_"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// Makes a directory and its parents.
pub(super) fn make(directory: &Path) -> Outcome {
    fs::create_dir_all(directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))
}

/// Removes a directory with all it holds, if it is there.
pub(super) fn remove(directory: &Path) -> Outcome {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", directory.display()))
        }
        _ => Ok(()),
    }
}

/// Writes a file.
pub(super) fn write(path: &Path, content: impl AsRef<[u8]>) -> Outcome {
    fs::write(path, content).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
