//! Identities. Each is a type of its own, so that a token is never taken for a generation.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

macro_rules! uuid_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Wraps a uuid that the caller drew: the core draws no randomness.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The uuid inside.
            pub const fn as_uuid(&self) -> &Uuid {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    )*};
}

uuid_id! {
    /// One wish to have a key published, with one pinned set of inputs (1.1).
    RunId;
    /// One execution for a run; a fresh one per process start, never reused (1.2).
    AttemptId;
    /// One state store; fresh for every new store and every restore from backup (1.3).
    StoreId;
    /// One head, from its first creation on (2.2).
    SlotId;
    /// A head's state; never repeats, even after drop and recreate (2.2).
    HeadVersion;
}

macro_rules! counter_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// Wraps a number.
            pub const fn new(number: u64) -> Self {
                Self(number)
            }

            /// The number inside.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The number after this one.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

counter_id! {
    /// Fencing token: rises with every lease of a key and is checked by the sink.
    Token;
    /// Number of a run within its key; a re-run on purpose opens the next one. Readers know it as the
    /// version of a publication. 0 is what stood at the target before Refrain published there.
    Generation;
}

/// Names a task. Letters, digits, `_`, `-` and `.`; not empty; at most 128 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskName(String);

impl TaskName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskName({})", self.0)
    }
}

impl FromStr for TaskName {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if text.is_empty() || text.len() > 128 || !text.chars().all(legal) || text.starts_with(['.', '-']) {
            return Err(crate::Error::invalid(format!(
                "the task name `{text}` is not usable: it takes 1 to 128 letters, digits, `_`, `-` and `.`, \
                 and starts with a letter, a digit or `_`"
            )));
        }
        Ok(Self(text.to_owned()))
    }
}

/// What is leased and what is published once: (task, partition) (1.1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The task.
    pub task: TaskName,
    /// What one repetition of the task is for, in canonical form; empty for a task without partitions.
    pub partition: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.partition.is_empty() {
            write!(f, "{}", self.task)
        } else {
            write!(f, "{} {}", self.task, self.partition)
        }
    }
}
