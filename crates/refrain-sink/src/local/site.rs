//! Everything that is known of a slot before it is locked: its target, its volume, its files.

use super::journal::{self, Journal};
use super::lock::SlotLock;
use super::problem::look;
use super::volume::{self, Volume};
use super::{LocalKind, LocalSink, address};
use refrain_core::{AttemptId, Error, ErrorKind, Generation, Head, Result, SlotAddress, StagingId};
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KEY_DIGITS: usize = 32;

/// A slot, its target and its volume.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    pub(crate) sink: &'a LocalSink,
    pub(crate) slot: &'a SlotAddress,
    pub(crate) target: PathBuf,
    pub(crate) volume: &'a Volume,
    /// Names the slot's files in the volume; of fixed length, whatever the target's name (FS-07).
    key: String,
}

/// A slot whose lock is held and whose head holds no unfinished intent.
#[derive(Debug)]
pub(crate) struct Locked<'a, 's> {
    pub(crate) site: &'a Site<'s>,
    pub(crate) lock: SlotLock,
    pub(crate) journal: Journal,
}

impl LocalSink {
    pub(crate) fn site<'a>(&'a self, slot: &'a SlotAddress) -> Result<Site<'a>> {
        let target = self.target(slot)?;
        if slot.sink != self.kind.name() {
            return Err(Error::invalid(format!("`{slot}` is not a slot of the {} sink", self.kind.name())));
        }
        let volume = volume::choose(&self.volumes, &target)?;
        Ok(Site { sink: self, slot, target, volume, key: slot_key(&slot.sink, &slot.location) })
    }
}

/// Names the files of a slot in its volume.
pub(super) fn slot_key(sink: &str, location: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(sink.as_bytes()).update(&[0]).update(location.as_bytes());
    let mut key = hasher.finalize().to_hex().to_string();
    key.truncate(KEY_DIGITS);
    key
}

impl<'s> Site<'s> {
    /// Takes the slot's lock and finishes what a dead holder began (9.3).
    pub(crate) fn lock<'a>(&'a self) -> Result<Locked<'a, 's>> {
        self.volume.prepare()?;
        let signalled = Arc::clone(&self.sink.memory().signalled);
        let path = self.volume.slots().join(format!("{}.lock", self.key));
        let lock = SlotLock::take(&path, self.sink.lock_patience, &signalled)?;
        let journal = Journal::open(&self.head_path())?;
        if journal.is_new() {
            self.sink.memory().unsynced.insert(self.head_path());
        }
        let mut locked = Locked { site: self, lock, journal };
        locked.recover()?;
        Ok(locked)
    }

    /// Reads the head without the lock. A commit that is decided but not carried out is not shown yet: a positive
    /// answer is final, a negative one means "not yet" (5.12).
    pub(crate) fn read(&self) -> Result<Option<Head>> {
        let contents = journal::read(&self.head_path())?;
        let Some(last) = contents.last else { return Ok(None) };
        match &last.intent {
            Some(intent) if !self.has_landed(&last.head, intent)? => Ok(contents.before.map(|record| record.head)),
            _ => Ok(Some(last.head)),
        }
    }

    /// Whether a commit is decided and not carried out.
    pub(crate) fn is_decided(&self) -> Result<bool> {
        let Some(last) = journal::read(&self.head_path())?.last else { return Ok(false) };
        last.intent.map_or(Ok(false), |intent| Ok(!self.has_landed(&last.head, &intent)?))
    }

    pub(crate) fn kind(&self) -> LocalKind {
        self.sink.kind
    }

    pub(crate) fn head_path(&self) -> PathBuf {
        self.volume.head_path(&self.key)
    }

    /// The slot's kept versions.
    pub(crate) fn versions_path(&self) -> PathBuf {
        self.volume.versions().join(&self.key)
    }

    /// Where the link layout keeps a publication's data.
    pub(crate) fn version_place(&self, generation: Generation, attempt: AttemptId) -> PathBuf {
        self.versions_path().join(format!("{generation}-{attempt}")).join(self.base_name())
    }

    /// The target's own name; the staged file bears it too.
    pub(crate) fn base_name(&self) -> &OsStr {
        self.target.file_name().unwrap_or_default()
    }

    pub(crate) fn parent(&self) -> &Path {
        self.target.parent().unwrap_or(&self.target)
    }

    /// An attempt's private directory for this slot.
    pub(crate) fn attempt_directory(&self, staging: &StagingId) -> Result<PathBuf> {
        let index = staging.slots.iter().position(|slot| slot == self.slot).ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                format!("`{}` is not among the slots of attempt {}", self.slot, staging.holder.attempt),
            )
        })?;
        Ok(self.volume.slots().join(format!("{}.{index}", staging.holder.attempt)))
    }

    pub(crate) fn encode(&self, path: &Path) -> Result<String> {
        address::encode(&self.sink.home, path)
    }

    /// The path of a place that a record names; never one outside the volumes.
    pub(crate) fn place(&self, text: &str) -> Result<PathBuf> {
        self.sink.place(text)
    }

    pub(crate) fn home(&self) -> &Path {
        &self.sink.home
    }

    /// Where the target leads if it is a link to one of the versions.
    pub(crate) fn version_link(&self) -> Option<PathBuf> {
        address::version_link(&self.target, &self.sink.volumes)
    }

    pub(crate) fn links_to(&self, version: &Path) -> Result<bool> {
        let standing = look(&self.target)?;
        Ok(standing.is_some_and(|stat| stat.is_link()) && self.version_link().as_deref() == Some(version))
    }

    /// The descriptor that was opened before the task wrote.
    pub(crate) fn take_witness(&self, staged: &Path) -> Option<File> {
        self.sink.memory().witnesses.remove(staged)
    }
}

impl LocalSink {
    pub(crate) fn place(&self, text: &str) -> Result<PathBuf> {
        address::decode(&self.home, text)
            .filter(|path| self.volumes.iter().any(|volume| path.starts_with(&volume.root)))
            .ok_or_else(|| {
                Error::corrupt(format!("a record names `{text}`, which is no place in a configured staging directory"))
                    .hint("if a directory was taken out of `staging` in refrain.toml, add it again")
            })
    }
}
