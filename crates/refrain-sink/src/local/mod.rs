//! What file and directory sinks share: volumes, locks, head records, the commit and its recovery.
//!
//! The order of a publication is the order of the calls: `stage` makes a private directory in the volume, `seal` makes
//! its content durable and says what it is, `commit` writes an intent and switches the name. What the two kinds do
//! differently is in [`crate::file`] and [`crate::directory`].

mod address;
mod claim;
mod commit;
pub(crate) mod durable;
mod hand_out;
mod hash;
mod identity;
mod journal;
mod lock;
mod lost;
mod metadata;
mod nested;
mod preflight;
mod problem;
mod provenance;
mod record;
mod recover;
mod seal;
mod site;
mod staging;
mod standing;
mod stat;
mod versions;
mod volume;
mod whole;

pub use address::state_above;
pub use hand_out::{drop_copy, hand_out};
pub use lost::{ShownKey, claimed_stores, shown_keys};
pub use provenance::provenance_of;
pub use volume::prepare_volume;
pub use whole::{write_whole, written_place};

pub(crate) use address::{escape, relative};
pub(crate) use hash::hash_file;
pub(crate) use identity::Identity;
pub(crate) use problem::{look, problem};
pub(crate) use record::{Intent, Layout, VersionLabel};
pub(crate) use recover::Surprise;
pub(crate) use seal::{Measured, changed, demand_unwritten, incomplete};
pub(crate) use site::Site;
pub(crate) use staging::{Owner, manifest_path};
pub(crate) use standing::{Depth, digest_text, has_digest, identity_of};
pub(crate) use stat::Stat;
pub(crate) use versions::{FRESH_COPY, has_label, write_label};

use jiff::Timestamp;
use refrain_core::{
    Adopt, Capabilities, ClaimAnswer, ClaimRequest, CommitAnswer, CommitOptions, CommitRequest, Condition, CrashPoint,
    CrashProbe, Error, Generation, Guards, Head, Keep, Open, Result, Sealed, Sink, SlotAddress, Staged, Staging,
    StagingId, Version,
};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use volume::{HOME_DIRECTORY, Volume};

/// How long a call waits for the lock of a slot: commits are short, so that a longer hold means a stopped process.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// What a local sink publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LocalKind {
    /// One file.
    File,
    /// One directory, whole.
    Directory,
}

impl LocalKind {
    /// The sink's kind, as in [`SlotAddress::sink`].
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
        }
    }

    /// What a sink of this kind promises.
    pub fn capabilities(self) -> Capabilities {
        match self {
            Self::File => crate::file::CAPABILITIES,
            Self::Directory => crate::directory::CAPABILITIES,
        }
    }
}

/// A sink for files or directories on local filesystems.
///
/// # Crash safety
/// At every moment of a commit the target is whole old or whole new, also after a power cut; whoever next takes the
/// slot's lock finishes what was begun.
pub struct LocalSink {
    kind: LocalKind,
    home: PathBuf,
    volumes: Vec<Volume>,
    probe: Arc<dyn CrashProbe>,
    lock_patience: Duration,
    memory: Mutex<Memory>,
}

/// What one process remembers.
#[derive(Debug, Default)]
struct Memory {
    /// Heads that this process made and whose name in `slots/` is not durable yet.
    unsynced: HashSet<PathBuf>,
    /// Slots at which an fsync failed: asking again would answer "done" although pages were dropped (FS-13).
    latched: HashSet<PathBuf>,
    /// Slots at which the seal found that what stands was changed by hand.
    edited: HashSet<PathBuf>,
    /// Set when the attempt that works was told to stop.
    signalled: Arc<AtomicBool>,
    /// For each staged directory a descriptor from before the task wrote: syncfs reports the errors since then.
    witnesses: HashMap<PathBuf, File>,
}

impl LocalSink {
    /// A sink for the home's filesystem and those of further volumes.
    ///
    /// `home` is the directory that contains `.refrain`; `volumes` are configured staging directories.
    ///
    /// # Errors
    /// `invalid` when a path does not exist or is not UTF-8.
    pub fn new(kind: LocalKind, home: &Path, volumes: &[PathBuf], probe: Arc<dyn CrashProbe>) -> Result<Self> {
        let home = home.canonicalize().map_err(|error| {
            Error::invalid(format!("the home `{}` cannot be entered", home.display())).because(error)
        })?;
        address::encode(Path::new("/nowhere"), &home)?;
        let mut all = vec![Volume { root: canonical_root(&home.join(HOME_DIRECTORY))? }];
        for volume in volumes {
            all.push(Volume { root: canonical_root(&home.join(volume))? });
        }
        Ok(Self { kind, home, volumes: all, probe, lock_patience: LOCK_PATIENCE, memory: Mutex::default() })
    }

    /// The same sink with another bound on the wait for a slot's lock.
    #[must_use]
    pub fn with_lock_patience(mut self, patience: Duration) -> Self {
        self.lock_patience = patience;
        self
    }

    /// From now on a wait for a slot's lock ends as soon as `signalled` is set.
    pub fn heed(&self, signalled: &Arc<AtomicBool>) {
        self.memory().signalled = Arc::clone(signalled);
    }

    /// The address of the slot that a target as a user writes it stands for; a relative one is below `base`. A
    /// trailing `/` means a directory.
    ///
    /// # Errors
    /// `invalid` when it can be no target of this sink.
    pub fn address(&self, spec: &str, base: &Path) -> Result<SlotAddress> {
        if !spec.is_empty() && address::names_directory(spec) != (self.kind == LocalKind::Directory) {
            let (is, hint) = match self.kind {
                LocalKind::File => ("a directory", "a file's name has no trailing `/`"),
                LocalKind::Directory => ("a file", "a directory output ends with `/`"),
            };
            return Err(Error::invalid(format!("`{spec}` names {is}, not a {}", self.kind.name())).hint(hint));
        }
        let path = address::resolve(spec, base, &self.home, &self.volumes)?;
        Ok(SlotAddress { sink: self.kind.name().to_owned(), location: address::encode(&self.home, &path)? })
    }

    /// The path that readers use.
    ///
    /// # Errors
    /// `invalid` when the address is not of a local sink.
    pub fn target(&self, slot: &SlotAddress) -> Result<PathBuf> {
        address::decode(&self.home, &slot.location)
            .filter(|_| matches!(slot.sink.as_str(), "file" | "directory"))
            .ok_or_else(|| Error::invalid(format!("`{slot}` is not a place on a local filesystem")))
    }

    /// Whether a publication at `outer` replaces what stands at `inner`: the same place, or one inside the other.
    pub fn contains(&self, outer: &SlotAddress, inner: &SlotAddress) -> bool {
        match (self.target(outer), self.target(inner)) {
            (Ok(outer), Ok(inner)) => inner.starts_with(outer),
            _ => false,
        }
    }

    fn reach(&self, point: CrashPoint) {
        self.probe.reach(point);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The root may not exist yet; its parent must.
fn canonical_root(root: &Path) -> Result<PathBuf> {
    let unusable = |error| {
        Error::invalid(format!("the staging directory `{}` cannot be used", root.display()))
            .hint("make its parent directory")
            .because(error)
    };
    if let Ok(root) = root.canonicalize() {
        return Ok(root);
    }
    let (parent, name) = (root.parent().unwrap_or(root), root.file_name().unwrap_or_default());
    Ok(parent.canonicalize().map_err(unusable)?.join(name))
}

impl fmt::Debug for LocalSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSink").field("kind", &self.kind).field("home", &self.home).finish_non_exhaustive()
    }
}

impl Sink for LocalSink {
    fn capabilities(&self) -> Capabilities {
        match self.kind {
            LocalKind::File => crate::file::CAPABILITIES,
            LocalKind::Directory => crate::directory::CAPABILITIES,
        }
    }

    fn location(&self, slot: &SlotAddress) -> String {
        self.target(slot).map_or_else(|_| slot.location.clone(), |target| target.display().to_string())
    }

    fn preflight(&self, slot: &SlotAddress, _manner: Option<&str>, adopt: Adopt) -> Result<()> {
        self.site(slot)?.preflight(adopt)
    }

    fn read(&self, slot: &SlotAddress) -> Result<Option<Head>> {
        self.site(slot)?.read()
    }

    fn claim(&self, slot: &SlotAddress, request: &ClaimRequest) -> Result<ClaimAnswer> {
        self.site(slot)?.claim(request)
    }

    fn stage(&self, slot: &SlotAddress, _manner: Option<&str>, staging: &StagingId) -> Result<Staging<Open>> {
        self.site(slot)?.stage(staging)
    }

    fn seal(&self, staging: Staging<Open>, guards: &Guards) -> Result<Staging<Sealed>> {
        let (data, remark) = self.site(&staging.slot)?.seal(&staging.id, guards)?;
        let mut sealed = staging.sealed(data);
        sealed.remarks.extend(remark);
        Ok(sealed)
    }

    fn commit(&self, slot: &SlotAddress, request: &CommitRequest, options: &CommitOptions) -> Result<CommitAnswer> {
        self.site(slot)?.commit(request, *options)
    }

    fn adoptable(&self, slot: &SlotAddress) -> Result<()> {
        self.site(slot)?.adoptable()
    }

    fn condition(&self, slot: &SlotAddress, head: Option<&Head>) -> Result<Condition> {
        self.site(slot)?.condition(head)
    }

    fn versions(&self, slot: &SlotAddress) -> Result<Vec<Version>> {
        self.site(slot)?.versions()
    }

    fn demand_restorable(&self, slot: &SlotAddress, generation: Generation) -> Result<()> {
        self.site(slot)?.demand_restorable(generation)
    }

    fn restore(&self, slot: &SlotAddress, generation: Generation, into: &str) -> Result<()> {
        self.site(slot)?.restore(generation, Path::new(into))
    }

    fn staged(&self) -> Result<Vec<Staged>> {
        self.list_staged()
    }

    fn discard(&self, staged: &Staged) -> Result<()> {
        self.discard_staged(staged)
    }

    fn trim(&self, slot: &SlotAddress, keep: &Keep, now: Timestamp, dry_run: bool) -> Result<Vec<Version>> {
        self.site(slot)?.trim(keep, now, dry_run)
    }
}
