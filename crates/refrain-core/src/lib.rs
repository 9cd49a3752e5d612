//! The words and the protocol of Refrain as code that does no input or output.
//!
//! The order of the modules is the path of the data: a task's key ([`Key`]) is leased ([`KeyRecord`]),
//! its slots are claimed ([`decide_claim`]), its inputs pinned ([`Input`]), its output staged and sealed
//! ([`Staging`]), committed ([`decide_commit`]), and what is no longer needed may go ([`staleness`]).
//! [`Attempt`] walks that path as a state machine; [`StateStore`], [`Sink`], [`Input`] and [`Clock`] are what
//! the outside world implements. No backend is named here, and nothing here asks the clock, draws a random
//! number, or opens a file.

mod attempt;
mod clock;
mod counted;
mod crash;
mod duration;
mod error;
mod fingerprint;
mod grain;
mod head;
mod id;
mod input;
mod lease;
mod nearest;
mod partition;
mod retention;
mod retry;
mod run;
mod secret;
mod sink;
mod store;
mod template;
mod watermark;

pub use attempt::{Action, Answer, Attempt, Cause, CommitStep, Doubt, Goal, Refusal};
pub use clock::Clock;
pub use counted::{are, counted, were};
pub use crash::{CrashPoint, CrashProbe, NoProbe};
pub use duration::{format_duration, parse_duration};
pub use error::{Error, ErrorKind, Result, Window};
pub use fingerprint::{Difference, DifferenceKind, Fingerprint, FingerprintBuilder, Value, differences};
pub use grain::{Calendar, Grain, Interval, Intervals};
pub use head::{
    Claim, ClaimDecision, ClaimRefusal, ClaimRequest, CommitDecision, CommitRequest, Former, Head, TakenFrom,
    decide_claim, decide_commit,
};
pub use id::{AttemptId, Generation, HeadVersion, Key, RunId, SlotId, StoreId, TaskName, Token};
pub use input::{Input, PinMode, PinRequest};
pub use lease::{Granted, KeyRecord, Lease, LeaseRequest, NotHolder, OpenRun, RunProposal, StoreTime, Want};
pub use nearest::nearest;
pub use partition::{Partition, PartitionScheme, check_name};
pub use retention::{Staleness, Verdict, staleness, verdict};
pub use retry::{Backoff, Passing, Retry, RetryOn, RetryPolicy, TaskEnd};
pub use run::{
    Holder, Lineage, OutputSlot, PinnedInput, PinnedPublication, Publication, Restores, RunRecord, SealedData,
    SlotAddress, StagingId, StoreIdentity,
};
pub use secret::{names_password, without_password};
pub use sink::{
    Adopt, Capabilities, ClaimAnswer, CommitAnswer, CommitOptions, Condition, Guards, Keep, Open, Origin, Sealed,
    SealedWork, Sink, Staged, Staging, SwapCost, Version,
};
pub use store::{Acquired, AttemptFilter, AttemptRecord, Ending, KeyState, KeySummary, Outcome, Shown, StateStore};
pub use template::Template;
pub use watermark::{Foldable, Watermark};
