//! Views: read-only copies of inputs, shared by every run that reads the same content.
//!
//! A view lies in `views/<name>/content/<base name>`, with its list beside. Who needs it has a hold: a link to it, in the
//! directory of the attempt that pinned it. A hold is made before its view is looked at, and a view is removed only
//! under its kernel lock and after a look at all holds: whoever made a hold and then found the view can rely on it.

use crate::content::{Share, cannot_copy, copy_file};
use crate::cores::on_all_cores;
use crate::listing::{Listing, Node, changing};
use crate::local::PINS;
use crate::place;
use crate::record;
use crate::stat::Stat;
use blake3::{Hash, Hasher};
use refrain_core::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind::{AlreadyExists, NotFound};
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The directory of the views, in the state directory.
pub(crate) const VIEWS: &str = "views";
pub(crate) const CONTENT: &str = "content";
const LIST: &str = "list";
/// The hold within the directory of one input.
pub(crate) const HOLD: &str = "view";

/// Views that no run needs and that wait for a run that reads the same content.
const MOST_SPARE: usize = 16;
const MOST_SPARE_BYTES: u64 = 4 << 30;

/// How the content comes into a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Copy(Share),
    /// By second names of the original files.
    Link,
}

/// All views of a home.
#[derive(Debug)]
pub(crate) struct Views {
    state: PathBuf,
}

/// One view, seen whole.
#[derive(Debug)]
pub(crate) struct View {
    /// Where the command reads.
    pub(crate) content: PathBuf,
    pub(crate) listing: Listing,
}

/// What a view must be.
pub(crate) struct Wanted<'a> {
    pub(crate) name: String,
    /// The name that the content has in the view.
    pub(crate) base: &'a OsStr,
    /// Where the hold goes: the directory of one input of one attempt.
    pub(crate) holder: &'a Path,
    /// Takes a listing of the content if it is what it must be.
    pub(crate) is_intact: &'a dyn Fn(&Path) -> Result<Option<Listing>>,
}

/// The name of the view of a listing whose contents are known. Views by links are of the very files.
pub(crate) fn name_of(listing: &Listing, base: &OsStr, way: Way) -> Option<String> {
    let mut hasher = Hasher::new();
    hasher.update(b"refrain view 1\0").update(listing.version()?.as_bytes());
    hasher.update(&[u8::from(listing.is_file), u8::from(way == Way::Link)]).update(base.as_bytes());
    if way == Way::Link {
        for (_, stat, _) in listing.files() {
            hasher.update(&stat.device.to_le_bytes()).update(&stat.inode.to_le_bytes());
        }
    }
    hasher.finalize().to_hex().get(..32).map(str::to_owned)
}

/// The directories of a view by copy, whose times tell that something in them was moved; nothing for another listing.
pub(crate) fn directories_of_copy(listing: &Listing) -> Option<Vec<(PathBuf, Stat)>> {
    let content = listing.root.parent().filter(|content| content.ends_with(CONTENT))?;
    let view = content.parent().filter(|view| view.parent().is_some_and(|views| views.ends_with(VIEWS)))?;
    let by_links = name_of(listing, listing.root.file_name()?, Way::Link)?;
    if view.file_name()?.as_bytes().starts_with(by_links.as_bytes()) {
        return None;
    }
    let below = listing.entries.iter().filter(|entry| entry.node == Node::Directory);
    let below = below.map(|entry| listing.root.join(&entry.path));
    let root = (!listing.is_file).then(|| listing.root.clone());
    let all = std::iter::once(content.to_owned()).chain(root).chain(below);
    // One that is gone is missing among them.
    Some(all.filter_map(|path| fs::symlink_metadata(&path).ok().map(|found| (path, Stat::of(&found)))).collect())
}

impl Views {
    pub(crate) fn new(state: &Path) -> Self {
        Self { state: state.to_owned() }
    }

    /// A view that is there already, held from now on.
    pub(crate) fn find(&self, wanted: &Wanted<'_>) -> Result<Option<View>> {
        for name in candidates(&wanted.name) {
            if !self.place(&name).is_dir() {
                return Ok(None);
            }
            Self::hold(wanted, &name)?;
            if let Some(view) = self.look(wanted, &name)? {
                return Ok(Some(view));
            }
        }
        Ok(None)
    }

    /// Puts what was made at its place, unless the same view came there meanwhile; held from now on.
    ///
    /// # Crash safety
    /// One rename. Dying before it leaves what was made in the attempt's directory, which goes with the attempt.
    pub(crate) fn put(&self, made: &Path, wanted: &Wanted<'_>) -> Result<View> {
        let views = self.state.join(VIEWS);
        place::make_private(&views).map_err(|error| failed("make", &views, error))?;
        for name in candidates(&wanted.name) {
            Self::hold(wanted, &name)?;
            let target = self.place(&name);
            match place::move_to_free(made, &target) {
                // No lock is needed: whoever locks it for removal does so after this hold was made, and sees it.
                Ok(()) => {
                    let content = target.join(CONTENT).join(wanted.base);
                    let listing = (wanted.is_intact)(&content)?.ok_or_else(|| changing(&content))?;
                    return Ok(View { content, listing });
                }
                Err(error) if error.kind() == AlreadyExists => {}
                Err(error) => return Err(failed("make", &target, error)),
            }
            if let Some(view) = self.look(wanted, &name)? {
                place::remove(made).map_err(|error| failed("remove", made, error))?;
                return Ok(view);
            }
        }
        Err(Error::new(ErrorKind::Internal, format!("all names of the view `{}` are taken", wanted.name))
            .hint("`refrain gc` removes views that no run needs"))
    }

    fn look(&self, wanted: &Wanted<'_>, name: &str) -> Result<Option<View>> {
        let place = self.place(name);
        let locked = place::lock(&place, FlockOperation::NonBlockingLockShared);
        let Some(lock) = locked.map_err(|error| failed("lock", &place, error))? else { return Ok(None) };
        let content = place.join(CONTENT).join(wanted.base);
        let Some(listing) = (wanted.is_intact)(&content)? else { return Ok(None) };
        mark_used(&lock);
        Ok(Some(View { content, listing }))
    }

    fn hold(wanted: &Wanted<'_>, name: &str) -> Result<()> {
        let hold = wanted.holder.join(HOLD);
        let target = Path::new("../../..").join(VIEWS).join(name).join(CONTENT).join(wanted.base);
        let make = || {
            place::remove(&hold)?;
            symlink(&target, &hold)
        };
        make().map_err(|error| failed("make", &hold, error))
    }

    fn place(&self, name: &str) -> PathBuf {
        self.state.join(VIEWS).join(name)
    }

    /// Removes views that nobody holds, those that were used last of all if `spare`. Returns their places.
    ///
    /// # Crash safety
    /// A view of which only a part is left is not intact, and is removed by the next call.
    pub(crate) fn sweep(&self, released: &BTreeSet<PathBuf>, spare: bool, dry_run: bool) -> Result<Vec<PathBuf>> {
        let views = self.state.join(VIEWS);
        let failed_list = |error| failed("list", &views, error);
        let mut free = Vec::new();
        let entries = match fs::read_dir(&views) {
            Err(error) if error.kind() == NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed_list)?,
        };
        let mut held = self.held(released)?;
        for entry in entries {
            let entry = entry.map_err(failed_list)?;
            if !held.contains(&entry.path()) {
                free.push((entry.metadata().and_then(|found| found.modified()).map_err(failed_list)?, entry.path()));
            }
        }
        free.sort_unstable_by(|one, other| other.cmp(one));
        let (mut spared, mut bytes) = (0, 0);
        let mut removed = Vec::new();
        for (_, place) in free {
            if spare && spared < MOST_SPARE {
                let more = bytes_of(&place).unwrap_or(u64::MAX);
                if more <= MOST_SPARE_BYTES - bytes {
                    bytes += more;
                    spared += 1;
                    continue;
                }
            }
            let locked = place::lock(&place, FlockOperation::NonBlockingLockExclusive);
            let Some(_lock) = locked.map_err(|error| failed("lock", &place, error))? else { continue };
            held = self.held(released)?;
            if held.contains(&place) {
                continue;
            }
            if !dry_run {
                place::remove(&place).map_err(|error| failed("remove", &place, error))?;
            }
            removed.push(place);
        }
        Ok(removed)
    }

    /// The views that have a hold, other than those of released directories of attempts.
    fn held(&self, released: &BTreeSet<PathBuf>) -> Result<BTreeSet<PathBuf>> {
        let mut held = BTreeSet::new();
        for owner in directories(&self.state.join(PINS))?.into_iter().filter(|owner| !released.contains(owner)) {
            for input in directories(&owner)? {
                let Ok(target) = fs::read_link(input.join(HOLD)) else { continue };
                held.extend(
                    target
                        .iter()
                        .skip_while(|part| *part != VIEWS)
                        .nth(1)
                        .map(|name| self.state.join(VIEWS).join(name)),
                );
            }
        }
        Ok(held)
    }
}

/// The name, and others should a damaged view have it.
fn candidates(name: &str) -> impl Iterator<Item = String> {
    let others = (2..1000).map({
        let name = name.to_owned();
        move |number| format!("{name}.{number}")
    });
    std::iter::once(name.to_owned()).chain(others)
}

/// The list of the view that has this content.
pub(crate) fn list_of(content: &Path) -> Option<PathBuf> {
    Some(content.parent()?.parent()?.join(LIST))
}

fn bytes_of(view: &Path) -> Option<u64> {
    let mut line = String::new();
    BufReader::new(File::open(view.join(LIST)).ok()?).read_line(&mut line).ok()?;
    Some(record::header(&line)?.bytes)
}

/// Only the order in which spare views go depends on it.
fn mark_used(view: &File) {
    let time = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    let times = Timestamps { last_access: time(UTIME_OMIT), last_modification: time(UTIME_NOW) };
    if let Err(error) = rustix::fs::futimens(view, &times) {
        tracing::debug!(%error, "the use of a view could not be marked");
    }
}

fn directories(within: &Path) -> Result<Vec<PathBuf>> {
    let list = || -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(within)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                found.push(entry.path());
            }
        }
        Ok(found)
    };
    match list() {
        Err(error) if error.kind() == NotFound => Ok(Vec::new()),
        listed => listed.map_err(|error| failed("list", within, error)),
    }
}

/// Makes a view's directory at `made`. Fills in the digests, and returns what was written, for whoever compares later.
/// A view by links is not read here.
///
/// # Errors
/// As [`copy_file`].
pub(crate) fn make(listing: &mut Listing, base: &OsStr, way: Way, made: &Path) -> Result<Vec<(Stat, Hash)>> {
    let content = made.join(CONTENT);
    let root = content.join(base);
    place::make_private(&content).map_err(|error| cannot_copy(&content, error))?;
    let directory = |path: &Path| fs::create_dir(path).map_err(|error| cannot_copy(path, error));
    let mut directories = vec![content];
    if !listing.is_file {
        directory(&root)?;
        directories.push(root.clone());
    }
    let mut files = Vec::new();
    for entry in &listing.entries {
        let target = if listing.is_file { root.clone() } else { root.join(&entry.path) };
        match &entry.node {
            Node::Directory => {
                directory(&target)?;
                directories.push(target);
            }
            Node::Link(text) => symlink(text, &target).map_err(|error| cannot_copy(&target, error))?,
            Node::File { stat, digest, .. } => files.push((listing.place(entry), *stat, *digest, target)),
        }
    }
    let written = match way {
        Way::Copy(share) => on_all_cores(&files, |(from, stat, known, to)| {
            copy_file(from, stat, *known, to, share).map(|(digest, stat)| (stat, digest))
        })?,
        Way::Link => {
            on_all_cores(&files, |(from, _, _, to)| place::link(from, to).map_err(|error| cannot_link(from, error)))
                .map(|_| Vec::new())?
        }
    };
    for ((_, digest), (_, known)) in written.iter().zip(listing.files_mut()) {
        *known = Some(*digest);
    }
    close_all(&directories)?;
    Ok(written)
}

/// Nobody may add to the directories of what was made, `content` and those of its listing below `root`, or remove from
/// them.
pub(crate) fn close(listing: &Listing, root: &Path, content: &Path) -> Result<()> {
    let mut directories = vec![content.to_owned()];
    if !listing.is_file {
        directories.push(root.to_owned());
        let below = listing.entries.iter().filter(|entry| entry.node == Node::Directory);
        directories.extend(below.map(|entry| root.join(&entry.path)));
    }
    close_all(&directories)
}

fn close_all(directories: &[PathBuf]) -> Result<()> {
    directories
        .iter()
        .rev()
        .try_for_each(|directory| place::close_directory(directory).map_err(|error| cannot_copy(directory, error)))
}

/// Writes the list of a view that was made.
pub(crate) fn describe(listing: &Listing, made: &Path) -> Result<()> {
    record::write(listing, &made.join(LIST))
}

fn cannot_link(path: &Path, error: io::Error) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("the input `{}` cannot be pinned by a hard link in the home", path.display()),
    )
    .because(error)
    .hint("use `pin = \"auto\"`, which copies, or `pin = \"verify\"`, which needs no second name")
}

fn failed(action: &str, path: &Path, error: io::Error) -> Error {
    Error::io(format!("cannot {action} `{}`", path.display()), error)
}
