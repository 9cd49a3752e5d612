//! Finds the view of an input, or makes it.

use super::{LocalInput, is_change, root_of};
use crate::content::Share;
use crate::listing::{Listing, Node, changing};
use crate::location::Location;
use crate::moment::Moment;
use crate::place;
use crate::seen::{Seen, wait_until_settled};
use crate::stat::Stat;
use crate::views::{self, View, Wanted, Way};
use blake3::Hash;
use refrain_core::{CrashPoint, Error, PinMode, PinnedInput, Result};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// A view that is being made, in the directory of one input of one attempt.
pub(crate) const MAKING: &str = "making";
/// From this size on, waiting for a copy to be clearly older is cheaper than reading it again.
const MUCH_BYTES: u64 = 4 << 20;

/// What is to be viewed, and where its hold goes.
struct Subject<'a> {
    location: &'a Location,
    base: OsString,
    way: Way,
    holder: &'a Path,
}

/// Contents as they were read, with the moment before which nothing of it was changed.
pub(crate) struct Read {
    files: Vec<(Stat, Hash)>,
    moment: Moment,
}

impl Read {
    /// Of copies that nobody but this process has written to until now.
    pub(crate) fn copies(files: Vec<(Stat, Hash)>) -> Self {
        if files.iter().map(|(stat, _)| stat.bytes).sum::<u64>() >= MUCH_BYTES {
            wait_until_settled(files.iter().map(|(stat, _)| stat));
        }
        Self { files, moment: Moment::now() }
    }
}

impl LocalInput {
    /// Makes or finds the view of what is at a location, if that suits; and its version.
    pub(super) fn view(
        &self,
        location: &Location,
        pin: PinMode,
        holder: &Path,
        suits: &dyn Fn(&Listing) -> Result<()>,
    ) -> Result<(View, String)> {
        let way = match pin {
            PinMode::Auto | PinMode::Verify => Way::Copy(Share::Try),
            PinMode::Copy => Way::Copy(Share::Never),
            PinMode::Reflink => Way::Copy(Share::Must),
            PinMode::Link => Way::Link,
        };
        let subject = Subject { location, base: base_of(location), way, holder };
        place::make_private(holder).map_err(|error| Error::io(format!("cannot make `{}`", holder.display()), error))?;
        let mut listing = Self::take(location)?;
        suits(&listing)?;
        let mut seen = Seen::of(&self.state, root_of(&listing));
        seen.recall(&mut listing);
        if way == Way::Link {
            // Not to make second names in vain: each changes the file's times.
            seen.complete(&mut listing)?;
        }
        if let (Some(version), Some(name)) = (listing.version(), views::name_of(&listing, &subject.base, way)) {
            let is_intact = |content: &Path| self.intact(content, &version);
            let wanted = Wanted { name, base: &subject.base, holder, is_intact: &is_intact };
            self.probe.reach(CrashPoint::BeforeKeep);
            if let Some(view) = self.views.find(&wanted)? {
                self.probe.reach(CrashPoint::AfterKeep);
                seen.save();
                return Ok((view, version));
            }
        }
        let made = holder.join(MAKING);
        let put = self.make(&subject, listing, seen, &made);
        if put.is_err() {
            // Best effort: it goes with the attempt at the latest.
            drop(place::remove(&made));
        }
        put
    }

    /// Makes a view again whose content is gone, from an original that still is what was pinned.
    pub(super) fn view_again(&self, pin: &PinnedInput, holder: &Path) -> Result<Option<View>> {
        let location = Location::parse(&pin.location)?;
        match self.read(&location) {
            Ok(now) if now.version().as_deref() == Some(&pin.version) => {}
            Ok(_) => return Ok(None),
            Err(error) if is_change(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        match self.view(&location, PinMode::Auto, holder, &|_| Ok(())) {
            Ok((view, version)) => Ok(Some(view).filter(|_| version == pin.version)),
            Err(error) if is_change(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The listing of a view, if it is of this version.
    pub(crate) fn intact(&self, content: &Path, version: &str) -> Result<Option<Listing>> {
        match self.read(&Location::Path(content.to_owned())) {
            Ok(listing) => Ok(Some(listing).filter(|listing| listing.version().as_deref() == Some(version))),
            Err(error) if is_change(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn make(&self, subject: &Subject<'_>, listing: Listing, mut seen: Seen, made: &Path) -> Result<(View, String)> {
        place::remove(made).map_err(|error| Error::io(format!("cannot remove `{}`", made.display()), error))?;
        self.probe.reach(CrashPoint::BeforeKeep);
        let (listing, read) = match subject.way {
            Way::Copy(_) => self.copy(subject, listing, &mut seen, made)?,
            Way::Link => self.link(subject, listing, &mut seen, made)?,
        };
        seen.save();
        let (Some(version), Some(name)) = (listing.version(), views::name_of(&listing, &subject.base, subject.way))
        else {
            return Err(changing(&listing.root));
        };
        views::describe(&listing, made)?;
        let view = self.put(made, (name, &subject.base, subject.holder), (&version, &read))?;
        Ok((view, version))
    }

    /// Puts a view at its place that this process has just made of contents that it knows.
    pub(crate) fn put(
        &self,
        made: &Path,
        (name, base, holder): (String, &OsStr, &Path),
        (version, read): (&str, &Read),
    ) -> Result<View> {
        let is_intact = |content: &Path| {
            let mut view = Listing::take(&Location::Path(content.to_owned()))?;
            let mut seen = Seen::of(&self.state, root_of(&view));
            seen.adopt(&read.files, read.moment);
            seen.recall(&mut view);
            seen.complete(&mut view)?;
            seen.save();
            Ok(Some(view).filter(|view| view.version().as_deref() == Some(version)))
        };
        self.views.put(made, &Wanted { name, base, holder, is_intact: &is_intact })
    }

    /// The files that are read here for the copy are known from now on.
    fn copy(
        &self,
        subject: &Subject<'_>,
        mut listing: Listing,
        seen: &mut Seen,
        made: &Path,
    ) -> Result<(Listing, Read)> {
        let before = Moment::now();
        let files = views::make(&mut listing, &subject.base, subject.way, made)?;
        self.probe.reach(CrashPoint::AfterKeep);
        let mut now = Listing::take(subject.location)?;
        if !now.is_unwritten_since(&listing) {
            return Err(moved(&listing, &now));
        }
        compare_touched(&listing, &mut now)?;
        for (_, stat, digest) in listing.files() {
            if let Some(digest) = digest {
                seen.learn(stat, digest, before);
            }
        }
        Ok((listing, Read::copies(files)))
    }

    /// A second name changes a file's times, so that a write in between would not show: all is read again.
    fn link(
        &self,
        subject: &Subject<'_>,
        mut listing: Listing,
        seen: &mut Seen,
        made: &Path,
    ) -> Result<(Listing, Read)> {
        views::make(&mut listing, &subject.base, subject.way, made)?;
        self.probe.reach(CrashPoint::AfterKeep);
        let mut now = Self::take(subject.location)?;
        for ((_, digest), (_, known)) in now.files_mut().zip(listing.files_mut()) {
            (*digest, *known) = (None, None);
        }
        if !now.is_unwritten_since(&listing) {
            return Err(moved(&listing, &now));
        }
        let moment = Moment::now();
        seen.complete(&mut now)?;
        let files = now.files().filter_map(|(_, stat, digest)| Some((*stat, digest?))).collect();
        Ok((now, Read { files, moment }))
    }
}

/// The name under which the command finds the input.
fn base_of(location: &Location) -> OsString {
    let path = match location {
        Location::Path(path) => path,
        Location::Pattern(pattern) => &pattern.prefix,
    };
    path.file_name().map_or_else(|| "input".into(), OsStr::to_owned)
}

/// Reads again what was touched since it was copied, though no time of writing says so: a file with such times may have
/// been written to and dated back.
fn compare_touched(copied: &Listing, now: &mut Listing) -> Result<()> {
    for ((_, was, digest), (stat, known)) in copied.files().zip(now.files_mut()) {
        *known = digest.filter(|_| stat.changed_ns == was.changed_ns);
    }
    Seen::nothing().complete(now)?;
    let differs = copied.files().zip(now.files()).find(|((_, _, was), (_, _, is))| was != is);
    differs.map_or(Ok(()), |((entry, ..), _)| Err(changing(&copied.place(entry))))
}

/// The first file that is not what was listed.
fn moved(before: &Listing, after: &Listing) -> Error {
    let differs = |index: &usize| {
        let (one, other) = (before.entries.get(*index), after.entries.get(*index));
        match (one, other) {
            (Some(one), Some(other)) => match (&one.node, &other.node) {
                (Node::File { stat: was, .. }, Node::File { stat: is, .. }) => {
                    one.path != other.path || !is.is_unwritten_since(was)
                }
                _ => one != other,
            },
            _ => true,
        }
    };
    let index = (0..before.entries.len().max(after.entries.len())).find(differs).unwrap_or_default();
    let place = before.entries.get(index).map(|entry| before.place(entry));
    let place = place.or_else(|| after.entries.get(index).map(|entry| after.place(entry)));
    changing(&place.unwrap_or_else(|| before.root.clone()))
}
