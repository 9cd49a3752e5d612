//! The sinks of this build, found by the kind that a slot's address names.

use crate::home::Home;
use refrain_core::{Capabilities, CrashProbe, Error, ErrorKind, Result, Sink, SlotAddress};
use refrain_sink::{LocalKind, LocalSink};
use std::path::Path;
use std::sync::Arc;

/// All sinks.
#[derive(Debug)]
pub struct Sinks {
    file: LocalSink,
    directory: LocalSink,
}

impl Sinks {
    /// The sinks of a home.
    pub(crate) fn open(home: &Home, probe: &Arc<dyn CrashProbe>) -> Result<Self> {
        let local = |kind| LocalSink::new(kind, &home.directory, &home.config.staging, Arc::clone(probe));
        Ok(Self { file: local(LocalKind::File)?, directory: local(LocalKind::Directory)? })
    }

    /// The sink of a slot.
    pub fn of(&self, slot: &SlotAddress) -> Result<&dyn Sink> {
        self.all().find(|sink| sink.capabilities().sink == slot.sink).ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, format!("this build has no sink for `{slot}`"))
                .hint("`refrain sinks` lists the sinks of this build")
        })
    }

    /// Every sink.
    pub fn all(&self) -> impl Iterator<Item = &dyn Sink> {
        [&self.file as &dyn Sink, &self.directory as &dyn Sink].into_iter()
    }

    /// The slot that a location names: a trailing `/` is a directory.
    pub fn address(&self, location: &str, base: &Path) -> Result<SlotAddress> {
        if let Some((scheme, _)) = location.split_once("://") {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("this build publishes to files and directories, not to `{scheme}://`"),
            )
            .hint("`refrain sinks` lists the sinks of this build"));
        }
        if location.ends_with('/') { self.directory.address(location, base) } else { self.file.address(location, base) }
    }

    /// Whether two slots meet: the same place, or one within the other.
    pub fn overlap(&self, one: &SlotAddress, other: &SlotAddress) -> bool {
        one == other || self.directory.contains(one, other) || self.directory.contains(other, one)
    }

    /// Whether what is published at the slot is a directory.
    pub(crate) fn is_tree(&self, slot: &SlotAddress) -> bool {
        self.directory.capabilities().sink == slot.sink
    }

    /// What each sink promises.
    pub fn capabilities() -> [Capabilities; 2] {
        [LocalKind::File.capabilities(), LocalKind::Directory.capabilities()]
    }
}
