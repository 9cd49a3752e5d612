//! What an input does: its version is recorded once per run, and every attempt reads exactly that.

use crate::{AttemptId, PinnedInput, Result};
use std::fmt::Debug;

/// Asks for a pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinRequest {
    /// The input's name within its task.
    pub name: String,
    /// Where it is, filled in for the partition, in the input's own terms.
    pub location: String,
    /// The attempt that pins it, for its run.
    pub owner: AttemptId,
    /// How it is held still.
    pub mode: PinMode,
    /// Where the task publishes, for this partition and others, as locations: nothing of it may be read through a link.
    pub outputs: Vec<String>,
}

/// How an input is held still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PinMode {
    /// The task reads a read-only copy, which shares its blocks with the original where the filesystem can.
    #[default]
    Auto,
    /// The same, and every byte is copied.
    Copy,
    /// The same, and blocks must be shared.
    Reflink,
    /// The task reads second names of the original files; content that changes between pin and seal refuses the
    /// publication.
    Link,
    /// The task reads the original; a change between pin and seal refuses the publication.
    Verify,
}

impl PinMode {
    /// Every mode.
    pub const ALL: [Self; 5] = [Self::Auto, Self::Copy, Self::Reflink, Self::Link, Self::Verify];

    /// The mode's name in `refrain.toml`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Copy => "copy",
            Self::Reflink => "reflink",
            Self::Link => "link",
            Self::Verify => "verify",
        }
    }
}

/// A kind of input.
pub trait Input: Send + Sync + Debug {
    /// The version as it is now, without keeping anything.
    fn version(&self, location: &str) -> Result<String>;

    /// Records the version and, unless the mode is [`PinMode::Verify`], keeps the content. A missing input is an error
    /// of kind `invalid`.
    fn pin(&self, request: &PinRequest) -> Result<PinnedInput>;

    /// Where the task reads what was pinned: a path or URL. An error of kind `refused` when it is gone.
    fn open(&self, pin: &PinnedInput) -> Result<String>;

    /// Makes sure that what the task read is what was pinned; an error of kind `guard` names what changed.
    fn verify(&self, pin: &PinnedInput) -> Result<()>;

    /// Forgets what an attempt kept, once no run needs it.
    fn release(&self, owner: AttemptId) -> Result<()>;
}
