//! What a state store does: leases, runs and the record of attempts (PROTOCOL 3).
//!
//! A store decides nothing about publication (3.6); it saves work and remembers pins. Every method that
//! changes a key is one linearizable transaction around a method of [`KeyRecord`](crate::KeyRecord).

use crate::{
    AttemptId, ErrorKind, Foldable, Generation, Granted, Holder, Key, Lease, LeaseRequest, OpenRun, Result, RunId,
    RunProposal, RunRecord, StoreIdentity, TaskName, Token, Want, Watermark, Window,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// A state store.
pub trait StateStore: Send + Sync + Debug {
    /// The store's identity and what it replaces (1.3).
    fn identity(&self) -> Result<StoreIdentity>;

    /// Asks for the lease and records the attempt (3.1). Repeating it for the same attempt gives the same token.
    fn acquire(&self, key: &Key, request: &LeaseRequest) -> Result<Acquired>;

    /// Extends the lease; false when this holder does not have it any more (3.2).
    fn renew(&self, key: &Key, holder: &Holder, ttl_ms: u64) -> Result<bool>;

    /// Gives the holder a token above `floor` (3.3); nothing when it does not hold the lease.
    fn raise(&self, key: &Key, holder: &Holder, floor: Token) -> Result<Option<Token>>;

    /// The run to work for (3.4); nothing when the caller does not hold the lease. Durable when it returns:
    /// a retry after a power cut reads the same pins.
    fn open_run(
        &self,
        key: &Key,
        holder: &Holder,
        want: Want,
        seen: Option<&RunRecord>,
        proposal: Option<&RunProposal>,
    ) -> Result<Option<OpenRun>>;

    /// Records how the attempt ended and releases its lease if it still has it (3.2, 5.10). Repeating it is
    /// harmless. Bookkeeping only: need not be durable.
    fn finish(&self, key: &Key, holder: &Holder, ending: &Ending) -> Result<()>;

    /// Records how an attempt of the key that could not do it itself ended: recovery knows it from the sink (5.12). An
    /// ending that [is settled](Ending::is_settled) stays as it is.
    fn settle_attempt(&self, key: &Key, attempt: AttemptId, ending: &Ending) -> Result<()>;

    /// What the store knows of one key.
    fn key(&self, key: &Key) -> Result<Option<KeyState>>;

    /// Shows the keys of one task or of all to `each`, ordered by key; an error of `each` ends the walk.
    /// Memory stays bounded whatever the number of keys, and `each` may call the store. Keys that change
    /// meanwhile are shown as they were or as they are. A store that keeps each key by itself shows one that it cannot read
    /// as [unreadable](KeySummary::is_unreadable): it does not hide the others.
    fn for_each_key(&self, task: Option<&TaskName>, each: &mut dyn FnMut(KeySummary) -> Result<()>) -> Result<()>;

    /// Attempts, newest first in the order in which the store granted their leases.
    fn attempts(&self, filter: &AttemptFilter) -> Result<Vec<AttemptRecord>>;

    /// Forgets all but the newest `keep_per_key` attempts of each key, in transactions of about `batch`
    /// attempts each. The newest attempt of a key and every one whose end is not settled stay. Returns how
    /// many were forgotten. Dying inside loses nothing: repeating it goes on.
    fn compact_attempts(&self, keep_per_key: u32, batch: u32) -> Result<u64>;

    /// Takes what heads show for keys of which the store knows no run, or an older one (3.4a, 8.4), and returns how many
    /// keys learned something. A key that is leased is left to its holder, who sees the head.
    ///
    /// # Crash safety
    /// All of it or nothing, durable when this returns. Repeating it changes nothing more.
    fn learn(&self, shown: &[Shown]) -> Result<u64>;

    /// Forgets these keys of one task, with all their attempts, and raises the task's watermark over them, in one
    /// transaction (12.2). A key that is leased, has an attempt whose end is not settled, or is not as it was seen, stays.
    /// Returns the partitions that stay. A key that is gone already counts as folded before.
    ///
    /// # Crash safety
    /// All of it or nothing; a power cut may take it back. Repeating it goes on.
    fn fold(&self, task: &TaskName, keys: &[Foldable]) -> Result<Vec<String>>;

    /// Up to where the keys of a task are folded; nothing when none ever was.
    fn watermark(&self, task: &TaskName) -> Result<Option<Watermark>>;

    /// Gives room that folding freed back to the filesystem, where there is much of it. Others wait meanwhile, seconds
    /// at most for what is left of a large history; if they do not let it through, the room is used again later.
    fn reclaim(&self) -> Result<()>;

    /// The moment by the store's clock, for the age of leases.
    fn now(&self) -> Result<crate::StoreTime>;
}

/// Answer of [`StateStore::acquire`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The caller has the lease.
    Granted(Granted),
    /// Another attempt has it.
    Held(Lease),
}

/// What the store knows of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// The key.
    pub key: Key,
    /// The lease, if one was granted and not released.
    pub lease: Option<Lease>,
    /// The current run.
    pub run: Option<RunRecord>,
    /// The newest attempt.
    pub last_attempt: Option<AttemptRecord>,
}

/// What a listing shows of a key: everything but the run's own record, which [`StateStore::key`] has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySummary {
    /// The key.
    pub key: Key,
    /// The lease, if one was granted and not released.
    pub lease: Option<Lease>,
    /// The current run's generation.
    pub generation: Option<Generation>,
    /// The current run.
    pub run: Option<RunId>,
    /// The newest attempt.
    pub last_attempt: Option<AttemptRecord>,
    /// What is known of it cannot be read; [`StateStore::key`] tells why.
    pub is_unreadable: bool,
}

impl KeySummary {
    /// A key of which nothing can be read.
    pub fn unreadable(key: Key) -> Self {
        Self { key, lease: None, generation: None, run: None, last_attempt: None, is_unreadable: true }
    }
}

/// Which attempts to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptFilter {
    /// Only of this task.
    pub task: Option<TaskName>,
    /// Only of this partition.
    pub partition: Option<String>,
    /// Only those whose run or attempt id has this part: ids of one minute begin alike, and end differently.
    pub id_part: Option<String>,
    /// Only those whose end is not settled ([`Ending::is_settled`]), or not recorded at all.
    pub unfinished: bool,
    /// At most so many.
    pub limit: Option<u32>,
}

impl AttemptFilter {
    /// The attempt of this key.
    pub fn of(key: &Key, attempt: AttemptId) -> Self {
        Self {
            task: Some(key.task.clone()),
            partition: Some(key.partition.clone()),
            id_part: Some(attempt.to_string()),
            limit: Some(1),
            ..Self::default()
        }
    }
}

/// One attempt, as the store remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its key.
    pub key: Key,
    /// The token it was granted.
    pub token: Token,
    /// Its run, once it was opened.
    pub run: Option<RunId>,
    /// Its generation, once it was opened.
    pub generation: Option<Generation>,
    /// The process, as JSON.
    pub process: String,
    /// When it was granted the lease, by the wall clock.
    pub started_at: Timestamp,
    /// How it ended, once that is known.
    pub ending: Option<Ending>,
}

/// What a head shows of a key, as the store would have recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The run that is published.
    pub run: RunRecord,
    /// The attempt that published it, with its ending.
    pub attempt: AttemptRecord,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// When, by the wall clock.
    pub at: Timestamp,
    /// The outcome, in the words of the report.
    pub outcome: Outcome,
    /// Where the end fell, seen from the commit.
    pub window: Window,
    /// The exit code that was given; nothing for an attempt that was killed, or gave none that anybody knows.
    pub exit_code: Option<u8>,
    /// The signal that was sent to the attempt's own process and ended it in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<i32>,
    /// Kind of the error, if it was one.
    pub error_kind: Option<ErrorKind>,
    /// The error or remark.
    pub message: Option<String>,
    /// Whether a repeat is worthwhile; endings that were recorded before there was such a word have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<crate::Retry>,
}

impl Ending {
    /// Whether this is the last word. An unknown end and a pending follow-up are not: recovery replaces them.
    pub fn is_settled(&self) -> bool {
        self.window != Window::Unknown && !matches!(self.outcome, Outcome::Unknown | Outcome::Decided)
    }
}

/// The outcome of an attempt or of a call, in the words of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// This attempt's output is published.
    Published,
    /// The run was published before.
    AlreadyPublished,
    /// Published at the anchor, a follow-up is pending.
    Decided,
    /// A later generation stands.
    Superseded,
    /// The task failed.
    TaskFailed,
    /// Another attempt has the lease.
    Held,
    /// A later attempt took over, or another publication stands.
    Fenced,
    /// The answer of the commit was lost.
    Unknown,
    /// A guard, or a rule that needs a person.
    Refused,
    /// The task's time limit passed.
    TimedOut,
    /// Refrain's own failure, or an end without a word before anything was published.
    Error,
    /// What earlier attempts left open is settled; this one published nothing of its own. Only in the record of attempts.
    Recovered,
}
