//! Many files to keys of their own, in parallel: the bytes that are underway are bounded, whatever the number and size of
//! the files, and each is digested again as it leaves.

use crate::bucket::{Bucket, path_of};
use crate::driver::wait;
use crate::fault::Fault;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;
use object_store::multipart::PartId;
use refrain_core::{Error, ErrorKind, Result};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

pub(crate) const MIB: u64 = 1024 * 1024;

/// How many bytes are underway at once.
const UNDERWAY: u64 = 64 * MIB;

/// How many requests are underway at once.
const AT_ONCE: usize = 16;

/// A file of at most so many bytes is one request.
const SINGLE: u64 = 16 * MIB;

/// The usual size of a part.
pub(crate) const PART: u64 = 8 * MIB;

/// The most parts of an upload (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html>).
pub(crate) const PARTS: u64 = 10_000;

/// How often a request is sent.
const TRIES: u32 = 5;

/// The first pause between tries; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a request with a part may take: 8 MiB at 70 kB/s.
const SLOW: Duration = Duration::from_mins(2);

/// A file that goes to a key which nobody else writes to.
#[derive(Clone, Debug)]
pub struct Upload {
    /// The key.
    pub key: String,
    /// The file.
    pub file: PathBuf,
    /// Its size, in bytes.
    pub bytes: u64,
    /// Its content, as `blake3:<hex>`.
    pub digest: String,
    /// For a file in parts: the upload, which was begun.
    pub multipart: Option<Multipart>,
}

/// An upload in parts that was begun: it takes room until it is completed or aborted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Multipart {
    /// Its id, as the store gave it.
    pub id: String,
}

impl Bucket {
    /// Begins an upload in parts, for a file that is too large for one request; nothing for any other.
    pub fn begin(&self, key: &str, bytes: u64) -> Result<Option<Multipart>> {
        if bytes <= SINGLE {
            return Ok(None);
        }
        let begun = self.repeat(key, |client, path| async move { client.parts.create_multipart(&path).await });
        begun.map(|id| Some(Multipart { id })).map_err(|fault| fault.into_error(&self.address(key)))
    }

    /// Ends an upload in parts without an object. One that is not there any more counts as ended.
    pub fn abort(&self, key: &str, multipart: &Multipart) -> Result<()> {
        let aborted = self.repeat(key, |client, path| {
            let id = multipart.id.clone();
            async move { client.parts.abort_multipart(&path, &id).await }
        });
        match aborted {
            Ok(()) | Err(Fault::Missing) => Ok(()),
            Err(fault) => Err(fault.into_error(&self.address(key))),
        }
    }

    /// Uploads all files.
    ///
    /// # Errors
    /// `guard` when a file is not what its digest says any more; else the first failure of a request, after repeats.
    ///
    /// # Crash safety
    /// A key has its whole object or none. What was uploaded stays.
    pub fn upload(&self, uploads: Vec<Upload>) -> Result<()> {
        let (bucket, room) = (self.clone(), Arc::new(Semaphore::new(usize::try_from(UNDERWAY / MIB).unwrap_or(1))));
        wait(async move {
            stream::iter(uploads)
                .map(|upload| one(bucket.clone(), upload, Arc::clone(&room)))
                .buffer_unordered(AT_ONCE)
                .try_collect::<()>()
                .await
        })?
    }
}

async fn one(bucket: Bucket, upload: Upload, room: Arc<Semaphore>) -> Result<()> {
    match &upload.multipart {
        None => whole(&bucket, &upload, &room).await,
        Some(multipart) => in_parts(&bucket, &upload, multipart, &room).await,
    }
}

async fn whole(bucket: &Bucket, upload: &Upload, room: &Semaphore) -> Result<()> {
    let _underway = take(room, upload.bytes).await?;
    let content = read(upload.file.clone(), 0, upload.bytes).await?;
    if format!("blake3:{}", blake3::hash(&content).to_hex()) != upload.digest {
        return Err(changed(&upload.file));
    }
    send(bucket, &upload.key, |client, path| {
        let content = content.clone();
        async move { client.objects.put(&path, content.into()).await.map(drop) }
    })
    .await
}

async fn in_parts(bucket: &Bucket, upload: &Upload, multipart: &Multipart, room: &Arc<Semaphore>) -> Result<()> {
    let size = PART.max(upload.bytes.div_ceil(PARTS).next_multiple_of(MIB));
    let offsets = (0..upload.bytes.div_ceil(size)).map(|index| (index, index * size));
    // Parts are read in order, for the digest, and sent at once.
    let mut digest = blake3::Hasher::new();
    let mut sent = stream::FuturesUnordered::new();
    let mut parts: Vec<(u64, PartId)> = Vec::new();
    for (index, offset) in offsets {
        let bytes = size.min(upload.bytes - offset);
        let underway = take_owned(room, bytes).await?;
        let content = read(upload.file.clone(), offset, bytes).await?;
        digest.update(&content);
        let (bucket, key, id) = (bucket.clone(), upload.key.clone(), multipart.id.clone());
        sent.push(async move {
            let part = send(&bucket, &key, |client, path| {
                let (content, id) = (content.clone(), id.clone());
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                async move { client.parts.put_part(&path, &id, index, content.into()).await }
            });
            let part = part.await;
            drop(underway);
            part.map(|part| (index, part))
        });
        while sent.len() >= AT_ONCE / 2 || room.available_permits() == 0 {
            let Some(part) = sent.next().await else { break };
            parts.push(part?);
        }
    }
    while let Some(part) = sent.next().await {
        parts.push(part?);
    }
    if format!("blake3:{}", digest.finalize().to_hex()) != upload.digest {
        return Err(changed(&upload.file));
    }
    parts.sort_by_key(|(index, _)| *index);
    complete(bucket, upload, multipart, parts.into_iter().map(|(_, part)| part).collect()).await
}

/// Completes an upload. When the answer is lost a repeat finds no upload any more: then the object tells.
async fn complete(bucket: &Bucket, upload: &Upload, multipart: &Multipart, parts: Vec<PartId>) -> Result<()> {
    let completed = send_once_or_more(bucket, &upload.key, |client, path| {
        let (parts, id) = (parts.clone(), multipart.id.clone());
        async move { client.parts.complete_multipart(&path, &id, parts).await.map(drop) }
    })
    .await;
    let Err(fault) = completed else { return Ok(()) };
    let found =
        send_once_or_more(bucket, &upload.key, |client, path| async move { client.objects.head(&path).await }).await;
    match found {
        Ok(meta) if meta.size == upload.bytes => Ok(()),
        _ => Err(failed(fault, bucket, &upload.key)),
    }
}

async fn send<T, F>(
    bucket: &Bucket,
    key: &str,
    call: impl Fn(crate::connect::Client, object_store::path::Path) -> F,
) -> Result<T>
where
    F: Future<Output = object_store::Result<T>>,
{
    send_once_or_more(bucket, key, call).await.map_err(|fault| failed(fault, bucket, key))
}

/// Sends a request that may be repeated, and repeats it while the store leaves it open or is busy.
pub(crate) async fn send_once_or_more<T, F>(
    bucket: &Bucket,
    key: &str,
    call: impl Fn(crate::connect::Client, object_store::path::Path) -> F,
) -> Result<T, Fault>
where
    F: Future<Output = object_store::Result<T>>,
{
    let address = bucket.address(key);
    let path = path_of(&address).map_err(Fault::Refused)?;
    let mut pause = PAUSE;
    let mut tries = 1;
    loop {
        match bucket.within(&address, SLOW, call(bucket.client.clone(), path.clone())).await {
            Err(Fault::Doubt(error)) if tries < TRIES => {
                tracing::info!(%address, %error, "sending it again");
                tokio::time::sleep(pause).await;
                pause *= 2;
                tries += 1;
            }
            ended => return ended,
        }
    }
}

async fn take(room: &Semaphore, bytes: u64) -> Result<tokio::sync::SemaphorePermit<'_>> {
    room.acquire_many(permits(bytes)).await.map_err(|_| closed())
}

async fn take_owned(room: &Arc<Semaphore>, bytes: u64) -> Result<tokio::sync::OwnedSemaphorePermit> {
    Arc::clone(room).acquire_many_owned(permits(bytes)).await.map_err(|_| closed())
}

fn permits(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(MIB).clamp(1, UNDERWAY / MIB)).unwrap_or(1)
}

/// Where something was uploaded to and is gone, the upload is.
fn failed(fault: Fault, bucket: &Bucket, key: &str) -> Error {
    let address = bucket.address(key);
    match fault {
        Fault::Missing => Error::guard(format!("the upload to {address} was ended by somebody else"))
            .hint("look whether a rule of the bucket ends uploads too early, and repeat the call"),
        fault => fault.into_error(&address),
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Internal, "the uploads were ended")
}

async fn read(file: PathBuf, offset: u64, bytes: u64) -> Result<Bytes> {
    let read = tokio::task::spawn_blocking(move || read_part(&file, offset, bytes));
    read.await.map_err(|_| closed())?
}

fn read_part(file: &Path, offset: u64, bytes: u64) -> Result<Bytes> {
    let failed = |error| Error::io(format!("cannot read `{}`", file.display()), error);
    let mut opened = File::open(file).map_err(failed)?;
    opened.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let mut content = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default());
    opened.take(bytes).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 != bytes {
        return Err(changed(file));
    }
    Ok(content.into())
}

fn changed(file: &Path) -> Error {
    Error::guard(format!("`{}` changed after it was sealed", file.display()))
        .hint("something still writes there after the command ended; end it, and repeat the call")
}
