//! Kept versions: what a publication replaced, for readers that still have it open and for a rollback.

use super::problem::{immovable, look, problem};
use super::record::{Displaced, VersionLabel};
use super::seal::Measured;
use super::site::Site;
use super::stat::Stat;
use super::{Identity, LocalKind, durable, journal};
use jiff::Timestamp;
use refrain_core::{Error, ErrorKind, Generation, Head, Keep, Result, Version, counted, were};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const FORMAT: u32 = 1;
const LABEL: &str = ".label";
const FRESH_LABEL: &str = "label-new";
/// A copy that is not whole yet (where a file can have no second name).
pub(crate) const FRESH_COPY: &str = "copy-new";
/// Begins the name of a version that was taken out of the list, or of a replaced manifest, that is being removed.
const DROPPED: &str = "dropped-";
/// Contents that would get the same name: a target that was changed by hand more than once under one publication.
const MOST_NAMESAKES: usize = 1000;

/// What is known of a kept version; lies beside its directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Label {
    format: u32,
    #[serde(flatten)]
    label: VersionLabel,
}

/// A version on disk.
#[derive(Clone, Debug)]
struct Kept {
    directory: PathBuf,
    label: VersionLabel,
    replaced_at: Timestamp,
    location: PathBuf,
}

/// What a restoration copies.
#[derive(Debug)]
struct Source {
    /// What it is, for messages.
    what: String,
    location: PathBuf,
    /// What the copy must be, where that is known.
    sealed: Option<Measured>,
}

impl Site<'_> {
    /// Moves what was displaced from the staging place to the versions. What nobody expected there was changed by
    /// hand at the last moment, and is kept as such.
    pub(crate) fn keep(&self, from: &Path, stat: &Stat, displaced: Option<&Displaced>) -> Result<()> {
        // The attempt's directory, in which it lies alone by now, becomes the version's: nothing to make, nothing to remove.
        let shell = from.parent().unwrap_or(from);
        let done = enterable(shell).and_then(|()| {
            self.keep_at(&self.label_of(displaced, from, stat), |directory| durable::replace(shell, directory))
        });
        done.map_err(|error| {
            problem(&format!("keep aside `{}`, the former", from.display()), &self.target, error)
                .hint("it stays where it is; once the cause is mended, `refrain gc` or the next publication moves it")
        })
    }

    /// The label for what stands where something else was displaced, or the very thing: by its inode, or, as anywhere,
    /// by the content under another one. What nobody expected there was changed by hand.
    pub(crate) fn label_of(&self, displaced: Option<&Displaced>, at: &Path, stat: &Stat) -> VersionLabel {
        let Some(displaced) = displaced else { return VersionLabel::of(None, true) };
        let version = &displaced.version;
        // What cannot be read is not known to be what was published.
        let same = || version.sealed.as_ref().is_some_and(|sealed| self.holds(at, stat, sealed).unwrap_or(false));
        if displaced.is(stat) || same() { version.clone() } else { version.clone().changed() }
    }

    /// Fills the place of a version by `put`, in one step; it must fail with EEXIST when the place is taken.
    pub(crate) fn keep_as(&self, label: &VersionLabel, put: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        self.keep_at(label, |directory| {
            make_enterable(directory)?;
            put(&directory.join(self.base_name()))
        })
    }

    /// Makes or fills the directory of a version by `put`, in one step; it must fail when something is in the directory.
    fn keep_at(&self, label: &VersionLabel, put: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        make_enterable(&self.versions_path())?;
        self.at_free_name(&label.directory(), |directory| {
            // What is kept there already has a label of its own, and keeps it.
            let taken = Stat::of(&directory.join(self.base_name()))?.is_some();
            if !taken {
                write_label(directory, label)?;
            }
            put(directory)?;
            // A crash came between `put` and what should have followed it.
            if taken && !has_label(directory)? { write_label(directory, label) } else { Ok(()) }
        })
    }

    /// Takes the first of the namesakes among the versions at which `take` does not say EEXIST.
    fn at_free_name(&self, name: &str, take: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        for namesake in 1..=MOST_NAMESAKES {
            let suffix = if namesake == 1 { String::new() } else { format!(".{namesake}") };
            match take(&self.versions_path().join(format!("{name}{suffix}"))) {
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty) => {}
                result => return result,
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Where something waits for the next trim to remove it.
    pub(crate) fn dropped_path(&self, name: &OsStr) -> PathBuf {
        let mut dropped = OsString::from(DROPPED);
        dropped.push(name);
        self.versions_path().join(dropped)
    }

    /// Makes the directory of a version's place, durable in its parents.
    pub(crate) fn make_version_directory(&self, place: &Path) -> io::Result<()> {
        make_enterable(&self.versions_path())?;
        place.parent().map_or(Ok(()), make_enterable)?;
        durable::sync_directory(&self.versions_path())?;
        durable::sync_directory(&self.volume.versions())
    }

    /// The published version and the kept ones, newest first.
    pub(crate) fn versions(&self) -> Result<Vec<Version>> {
        let head = self.read()?.map(Head::as_seen);
        let mut versions = Vec::new();
        let generation = head.as_ref().map(Head::generation).unwrap_or_default();
        if head.as_ref().is_some_and(|head| head.publication.is_some()) && look(&self.target)?.is_some() {
            versions.push(Version {
                generation,
                locations: vec![self.target.display().to_string()],
                replaced_at: None,
                current: true,
                edited: false,
            });
        }
        versions.extend(self.kept(head.as_ref())?.iter().map(Kept::version));
        Ok(versions)
    }

    /// Removes kept versions beyond the policy (7.4). Never the published one.
    ///
    /// # Crash safety
    /// A version leaves the list in one step, by a rename under the slot's lock, before anything of it is removed:
    /// what is listed is whole. What a crash leaves of the rest is removed by the next call.
    pub(crate) fn trim(&self, keep: &Keep, now: Timestamp, dry_run: bool) -> Result<Vec<Version>> {
        if look(&self.versions_path())?.is_none() && self.unfiled()?.is_none() {
            return Ok(Vec::new()); // nothing was ever replaced: no lock to take
        }
        let superfluous = if dry_run {
            self.superfluous(self.read()?.as_ref(), keep, now)?
        } else {
            let locked = self.lock()?;
            let superfluous = self.superfluous(locked.journal.last().map(|record| &record.head), keep, now)?;
            for kept in &superfluous {
                self.unlist(kept).map_err(|error| immovable("remove the version", &kept.directory, error))?;
            }
            self.remove_strays()?;
            superfluous
        };
        if !dry_run {
            // Removing takes long, and nobody looks there any more: it needs no lock.
            self.remove_dropped(!superfluous.is_empty())?;
        }
        Ok(superfluous.iter().map(Kept::version).collect())
    }

    fn superfluous(&self, head: Option<&Head>, keep: &Keep, now: Timestamp) -> Result<Vec<Kept>> {
        let newest = usize::try_from(keep.versions).unwrap_or(usize::MAX);
        let in_grace = |kept: &Kept| {
            let age = now.duration_since(kept.replaced_at);
            std::time::Duration::try_from(age).unwrap_or_default() < keep.grace
        };
        Ok(self.kept(head)?.into_iter().skip(newest).filter(|kept| !in_grace(kept)).collect())
    }

    /// The rename counts; a label without its version says nothing.
    fn unlist(&self, kept: &Kept) -> io::Result<()> {
        let name = kept.directory.file_name().unwrap_or_default().display().to_string();
        self.at_free_name(&format!("{DROPPED}{name}"), |dropped| move_to_free(&kept.directory, dropped))?;
        durable::remove(&label_path(&kept.directory))
    }

    /// What a crash between the two steps of [`Self::unlist`], or before the rename of something fresh, has left. The
    /// slot's lock is held.
    fn remove_strays(&self) -> Result<()> {
        for path in self.in_versions()? {
            let name = path.as_os_str().as_bytes();
            let of = name.strip_suffix(LABEL.as_bytes()).map(|of| PathBuf::from(OsStr::from_bytes(of)));
            let stray = match of {
                Some(of) => look(&of)?.is_none(),
                None => path.extension().is_some_and(|it| it == FRESH_LABEL || it == FRESH_COPY),
            };
            if stray {
                durable::remove(&path).map_err(|error| immovable("remove", &path, error))?;
            }
        }
        Ok(())
    }

    /// Removes what was taken out of the list, now or by a call that did not come to its end. What cannot be removed
    /// does not keep the others.
    fn remove_dropped(&self, fresh: bool) -> Result<()> {
        let versions = self.versions_path();
        if fresh {
            // A power cut must not bring back the name of something that is removed in part.
            durable::sync_directory(&versions)
                .map_err(|error| problem("make durable the names in", &versions, error))?;
        }
        let mut result = Ok(());
        for path in self.in_versions()?.into_iter().filter(|path| is_dropped(path)) {
            let removed = durable::remove(&path).map_err(|error| immovable("remove the version", &path, error));
            result = result.and(removed);
        }
        result
    }

    /// Copies a version into a staging place, and makes sure that the copy is what was published.
    ///
    /// # Crash safety
    /// No lock is held while it copies. A version leaves its place in one step before anything of it is removed, so
    /// that what is in its place after the copy was whole during it.
    pub(crate) fn restore(&self, generation: Generation, into: &Path) -> Result<()> {
        let source = self.source(generation)?;
        self.demand_same_kind(&source)?;
        let from = &source.location;
        let look = || Stat::through(from).map_err(|error| problem("look at", from, error));
        let before = look()?;
        let copied = match self.kind() {
            LocalKind::File => crate::file::copy(from, into),
            LocalKind::Directory => crate::directory::copy(from, into),
        };
        let there = before.zip(look()?).is_some_and(|(before, after)| Identity::of(&before).is(&after));
        if !there {
            let target = self.target.display();
            let error = format!("{} of `{target}` was removed or replaced before it was copied whole", source.what);
            return Err(Error::invalid(error).hint("choose another version"));
        }
        copied.map_err(|error| problem("copy the version", from, error))?;
        source.sealed.as_ref().map_or(Ok(()), |sealed| self.demand_whole(&source, sealed, into))
    }

    /// Refuses a version that is not of the output's kind, or not what was published.
    pub(crate) fn demand_restorable(&self, generation: Generation) -> Result<()> {
        let source = self.source(generation)?;
        self.demand_same_kind(&source)?;
        source.sealed.as_ref().map_or(Ok(()), |sealed| self.demand_whole(&source, sealed, &source.location))
    }

    fn demand_same_kind(&self, source: &Source) -> Result<()> {
        let at = &source.location;
        let Some(stat) = Stat::through(at).map_err(|error| problem("look at", at, error))? else { return Ok(()) };
        let (wanted, fits) = match self.kind() {
            LocalKind::File => ("file", stat.is_file()),
            LocalKind::Directory => ("directory", stat.is_directory()),
        };
        if fits {
            return Ok(());
        }
        let (what, target, found) = (&source.what, self.target.display(), stat.noun());
        let error = format!("{what} of `{target}` is {found}, put there by hand, and the output is a {wanted}");
        let hint = format!("look at `{}`; choose another version, or publish anew with --rerun", at.display());
        Err(Error::invalid(error).hint(hint))
    }

    fn source(&self, generation: Generation) -> Result<Source> {
        let head = self.read()?;
        let published = head.as_ref().and_then(Head::seen);
        if let Some(published) = published.filter(|published| published.run.generation == generation) {
            return Ok(Source {
                what: format!("the published version {generation}"),
                location: self.target.clone(),
                sealed: published.data_for(self.slot).map(Measured::of),
            });
        }
        let mut kept = self.kept(head.as_ref())?;
        // What was published comes before what became of it by hand.
        kept.sort_by_key(|kept| kept.label.drifted);
        let found = kept.into_iter().find(|kept| kept.label.generation == generation);
        let found = found.ok_or_else(|| self.no_version(generation))?;
        Ok(Source { what: format!("kept version {generation}"), location: found.location, sealed: found.label.sealed })
    }

    fn demand_whole(&self, source: &Source, sealed: &Measured, copy: &Path) -> Result<()> {
        let found = match self.kind() {
            LocalKind::File => crate::file::measure(copy)?,
            LocalKind::Directory => crate::directory::measure(copy)?,
        };
        if found.digest == sealed.digest {
            return Ok(());
        }
        let sizes = |it: &Measured| (it.files, it.bytes);
        let difference = if sizes(&found) == sizes(sealed) {
            "its content is not what was published".to_owned()
        } else {
            let text = |it: &Measured| format!("{} with {}", counted(it.files, "file"), counted(it.bytes, "byte"));
            format!("it has {}, and {} {} published", text(&found), text(sealed), were(sealed.files))
        };
        Err(Error::refused(format!("{} of `{}` is damaged: {difference}", source.what, self.target.display())).hint(
            format!("look at `{}`; choose another version, or publish anew with --rerun", source.location.display()),
        ))
    }

    fn no_version(&self, generation: Generation) -> Error {
        let list = self.versions().unwrap_or_default();
        let list: Vec<String> = list.iter().map(|version| version.generation.to_string()).collect();
        let error =
            Error::new(ErrorKind::Invalid, format!("there is no version {generation} of `{}`", self.target.display()));
        if list.is_empty() { error } else { error.hint(format!("kept are: {}", list.join(", "))) }
    }

    /// Kept versions, newest first; without the one that a link at the target shows.
    fn kept(&self, head: Option<&Head>) -> Result<Vec<Kept>> {
        let shown = self.version_link();
        let current = head.and_then(Head::seen);
        let current = current.map(|it| self.version_place(it.run.generation, it.attempt));
        let mut kept = Vec::new();
        for path in self.in_versions()? {
            let location = path.join(self.base_name());
            if Some(&location) == shown.as_ref() || Some(&location) == current.as_ref() || is_dropped(&path) {
                continue;
            }
            if let Some((label, replaced_at)) = read_label(&path)?
                && look(&location)?.is_some()
            {
                kept.push(Kept { directory: path, label, replaced_at, location });
            }
        }
        kept.extend(self.unfiled()?);
        kept.sort_by(|one, other| {
            let order = |kept: &Kept| (kept.label.generation, kept.replaced_at);
            order(other).cmp(&order(one))
        });
        Ok(kept)
    }

    /// What the last commit replaced and had no room to move here: the next holder of the lock does.
    fn unfiled(&self) -> Result<Option<Kept>> {
        let Some(last) = journal::read(&self.head_path())?.last else { return Ok(None) };
        let displaced = match &last.intent {
            Some(intent) if self.has_landed(&last.head, intent)? => intent.displaced.as_ref(),
            Some(_) => None,
            None => last.displaced.as_ref(),
        };
        let Some(displaced) = displaced else { return Ok(None) };
        let location = self.place(&displaced.staged)?;
        let Some(stat) = look(&location)? else { return Ok(None) };
        let replaced_at = Timestamp::from_nanosecond(stat.ctime).unwrap_or_default();
        let label = self.label_of(Some(displaced), &location, &stat);
        let directory = location.parent().unwrap_or(&location).to_owned();
        Ok(Some(Kept { directory, label, replaced_at, location }))
    }

    /// Everything in the slot's directory of versions.
    fn in_versions(&self) -> Result<Vec<PathBuf>> {
        let directory = self.versions_path();
        let list = match fs::read_dir(&directory) {
            Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        list.map_err(|error| problem("list", &directory, error))
    }
}

impl Kept {
    fn version(&self) -> Version {
        Version {
            generation: self.label.generation,
            locations: vec![self.location.display().to_string()],
            replaced_at: Some(self.replaced_at),
            current: false,
            edited: self.label.drifted && self.label.attempt.is_some(),
        }
    }
}

fn label_path(directory: &Path) -> PathBuf {
    let mut name = directory.as_os_str().to_owned();
    name.push(LABEL);
    PathBuf::from(name)
}

/// Whether a version's directory has a label, readable or not.
pub(crate) fn has_label(directory: &Path) -> io::Result<bool> {
    Ok(Stat::of(&label_path(directory))?.is_some())
}

fn is_dropped(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(DROPPED.as_bytes()))
}

/// A label that cannot be read is a version that nobody touches: it is neither listed nor removed.
fn read_label(directory: &Path) -> Result<Option<(VersionLabel, Timestamp)>> {
    let path = label_path(directory);
    let text = match fs::read_link(&path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => return Ok(None),
        Err(error) => return Err(problem("read", &path, error)),
    };
    let label = serde_json::from_slice::<Label>(text.as_os_str().as_bytes()).ok();
    let Some(label) = label.filter(|label| label.format == FORMAT) else { return Ok(None) };
    let made = look(&path)?.and_then(|stat| Timestamp::from_nanosecond(stat.mtime).ok());
    Ok(made.map(|made| (label.label, made)))
}

/// The label comes before the version: a version without one would have no time of replacement, which is when its
/// label was made. Like a staging's owner it is the text of a link, whole or not there, and durable with its name.
pub(crate) fn write_label(directory: &Path, label: &VersionLabel) -> io::Result<()> {
    let text = serde_json::to_string(&Label { format: FORMAT, label: label.clone() })?;
    let fresh = directory.with_extension(FRESH_LABEL);
    durable::remove(&fresh)?;
    durable::symlink(Path::new(&text), &fresh)?;
    durable::replace(&fresh, &label_path(directory))
}

fn make_enterable(directory: &Path) -> io::Result<()> {
    durable::make_private_directory(directory)?;
    enterable(directory)
}

/// Readers may be led here by a link, so that others may enter, though not list.
fn enterable(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::chmod(directory, rustix::fs::Mode::from_raw_mode(0o711))?)
}

/// Moves to a name that must be free: EEXIST otherwise, also where the filesystem cannot look and move in one step (the
/// slot's lock is held).
fn move_to_free(from: &Path, place: &Path) -> io::Result<()> {
    durable::move_to_free(from, place).or_else(|error| move_plainly(error, from, place))
}

fn move_plainly(error: io::Error, from: &Path, place: &Path) -> io::Result<()> {
    if !durable::is_lacking(&error) {
        return Err(error);
    }
    match Stat::of(place)? {
        Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
        None => durable::replace(from, place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_core::AttemptId;

    #[test]
    fn the_longest_label_fits_into_a_link_of_every_filesystem() {
        const SHORTEST_LIMIT: usize = 1024;
        let hash = blake3::hash(b"").to_hex();
        let label = VersionLabel {
            generation: Generation::new(u64::MAX),
            attempt: Some(AttemptId::from_uuid(uuid::Uuid::max())),
            drifted: false,
            sealed: Some(Measured { digest: format!("blake3:{hash}"), bytes: u64::MAX, files: u64::MAX }),
        };
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join(label.directory());
        write_label(&directory, &label).unwrap();
        assert!(fs::read_link(label_path(&directory)).unwrap().as_os_str().len() < SHORTEST_LIMIT);
        assert_eq!(read_label(&directory).unwrap().unwrap().0, label);
    }
}
