//! Files, directories and patterns as inputs.

use crate::changes::Changes;
use crate::listing::{Listing, changing};
use crate::location::{Location, escape};
use crate::place;
use crate::reach::meets;
use crate::record;
use crate::seen::{Seen, wait_until_settled};
use crate::stat::Stat;
use crate::views::{self, HOLD, View, Views};
use refrain_core::{
    AttemptId, CrashPoint, CrashProbe, Error, ErrorKind, Input, PinMode, PinRequest, PinnedInput, Result,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The directory of what attempts pinned, in the state directory: one directory per attempt that pinned something.
pub const PINS: &str = "pins";
/// The directory of what was published and replaced, in the state directory; the sink's.
const VERSIONS: &str = "versions";
/// The list of an input that is only verified, within the directory of one input.
const LIST: &str = "list";

/// The attempt that pinned what a run reads; nothing for an input that is kept elsewhere.
pub fn owner_of(pin: &PinnedInput) -> Option<AttemptId> {
    let mut parts = Path::new(pin.snapshot.as_deref()?).iter();
    parts.next().filter(|first| *first == PINS)?;
    parts.next()?.to_str()?.parse().ok()
}

/// Whether the command reads the original of what was pinned (`pin = "verify"`), and no copy or second name of it.
pub fn reads_original(pin: &PinnedInput) -> bool {
    let kept = pin.snapshot.as_deref().and_then(|snapshot| Path::new(snapshot).file_name());
    kept.is_some_and(|kept| kept == LIST || kept == crate::object::OBJECTS)
}

/// Pins files, directories and patterns below a state directory.
///
/// # Crash safety
/// Nothing is synced: after a power cut a view may be torn, or its hold gone. [`Input::open`] compares a view with the
/// recorded digest before it hands it out, so that a torn one is made again from an unchanged original, or refused, and
/// never read. A death while a view is made leaves a directory of the attempt, which goes with the attempt.
pub struct LocalInput {
    state: PathBuf,
    pub(crate) views: Views,
    probe: Arc<dyn CrashProbe>,
    /// What was there when this process looked last, by name and version of the input.
    looks: Mutex<BTreeMap<(String, String, String), Look>>,
}

struct Look {
    listing: Listing,
    /// Of a copy: its directories.
    directories: Option<Vec<(PathBuf, Stat)>>,
    /// Nothing ran since.
    fresh: bool,
}

impl std::fmt::Debug for LocalInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalInput").field("state", &self.state).finish_non_exhaustive()
    }
}

impl LocalInput {
    /// Keeps pins, views and what it knows of files in a state directory.
    pub fn new(state: impl Into<PathBuf>, probe: Arc<dyn CrashProbe>) -> Self {
        let state = state.into();
        Self { views: Views::new(&state), state, probe, looks: Mutex::default() }
    }

    /// Removes the views that only the given attempts need, or nobody. Returns their places.
    pub fn sweep(&self, released: &BTreeSet<AttemptId>, dry_run: bool) -> Result<Vec<PathBuf>> {
        let released = released.iter().map(|owner| self.directory_of(*owner)).collect();
        self.views.sweep(&released, false, dry_run)
    }

    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    pub(crate) fn directory_of(&self, owner: AttemptId) -> PathBuf {
        self.state.join(PINS).join(owner.to_string())
    }

    /// Lists a location. If something was written to in the last moment, waits that moment and looks again: from then on
    /// a change shows.
    fn take(location: &Location) -> Result<Listing> {
        let listing = Listing::take(location)?;
        if wait_until_settled(listing.files().map(|(_, stat, _)| stat)) { Listing::take(location) } else { Ok(listing) }
    }

    /// Lists what may be an input.
    pub(crate) fn list(&self, location: &Location) -> Result<Listing> {
        self.refuse_holder_of_state(location)?;
        let listing = Self::take(location)?;
        self.refuse_state(location, &listing)?;
        Ok(listing)
    }

    /// What is at a location now, with all contents known.
    fn read(&self, location: &Location) -> Result<Listing> {
        let mut listing = Self::take(location)?;
        self.complete(&mut listing)?;
        Ok(listing)
    }

    fn complete(&self, listing: &mut Listing) -> Result<()> {
        let mut seen = Seen::of(&self.state, root_of(listing));
        seen.recall(listing);
        seen.complete(listing)?;
        seen.save();
        Ok(())
    }

    /// Before it is listed: it would be read while it changes.
    fn refuse_holder_of_state(&self, location: &Location) -> Result<()> {
        let Location::Path(path) = location else { return Ok(()) };
        let state = self.canonical_state();
        if fs::canonicalize(path).is_ok_and(|path| state.starts_with(path)) {
            Err(self.own_state(path))
        } else {
            Ok(())
        }
    }

    /// Nothing that an input consists of may lie in the state directory, or hold it; what was published there may be read:
    /// a kept version, or a directory to which its place is a link.
    fn refuse_state(&self, location: &Location, listing: &Listing) -> Result<()> {
        let state = self.canonical_state();
        let is_path = matches!(location, Location::Path(_));
        let within = |place: &Path| {
            let is_own = place.starts_with(&state) && !place.starts_with(state.join(VERSIONS));
            is_own || is_path && state.starts_with(place)
        };
        let mut places: BTreeSet<PathBuf> = listing.followed.iter().cloned().collect();
        places.extend(fs::canonicalize(&listing.root));
        if !is_path {
            // Only what a pattern matched is read of its directories, to which links may have led.
            let files: Vec<_> = listing.files().map(|(entry, ..)| listing.place(entry)).collect();
            let parents: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
            places.extend(parents.into_iter().filter_map(|parent| fs::canonicalize(parent).ok()));
        }
        places.iter().find(|place| within(place)).map_or(Ok(()), |place| Err(self.own_state(place)))
    }

    fn canonical_state(&self) -> PathBuf {
        fs::canonicalize(&self.state).unwrap_or_else(|_| self.state.clone())
    }

    fn own_state(&self, path: &Path) -> Error {
        Error::invalid(format!(
            "the input `{}` holds, or is part of, the home's own state `{}`",
            path.display(),
            self.state.display()
        ))
        .hint("name the directories with the data, or a pattern of files")
    }

    pub(crate) fn remember(&self, pin: &PinnedInput, listing: Listing, fresh: bool) {
        let look = Look { directories: views::directories_of_copy(&listing), listing, fresh };
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).insert(key_of(pin), look);
    }

    /// Whether this process has just looked.
    fn take_fresh(&self, pin: &PinnedInput) -> bool {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.get_mut(&key_of(pin)).is_some_and(|look| std::mem::take(&mut look.fresh))
    }

    fn open_view(&self, pin: &PinnedInput, hold: &Path) -> Result<PathBuf> {
        if let Some(content) = self.kept_view(pin, hold, &pin.version)? {
            return Ok(content);
        }
        // Said of the damaged view, before another takes its hold.
        let what = self.held_by(hold).and_then(|content| self.damage(&content, pin));
        let holder = hold.parent().unwrap_or(hold);
        match self.view_again(pin, holder)? {
            Some(View { content, listing }) => {
                self.remember(pin, listing, false);
                Ok(content)
            }
            None => Err(gone(pin, "the copy that was kept", what)),
        }
    }

    /// The view of a pin, if its content is what this digest says.
    pub(crate) fn kept_view(&self, pin: &PinnedInput, hold: &Path, digest: &str) -> Result<Option<PathBuf>> {
        let Some(content) = self.held_by(hold) else { return Ok(None) };
        if self.take_fresh(pin) {
            return Ok(Some(content));
        }
        let Some(listing) = self.intact(&content, digest)? else { return Ok(None) };
        self.remember(pin, listing, false);
        Ok(Some(content))
    }

    fn held_by(&self, hold: &Path) -> Option<PathBuf> {
        self.content_of(&fs::read_link(hold).ok()?)
    }

    /// Where a hold leads, below this state directory wherever that is mounted.
    fn content_of(&self, target: &Path) -> Option<PathBuf> {
        let below: PathBuf = target.iter().skip_while(|part| *part == "..").collect();
        (!below.as_os_str().is_empty()).then(|| self.state.join(below))
    }

    fn damage(&self, content: &Path, pin: &PinnedInput) -> Option<String> {
        let before = record::read(&views::list_of(content)?)?;
        let after = self.read(&Location::Path(content.to_owned())).ok()?;
        said(&Changes::between(&before, &after), pin)
    }

    fn open_original(&self, pin: &PinnedInput, list: &Path) -> Result<PathBuf> {
        let location = Location::parse(&pin.location)?;
        let readable = match &location {
            Location::Path(path) => path.clone(),
            Location::Pattern(pattern) => pattern.prefix.clone(),
        };
        if self.take_fresh(pin) {
            return Ok(readable);
        }
        match self.read(&location) {
            Ok(now) if now.version().as_deref() == Some(&pin.version) => {
                self.remember(pin, now, false);
                Ok(readable)
            }
            Ok(now) => {
                let before = record::read(list).filter(|list| list.version().as_deref() == Some(&pin.version));
                let what = before.and_then(|before| said(&Changes::between(&before, &now), pin));
                Err(gone(pin, "the original", what))
            }
            Err(error) if is_change(&error) => Err(gone(pin, "the original", Some(error.message))),
            Err(error) => Err(error),
        }
    }
}

impl Input for LocalInput {
    fn version(&self, location: &str) -> Result<String> {
        let mut listing = self.list(&Location::parse(location)?)?;
        self.complete(&mut listing)?;
        listing.version().ok_or_else(|| changing(&listing.root))
    }

    fn pin(&self, request: &PinRequest) -> Result<PinnedInput> {
        let location = Location::parse(&request.location)?;
        self.refuse_holder_of_state(&location)?;
        let suits = |listing: &Listing| {
            self.refuse_state(&location, listing)?;
            refuse_outputs(listing, &request.outputs)
        };
        let holder = self.directory_of(request.owner).join(&request.name);
        let (listing, version, kept) = if request.mode == PinMode::Verify {
            let listing = self.read(&location)?;
            suits(&listing)?;
            let version = listing.version().ok_or_else(|| changing(&listing.root))?;
            place::make_private(&holder)
                .map_err(|error| Error::io(format!("cannot make `{}`", holder.display()), error))?;
            self.probe.reach(CrashPoint::BeforeKeep);
            record::write(&listing, &holder.join(LIST))?;
            self.probe.reach(CrashPoint::AfterKeep);
            (listing, version, LIST)
        } else {
            let (view, version) = self.view(&location, request.mode, &holder, &suits)?;
            (view.listing, version, HOLD)
        };
        let kept = holder.join(kept);
        let snapshot = kept.strip_prefix(&self.state).unwrap_or(&kept).to_string_lossy().into_owned();
        let pin = PinnedInput {
            name: request.name.clone(),
            location: request.location.clone(),
            version,
            digest: None,
            bytes: listing.bytes(),
            snapshot: Some(snapshot),
            lineage: None,
        };
        self.remember(&pin, listing, true);
        Ok(pin)
    }

    fn open(&self, pin: &PinnedInput) -> Result<String> {
        let kept = pin.snapshot.as_deref().map(|snapshot| self.state.join(snapshot)).unwrap_or_default();
        let path = if kept.file_name() == Some(OsStr::new(LIST)) {
            self.open_original(pin, &kept)?
        } else {
            self.open_view(pin, &kept)?
        };
        path.into_os_string().into_string().map_err(|path| {
            Error::invalid(format!("the input path `{}` is not valid UTF-8", Path::new(&path).display()))
        })
    }

    fn verify(&self, pin: &PinnedInput) -> Result<()> {
        let look = self.looks.lock().unwrap_or_else(PoisonError::into_inner).remove(&key_of(pin));
        let Some(look) = look else { return Ok(()) };
        let kept = pin.snapshot.as_deref().map(|snapshot| self.state.join(snapshot)).unwrap_or_default();
        let is_view = kept.file_name() != Some(OsStr::new(LIST));
        let location =
            if is_view { Location::Path(look.listing.root.clone()) } else { Location::parse(&pin.location)? };
        let is_copy = look.directories.is_some();
        let what = match self.read(&location) {
            Ok(now) => {
                let changes = if is_copy { Changes::while_held } else { Changes::while_reading }(&look.listing, &now);
                let moved = look.directories.is_some_and(|before| Some(before) != views::directories_of_copy(&now));
                match said(&changes, pin) {
                    None if !moved => return Ok(()),
                    None => Some("a directory was touched, and holds the same now".to_owned()),
                    said => said,
                }
            }
            Err(error) if is_change(&error) => Some(error.message),
            Err(error) => return Err(error),
        };
        let what = what.map(|what| format!(": {what}")).unwrap_or_default();
        let named = format!("the input `{}` ({})", pin.name, pin.location);
        let (message, hint) = if is_copy {
            (
                format!("the copy that the command read as {named} was changed while it ran{what}"),
                "commands may only read their inputs. All tasks that read the same content share the copy: this command \
                 changed it, or another one that ran beside it. Repeat the command: its copy is made again if it must be",
            )
        } else if is_view {
            (
                format!("what the command read as {named} changed while it ran{what}"),
                "the command may only read its inputs, and with `pin = \"link\"` nobody else may write to the originals",
            )
        } else {
            (
                format!("{named} changed while the task ran{what}"),
                "repeat the command with `--rerun`, or pin a copy of the input instead of verifying it",
            )
        };
        Err(Error::guard(message).hint(hint))
    }

    fn release(&self, owner: AttemptId) -> Result<()> {
        let directory = self.directory_of(owner);
        place::remove(&directory)
            .map_err(|error| Error::io(format!("cannot remove `{}`", directory.display()), error))?;
        self.views.sweep(&BTreeSet::new(), true, false).map(drop)
    }
}

/// A link of the input may not lead to what the task publishes.
fn refuse_outputs(listing: &Listing, outputs: &[String]) -> Result<()> {
    for place in &listing.followed {
        let location = escape(&place.to_string_lossy());
        if let Some(output) = outputs.iter().find(|output| meets(&location, output)) {
            return Err(Error::invalid(format!(
                "a link leads to `{}`, which is where the task itself publishes ({output})",
                place.display()
            ))
            .hint(
                "to read what was published before, declare an input { task = \"self\", partition = \"previous\" }",
            ));
        }
    }
    Ok(())
}

/// Where what is known of the files of a listing is kept together.
pub(crate) fn root_of(listing: &Listing) -> &Path {
    if listing.is_file { listing.root.parent().unwrap_or(&listing.root) } else { &listing.root }
}

/// An input that is not what it was, as opposed to one that cannot be looked at.
pub(crate) fn is_change(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Invalid | ErrorKind::Unavailable)
}

fn said(changes: &Changes, pin: &PinnedInput) -> Option<String> {
    let base = Path::new(&pin.location).file_name().unwrap_or_default();
    (!changes.is_none()).then(|| changes.describe(Path::new(base)))
}

pub(crate) fn gone(pin: &PinnedInput, which: &str, what: Option<String>) -> Error {
    let what = what.map(|what| format!(" ({what})")).unwrap_or_default();
    Error::refused(format!(
        "the pinned version of the input `{}` ({}) is gone: {which} is not what the run started with{what}",
        pin.name, pin.location
    ))
    .hint("repeat the command with `--rerun`: it opens a new run that pins the input as it is now")
}

pub(crate) fn key_of(pin: &PinnedInput) -> (String, String, String) {
    (pin.name.clone(), pin.location.clone(), pin.version.clone())
}

pub(crate) mod keep;
#[cfg(test)]
mod tests;
