//! Named places in the protocol where a test may let the program die, fail or wait.

use std::fmt;

macro_rules! crash_points {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// One edge of a protocol step. Reached before and after the step itself.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum CrashPoint {
            $($(#[$doc])* $variant,)*
        }

        impl CrashPoint {
            /// Every point, in the order in which a run that publishes reaches them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The point's name, as tests spell it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

crash_points! {
    /// Nothing is known of the attempt yet.
    BeforeAcquire = "before-acquire",
    /// The lease is granted (5.1).
    AfterAcquire = "after-acquire",
    /// About to claim a slot (5.2).
    BeforeClaim = "before-claim",
    /// A slot is claimed.
    AfterClaim = "after-claim",
    /// About to open the run (5.4).
    BeforeOpenRun = "before-open-run",
    /// About to keep what an input is now.
    BeforeKeep = "before-keep",
    /// It is copied, or listed, and not yet where attempts find it.
    AfterKeep = "after-keep",
    /// The inputs are pinned, the run not recorded.
    AfterPin = "after-pin",
    /// The run is recorded.
    AfterOpenRun = "after-open-run",
    /// Staging is made, the task not started (5.7).
    BeforeTask = "before-task",
    /// The task ended (5.8).
    AfterTask = "after-task",
    /// What a slot's objects will be is written in the bucket; none of them is uploaded.
    AfterManifest = "after-manifest",
    /// The output of one slot is sealed.
    AfterSeal = "after-seal",
    /// Everything is sealed; nothing is sent (5.9).
    BeforeCommit = "before-commit",
    /// The slot's lock is held, the intent not yet written (9.4).
    BeforeIntent = "before-intent",
    /// The intent is durable: the commit is decided (9.5).
    AfterIntent = "after-intent",
    /// An upload in parts that is to replace a single object is begun and recorded; none of its parts is there.
    AfterUploadBegun = "after-upload-begun",
    /// All its parts are there; no object is made of them.
    BeforeCompletion = "before-completion",
    /// The data is visible, not yet durable.
    AfterRename = "after-rename",
    /// The data is where readers look and durable, the head still shows the intent.
    BeforeRecord = "before-record",
    /// The head shows the publication.
    AfterRecord = "after-record",
    /// The rows are moved and the head is written, in a transaction that is not committed.
    BeforeDatabaseCommit = "before-database-commit",
    /// The database has committed; its answer is not told.
    AfterDatabaseCommit = "after-database-commit",
    /// A slot is committed and the answer is known (5.10).
    AfterCommit = "after-commit",
    /// About to settle and release at the store.
    BeforeFinish = "before-finish",
    /// The lease is released; only the report is missing.
    AfterFinish = "after-finish",
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Told of every crash point. The program's own probe does nothing unless a test asks for it.
pub trait CrashProbe: Send + Sync {
    /// The program stands at this point.
    fn reach(&self, point: CrashPoint);
}

/// The probe of everybody who is not tested.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProbe;

impl CrashProbe for NoProbe {
    fn reach(&self, _point: CrashPoint) {}
}
