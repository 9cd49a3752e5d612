//! The one public error: a kind that tells the caller what to do, and where the failure fell.

use serde::{Deserialize, Serialize};
use std::error::Error as StdError;
use std::fmt;

/// What the caller must do about an error. A closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Another attempt has the lease: wait for it, or try later.
    Held,
    /// A later attempt took over: stop, never retry this attempt.
    Fenced,
    /// Another publication stands where this one should go: look at it before anything else.
    Conflict,
    /// The commit's answer was lost: ask the sink (`refrain recover`) before anything else.
    Unknown,
    /// A store, sink or input cannot be reached now: retry.
    Unavailable,
    /// The filesystem, store or sink lacks what is asked for: choose another.
    Unsupported,
    /// The request is wrong: mend the command line, the configuration or the data.
    Invalid,
    /// A person must decide: the message says what and how.
    Refused,
    /// The staged output failed a guard: mend the task, or relax the guard on purpose.
    Guard,
    /// Stored state cannot be read: restore it, or declare it lost as the message says.
    Corrupt,
    /// The task itself failed: its own exit code tells why.
    TaskFailed,
    /// The task's time limit passed.
    TimedOut,
    /// An input or output failure, or a bug of Refrain.
    Internal,
}

impl ErrorKind {
    /// The kind's name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Fenced => "fenced",
            Self::Conflict => "conflict",
            Self::Unknown => "unknown",
            Self::Unavailable => "unavailable",
            Self::Unsupported => "unsupported",
            Self::Invalid => "invalid",
            Self::Refused => "refused",
            Self::Guard => "guard",
            Self::Corrupt => "corrupt",
            Self::TaskFailed => "task_failed",
            Self::TimedOut => "timed_out",
            Self::Internal => "internal",
        }
    }
}

/// Where a failure fell, seen from the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// Before the commit.
    NothingPublished,
    /// After the commit.
    Published,
    /// Not known until the sink was asked.
    Unknown,
}

impl Window {
    /// The sentence that ends every error message.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::NothingPublished => "Nothing was published.",
            Self::Published => "The output is published.",
            Self::Unknown => "It is unknown whether the output was published; `refrain recover` decides.",
        }
    }

    /// The window's name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NothingPublished => "nothing_published",
            Self::Published => "published",
            Self::Unknown => "unknown",
        }
    }
}

/// A failure: its kind, a message that names the thing and the reason, and a hint with the next command.
#[derive(Debug)]
pub struct Error {
    /// What the caller must do.
    pub kind: ErrorKind,
    /// Lowercase, no final period; names the object and the values in conflict.
    pub message: String,
    /// A command or change that helps, where one is known.
    pub hint: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of the given kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, source: None }
    }

    /// The request is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// A person must decide.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    /// The staged output failed a guard.
    pub fn guard(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Guard, message)
    }

    /// Stored state cannot be read.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// An input or output failure: `action` says what was tried, as in "cannot write `x`".
    pub fn io(action: impl Into<String>, source: std::io::Error) -> Self {
        Self::new(ErrorKind::Internal, action).because(source)
    }

    /// The same error with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with its cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same error, its message led by where it happened: `place: message`.
    #[must_use]
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// The same error with another kind.
    #[must_use]
    pub fn kind(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as &(dyn StdError + 'static))
    }
}

/// The result of everything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;
