//! One call of `refrain run` in a scratch home: started, awaited or killed, and what it told.

use super::stage::Stage;
use refrain::core::{Error, ErrorKind, Partition, Result};
use refrain::process::{Rehearsal, Script};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// Starts calls, each with places of its own for what it prints.
pub(super) struct Caller<'a> {
    pub(super) program: PathBuf,
    pub(super) scratch: PathBuf,
    pub(super) task: String,
    pub(super) partition: &'a Partition,
    pub(super) interrupted: &'a dyn Fn() -> bool,
    pub(super) count: std::cell::Cell<u32>,
    /// Whether the scratch directory is kept.
    pub(super) keep: bool,
}

/// What differs from one call to another.
#[derive(Clone, Debug, Default)]
pub(super) struct Circumstances {
    pub(super) env: Vec<(OsString, OsString)>,
    /// Becomes part of the name of the call's directory for temporary files.
    pub(super) label: String,
}

/// A call that runs.
pub(super) struct Call {
    running: Rehearsal,
    place: PathBuf,
    temporary: PathBuf,
}

/// A call that ended.
#[derive(Debug)]
pub(super) struct Called {
    pub(super) status: ExitStatus,
    pub(super) report: Option<Told>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) lasted: Duration,
    /// The directory for temporary files that it was given.
    pub(super) temporary: PathBuf,
}

/// What is read of a report.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Told {
    pub(super) outcome: String,
    pub(super) attempt: Option<String>,
    pub(super) run: Option<String>,
    pub(super) task_exit: Option<Exit>,
    #[serde(default)]
    pub(super) left_behind: Vec<LeftBehind>,
    pub(super) error: Option<Trouble>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A process that outlived the command.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct LeftBehind {
    pub(super) command: String,
}

/// A failure in a report.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Trouble {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Called {
    pub(super) fn outcome(&self) -> &str {
        self.report.as_ref().map(|report| report.outcome.as_str()).unwrap_or_default()
    }

    pub(super) fn published(&self) -> bool {
        self.status.success() && self.outcome() == "published"
    }

    /// Whether the command was started by this call.
    pub(super) fn executed(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.task_exit.is_some())
    }

    /// How it ended, in words.
    pub(super) fn end(&self) -> String {
        let told = self.report.as_ref().and_then(|report| report.error.as_ref()).map(|error| error.message.clone());
        told.unwrap_or_else(|| match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("it ended with exit code {code}"),
            (None, signal) => format!("it was ended by signal {}", signal.unwrap_or_default()),
        })
    }
}

impl Caller<'_> {
    /// Starts a call.
    pub(super) fn start(&self, stage: &Stage, circumstances: &Circumstances) -> Result<Call> {
        let number = self.count.get() + 1;
        self.count.set(number);
        let place = self.scratch.join("calls").join(format!("{number:03}"));
        let temporary = self.scratch.join("temporary").join(format!("{number}{}", circumstances.label));
        let prepared = fs::create_dir_all(&place).and_then(|()| fs::create_dir_all(&temporary));
        let cannot = |error| Error::io("cannot start a run in the scratch directory", error);
        prepared.map_err(cannot)?;
        let mut arguments: Vec<OsString> = vec!["--home".into(), stage.home.clone().into()];
        arguments.extend(["run".into(), self.task.clone().into()]);
        match (&self.partition.interval, self.partition.key.as_str()) {
            (Some(interval), _) => arguments.extend(["--date".into(), interval.key.clone().into()]),
            (None, "") => {}
            (None, key) => arguments.extend(["--partition".into(), key.into()]),
        }
        arguments.extend(["--report".into(), place.join("report").into()]);
        let mut env = circumstances.env.clone();
        env.push(("TMPDIR".into(), temporary.clone().into()));
        let open = |name: &str| File::create(place.join(name)).map_err(cannot);
        let script = Script {
            program: self.program.clone(),
            arguments,
            env,
            cwd: stage.home.clone(),
            stdout: open("stdout")?,
            stderr: open("stderr")?,
        };
        Ok(Call { running: Rehearsal::start(script).map_err(cannot)?, place, temporary })
    }

    /// Starts a call and waits for its end.
    pub(super) fn run(&self, stage: &Stage, circumstances: &Circumstances) -> Result<Called> {
        self.finish(self.start(stage, circumstances)?)
    }

    /// Starts a call and waits for its end, but not longer than this; `None` when it was ended then.
    pub(super) fn run_within(
        &self,
        stage: &Stage,
        circumstances: &Circumstances,
        most: Duration,
    ) -> Result<Option<Called>> {
        let mut call = self.start(stage, circumstances)?;
        let ended = call.running.wait(Some(most), self.interrupted).map_err(watching)?;
        if ended.is_none() && !(self.interrupted)() {
            call.running.interrupt().map_err(watching)?;
            return Ok(None);
        }
        self.finish(call).map(Some)
    }

    /// Waits for the end of a call.
    pub(super) fn finish(&self, mut call: Call) -> Result<Called> {
        let waited = call.running.wait(None, self.interrupted).map_err(watching)?;
        let lasted = call.running.age();
        let Some(status) = waited else {
            call.running.interrupt().map_err(watching)?;
            return Err(interrupted());
        };
        let read = |name: &str| {
            let bytes = fs::read(call.place.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Ok(Called {
            status,
            report: serde_json::from_str(&read("report")).ok(),
            stdout: read("stdout"),
            stderr: read("stderr"),
            lasted,
            temporary: call.temporary,
        })
    }

    /// Kills a call when it is so old; false when it had ended before.
    pub(super) fn kill_at(&self, mut call: Call, age: Duration) -> Result<bool> {
        call.running.wait(Some(age), self.interrupted).map_err(watching)?;
        if (self.interrupted)() {
            call.running.interrupt().map_err(watching)?;
            return Err(interrupted());
        }
        call.running.kill().map_err(watching)
    }

    /// Frees the space of a scratch home that nobody looks at any more.
    pub(super) fn forget(&self, stage: &Stage) {
        if let (false, Err(error)) = (self.keep, fs::remove_dir_all(&stage.home)) {
            tracing::debug!(%error, home = %stage.home.display(), "it goes with the scratch directory");
        }
    }

    /// Waits so long.
    pub(super) fn pause(&self, time: Duration) -> Result<()> {
        const SLICE: Duration = Duration::from_millis(20);
        let mut left = time;
        while !left.is_zero() {
            if (self.interrupted)() {
                return Err(interrupted());
            }
            std::thread::sleep(left.min(SLICE));
            left = left.saturating_sub(SLICE);
        }
        Ok(())
    }
}

/// The error of a check that was stopped by a signal.
pub(super) fn interrupted() -> Error {
    Error::new(ErrorKind::Unavailable, "the check was stopped by a signal; the scratch copy is gone")
}

fn watching(error: io::Error) -> Error {
    Error::io("cannot watch a run in the scratch directory", error)
}

/// Files left in a directory.
pub(super) fn files_in(directory: &Path) -> usize {
    walkdir::WalkDir::new(directory).into_iter().flatten().filter(|entry| !entry.file_type().is_dir()).count()
}
