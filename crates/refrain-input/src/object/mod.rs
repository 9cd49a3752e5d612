//! Objects and prefixes as inputs.
//!
//! What there is (`found`) is told by the store in few requests, and its entity tags and sizes are the version. A copy is
//! fetched (`fetch`) into a view like those of files, which is named after the version, so that an object which did not
//! change is fetched once; from then on a view is known by the checksum of what was fetched. What is only verified is
//! listed (`record`) and asked for again at the seal.

mod fetch;
mod found;
mod record;

use crate::listing::{Listing, Node};
use crate::local::keep::{MAKING, Read};
use crate::local::{LocalInput, gone, key_of};
use crate::location::Location;
use crate::place;
use crate::record as list;
use crate::seen::boot;
use crate::views::{self, CONTENT, HOLD, View, Wanted};
use blake3::Hasher;
use found::Found;
use refrain_core::{CrashPoint, CrashProbe, Error, ErrorKind, Input, PinMode, PinRequest, PinnedInput, Result};
use refrain_object::{Address, Bucket, Settings};
use rustix::fs::FlockOperation;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The directory of copies that are being fetched, in the state directory; one for each version of an input.
const FETCHES: &str = "fetches";
/// The list of what was pinned, within the directory of one input.
pub(crate) const OBJECTS: &str = "objects";

/// How a bucket is reached, as the home's configuration says.
type Reach = Box<dyn Fn(&Address) -> Settings + Send + Sync>;

/// Pins objects and prefixes, and keeps copies where those of files are.
///
/// # Crash safety
/// As [`LocalInput`]. A fetch that was interrupted is gone on with by the next pin of the same version, unless the host was
/// started anew in between; `refrain gc` removes what nobody went on with.
pub(crate) struct ObjectInput {
    state: PathBuf,
    local: Arc<LocalInput>,
    reach: Reach,
    open: Mutex<BTreeMap<Address, Bucket>>,
    probe: Arc<dyn CrashProbe>,
    /// What was there when this process looked last, of inputs that are only verified.
    looks: Mutex<BTreeMap<(String, String, String), Found>>,
}

impl std::fmt::Debug for ObjectInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectInput").field("state", &self.state).finish_non_exhaustive()
    }
}

impl ObjectInput {
    pub(crate) fn new(state: PathBuf, local: Arc<LocalInput>, reach: Reach, probe: Arc<dyn CrashProbe>) -> Self {
        Self { state, local, reach, open: Mutex::default(), probe, looks: Mutex::default() }
    }

    /// Removes what interrupted fetches left and nobody fetches now. Returns the places.
    pub(crate) fn sweep(&self, dry_run: bool) -> Result<Vec<PathBuf>> {
        let fetches = self.state.join(FETCHES);
        let failed = |error| Error::io(format!("cannot list `{}`", fetches.display()), error);
        let entries = match fs::read_dir(&fetches) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut removed = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let Some(_lock) = lock(&path)? else { continue };
            if !dry_run {
                place::remove(&path)
                    .map_err(|error| Error::io(format!("cannot remove `{}`", path.display()), error))?;
            }
            removed.push(path);
        }
        Ok(removed)
    }

    fn bucket(&self, address: &Address) -> Result<Bucket> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let root = address.at("");
        if let Some(bucket) = open.get(&root) {
            return Ok(bucket.clone());
        }
        let bucket = Bucket::open(address, &(self.reach)(address))?;
        open.insert(root, bucket.clone());
        Ok(bucket)
    }

    fn take(&self, location: &str) -> Result<(Bucket, Found)> {
        let address = Address::parse(location)?;
        let area = (self.reach)(&address).area(&address);
        if area.contains(&address) || address.contains(&area) {
            return Err(Error::invalid(format!(
                "the input `{address}` holds, or is part of, {area}, where Refrain keeps heads and versions"
            ))
            .hint("name a prefix with the data; what a task published is read by in.NAME = { task = \"…\" }"));
        }
        let bucket = self.bucket(&address)?;
        let found = Found::take(&bucket, &address)?;
        Ok((bucket, found))
    }

    /// Finds the view of what was found, or fetches it; completes what is known of the objects. Returns the digest of the
    /// content.
    fn keep(&self, bucket: &Bucket, found: &mut Found, holder: &Path) -> Result<(View, String)> {
        found.refuse_no_tree()?;
        place::make_private(holder).map_err(|error| Error::io(format!("cannot make `{}`", holder.display()), error))?;
        let name = view_of(bucket, found);
        let is_intact = |content: &Path| self.as_fetched(content);
        let base = OsStr::new(found.base()).to_owned();
        let wanted = Wanted { name: name.clone(), base: &base, holder, is_intact: &is_intact };
        self.probe.reach(CrashPoint::BeforeKeep);
        let view = match self.local.views.find(&wanted)? {
            Some(view) => view,
            None => self.fetch(bucket, found, (name, &base, holder))?,
        };
        self.probe.reach(CrashPoint::AfterKeep);
        let is_file = view.listing.is_file;
        let digests: BTreeMap<PathBuf, String> = view
            .listing
            .files()
            .filter_map(|(entry, _, digest)| Some((entry.path.clone(), format!("blake3:{}", digest?.to_hex()))))
            .collect();
        for object in &mut found.objects {
            let path = if is_file { PathBuf::new() } else { PathBuf::from(&object.name) };
            object.digest = digests.get(&path).cloned();
        }
        let digest = view.listing.version().ok_or_else(|| changing(found))?;
        Ok((view, digest))
    }

    /// The listing of a view, if it is what was fetched when it was made.
    fn as_fetched(&self, content: &Path) -> Result<Option<Listing>> {
        let fetched = views::list_of(content).and_then(|path| list::read(&path)?.version());
        fetched.map_or(Ok(None), |digest| self.local.intact(content, &digest))
    }

    fn fetch(&self, bucket: &Bucket, found: &mut Found, (name, base, holder): (String, &OsStr, &Path)) -> Result<View> {
        let shared = self.shared(&name)?;
        let made = shared.as_ref().map_or_else(|| holder.join(MAKING), |(made, _)| made.clone());
        if shared.is_none() {
            place::remove(&made).map_err(|error| Error::io(format!("cannot remove `{}`", made.display()), error))?;
        }
        let fetched = self.fetch_to(&made, bucket, found, (name, base, holder));
        // Of versions that are there no more, nothing serves again.
        let serves = |found: &Found| match Found::take(bucket, &found.address) {
            Ok(now) => found.changes(&now).is_none(),
            Err(error) => error.kind != ErrorKind::Invalid,
        };
        if fetched.is_err() && (shared.is_none() || !serves(found)) {
            // Best effort: gc removes it at the latest.
            drop(place::remove(&made));
        }
        fetched
    }

    fn fetch_to(
        &self,
        made: &Path,
        bucket: &Bucket,
        found: &mut Found,
        (name, base, holder): (String, &OsStr, &Path),
    ) -> Result<View> {
        let content = made.join(CONTENT);
        let root = content.join(base);
        place::make_private(&content)
            .map_err(|error| Error::io(format!("cannot make `{}`", content.display()), error))?;
        let copies = fetch::fetch(bucket, found, &root)?;
        let now = Found::take(bucket, &found.address)?;
        if found.changes(&now).is_some() {
            return Err(changing(found));
        }
        let mut digests = BTreeMap::new();
        let mut files = Vec::new();
        for (object, copy) in found.objects.iter_mut().zip(copies) {
            let Some(copy) = copy else { continue };
            object.version = copy.version.version;
            digests.insert(copy.file, copy.digest);
            files.push((copy.stat, copy.digest));
        }
        let mut listing = Listing::take(&Location::Path(root.clone()))?;
        // The listing's root is where links lead to; the copies are known by the names that they were given.
        let is_file = listing.is_file;
        for entry in &mut listing.entries {
            let path = if is_file { root.clone() } else { root.join(&entry.path) };
            if let Node::File { digest, .. } = &mut entry.node {
                *digest = digests.get(&path).copied();
            }
        }
        let digest = listing.version().ok_or_else(|| changing(found))?;
        views::describe(&listing, made)?;
        views::close(&listing, &root, &content)?;
        self.local.put(made, (name, base, holder), (&digest, &Read::copies(files)))
    }

    /// Where a fetch of this version goes on, locked; nothing when another process fetches it now, or no leftover could be
    /// trusted.
    fn shared(&self, name: &str) -> Result<Option<(PathBuf, File)>> {
        let Some(boot) = boot() else { return Ok(None) };
        let boot = blake3::hash(&boot).to_hex();
        let made = self.state.join(FETCHES).join(format!("{}-{name}", boot.get(..8).unwrap_or_default()));
        place::make_private(&made).map_err(|error| Error::io(format!("cannot make `{}`", made.display()), error))?;
        Ok(lock(&made)?.map(|lock| (made, lock)))
    }

    fn open_view(&self, pin: &PinnedInput, kept: &Path) -> Result<PathBuf> {
        let digest = pin.digest.as_deref().unwrap_or_default();
        if let Some(content) = self.local.kept_view(pin, kept, digest)? {
            return Ok(content);
        }
        let holder = kept.parent().unwrap_or(kept);
        let which = "the copy that was kept";
        let (bucket, mut now) = match self.take(&pin.location) {
            Err(error) if error.kind == ErrorKind::Invalid => return Err(gone(pin, which, Some(error.message))),
            taken => taken?,
        };
        if now.version() != pin.version {
            let before = record::read(&holder.join(OBJECTS));
            return Err(gone(pin, which, before.and_then(|before| before.changes(&now))));
        }
        match self.keep(&bucket, &mut now, holder) {
            Ok((view, again)) if again == digest => {
                self.local.remember(pin, view.listing, false);
                Ok(view.content)
            }
            Ok(_) => Err(gone(pin, which, Some("the same version has another content now".to_owned()))),
            Err(error) => Err(error),
        }
    }

    fn open_original(&self, pin: &PinnedInput, kept: &Path) -> Result<String> {
        let now = match self.take(&pin.location) {
            Err(error) if error.kind == ErrorKind::Invalid => {
                return Err(gone(pin, "the original", Some(error.message)));
            }
            taken => taken?.1,
        };
        if now.version() != pin.version {
            let before = record::read(kept);
            return Err(gone(pin, "the original", before.and_then(|before| before.changes(&now))));
        }
        self.look(pin, now);
        Ok(pin.location.clone())
    }

    fn look(&self, pin: &PinnedInput, found: Found) {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).insert(key_of(pin), found);
    }

    fn kept(&self, pin: &PinnedInput) -> PathBuf {
        pin.snapshot.as_deref().map(|snapshot| self.state.join(snapshot)).unwrap_or_default()
    }
}

impl Input for ObjectInput {
    fn version(&self, location: &str) -> Result<String> {
        Ok(self.take(location)?.1.version())
    }

    fn pin(&self, request: &PinRequest) -> Result<PinnedInput> {
        let (bucket, mut found) = self.take(&request.location)?;
        let version = found.version();
        let holder = self.local.directory_of(request.owner).join(&request.name);
        let (digest, listing, kept) = match request.mode {
            PinMode::Auto | PinMode::Copy => {
                let (view, digest) = self.keep(&bucket, &mut found, &holder)?;
                record::write(&found, &holder.join(OBJECTS))?;
                (Some(digest), Some(view.listing), HOLD)
            }
            PinMode::Verify => {
                place::make_private(&holder)
                    .map_err(|error| Error::io(format!("cannot make `{}`", holder.display()), error))?;
                self.probe.reach(CrashPoint::BeforeKeep);
                record::write(&found, &holder.join(OBJECTS))?;
                self.probe.reach(CrashPoint::AfterKeep);
                (None, None, OBJECTS)
            }
            PinMode::Reflink | PinMode::Link => {
                return Err(Error::invalid(format!("an object cannot be pinned by `{}`", request.mode.name())));
            }
        };
        let kept = holder.join(kept);
        let snapshot = kept.strip_prefix(&self.state).unwrap_or(&kept).to_string_lossy().into_owned();
        let pin = PinnedInput {
            name: request.name.clone(),
            location: request.location.clone(),
            version,
            digest,
            bytes: found.bytes(),
            snapshot: Some(snapshot),
            lineage: None,
        };
        match listing {
            Some(listing) => self.local.remember(&pin, listing, true),
            None => self.look(&pin, found),
        }
        Ok(pin)
    }

    fn open(&self, pin: &PinnedInput) -> Result<String> {
        let kept = self.kept(pin);
        if kept.file_name() == Some(OsStr::new(OBJECTS)) {
            return self.open_original(pin, &kept);
        }
        self.open_view(pin, &kept)?.into_os_string().into_string().map_err(|path| {
            Error::invalid(format!("the input path `{}` is not valid UTF-8", Path::new(&path).display()))
        })
    }

    fn verify(&self, pin: &PinnedInput) -> Result<()> {
        if self.kept(pin).file_name() != Some(OsStr::new(OBJECTS)) {
            return self.local.verify(pin);
        }
        let look = self.looks.lock().unwrap_or_else(PoisonError::into_inner).remove(&key_of(pin));
        let Some(before) = look else { return Ok(()) };
        let what = match self.take(&pin.location) {
            Ok((_, now)) => before.changes_while_reading(&now),
            Err(error) if error.kind == ErrorKind::Invalid => Some(error.message),
            Err(error) => return Err(error),
        };
        what.map_or(Ok(()), |what| {
            Err(Error::guard(format!("the input `{}` ({}) changed while the task ran: {what}", pin.name, pin.location))
                .hint("repeat the command with `--rerun`, or pin a copy of the input instead of verifying it"))
        })
    }

    fn release(&self, owner: refrain_core::AttemptId) -> Result<()> {
        self.local.release(owner)
    }
}

/// The name of the view of these versions.
fn view_of(bucket: &Bucket, found: &Found) -> String {
    let endpoint = bucket.settings().endpoint.as_deref().unwrap_or_default();
    let mut hasher = Hasher::new();
    hasher.update(b"refrain view of objects 1\0");
    for part in [endpoint, &found.address.to_string(), &found.version()] {
        hasher.update(part.as_bytes()).update(&[0]);
    }
    hasher.finalize().to_hex().get(..32).unwrap_or_default().to_owned()
}

fn lock(directory: &Path) -> Result<Option<File>> {
    place::lock(directory, FlockOperation::NonBlockingLockExclusive)
        .map_err(|error| Error::io(format!("cannot lock `{}`", directory.display()), error))
}

fn changing(found: &Found) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the input `{}` changed while it was being pinned", found.address))
        .hint("run again when its writer has finished")
}
