//! A large object that is replaced on a condition: its bytes go up in parts, where nobody sees them, and the request that
//! makes an object of them carries the condition, as a small object's one request does.

use crate::bucket::{Bucket, PATIENCE, Version, path_of};
use crate::fault::Fault;
use crate::swap::{Content, Decided, Swapped};
use crate::upload::{MIB, Multipart, PART, PARTS, send_once_or_more};
use crate::wire::{Call, Condition};
use crate::{Scheme, driver};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use object_store::multipart::PartId;
use object_store::{GetOptions, GetRange, PutMultipartOptions, PutResult};
use refrain_core::{Error, ErrorKind, Result};
use reqwest::header::HeaderValue;
use std::time::Duration;

/// How many bytes are copied at once. Each lies in memory twice while it is received.
const UNDERWAY: u64 = 32 * MIB;

/// The largest part.
const LARGEST_PART: u64 = 32 * MIB;

/// How long the completion may take: the store puts all parts together (S3 says: several minutes).
const COMPLETION: Duration = Duration::from_mins(5);

/// The parts of an upload that are all there.
#[derive(Clone, Debug)]
pub struct Parts(Vec<PartId>);

/// How a copy in parts ended.
#[derive(Debug)]
pub enum Copied {
    /// All of it is there.
    Whole(Parts),
    /// There is no such upload any more: somebody ended it.
    Ended,
    /// The object that was copied is not what it is said to be.
    Changed,
}

/// How a completion ended.
#[derive(Debug)]
pub enum Completed {
    /// As every conditional write.
    Swapped(Swapped),
    /// There is no such upload any more, and no object came of it: somebody ended it.
    Ended,
}

impl Bucket {
    /// The largest object that can be replaced on a condition in parts; nothing when the store's protocol has no such
    /// thing. Google refuses conditions in uploads in parts
    /// (<https://docs.cloud.google.com/storage/docs/request-preconditions>), and the signature of Azure's completion
    /// covers its conditions, so that none can be added to it.
    pub fn largest_in_parts(&self) -> Option<u64> {
        (self.root.scheme == Scheme::S3).then_some(PARTS * LARGEST_PART)
    }

    /// Begins an upload in parts of an object that knows who wrote it.
    pub fn begin_in_parts(&self, key: &str, content: &Content) -> Result<Multipart> {
        let options = PutMultipartOptions { attributes: content.attributes(), ..PutMultipartOptions::default() };
        let begun = self.repeat(key, |client, path| {
            let options = options.clone();
            async move { client.parts.create_multipart_opts(&path, options).await }
        });
        begun.map(|id| Multipart { id }).map_err(|fault| fault.into_error(&self.address(key)))
    }

    /// Copies an object of the bucket, of this size and digest (`blake3:<hex>`), to the parts of an upload.
    ///
    /// # Crash safety
    /// Parts are no object.
    pub fn copy_in_parts(
        &self,
        (from, bytes, digest): (&str, u64, &str),
        (key, multipart): (&str, &Multipart),
    ) -> Result<Copied> {
        let size = PART.max(bytes.div_ceil(PARTS).next_multiple_of(MIB));
        let at_once = usize::try_from(UNDERWAY / size).unwrap_or_default().max(1);
        let (bucket, from, key, id) = (self.clone(), from.to_owned(), key.to_owned(), multipart.id.clone());
        let copied = driver::wait(async move {
            let copies = (0..bytes.div_ceil(size)).map(|index| {
                let range = index * size..bytes.min((index + 1) * size);
                copy_one(&bucket, (&from, range), (&key, &id, index))
            });
            let mut copies = stream::iter(copies).buffered(at_once);
            let (mut hasher, mut parts) = (blake3::Hasher::new(), Vec::new());
            while let Some(copied) = copies.next().await {
                match copied? {
                    One::Part(content, part) => {
                        hasher.update(&content);
                        parts.push(part);
                    }
                    One::Ended => return Ok(Ok(Copied::Ended)),
                    One::Changed => return Ok(Ok(Copied::Changed)),
                }
            }
            Ok(Err((format!("blake3:{}", hasher.finalize().to_hex()), Parts(parts))))
        })??;
        Ok(match copied {
            Ok(copied) => copied,
            Err((found, parts)) if found == digest => Copied::Whole(parts),
            Err(_) => Copied::Changed,
        })
    }

    /// Makes an object of the parts if the object is still of the version that was read; with no version, if there is none.
    ///
    /// # Errors
    /// `unknown` when it may have been made, or may still be: the object tells it later by its write's id. Every other kind
    /// means that it was not made.
    ///
    /// # Crash safety
    /// Readers see the old or the new object, whole; the store decides. An upload that was ended is never completed.
    pub fn complete_in_parts(
        &self,
        key: &str,
        expected: Option<&Version>,
        content: &Content,
        (multipart, parts): (&Multipart, &Parts),
    ) -> Result<Completed> {
        Ok(match self.decide(key, expected, content, || self.complete(key, expected, (multipart, parts)))? {
            Decided::Swapped(swapped) => Completed::Swapped(swapped),
            Decided::Nowhere(_) => Completed::Ended,
        })
    }

    fn complete(&self, key: &str, expected: Option<&Version>, upload: (&Multipart, &Parts)) -> Result<Version, Fault> {
        self.completion(key, expected, upload, |put| put.map(version_of))
    }

    /// Sends a completion, once, and reads its answer.
    pub(crate) fn completion<T: Send + 'static>(
        &self,
        key: &str,
        expected: Option<&Version>,
        (multipart, parts): (&Multipart, &Parts),
        read: impl FnOnce(object_store::Result<PutResult>) -> object_store::Result<T> + Send + 'static,
    ) -> Result<T, Fault> {
        let (bucket, address) = (self.clone(), self.address(key));
        let path = path_of(&address).map_err(Fault::Refused)?;
        let condition = match expected {
            None => Condition::Absent,
            Some(version) => Condition::Tag(tag_of(version).map_err(Fault::Refused)?),
        };
        let (id, parts) = (multipart.id.clone(), parts.0.clone());
        let waited = driver::wait(async move {
            let client = bucket.client.clone();
            let completing = async move { read(client.parts.complete_multipart(&path, &id, parts).await) };
            bucket.watched(Call::on(condition), (&address, COMPLETION), completing).await
        });
        waited.unwrap_or_else(|error| Err(Fault::Doubt(error)))
    }

    /// Sends the only part of a small upload.
    pub(crate) fn put_only_part(&self, key: &str, multipart: &Multipart, content: &'static [u8]) -> Result<Parts> {
        let address = self.address(key);
        let path = path_of(&address)?;
        let (client, id) = (self.client.clone(), multipart.id.clone());
        let put = self.once(&address, PATIENCE, async move {
            client.parts.put_part(&path, &id, 0, Bytes::from_static(content).into()).await
        });
        put.map(|part| Parts(vec![part])).map_err(|fault| fault.into_error(&address))
    }
}

/// What became of one part.
enum One {
    Part(Bytes, PartId),
    Ended,
    Changed,
}

async fn copy_one(
    bucket: &Bucket,
    (from, range): (&str, std::ops::Range<u64>),
    (key, id, index): (&str, &str, u64),
) -> Result<One> {
    let wanted = range.end - range.start;
    let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
    let read = send_once_or_more(bucket, from, |client, path| {
        let options = options.clone();
        async move { client.objects.get_opts(&path, options).await?.bytes().await }
    });
    let content = match read.await {
        Ok(content) if content.len() as u64 == wanted => content,
        Ok(_) | Err(Fault::Missing) => return Ok(One::Changed),
        Err(fault) => return Err(fault.into_error(&bucket.address(from))),
    };
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    let put = send_once_or_more(bucket, key, |client, path| {
        let (content, id) = (content.clone(), id.to_owned());
        async move { client.parts.put_part(&path, &id, index, content.into()).await }
    });
    match put.await {
        Ok(part) => Ok(One::Part(content, part)),
        Err(Fault::Missing) => Ok(One::Ended),
        Err(fault) => Err(fault.into_error(&bucket.address(key))),
    }
}

pub(crate) fn version_of(put: PutResult) -> Version {
    Version { e_tag: put.e_tag, version: put.version }
}

fn tag_of(version: &Version) -> Result<HeaderValue> {
    let tag = version.e_tag.as_deref().and_then(|tag| HeaderValue::from_str(tag).ok());
    tag.ok_or_else(|| Error::new(ErrorKind::Unsupported, "the store names the version of an object by no entity tag"))
}
