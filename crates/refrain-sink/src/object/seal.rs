//! The seal (PROTOCOL 5.8): what the task wrote is listed and digested, the manifest is written, and the files go up.

use super::manifest::{Listed, Manifest, tags_of};
use super::place::Place;
use super::readers::{self, PrefixManner};
use super::staging::{self, Found, check, found};
use super::{Buckets, ObjectKind, large};
use crate::local::{digest_text, hash_file};
use refrain_core::{CrashPoint, CrashProbe, Error, ErrorKind, Guards, Open, Result, SealedData, Staging};
use refrain_object::{Bucket, Content, Multipart, Swapped, Upload};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// How much of an object is read at once.
const CHUNK: u64 = 8 * 1024 * 1024;

/// Seals an attempt's output.
///
/// # Crash safety
/// The manifest is there before the first object: what an attempt leaves behind is named, and goes when it is fenced or
/// outdone. Each object is there whole or not at all. No reader looks there.
pub(super) fn seal(
    (buckets, probe): (&Buckets, &dyn CrashProbe),
    (place, directory): (&Place, &Path),
    (staging, manner): (&Staging<Open>, &PrefixManner),
    guards: &Guards,
) -> Result<SealedData> {
    let bucket = &buckets.open(&place.target)?;
    let local = found(place, Path::new(&staging.place))?;
    let (generation, attempt) = (staging.id.generation, staging.id.holder.attempt);
    let prefix = place.data(generation, attempt);
    let (written, tags) = if local.is_empty() && place.kind == ObjectKind::Prefix {
        remote(bucket, &prefix)?
    } else {
        (Vec::new(), None)
    };
    let (files, bytes) = match (local.as_slice(), written.as_slice()) {
        ([], written) => (written.len(), written.iter().map(|object| object.bytes).sum()),
        (local, _) => (local.len(), local.iter().map(|found| found.bytes).sum()),
    };
    check(place, files as u64, bytes, guards)?;
    large::check(buckets, place, bytes)?;
    let listed = if local.is_empty() { written } else { digest(&local)? };
    let for_readers = manner.objects(place, &prefix, &listed)?.into_iter().map(|(listed, _)| listed).collect();
    let (mut manifest, uploads) = begin(bucket, (place, directory), (&local, listed), (staging, guards))?;
    manifest.for_readers = for_readers;
    let (text, mut reference) = manifest.write(place.manifest_of(&prefix))?;
    // On a condition, so that a write which is carried out late never undoes what a successor made of the manifest.
    if let Swapped::Moved(_) = bucket.swap(&reference.key, None, &Content::unique(text))? {
        return Err(Error::new(ErrorKind::Conflict, format!("somebody else wrote `{}`", reference.key)));
    }
    probe.reach(CrashPoint::AfterManifest);
    bucket.upload(uploads)?;
    reference.tags = tags;
    readers::put(bucket, place, &prefix, &manifest)?;
    manifest.sealed(&staging.slot, &reference)
}

/// The manifest, with the uploads in parts begun that it names.
fn begin(
    bucket: &Bucket,
    (place, directory): (&Place, &Path),
    (local, mut listed): (&[Found], Vec<Listed>),
    (staging, guards): (&Staging<Open>, &Guards),
) -> Result<(Manifest, Vec<Upload>)> {
    let prefix = place.data(staging.id.generation, staging.id.holder.attempt);
    let mut uploads = Vec::new();
    for (found, listed) in local.iter().zip(&mut listed) {
        let key = format!("{prefix}{}", found.name);
        let multipart: Option<Multipart> = bucket.begin(&key, found.bytes)?;
        if let Some(multipart) = &multipart {
            staging::note_upload(directory, (&staging.slot, &staging.id), &key, &multipart.id)?;
        }
        listed.upload = multipart.as_ref().map(|multipart| multipart.id.clone());
        let (file, digest) = (found.file.clone(), listed.digest.clone());
        uploads.push(Upload { key, file, bytes: found.bytes, digest, multipart });
    }
    Ok((Manifest::new(place, &prefix, listed, guards, &staging.id), uploads))
}

fn digest(local: &[Found]) -> Result<Vec<Listed>> {
    let one = |found: &Found| {
        let hashed = File::open(&found.file).and_then(|file| hash_file(&file, found.bytes));
        let hash = hashed.map_err(|error| Error::io(format!("cannot read `{}`", found.file.display()), error))?;
        Ok(Listed { name: found.name.clone(), bytes: found.bytes, digest: digest_text(&hash), upload: None })
    };
    local.iter().map(one).collect()
}

/// What the task wrote to the attempt's own prefix itself, read once for its digest.
fn remote(bucket: &Bucket, prefix: &str) -> Result<(Vec<Listed>, Option<String>)> {
    let mut found = Vec::new();
    bucket.list(prefix, |entry| {
        found.push(entry);
        Ok(())
    })?;
    let mut listed = Vec::new();
    for entry in &found {
        let Some(name) = entry.key.strip_prefix(prefix) else { continue };
        let mut hasher = blake3::Hasher::new();
        read(bucket, &entry.key, entry.size, &mut |chunk| {
            hasher.update(chunk);
            Ok(())
        })?;
        let digest = digest_text(&hasher.finalize());
        listed.push(Listed { name: name.to_owned(), bytes: entry.size, digest, upload: None });
    }
    listed.sort();
    // As they were before they were read: who writes there after that is told.
    let versions: BTreeMap<_, _> = found.iter().map(|entry| (entry.key.as_str(), &entry.version)).collect();
    let tags = tags_of(&listed, |name| versions.get(format!("{prefix}{name}").as_str())?.tag());
    Ok((listed, tags))
}

/// Shows the content of an object, part by part.
///
/// # Errors
/// `corrupt` when the object has another size.
pub(super) fn read(bucket: &Bucket, key: &str, bytes: u64, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut offset = 0;
    while offset < bytes {
        let wanted = CHUNK.min(bytes - offset);
        let part = bucket.get_range(key, offset, wanted)?;
        let content = part.map(|part| part.content).unwrap_or_default();
        if content.len() as u64 != wanted {
            return Err(Error::corrupt(format!("the object {} is gone or was changed", bucket.address(key))));
        }
        each(&content)?;
        offset += wanted;
    }
    Ok(())
}
