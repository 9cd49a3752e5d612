//! What a call did: the machine report (schema 1) and the exit code.

use jiff::Timestamp;
use refrain_core::{
    AttemptId, Ending, Error, ErrorKind, Generation, Key, Outcome, PinnedInput, Publication, Retry, RetryOn, RunId,
    RunRecord, SealedData, TaskEnd, Token, Window,
};
use serde::Serialize;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// The end of a call: a report for machines, and what a person should read.
///
/// [`Report::outcome`] says what came of it. Without an error the output stands: `Published` by this call, or
/// `AlreadyPublished` before it. With an error [`Report::window`] says whether the output is published all the same:
/// after `Decided` it is, and the same call again finishes what is to follow. [`Error::kind`] is what a program decides
/// by, and [`Report::retry`] says whether a repeat is worthwhile. The crate's example reads them.
#[derive(Debug)]
pub struct Conclusion {
    /// For machines.
    pub report: Report,
    /// Things that a person should know although they change nothing, one line each.
    pub notes: Vec<String>,
    /// The failure, if it was one.
    pub error: Option<Error>,
}

impl Conclusion {
    /// The report of a call after which the output stands, by this call or before it, or the error.
    ///
    /// # Errors
    /// Whatever the call ended with; [`Report::window`] tells where it fell.
    pub fn into_result(self) -> Result<Report, Error> {
        match self.error {
            None => Ok(self.report),
            Some(error) => Err(error),
        }
    }
}

/// The machine report, schema 1. Fields are added, never renamed or removed.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Always 1.
    pub schema: u32,
    /// The task.
    pub task: String,
    /// The partition; empty for a task without partitions.
    pub partition: String,
    /// The run's generation, once a run is known.
    pub generation: Option<Generation>,
    /// The run.
    pub run: Option<RunId>,
    /// The attempt of this call; for `already_published`, and for what another call decided, the attempt that published.
    pub attempt: Option<AttemptId>,
    /// The fencing token of this call's lease; none where `attempt` is not this call's.
    pub token: Option<Token>,
    /// What came of the call.
    pub outcome: Outcome,
    /// Where the end fell, seen from the commit.
    pub window: Window,
    /// The exit code of the program.
    pub exit_code: u8,
    /// How the command ended, if it ran: whose number the exit code is.
    pub task_exit: Option<TaskExitReport>,
    /// Processes that the command left behind and that were ended.
    pub left_behind: Vec<LeftBehindReport>,
    /// Whether repeating the call is worthwhile.
    pub retry: Retry,
    /// How the command failed of itself: what `retry` is judged by.
    #[serde(skip)]
    pub task_end: Option<TaskEnd>,
    /// The attempt that had sealed what this call published without the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed_by: Option<AttemptId>,
    /// What is published.
    pub outputs: Vec<OutputReport>,
    /// What was read: what the run pinned.
    pub inputs: Vec<InputReport>,
    /// What the log tells of a call that did not fail.
    #[serde(skip)]
    pub remark: Option<String>,
    /// The signal that this program got and that ended the call.
    #[serde(skip)]
    pub stopped_by: Option<i32>,
    /// Digest of everything that the output was made from, or that the attempt would have made it from.
    pub fingerprint: Option<String>,
    /// When what is published was sealed.
    pub published_at: Option<Timestamp>,
    /// When the call began.
    pub started_at: Timestamp,
    /// When the call ended.
    pub finished_at: Timestamp,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// The failure.
    pub error: Option<ErrorReport>,
    /// How long the steps took, in microseconds.
    pub timings_us: Timings,
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskExitReport {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A process that outlived the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftBehindReport {
    /// Its process id; it may have been given to another process since.
    pub pid: i32,
    /// Its command line, shortened.
    pub command: String,
}

/// One output of a report.
#[derive(Clone, Debug, Serialize)]
pub struct OutputReport {
    /// The output's name.
    pub name: String,
    /// The sink's kind.
    pub sink: String,
    /// Where readers find it.
    pub location: String,
    /// The version that readers see: the run's generation.
    pub version: Generation,
    /// Size, in bytes.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Number of rows, where the sink counts rows.
    pub rows: Option<u64>,
    /// Digest of the content.
    pub digest: String,
}

/// One input of a report.
#[derive(Clone, Debug, Serialize)]
pub struct InputReport {
    /// The input's name.
    pub name: String,
    /// Where it was read from.
    pub location: String,
    /// The version that was read.
    pub version: String,
}

/// A failure in a report.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorReport {
    /// What the caller must do.
    pub kind: ErrorKind,
    /// What happened.
    pub message: String,
    /// A command or change that helps.
    pub hint: Option<String>,
}

/// How long the steps of a run took, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Timings {
    /// From the start to the command's start.
    pub prepare: u64,
    /// Of that, pinning the inputs; 0 where the run was opened before.
    pub pin: u64,
    /// The command.
    pub task: u64,
    /// Checks, digests, syncing.
    pub seal: u64,
    /// All commits.
    pub commit: u64,
}

/// Exit codes of Refrain's own; all others are the task's.
pub mod exit_code {
    /// Published, or already published.
    pub const PUBLISHED: u8 = 0;
    /// Published (decided), a follow-up is pending.
    pub const DECIDED: u8 = 118;
    /// Another attempt has the lease.
    pub const HELD: u8 = 120;
    /// Another attempt took over, or another publication stands.
    pub const FENCED: u8 = 121;
    /// The commit's answer was lost.
    pub const UNKNOWN: u8 = 122;
    /// The staged output failed a guard.
    pub const REFUSED: u8 = 123;
    /// The task's time limit passed.
    pub const TIMED_OUT: u8 = 124;
    /// Refrain's own failure before the commit.
    pub const FAILED: u8 = 125;
    /// The command cannot be executed.
    pub const NOT_EXECUTABLE: u8 = 126;
    /// The command was not found.
    pub const NOT_FOUND: u8 = 127;
}

/// The exit code and the outcome of an error, when nothing more specific is known.
pub fn outcome_of(kind: ErrorKind) -> (Outcome, u8) {
    match kind {
        ErrorKind::Held => (Outcome::Held, exit_code::HELD),
        ErrorKind::Fenced | ErrorKind::Conflict => (Outcome::Fenced, exit_code::FENCED),
        ErrorKind::Unknown => (Outcome::Unknown, exit_code::UNKNOWN),
        ErrorKind::Guard => (Outcome::Refused, exit_code::REFUSED),
        ErrorKind::Refused => (Outcome::Refused, exit_code::FAILED),
        ErrorKind::TimedOut => (Outcome::TimedOut, exit_code::TIMED_OUT),
        ErrorKind::TaskFailed => (Outcome::TaskFailed, 1),
        _ => (Outcome::Error, exit_code::FAILED),
    }
}

impl Report {
    /// A report of a call that has only begun.
    pub(crate) fn new(key: &Key, started_at: Timestamp) -> Self {
        Self {
            schema: 1,
            task: key.task.to_string(),
            partition: key.partition.clone(),
            generation: None,
            run: None,
            attempt: None,
            token: None,
            outcome: Outcome::Error,
            window: Window::NothingPublished,
            exit_code: exit_code::FAILED,
            task_exit: None,
            left_behind: Vec::new(),
            retry: Retry::Later,
            task_end: None,
            outputs: Vec::new(),
            inputs: Vec::new(),
            sealed_by: None,
            remark: None,
            stopped_by: None,
            fingerprint: None,
            published_at: None,
            started_at,
            finished_at: started_at,
            duration_ms: 0,
            error: None,
            timings_us: Timings::default(),
        }
    }

    /// A report of a call that failed before it had a key: a wrong name, date or configuration.
    pub fn of_error(task: &str, partition: &str, at: Timestamp, error: &Error) -> Self {
        let (outcome, exit_code) = outcome_of(error.kind);
        Self {
            retry: Retry::of(outcome, Some(error.kind), None, None),
            task_end: None,
            schema: 1,
            task: task.to_owned(),
            partition: partition.to_owned(),
            generation: None,
            run: None,
            attempt: None,
            token: None,
            outcome,
            window: Window::NothingPublished,
            exit_code,
            task_exit: None,
            left_behind: Vec::new(),
            outputs: Vec::new(),
            inputs: Vec::new(),
            sealed_by: None,
            remark: None,
            stopped_by: None,
            fingerprint: None,
            published_at: None,
            started_at: at,
            finished_at: at,
            duration_ms: 0,
            error: Some(ErrorReport::of(error)),
            timings_us: Timings::default(),
        }
    }

    /// Writes the report as JSON: to a file, whole or not at all, or to stdout for `-`.
    ///
    /// # Errors
    /// `internal` when it cannot be written. The publication stands all the same.
    pub fn write(&self, place: &str) -> Result<(), Error> {
        let mut text = serde_json::to_string(self)
            .map_err(|error| Error::new(ErrorKind::Internal, "cannot write the report").because(error))?;
        text.push('\n');
        let failed = |error| Error::io(format!("cannot write the report to `{place}`"), error);
        if place == "-" {
            let mut stdout = std::io::stdout().lock();
            return stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(failed);
        }
        refrain_sink::write_whole(Path::new(place), text.as_bytes()).map_err(failed)
    }

    /// Whether a file holds a report, as [`write`](Self::write) begins one. A pipe is not opened: that would wait for a writer.
    pub(crate) fn stands_at(path: &Path) -> bool {
        const BEGINNING: &[u8] = b"{\"schema\":1,\"task\":";
        let mut read = [0; BEGINNING.len()];
        path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut read)).is_ok() && read == BEGINNING
    }

    /// Fills in what a run says.
    pub(crate) fn show_run(&mut self, run: &RunRecord) {
        self.generation = Some(run.generation);
        self.run = Some(run.run_id);
        self.inputs = run.inputs.iter().map(InputReport::of).collect();
    }

    /// Fills in what a publication says.
    pub(crate) fn show(&mut self, publication: &Publication, locate: impl Fn(&SealedData) -> String) {
        let run = &publication.run;
        self.show_run(run);
        if self.attempt.replace(publication.attempt) != Some(publication.attempt) {
            self.token = None;
        }
        self.fingerprint = publication.fingerprint.is_known().then(|| publication.fingerprint.digest.clone());
        self.published_at = Some(publication.sealed_at);
        self.outputs = run
            .outputs
            .iter()
            .filter_map(|output| {
                let data = publication.data_for(&output.slot)?;
                Some(OutputReport {
                    name: output.name.clone(),
                    sink: output.slot.sink.clone(),
                    location: locate(data),
                    version: run.generation,
                    bytes: data.bytes,
                    files: data.files,
                    rows: data.rows,
                    digest: data.digest.clone(),
                })
            })
            .collect();
    }

    /// Says whether a repeat is worthwhile, from everything else that the report says and what the task lists.
    pub(crate) fn judge(&mut self, on: Option<&RetryOn>) {
        self.retry = Retry::of(self.outcome, self.error.as_ref().map(|error| error.kind), self.task_end, on);
    }

    /// The end as the store records it.
    pub(crate) fn ending(&self) -> Ending {
        Ending {
            at: self.finished_at,
            outcome: self.outcome,
            window: self.window,
            exit_code: Some(self.exit_code),
            stopped_by: self.stopped_by,
            error_kind: self.error.as_ref().map(|error| error.kind),
            message: self.error.as_ref().map(|error| error.message.clone()).or_else(|| self.remark.clone()),
            retry: self.error.as_ref().map(|_| self.retry),
        }
    }
}

impl InputReport {
    fn of(pin: &PinnedInput) -> Self {
        Self { name: pin.name.clone(), location: pin.location.clone(), version: pin.version.clone() }
    }
}

/// An error in one line, with its causes and what helps.
pub(crate) fn in_one_line(error: &Error) -> String {
    let ErrorReport { message, hint, .. } = ErrorReport::of(error);
    hint.map_or_else(|| message.clone(), |hint| format!("{message}; {hint}"))
}

impl ErrorReport {
    /// The error, its causes joined into the message.
    pub(crate) fn of(error: &Error) -> Self {
        let mut message = error.message.clone();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Self { kind: error.kind, message, hint: error.hint.clone() }
    }
}
