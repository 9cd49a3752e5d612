//! What a check found, for machines (schema 1) and for people.

use super::call::Exit;
use super::ground::Watched;
use super::writes::Write;
use refrain::core::counted;
use refrain_compare::Comparison;
use serde::Serialize;
use std::path::PathBuf;

/// The result of a check. Fields are added, never renamed or removed.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Always 1.
    pub schema: u32,
    /// The task.
    pub task: String,
    /// The partition; empty for a task without partitions.
    pub partition: String,
    /// What came of it.
    pub result: Outcome,
    /// What was tried, in this order.
    pub trials: Vec<Trial>,
    /// What speaks against repeatability; empty when the task is repeatable.
    pub findings: Vec<Finding>,
    /// Things that are worth to be known and speak against nothing.
    pub notes: Vec<String>,
    /// What was watched.
    pub watched: Watched,
    /// Replays the moments of `--kill`.
    pub seed: u64,
    /// Why it could not be checked: the command's own failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The scratch directory, where it was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scratch: Option<PathBuf>,
}

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing was found.
    Repeatable,
    /// See the findings.
    NotRepeatable,
    /// The task fails in the scratch copy.
    CouldNotBeChecked,
}

/// One kind of trial and how often it was done.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// `twice`, `kill` or `race`.
    pub name: &'static str,
    /// So many runs, kills or starts at once.
    pub count: u32,
    /// What it was, for people: `2 runs`.
    pub detail: String,
    /// What was different from run to run.
    pub varied: Vec<String>,
    /// What could not be varied, and why.
    pub not_varied: Vec<String>,
}

/// One thing that speaks against repeatability.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What it is.
    pub kind: Kind,
    /// The trial that found it.
    pub trial: &'static str,
    /// The output, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The file below the output, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What was seen, in one sentence.
    pub what: String,
    /// What probably makes it so, in one sentence; empty when nothing is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// What to do about it.
    pub hint: String,
    /// Files that were written outside the outputs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<Write>,
    /// The comparison of the two outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Box<Comparison>>,
}

/// What speaks against repeatability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Two runs from the same inputs gave different content.
    ContentDiffers,
    /// Two runs gave the same content in different bytes.
    BytesDiffer,
    /// The output holds the day on which it was made.
    WallClock,
    /// The output holds what was published before.
    ReadsOwnOutput,
    /// The command writes to the place where readers find the output.
    WritesLiveOutput,
    /// The command writes outside its outputs.
    UndeclaredWrite,
    /// A part of a pipe failed, and the command succeeded all the same.
    HiddenFailure,
    /// The command left a process behind.
    LeftProcess,
    /// The command fails when it is repeated.
    FailsWhenRepeated,
    /// After a kill and a repetition the output is another one.
    KillDiffers,
    /// After a kill a repetition does not succeed.
    KillNotRepaired,
    /// Of several starts at once not exactly one executed and published.
    RaceNotOne,
}

impl Kind {
    /// The name as it is serialized.
    pub fn name(self) -> &'static str {
        match self {
            Self::ContentDiffers => "content_differs",
            Self::BytesDiffer => "bytes_differ",
            Self::WallClock => "wall_clock",
            Self::ReadsOwnOutput => "reads_own_output",
            Self::WritesLiveOutput => "writes_live_output",
            Self::UndeclaredWrite => "undeclared_write",
            Self::HiddenFailure => "hidden_failure",
            Self::LeftProcess => "left_process",
            Self::FailsWhenRepeated => "fails_when_repeated",
            Self::KillDiffers => "kill_differs",
            Self::KillNotRepaired => "kill_not_repaired",
            Self::RaceNotOne => "race_not_one",
        }
    }
}

impl Finding {
    pub(super) fn new(kind: Kind, trial: &'static str, what: impl Into<String>) -> Self {
        Self {
            kind,
            trial,
            output: None,
            file: None,
            what: what.into(),
            cause: String::new(),
            hint: String::new(),
            writes: Vec::new(),
            comparison: None,
        }
    }

    pub(super) fn of(mut self, output: &str) -> Self {
        self.output = Some(output.to_owned());
        self
    }

    pub(super) fn because(mut self, cause: impl Into<String>) -> Self {
        self.cause = cause.into();
        self
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

/// A task that fails in the scratch copy.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// What happened, in one sentence.
    pub what: String,
    /// What to do about it; empty when nothing is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hint: String,
    /// How the command ended, if it was started.
    pub task_exit: Option<Exit>,
    /// The end of what it printed.
    pub stdout: String,
    /// The end of what it printed as errors.
    pub stderr: String,
}

impl Verdict {
    /// The last line: the verdict in one sentence.
    pub fn sentence(&self) -> String {
        let tried: Vec<_> = self.trials.iter().map(|trial| format!("{} ({})", trial.name, trial.detail)).collect();
        match self.result {
            Outcome::Repeatable => format!("repeatable: {}", tried.join(", ")),
            Outcome::NotRepeatable => {
                let count = self.findings.len();
                let findings = counted(count, "finding");
                format!("not repeatable: {findings}: {}", tried.join(", "))
            }
            Outcome::CouldNotBeChecked => "could not be checked: the task fails in the scratch copy".to_owned(),
        }
    }
}
