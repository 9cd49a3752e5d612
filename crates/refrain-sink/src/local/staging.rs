//! Staging: an attempt's private directory in the volume, seen by no reader.

use super::problem::{immovable, problem};
use super::site::Site;
use super::volume::Volume;
use super::{LocalKind, LocalSink, address, durable};
use refrain_core::{AttemptId, Error, ErrorKind, Open, Result, SlotAddress, Staged, Staging, StagingId};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const FORMAT: u32 = 1;
const OWNER: &str = ".owner";
const MANIFEST: &str = ".manifest";
/// Staging that is being removed.
const DROPPED: &str = ".dropped";

/// Says whose a staging directory is, so that it can be decided later whether it may go (7).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    format: u32,
    pub(crate) slot: SlotAddress,
    pub(crate) staging: StagingId,
}

impl Owner {
    pub(crate) fn new(slot: &SlotAddress, staging: &StagingId) -> Self {
        Self { format: FORMAT, slot: slot.clone(), staging: staging.clone() }
    }
}

/// Where the owner of an attempt's directory is written.
pub(crate) fn owner_path(directory: &Path) -> PathBuf {
    with_ending(directory, OWNER)
}

/// Where the list of a sealed directory's entries lies.
pub(crate) fn manifest_path(directory: &Path) -> PathBuf {
    with_ending(directory, MANIFEST)
}

fn with_ending(directory: &Path, ending: &str) -> PathBuf {
    let mut name = directory.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

impl Site<'_> {
    /// # Crash safety
    /// The owner comes before the directory, so that there is no directory without one. Both are durable with the
    /// seal's fsync of `slots/`.
    pub(crate) fn stage(&self, staging: &StagingId) -> Result<Staging<Open>> {
        self.volume.prepare()?;
        let directory = self.attempt_directory(staging)?;
        let place = directory.join(self.base_name());
        let text = place
            .to_str()
            .ok_or_else(|| Error::invalid(format!("the path `{}` is not valid UTF-8", place.display())))?;
        write_owner(&directory, &Owner::new(self.slot, staging))?;
        let make = |path: &Path, result: io::Result<()>| {
            result.map_err(|error| problem("make the staging directory", path, error))
        };
        make(&directory, fs::create_dir(&directory))?;
        make(
            &directory,
            Ok(rustix::fs::chmod(&directory, rustix::fs::Mode::RWXU)).and_then(|it| it.map_err(Into::into)),
        )?;
        self.inherit_group(&directory)?;
        if self.kind() == LocalKind::Directory {
            make(&place, fs::create_dir(&place))?;
            let witness = durable::open_directory(&place).map_err(|error| problem("open", &place, error))?;
            self.sink.memory().witnesses.insert(place.clone(), witness);
        }
        Ok(Staging::open(self.slot.clone(), staging.clone(), text.to_owned()))
    }
}

/// The text of a symbolic link is written in one step, whole or not at all, and is durable with its name. A text too
/// long for a link, of which xfs takes 1024 bytes and others up to 4095, goes into a file with an fsync of its own.
fn write_owner(directory: &Path, owner: &Owner) -> Result<()> {
    let path = owner_path(directory);
    let text = serde_json::to_string(owner)
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot write a staging's owner").because(error))?;
    let write = || {
        let mut file = fs::File::create_new(&path)?;
        let written = io::Write::write_all(&mut file, text.as_bytes()).and_then(|()| durable::sync_file(&file));
        if written.is_err() {
            // What names no owner would stay for ever.
            durable::best_effort(durable::remove(&path));
        }
        written
    };
    let result = match durable::symlink(Path::new(&text), &path) {
        Err(error) if durable::is(&error, Errno::NAMETOOLONG) => write(),
        result => result,
    };
    result.map_err(|error| problem("make the staging's owner", &path, error))
}

fn read_owner(directory: &Path) -> Option<Owner> {
    let path = owner_path(directory);
    let bytes = match fs::read_link(&path) {
        Ok(text) => text.as_os_str().as_bytes().to_owned(),
        Err(_) => fs::read(&path).ok()?,
    };
    parse_owner(&bytes)
}

fn parse_owner(bytes: &[u8]) -> Option<Owner> {
    serde_json::from_slice::<Owner>(bytes).ok().filter(|owner| owner.format == FORMAT)
}

/// The first line of a manifest names its owner too.
fn manifest_owner(directory: &Path) -> Option<Owner> {
    const LONGEST_LINE: u64 = 1024 * 1024;
    let mut line = Vec::new();
    let file = durable::open_file(&manifest_path(directory)).ok()?;
    BufReader::new(file.take(LONGEST_LINE)).read_until(b'\n', &mut line).ok()?;
    parse_owner(&line)
}

/// Which of an attempt's names there are.
#[derive(Clone, Copy, Debug, Default)]
struct Names {
    /// The data itself, in its place or on its way out.
    staged: bool,
    owner: bool,
    manifest: bool,
}

impl LocalSink {
    /// All staging of this sink's kind, and (from the file sink) staging that bears no readable name.
    pub(crate) fn list_staged(&self) -> Result<Vec<Staged>> {
        let mut staged = Vec::new();
        for volume in &self.volumes {
            for (name, names) in attempts_in(volume)? {
                let directory = volume.slots().join(&name);
                let owner = if names.owner { read_owner(&directory) } else { None };
                let owner = owner.or_else(|| names.manifest.then(|| manifest_owner(&directory)).flatten());
                let place = address::encode(&self.home, &directory)?;
                match owner {
                    Some(owner) if owner.slot.sink != self.kind.name() => {}
                    // The manifest of a publication that stands is no leftover.
                    Some(owner) if !names.staged && !names.owner && self.shows(&owner) => {}
                    Some(owner) => staged.push(Staged { place, owner: Some((owner.slot, owner.staging)) }),
                    // An owner that a crash cut off comes before all that it owns.
                    None if !names.staged && !names.manifest => {}
                    None if self.kind == LocalKind::File => staged.push(Staged { place, owner: None }),
                    None => {}
                }
            }
        }
        Ok(staged)
    }

    fn shows(&self, owner: &Owner) -> bool {
        let head = self.site(&owner.slot).and_then(|site| site.read());
        head.ok().flatten().is_some_and(|head| head.shows(owner.staging.holder.attempt))
    }

    /// # Crash safety
    /// The staging leaves its place in one step, by a rename under the slot's lock: a commit finds all of it or
    /// nothing. What a crash leaves of the rest is listed as staging of the same owner.
    pub(crate) fn discard_staged(&self, staged: &Staged) -> Result<()> {
        let place = self.place(&staged.place)?;
        let in_slots = |path: &Path| self.volumes.iter().any(|volume| path.parent() == Some(&volume.slots()));
        // An attempt knows its staging by the place where the task writes, one level below.
        let directory = place.parent().filter(|parent| in_slots(parent)).unwrap_or(&place).to_owned();
        let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !in_slots(&directory) || attempt_of(name).is_none_or(|(_, ending)| !ending.is_empty()) {
            return Err(Error::new(ErrorKind::Internal, format!("`{}` is not the place of any staging", staged.place)));
        }
        if let Some(base) = fs::read_dir(&directory).ok().and_then(|mut entries| entries.next()?.ok()) {
            self.memory().witnesses.remove(&base.path());
        }
        let dropped = with_ending(&directory, DROPPED);
        let remove = |path: &Path| durable::remove(path).map_err(|error| immovable("remove the staging", path, error));
        remove(&dropped)?;
        // A slot of which no lock can be had because nothing can lie at its target takes no commit either.
        let site = staged.owner.as_ref().and_then(|(slot, id)| Some((self.site(slot).ok()?, id)));
        if let Some((site, id)) = site {
            let locked = site.lock()?;
            if locked.journal.last().is_some_and(|last| last.head.shows(id.holder.attempt)) {
                // It is published: the lock's taker has moved what it replaced and removed the empty shell.
                return Ok(());
            }
            set_aside(&directory, &dropped)?;
        } else {
            set_aside(&directory, &dropped)?;
        }
        // The owner goes last: what a crash leaves still has a name.
        [dropped, manifest_path(&directory), owner_path(&directory)].iter().try_for_each(|path| remove(path))
    }
}

fn set_aside(directory: &Path, dropped: &Path) -> Result<()> {
    match durable::replace(directory, dropped) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(immovable("remove the staging", directory, error)),
        _ => Ok(()),
    }
}

fn attempts_in(volume: &Volume) -> Result<BTreeMap<String, Names>> {
    let slots = volume.slots();
    let mut attempts: BTreeMap<String, Names> = BTreeMap::new();
    let entries = match fs::read_dir(&slots) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(attempts),
        Err(error) => return Err(problem("list", &slots, error)),
    };
    for entry in entries {
        let name = entry.map_err(|error| problem("list", &slots, error))?.file_name();
        let Some((attempt, ending)) = name.to_str().and_then(attempt_of) else { continue };
        let names = attempts.entry(attempt.to_owned()).or_default();
        match ending {
            "" | DROPPED => names.staged = true,
            OWNER => names.owner = true,
            MANIFEST => names.manifest = true,
            _ => {}
        }
    }
    Ok(attempts)
}

/// Splits `UUID.N` and an ending; nothing for other names.
fn attempt_of(name: &str) -> Option<(&str, &str)> {
    let (attempt, rest) = name.split_once('.')?;
    attempt.parse::<AttemptId>().ok()?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    (digits > 0).then(|| name.split_at(attempt.len() + 1 + digits))
}
