//! Kept versions: what a publication replaced, for readers that still have it open and for a rollback.

use super::problem::{look, problem};
use super::record::{Displaced, VersionName};
use super::site::Site;
use super::stat::Stat;
use super::{Identity, LocalKind, durable};
use jiff::Timestamp;
use refrain_core::{Error, ErrorKind, Generation, Head, Keep, Result, Version};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const FORMAT: u32 = 1;
/// Contents that would get the same name: a target that was changed by hand more than once under one publication.
const MOST_NAMESAKES: usize = 1000;

/// What is known of a kept version; lies beside its directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Label {
    format: u32,
    #[serde(flatten)]
    name: VersionName,
}

/// A version on disk.
#[derive(Clone, Debug)]
struct Kept {
    directory: PathBuf,
    name: VersionName,
    replaced_at: Timestamp,
    location: PathBuf,
}

impl Site<'_> {
    /// Moves what was displaced from the staging place to the versions. What nobody expected there was changed by
    /// hand at the last moment, and is kept as such.
    pub(crate) fn keep(&self, from: &Path, stat: &Stat, displaced: Option<&Displaced>) -> Result<()> {
        let expected = displaced
            .filter(|displaced| displaced.identity.parse::<Identity>().is_ok_and(|identity| identity.is(stat)));
        let name = match (expected, displaced) {
            (Some(displaced), _) => displaced.version.clone(),
            (None, Some(displaced)) => VersionName { drifted: true, ..displaced.version.clone() },
            (None, None) => VersionName { generation: Generation::default(), attempt: None, drifted: true },
        };
        self.keep_as(&name, |place| {
            durable::move_to_free(from, place).or_else(|error| move_plainly(error, from, place))
        })
        .map_err(|error| problem("keep the replaced version of", &self.target, error))
    }

    /// Fills the place of a version by `put`, which must fail with EEXIST when the place is taken.
    pub(crate) fn keep_as(&self, name: &VersionName, put: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        make_enterable(&self.versions_path())?;
        for namesake in 1..=MOST_NAMESAKES {
            let suffix = if namesake == 1 { String::new() } else { format!(".{namesake}") };
            let directory = self.versions_path().join(format!("{}{suffix}", name.directory()));
            make_enterable(&directory)?;
            write_label(&directory, name)?;
            match put(&directory.join(self.base_name())) {
                Err(error) if durable::is(&error, Errno::EXIST) || durable::is(&error, Errno::NOTEMPTY) => {}
                result => return result,
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
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
        let head = self.read()?;
        let mut versions = Vec::new();
        let generation = head.as_ref().map(Head::generation).unwrap_or_default();
        if head.as_ref().is_some_and(|head| head.publication.is_some()) && look(&self.target)?.is_some() {
            versions.push(Version {
                generation,
                locations: vec![self.target.display().to_string()],
                replaced_at: None,
                current: true,
            });
        }
        versions.extend(self.kept(head.as_ref())?.iter().map(Kept::version));
        Ok(versions)
    }

    /// Removes kept versions beyond the policy (7.4). Never the published one.
    pub(crate) fn trim(&self, keep: &Keep, now: Timestamp, dry_run: bool) -> Result<Vec<Version>> {
        let superfluous: Vec<Kept> = {
            let locked = if dry_run { None } else { Some(self.lock()?) };
            let head = match &locked {
                Some(locked) => locked.journal.last().map(|record| record.head.clone()),
                None => self.read()?,
            };
            let newest = usize::try_from(keep.versions).unwrap_or(usize::MAX);
            let in_grace = |kept: &Kept| {
                let age = now.duration_since(kept.replaced_at);
                std::time::Duration::try_from(age).unwrap_or_default() < keep.grace
            };
            self.kept(head.as_ref())?.into_iter().skip(newest).filter(|kept| !in_grace(kept)).collect()
        };
        // A replaced version never comes back under its name, so that removing it needs no lock.
        for kept in superfluous.iter().filter(|_| !dry_run) {
            durable::remove(&kept.directory)
                .and_then(|()| durable::remove(&label_path(&kept.directory)))
                .map_err(|error| problem("remove the version", &kept.directory, error))?;
        }
        Ok(superfluous.iter().map(Kept::version).collect())
    }

    /// Copies a version into a staging place.
    pub(crate) fn restore(&self, generation: Generation, into: &Path) -> Result<()> {
        let head = self.read()?;
        let published = head.as_ref().filter(|head| head.publication.is_some()).map(Head::generation);
        let from = if published == Some(generation) {
            self.target.clone()
        } else {
            let mut kept = self.kept(head.as_ref())?;
            // What was published comes before what became of it by hand.
            kept.sort_by_key(|kept| kept.name.drifted);
            let found = kept.into_iter().find(|kept| kept.name.generation == generation);
            found.map(|kept| kept.location).ok_or_else(|| self.no_version(generation))?
        };
        match self.kind() {
            LocalKind::File => crate::file::copy(&from, into),
            LocalKind::Directory => crate::directory::copy(&from, into),
        }
        .map_err(|error| problem("copy the version", &from, error))
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
        let directory = self.versions_path();
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(problem("list", &directory, error)),
        };
        let shown = self.version_link();
        let current = head.and_then(|head| head.publication.as_ref());
        let current = current.map(|it| self.version_place(it.run.generation, it.attempt));
        let mut kept = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| problem("list", &directory, error))?.path();
            let location = path.join(self.base_name());
            if Some(&location) == shown.as_ref() || Some(&location) == current.as_ref() {
                continue;
            }
            if let Some((name, replaced_at)) = read_label(&path)?
                && look(&location)?.is_some()
            {
                kept.push(Kept { directory: path, name, replaced_at, location });
            }
        }
        kept.sort_by(|one, other| {
            let order = |kept: &Kept| (kept.name.generation, kept.replaced_at);
            order(other).cmp(&order(one))
        });
        Ok(kept)
    }
}

impl Kept {
    fn version(&self) -> Version {
        Version {
            generation: self.name.generation,
            locations: vec![self.location.display().to_string()],
            replaced_at: Some(self.replaced_at),
            current: false,
        }
    }
}

fn label_path(directory: &Path) -> PathBuf {
    let mut name = directory.as_os_str().to_owned();
    name.push(".label");
    PathBuf::from(name)
}

/// A label that cannot be read is a version that nobody touches: it is neither listed nor removed.
fn read_label(directory: &Path) -> Result<Option<(VersionName, Timestamp)>> {
    let path = label_path(directory);
    let text = match fs::read_link(&path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => return Ok(None),
        Err(error) => return Err(problem("read", &path, error)),
    };
    let label = serde_json::from_slice::<Label>(text.as_os_str().as_bytes()).ok();
    let Some(label) = label.filter(|label| label.format == FORMAT) else { return Ok(None) };
    let made = look(&path)?.and_then(|stat| Timestamp::from_nanosecond(stat.mtime).ok());
    Ok(made.map(|made| (label.name, made)))
}

/// The label comes before the version: a version without one would have no time of replacement, which is when its
/// label was made. Like a staging's owner it is the text of a link, whole or not there, and durable with its name.
pub(crate) fn write_label(directory: &Path, name: &VersionName) -> io::Result<()> {
    let text = serde_json::to_string(&Label { format: FORMAT, name: name.clone() })?;
    let fresh = directory.with_extension("label-new");
    durable::remove(&fresh)?;
    durable::symlink(Path::new(&text), &fresh)?;
    durable::replace(&fresh, &label_path(directory))
}

/// Readers may be led here by a link, so that others may enter, though not list.
fn make_enterable(directory: &Path) -> io::Result<()> {
    durable::make_private_directory(directory)?;
    Ok(rustix::fs::chmod(directory, rustix::fs::Mode::from_raw_mode(0o711))?)
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
