//! Luigi with the same task: a `LocalTarget`, which is a temporary file and a rename, under the local scheduler.

use super::space::{Space, program, write};
use crate::command::Outcome;
use crate::python::with_package;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "luigi==3.8.1";

/// The task in Luigi's words. It runs the very command that Refrain runs.
const MODULE: &str = r#"
import os, subprocess
import luigi

class Copy(luigi.Task):
    date = luigi.DateParameter()

    def output(self):
        return luigi.LocalTarget(f"out/{self.date}.bin")

    def run(self):
        with self.output().temporary_path() as path:
            subprocess.check_call(["sh", "-c", 'cp "$BENCH_SOURCE" "$REFRAIN_OUT"'], env={**os.environ, "REFRAIN_OUT": path})
"#;

/// An installed Luigi and a directory with the task.
pub(super) struct Luigi {
    python: PathBuf,
    directory: PathBuf,
}

impl Luigi {
    /// Installs Luigi below the build directory, once, and writes the task.
    pub(super) fn install(space: &Space) -> Outcome<Self> {
        let python = with_package("luigi", PACKAGE)?;
        let directory = space.fresh("luigi")?;
        write(&directory.join("bench_task.py"), MODULE)?;
        Ok(Self { python, directory })
    }

    /// One whole run of the task for `date`.
    pub(super) fn command(&self, date: &str, source: &Path) -> Command {
        let args = ["-m", "luigi", "--module", "bench_task", "Copy", "--date", date, "--local-scheduler"];
        let mut command = program(&self.python, &self.directory, args);
        command.env("PYTHONPATH", &self.directory).env("BENCH_SOURCE", source);
        command
    }
}
