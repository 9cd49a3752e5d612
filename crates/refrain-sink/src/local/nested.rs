//! Slots inside one another: a directory is published whole, so that what another task publishes inside it would be
//! gone with its next publication.

use super::address;
use super::journal;
use super::problem::{look, problem};
use super::site::{Site, slot_key};
use super::stat::Stat;
use super::volume::{self, Volume, nearest_directory};
use super::{LocalKind, LocalSink};
use crate::directory::{Go, walk};
use refrain_core::{Error, Head, Key, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// In a larger directory the heads are looked through, and not its entries.
const MOST_ENTRIES: usize = 10_000;
const HEAD: &str = "head";

impl LocalSink {
    /// Whether a path, canonical but for its last part, lies in the home's state or in a staging directory.
    pub fn is_own(&self, path: &Path) -> bool {
        self.volumes.iter().any(|volume| path.starts_with(&volume.root))
    }

    /// Who publishes at such a path, or a directory that it lies in, as this home's heads tell. One look for each directory
    /// above it.
    ///
    /// # Errors
    /// `corrupt` for a head that cannot be read.
    pub fn publisher_of(&self, path: &Path) -> Result<Option<Key>> {
        // Where no volume is, nothing is published.
        let Ok(volume) = volume::choose(&self.volumes, path) else { return Ok(None) };
        let seen = |kind, place: &Path| {
            let head = head_of(&self.home, volume, kind, place)?.map(|(head, _)| head);
            Ok(head.filter(|head| head.seen().is_some()).map(|head| head.as_seen().owner))
        };
        if let Some(owner) = seen(LocalKind::File, path)? {
            return Ok(Some(owner));
        }
        path.ancestors().map(|above| seen(LocalKind::Directory, above)).find_map(Result::transpose).transpose()
    }
}

impl Site<'_> {
    /// Refuses a target inside a directory that is published. One look for each directory above it: what is published
    /// on the target's mount has its head in the same volume.
    pub(crate) fn demand_outside_of_publications(&self) -> Result<()> {
        let here = nearest_directory(self.parent())?.1;
        for outer in self.target.ancestors().skip(1) {
            let stat = Stat::through(outer).map_err(|error| problem("look at", outer, error))?;
            if stat.is_some_and(|stat| !stat.same_mount(&here)) {
                break;
            }
            if let Some((owner, record)) = self.published_at(LocalKind::Directory, outer)? {
                return Err(inside(&self.target.display().to_string(), outer, Some(&owner), &record));
            }
        }
        Ok(())
    }

    /// Refuses to put aside a directory that others publish into: readers of their publications would find nothing.
    pub(crate) fn demand_no_slot_inside(&self, standing: &Stat) -> Result<()> {
        if self.kind() != LocalKind::Directory || !standing.is_directory() {
            return Ok(());
        }
        let found = match self.slot_among_entries()? {
            Search::Done(found) => found,
            Search::TooLarge => self.slot_among_heads()?,
        };
        let Some((inner, owner)) = found else { return Ok(()) };
        Err(Error::refused(format!(
            "`{}` cannot be replaced whole: inside it `{}` is published by `{owner}` and would be lost",
            self.target.display(),
            inner.display(),
        ))
        .hint("publish one of the two elsewhere"))
    }

    fn slot_among_entries(&self) -> Result<Search> {
        let (mut entries, mut search) = (0, Search::Done(None));
        walk(&self.target, &mut |entry| {
            entries += 1;
            if entries > MOST_ENTRIES {
                search = Search::TooLarge;
                return Ok(Go::Stop);
            }
            for kind in [LocalKind::File, LocalKind::Directory] {
                if let Some((owner, _)) = self.published_at(kind, &entry.place)? {
                    search = Search::Done(Some((entry.place, owner)));
                    return Ok(Go::Stop);
                }
            }
            Ok(Go::On)
        })?;
        Ok(search)
    }

    fn slot_among_heads(&self) -> Result<Option<(PathBuf, Key)>> {
        let slots = self.volume.slots();
        for entry in fs::read_dir(&slots).map_err(|error| problem("list", &slots, error))? {
            let path = entry.map_err(|error| problem("list", &slots, error))?.path();
            if path.extension().is_none_or(|it| it != HEAD) {
                continue;
            }
            // What a damaged head is of is reported by its own slot.
            let Ok(Some(head)) = head_at(&path) else { continue };
            let key = path.file_stem().unwrap_or_default();
            let data = head.publication.iter().flat_map(|publication| &publication.data);
            let slot = data.map(|data| &data.slot).find(|slot| slot_key(&slot.sink, &slot.location).as_str() == key);
            if let Some(slot) = slot
                && let Ok(inner) = self.sink.target(slot)
                && inner != self.target
                && inner.starts_with(&self.target)
                && look(&inner)?.is_some()
            {
                return Ok(Some((inner, head.owner)));
            }
        }
        Ok(None)
    }

    /// Who published at the path with a sink of this kind, and where that is recorded.
    fn published_at(&self, kind: LocalKind, path: &Path) -> Result<Option<(Key, PathBuf)>> {
        let head = head_of(self.home(), self.volume, kind, path)?;
        Ok(head.filter(|(head, _)| head.publication.is_some()).map(|(head, record)| (head.owner, record)))
    }
}

/// The head of a path with a sink of this kind, and where it is.
fn head_of(home: &Path, volume: &Volume, kind: LocalKind, path: &Path) -> Result<Option<(Head, PathBuf)>> {
    // No target has such a path.
    let Ok(location) = address::encode(home, path) else { return Ok(None) };
    let record = volume.head_path(&slot_key(kind.name(), &location));
    Ok(head_at(&record)?.map(|head| (head, record)))
}

/// Answer of a search that may have to be given up.
enum Search {
    Done(Option<(PathBuf, Key)>),
    TooLarge,
}

/// What the head says, and with an intent: what it will say.
fn head_at(record: &Path) -> Result<Option<Head>> {
    Ok(journal::read(record)?.last.map(|record| record.head))
}

/// The refusal of a target that a published link leads away from.
pub(super) fn below_version_link(spec: &str, link: &Path, version: &Path, volumes: &[Volume]) -> Error {
    let record = volumes.iter().find_map(|volume| {
        let key = version.strip_prefix(volume.versions()).ok()?.components().next()?;
        Some(volume.head_path(key.as_os_str().to_str()?))
    });
    let record = record.unwrap_or_default();
    let owner = head_at(&record).ok().flatten().map(|head| head.owner);
    inside(spec, link, owner.as_ref(), &record).kind(refrain_core::ErrorKind::Invalid)
}

fn inside(target: &str, outer: &Path, owner: Option<&Key>, record: &Path) -> Error {
    let owner = owner.map(|owner| format!(" by `{owner}`")).unwrap_or_default();
    let outer = outer.display();
    Error::refused(format!(
        "`{target}` cannot be a target: it lies inside `{outer}`, which is published whole{owner} and would lose it \
         with the next publication"
    ))
    .hint(format!(
        "publish it outside of `{outer}`; if nobody publishes that directory any more, move its head `{}` away",
        record.display()
    ))
}
