//! The watermark of a task: up to where a store has forgotten the history of its dated keys (PROTOCOL 12).
//!
//! A store that folds a key forgets its run and its attempts. What is published stays, and its head with it: the head
//! tells an attempt what stands there, whatever the store knows (3.4). What is left to guard is a key of which neither
//! the store nor a head knows anything. Above the watermark that means "never applied"; at or below it, it may have been
//! applied and forgotten, so that it is refused.

use crate::{AttemptId, Interval, RunId, Token};
use jiff::Timestamp;

/// Up to where the keys of a task are folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// The latest key that was folded, for people.
    pub through: String,
    /// When its interval ended; only ever rises.
    pub ends_at: Timestamp,
    /// The highest token that any folded key had. A key without an entry goes on above it, so that no token comes twice
    /// (3.1).
    pub token_floor: Token,
    /// How many keys were folded since the task began; one that was run again and folded again counts twice.
    pub folded: u64,
}

impl Watermark {
    /// The watermark after one more key was folded, which had tokens up to `token`.
    #[must_use]
    pub fn raised(former: Option<Self>, key: &Foldable, token: Token) -> Self {
        let Some(former) = former else {
            return Self { through: key.partition.clone(), ends_at: key.ends_at, token_floor: token, folded: 1 };
        };
        let token_floor = former.token_floor.max(token);
        let folded = former.folded + 1;
        if key.ends_at <= former.ends_at {
            return Self { token_floor, folded, ..former };
        }
        Self { through: key.partition.clone(), ends_at: key.ends_at, token_floor, folded }
    }

    /// Whether a key of this interval is at or below the watermark. A moment counts and not a spelling, so that this
    /// holds for a task that changed its grain, too.
    pub fn covers(&self, interval: &Interval) -> bool {
        interval.end <= self.ends_at
    }
}

/// A key to be folded, as it was seen: it is left alone if anything of it changed since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foldable {
    /// Its partition.
    pub partition: String,
    /// The end of its interval.
    pub ends_at: Timestamp,
    /// Its current run.
    pub run: Option<RunId>,
    /// Its newest attempt.
    pub last_attempt: Option<AttemptId>,
}
