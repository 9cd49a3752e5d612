//! One bucket: the calls that read, list, write without a condition and delete. All of them may be repeated.

use crate::connect::{Client, connect};
use crate::driver::wait;
use crate::fault::{Fault, explain, too_late};
use crate::wire::{Call, Moment, Wire};
use crate::{Address, Settings};
use bytes::Bytes;
use futures_util::TryStreamExt;
use jiff::Timestamp;
use object_store::path::Path;
use object_store::{Attribute, Attributes, GetOptions, GetRange, GetResult, ObjectMeta, ObjectStoreExt};
use refrain_core::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// How long one small request may take in all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How often a call that may be repeated is, when the store leaves it open or is busy.
const TRIES: u32 = 4;

/// How many objects of a listing are held at once; stores answer with as many.
const PAGE: usize = 1000;

/// The first pause between tries; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);

/// One bucket. Clones share its connections.
#[derive(Clone)]
pub struct Bucket {
    pub(crate) root: Address,
    settings: Arc<Settings>,
    pub(crate) client: Client,
    pub(crate) wire: Arc<Wire>,
}

/// What a store calls an object's version: opaque, and good for a condition alone. It is no digest (OBJ-05), and with S3
/// equal contents have equal ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// The entity tag.
    pub e_tag: Option<String>,
    /// The generation or version id, where the bucket has such.
    pub version: Option<String>,
}

impl Version {
    /// Whether both name one version. Some stores quote entity tags and some do not, or one and the same both ways.
    pub fn is(&self, other: &Self) -> bool {
        let same = |one: Option<&str>, other: Option<&str>| one.is_none() || other.is_none() || one == other;
        same(self.tag(), other.tag()) && same(self.version.as_deref(), other.version.as_deref())
    }

    /// The entity tag without quotes.
    pub fn tag(&self) -> Option<&str> {
        self.e_tag.as_deref().map(|tag| tag.trim_start_matches("W/").trim_matches('"'))
    }
}

/// An object that was read.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its content; empty when only its metadata was asked for.
    pub content: Bytes,
    /// Its version.
    pub version: Version,
    /// Size, in bytes.
    pub size: u64,
    /// When it was written, by the store's clock.
    pub modified: Timestamp,
    /// What whoever wrote it attached.
    pub metadata: BTreeMap<String, String>,
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: String,
    /// Size, in bytes.
    pub size: u64,
    /// Its version.
    pub version: Version,
    /// When it was written, by the store's clock.
    pub modified: Timestamp,
}

impl Bucket {
    /// The bucket of an address. Nothing is sent yet.
    ///
    /// # Errors
    /// `invalid` when the settings, the environment or a profile do not fit together.
    pub fn open(address: &Address, settings: &Settings) -> Result<Self> {
        let wire = Arc::new(Wire::default());
        let client = connect(address, settings, &wire)?;
        Ok(Self { root: address.at(""), settings: Arc::new(settings.clone()), client, wire })
    }

    /// The address of a key here.
    pub fn address(&self, key: &str) -> Address {
        self.root.at(key)
    }

    /// How it is reached.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// This moment by the store's clock; nothing before its first answer.
    pub fn moment(&self) -> Option<Moment> {
        self.wire.moment()
    }

    /// How many requests were sent to it by this process.
    pub fn requests(&self) -> u64 {
        self.wire.requests()
    }

    /// Reads an object; nothing when there is none.
    pub fn get(&self, key: &str) -> Result<Option<Object>> {
        self.read(key, &GetOptions::default())
    }

    /// Reads a part of an object: from `offset`, so many bytes.
    pub fn get_range(&self, key: &str, offset: u64, bytes: u64) -> Result<Option<Object>> {
        self.read(key, &GetOptions { range: Some(GetRange::Bounded(offset..offset + bytes)), ..GetOptions::default() })
    }

    /// Reads an object's metadata; nothing when there is none.
    pub fn head(&self, key: &str) -> Result<Option<Object>> {
        self.read(key, &GetOptions { head: true, ..GetOptions::default() })
    }

    fn read(&self, key: &str, options: &GetOptions) -> Result<Option<Object>> {
        let found = self.repeat(key, |client, path| {
            let options = options.clone();
            async move { read(client.objects.get_opts(&path, options).await?).await }
        });
        match found {
            Ok(object) => Ok(Some(object)),
            Err(Fault::Missing) => Ok(None),
            Err(fault) => Err(fault.into_error(&self.address(key))),
        }
    }

    /// Writes an object whatever stands there: for keys that nobody else writes to.
    pub fn put(&self, key: &str, content: impl Into<Bytes>) -> Result<()> {
        let content = content.into();
        let put = self.repeat(key, |client, path| {
            let content = content.clone();
            async move { client.objects.put(&path, content.into()).await.map(drop) }
        });
        put.map_err(|fault| fault.into_error(&self.address(key)))
    }

    /// Shows all objects below a key that ends with `/`, in the order of their keys.
    pub fn list(&self, prefix: &str, mut each: impl FnMut(Entry) -> Result<()>) -> Result<()> {
        let mut after: Option<String> = None;
        // A page at a time, so that memory stays bounded and a page that failed is asked for again.
        loop {
            let page = self.page(prefix, after.as_deref(), PAGE)?;
            after = page.last().map(|last| last.key.clone());
            let is_last = page.len() < PAGE;
            page.into_iter().try_for_each(&mut each)?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// An object below a key that ends with `/`, if there is any.
    pub fn any_below(&self, prefix: &str) -> Result<Option<Entry>> {
        Ok(self.page(prefix, None, 1)?.pop())
    }

    fn page(&self, prefix: &str, after: Option<&str>, most: usize) -> Result<Vec<Entry>> {
        let inner = prefix.strip_suffix('/').unwrap_or(prefix);
        let after = after.map(|key| path_of(&self.address(key))).transpose()?;
        let listed = self.repeat(inner, |client, path| {
            let after = after.clone();
            async move {
                let whole = (!path.as_ref().is_empty()).then_some(&path);
                let mut stream = match &after {
                    Some(after) => client.objects.list_with_offset(whole, after),
                    None => client.objects.list(whole),
                };
                let mut page = Vec::new();
                while page.len() < most {
                    let Some(meta) = stream.try_next().await? else { break };
                    page.push(entry(meta));
                }
                Ok(page)
            }
        });
        listed.map_err(|fault| fault.into_error(&self.address(prefix)))
    }

    /// Deletes an object; one that is not there counts as deleted.
    pub fn delete(&self, key: &str) -> Result<()> {
        let deleted = self.repeat(key, |client, path| async move {
            match client.objects.delete(&path).await {
                // A store that deletes in bulk tells of a missing object within an answer that is none.
                Err(error) if is_missing(&client, &path).await => {
                    tracing::debug!(%error, "deleted already");
                    Ok(())
                }
                deleted => deleted,
            }
        });
        match deleted {
            Ok(()) | Err(Fault::Missing) => Ok(()),
            Err(fault) => Err(fault.into_error(&self.address(key))),
        }
    }

    /// Copies an object within the bucket, over whatever stands at the other key.
    pub fn copy(&self, from: &str, to: &str) -> Result<()> {
        let target = path_of(&self.address(to))?;
        let copied = self.repeat(from, |client, path| {
            let target = target.clone();
            async move { client.objects.copy(&path, &target).await }
        });
        copied.map_err(|fault| fault.into_error(&self.address(from)))
    }

    /// Runs a call that may be repeated, and repeats it while the store leaves it open or is busy.
    pub(crate) fn repeat<T, F>(&self, key: &str, call: impl Fn(Client, Path) -> F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let address = self.address(key);
        let path = path_of(&address).map_err(Fault::Refused)?;
        let mut pause = PAUSE;
        for _ in 1..TRIES {
            match self.once(&address, PATIENCE, call(self.client.clone(), path.clone())) {
                Err(Fault::Doubt(error)) => tracing::info!(%address, %error, "asking again"),
                answered => return answered,
            }
            std::thread::sleep(pause);
            pause *= 2;
        }
        self.once(&address, PATIENCE, call(self.client.clone(), path))
    }

    /// Runs one call, once.
    pub(crate) fn once<T: Send + 'static>(
        &self,
        address: &Address,
        limit: Duration,
        call: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T, Fault> {
        let (bucket, address) = (self.clone(), address.clone());
        wait(async move { bucket.within(&address, limit, call).await }).unwrap_or_else(|error| Err(Fault::Doubt(error)))
    }

    /// The same, for whoever is on the runtime already.
    pub(crate) async fn within<T>(
        &self,
        address: &Address,
        limit: Duration,
        call: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Fault> {
        self.watched(Call::default(), (address, limit), call).await
    }

    /// The same, with what the wire does to its requests.
    pub(crate) async fn watched<T>(
        &self,
        seen: Call,
        (address, limit): (&Address, Duration),
        call: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Fault> {
        let seen = Arc::new(seen);
        match tokio::time::timeout(limit, Arc::clone(&seen).scope(call)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(explain(&error, &seen, address)),
            Err(_) => Err(too_late(address, limit)),
        }
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("root", &self.root).finish_non_exhaustive()
    }
}

/// Asked aside: what the call around it has seen stays what it was.
async fn is_missing(client: &Client, path: &Path) -> bool {
    let asked = Arc::new(Call::default()).scope(client.objects.head(path)).await;
    matches!(asked, Err(object_store::Error::NotFound { .. }))
}

/// The client's name of a key.
pub(crate) fn path_of(address: &Address) -> Result<Path> {
    crate::address::check_key(&address.key)
        .map_err(|what| Error::invalid(format!("`{address}` cannot be an object: {what}")))?;
    Path::parse(&address.key)
        .map_err(|_| Error::new(ErrorKind::Internal, format!("the key of {address} cannot be written")))
}

async fn read(result: GetResult) -> object_store::Result<Object> {
    let metadata = metadata_of(&result.attributes);
    let meta = result.meta.clone();
    let content = result.bytes().await?;
    let entry = entry(meta);
    Ok(Object { content, version: entry.version, size: entry.size, modified: entry.modified, metadata })
}

fn metadata_of(attributes: &Attributes) -> BTreeMap<String, String> {
    attributes
        .iter()
        .filter_map(|(name, value)| match name {
            Attribute::Metadata(name) => Some((name.to_ascii_lowercase(), value.as_ref().to_owned())),
            _ => None,
        })
        .collect()
}

fn entry(meta: ObjectMeta) -> Entry {
    let modified = Timestamp::from_millisecond(meta.last_modified.timestamp_millis()).unwrap_or_default();
    Entry {
        key: meta.location.to_string(),
        size: meta.size,
        version: Version { e_tag: meta.e_tag, version: meta.version },
        modified,
    }
}
