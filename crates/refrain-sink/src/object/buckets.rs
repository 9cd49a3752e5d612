//! The buckets of a home: each opened once, and proved once to keep the promises that publications rest on.

use refrain_core::{Error, Result};
use refrain_object::{Address, Bucket, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How a bucket is reached, as the home's configuration says.
type Reach = Box<dyn Fn(&Address) -> Settings + Send + Sync>;

/// The buckets of a home.
pub struct Buckets {
    reach: Reach,
    open: Mutex<BTreeMap<Address, Bucket>>,
    known: BTreeSet<Address>,
    /// Where it is noted that a bucket was proved.
    directory: PathBuf,
}

impl Buckets {
    /// The buckets of a home with this state directory, of which some are known beforehand. Nothing is connected yet.
    pub fn new(
        reach: impl Fn(&Address) -> Settings + Send + Sync + 'static,
        state: &Path,
        known: impl IntoIterator<Item = Address>,
    ) -> Self {
        Self {
            reach: Box::new(reach),
            open: Mutex::default(),
            known: known.into_iter().collect(),
            directory: state.join(super::staging::DIRECTORY),
        }
    }

    /// The bucket of an address.
    ///
    /// # Errors
    /// As [`Bucket::open`].
    pub fn open(&self, address: &Address) -> Result<Bucket> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let root = address.at("");
        if let Some(bucket) = open.get(&root) {
            return Ok(bucket.clone());
        }
        let bucket = Bucket::open(address, &(self.reach)(address))?;
        open.insert(root, bucket.clone());
        Ok(bucket)
    }

    /// Where Refrain keeps what it needs in the bucket of an address.
    pub fn area(&self, address: &Address) -> Address {
        (self.reach)(address).area(address)
    }

    /// The buckets that are known.
    pub(super) fn all(&self) -> Result<Vec<Bucket>> {
        for address in &self.known {
            self.open(address)?;
        }
        Ok(self.open.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect())
    }

    /// Makes sure, once for each home, that the bucket honours conditions and lets us do what a publication needs.
    ///
    /// # Errors
    /// `unsupported` when it ignores conditions (OBJ-04); `invalid` when a right is missing (OBJ-11).
    pub(super) fn prove(&self, address: &Address) -> Result<()> {
        let (bucket, area) = (self.open(address)?, self.area(address));
        self.once(&bucket, &area.to_string(), || bucket.prove(&area.key))
    }

    /// Makes sure that an object may be written, once for each home and directory of the bucket: rights may be given for
    /// the area alone. Directories that differ in digits count as one, since they are those of dates.
    ///
    /// # Errors
    /// `invalid` when the right is missing (OBJ-11).
    pub(super) fn prove_writable(&self, target: &Address) -> Result<()> {
        let bucket = self.open(target)?;
        let directory = target.key.rsplit_once('/').map_or("", |(directory, _)| directory);
        let directory: String = directory.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        self.once(&bucket, &format!("writable: {}", target.at(directory)), || {
            bucket.prove_writable(&target.key).map_err(|error| error.within("trying whether the output may be written"))
        })
    }

    /// Makes sure, once for each home, that the bucket honours conditions where an upload in parts becomes an object, which
    /// large single objects rest on.
    ///
    /// # Errors
    /// As [`Self::prove`].
    pub(super) fn prove_parts(&self, address: &Address) -> Result<()> {
        let (bucket, area) = (self.open(address)?, self.area(address));
        self.once(&bucket, &format!("in parts: {area}"), || bucket.prove_parts(&area.key))
    }

    fn once(&self, bucket: &Bucket, what: &str, prove: impl FnOnce() -> Result<()>) -> Result<()> {
        let what = format!("{what} {}", bucket.settings().endpoint.as_deref().unwrap_or_default());
        let note = self.directory.join(format!("proved-{}", &blake3::hash(what.as_bytes()).to_hex()[..16]));
        if note.exists() {
            return Ok(());
        }
        prove()?;
        let written = fs::create_dir_all(&self.directory).and_then(|()| fs::write(&note, what));
        written.map_err(|error: io::Error| Error::io(format!("cannot write `{}`", note.display()), error))
    }
}

impl fmt::Debug for Buckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buckets").field("open", &self.open).finish_non_exhaustive()
    }
}
